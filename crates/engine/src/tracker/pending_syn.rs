// SPDX-License-Identifier: BSD-3-Clause
//! Connections that both ends have forgotten, which nobody saw, and that this table has not.
//!
//! What they begin then on the same ports is a SYN where there is a connection. An end that has it
//! still answers with an ACK of its own (RFC 5961 section 4.2); a SYN+ACK that acknowledges just
//! this SYN says that neither has it any more. So some SYNs that were none of their connection's
//! are kept until that answer comes. There are few places: a SYN that has lost its place is sent
//! again.
//!
//! A stranger can make up a SYN, and learns nothing by it; to end a connection of others he has to
//! make up its answer as well, at the other side of the bump, before the end that has got his SYN
//! says anything that fits. Whoever can do that is on both ways between the ends: he sees the
//! numbers, and could end it with an RST.

use crate::api::Side;
use crate::base::Nanos;
use crate::packet::TcpSegment;

/// Places for SYNs.
const PLACES: usize = 1024;

/// Bytes of those of a table.
pub(crate) const FORGOTTEN_BYTES: usize = PLACES * size_of::<Option<PendingSyn>>();

/// A SYN that was none of its connection's.
#[derive(Clone, Copy)]
pub(super) struct PendingSyn {
    pub(super) record: u32,
    /// Who sent it: 0 for the originator.
    pub(super) direction: usize,
    /// Where it came in, if that is known.
    pub(super) side: Option<Side>,
    pub(super) syn: TcpSegment,
    /// When something was seen last that fitted into the connection.
    pub(super) last_seen: Nanos,
}

/// Those that wait for an answer: each record has one place, which it shares with others.
pub(crate) struct PendingSyns {
    asked: Box<[Option<PendingSyn>]>,
}

impl PendingSyns {
    pub(crate) fn new() -> Self {
        Self { asked: vec![None; PLACES].into() }
    }

    /// What is kept of the connection in `record`.
    pub(super) fn of(&self, record: u32) -> Option<PendingSyn> {
        self.asked[record as usize % PLACES].filter(|asked| asked.record == record)
    }

    /// Keeps a SYN, in place of what another connection has there.
    pub(super) fn keep(&mut self, asked: PendingSyn) {
        self.asked[asked.record as usize % PLACES] = Some(asked);
    }

    /// The connection in `record` has ended.
    pub(super) fn end(&mut self, record: u32) {
        let place = &mut self.asked[record as usize % PLACES];
        if place.as_ref().is_some_and(|asked| asked.record == record) {
            *place = None;
        }
    }
}
