// SPDX-License-Identifier: BSD-3-Clause
//! Owns SYNs that did not fit their connection and may be answered, because both ends may have
//! forgotten it.
//!
//! If both ends begin anew on the same ports, the table sees a SYN on a known connection. An end
//! that still has the connection answers with an ACK of its own (RFC 5961 section 4.2). A SYN+ACK
//! that acknowledges exactly this SYN shows that neither has it any more. Some such SYNs are
//! therefore kept until the answer comes. There are few places: a SYN that has lost its place is
//! sent again.
//!
//! A stranger can forge a SYN, and gains nothing by it. To end a connection of others, he must
//! forge the answer as well, at the other side of the bump. That must arrive before the end that
//! received his SYN sends anything that fits. Whoever can do that sees both directions: he knows
//! the numbers, and could end the connection with an RST.

use crate::api::Side;
use crate::base::Nanos;
use crate::packet::TcpSegment;

/// Number of places for SYNs.
const PLACES: usize = 1024;

/// Bytes of the places of one table.
pub(crate) const PENDING_SYN_BYTES: usize = PLACES * size_of::<Option<PendingSyn>>();

/// A SYN that did not fit its connection.
#[derive(Clone, Copy)]
pub(super) struct PendingSyn {
    pub(super) record: u32,
    /// Its sender: 0 for the originator.
    pub(super) direction: usize,
    /// Side at which it arrived, if that is known.
    pub(super) side: Option<Side>,
    pub(super) syn: TcpSegment,
    /// When the last packet that fitted the connection was seen.
    pub(super) last_seen: Nanos,
}

/// SYNs that wait for an answer. Each record has one place, which it shares with others.
pub(crate) struct PendingSyns {
    syns: Box<[Option<PendingSyn>]>,
}

impl PendingSyns {
    pub(crate) fn new() -> Self {
        Self { syns: vec![None; PLACES].into() }
    }

    /// Returns the SYN that is kept for the connection in `record`.
    pub(super) fn of(&self, record: u32) -> Option<PendingSyn> {
        self.syns[record as usize % PLACES].filter(|pending| pending.record == record)
    }

    /// Keeps a SYN, and drops the one of another connection in its place.
    pub(super) fn keep(&mut self, pending: PendingSyn) {
        self.syns[pending.record as usize % PLACES] = Some(pending);
    }

    /// Drops the SYN of a connection that has ended.
    pub(super) fn end(&mut self, record: u32) {
        let place = &mut self.syns[record as usize % PLACES];
        if place.as_ref().is_some_and(|pending| pending.record == record) {
            *place = None;
        }
    }
}
