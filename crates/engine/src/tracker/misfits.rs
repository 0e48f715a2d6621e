// SPDX-License-Identifier: BSD-3-Clause
//! Owns the last segments that did not fit the window of their connection, in a fixed number of
//! places beside the table.

use crate::api::Side;
use crate::base::Micros;
use crate::conn::Segment;

/// Number of places for connections.
const PLACES: usize = 1024;

/// Bytes of the places of one table.
pub(crate) const MISFIT_BYTES: usize = PLACES * size_of::<Option<Misfits>>();

/// The last packets of a connection that do not fit it.
#[derive(Clone, Copy)]
pub(super) struct Misfits {
    pub(super) record: u32,
    /// When the last packet that fitted was seen.
    pub(super) last_seen: Micros,
    /// The last segment without RST.
    pub(super) segment: Option<(PacketSender, Segment)>,
    /// Sender of the last FIN or RST.
    pub(super) closer: Option<PacketSender>,
}

/// Sender of a packet.
#[derive(Clone, Copy)]
pub(super) struct PacketSender {
    /// 0 for the originator, 1 for the responder.
    pub(super) direction: usize,
    /// Side at which the packet arrived, if known.
    pub(super) side: Option<Side>,
}

/// Misfits of all connections that have some. Each record has one place, which it shares with other
/// records.
pub(crate) struct OutOfSync {
    misfits: Box<[Option<Misfits>]>,
    /// Number of places in use. It is usually 0, and then the end of a connection skips the search.
    taken: u32,
}

impl OutOfSync {
    pub(crate) fn new() -> Self {
        Self { misfits: vec![None; PLACES].into(), taken: 0 }
    }

    /// Returns the misfits of the connection in a record.
    pub(super) fn of(&self, record: u32) -> Option<Misfits> {
        self.misfits[record as usize % PLACES].filter(|misfits| misfits.record == record)
    }

    /// Keeps misfits, and drops those of another connection in their place.
    pub(super) fn keep(&mut self, misfits: Misfits) {
        let before = self.misfits[misfits.record as usize % PLACES].replace(misfits);
        self.taken += u32::from(before.is_none());
    }

    /// Drops the misfits of a connection that has ended.
    #[inline(always)]
    pub(crate) fn end(&mut self, record: u32) {
        if self.taken != 0 {
            self.forget(record);
        }
    }

    #[inline(never)]
    fn forget(&mut self, record: u32) {
        if self.of(record).is_some() {
            self.misfits[record as usize % PLACES] = None;
            self.taken -= 1;
        }
    }
}

impl PacketSender {
    /// True if `other` is the other end, and its packet arrived at the other port.
    pub(super) fn is_across(self, other: PacketSender) -> bool {
        let is_across = self.side.zip(other.side).is_none_or(|(a, b)| a != b);
        self.direction != other.direction && is_across
    }
}
