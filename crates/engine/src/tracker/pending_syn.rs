// SPDX-License-Identifier: BSD-3-Clause
//! Owns SYNs that did not fit their connection and may be answered, because both ends may have
//! forgotten it.
//!
//! If both ends begin anew on the same ports, the table sees a SYN on a known connection. An end
//! that still has the connection answers with a challenge ACK (RFC 5961 section 4.2). A SYN+ACK
//! that acknowledges exactly this SYN shows that neither end has it any more. So such SYNs are kept
//! until the answer comes. There are few places. If a SYN loses its place, its sender repeats it.
//!
//! An attacker gains nothing by a forged SYN. To end a connection, the attacker must also forge the
//! answer, at the other port, before the end that received the SYN sends anything that fits. Such
//! an attacker sees both directions, knows the numbers, and could end the connection with an RST.

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

/// SYNs that wait for an answer. Each record has one place, which it shares with other records.
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
