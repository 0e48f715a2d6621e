// SPDX-License-Identifier: BSD-3-Clause
//! The last segments of connections that do not fit their windows: a few places beside the table.

use crate::api::Side;
use crate::base::Micros;
use crate::conn::Segment;

/// Places for connections.
const PLACES: usize = 1024;

/// Bytes of those of a table.
pub(crate) const MISFIT_BYTES: usize = PLACES * size_of::<Option<Misfits>>();

/// The last packets of a connection that do not fit it.
#[derive(Clone, Copy)]
pub(super) struct Misfits {
    pub(super) record: u32,
    /// When something was seen last that fitted.
    pub(super) last_seen: Micros,
    /// The last segment that is no RST.
    pub(super) segment: Option<(Speaker, Segment)>,
    /// Who has sent a FIN or an RST last.
    pub(super) closer: Option<Speaker>,
}

/// Who has sent a packet: 0 for the originator; and where it came in, if that is known.
#[derive(Clone, Copy)]
pub(super) struct Speaker {
    pub(super) direction: usize,
    pub(super) side: Option<Side>,
}

/// The connections of which something is kept: each record has one place.
pub(crate) struct OutOfSync {
    misfits: Box<[Option<Misfits>]>,
    /// Places that are taken, usually none: then the end of a connection need not look.
    taken: u32,
}

impl OutOfSync {
    pub(crate) fn new() -> Self {
        Self { misfits: vec![None; PLACES].into(), taken: 0 }
    }

    /// Returns what is kept of the connection in a record.
    pub(super) fn of(&self, record: u32) -> Option<Misfits> {
        self.misfits[record as usize % PLACES].filter(|misfits| misfits.record == record)
    }

    /// Keeps this, in place of what another connection has there.
    pub(super) fn keep(&mut self, misfits: Misfits) {
        let before = self.misfits[misfits.record as usize % PLACES].replace(misfits);
        self.taken += u32::from(before.is_none());
    }

    /// The connection in a record has ended.
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

impl Speaker {
    /// Whether the other one is the other end, at the other port.
    pub(super) fn is_across(self, other: Speaker) -> bool {
        let is_across = self.side.zip(other.side).is_none_or(|(a, b)| a != b);
        self.direction != other.direction && is_across
    }
}
