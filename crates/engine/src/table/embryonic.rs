// SPDX-License-Identifier: BSD-3-Clause
//! The embryonic flows of a table in the order in which they began, and who of them goes when there
//! is no room.

use super::{ColdParts, FlowTable};
use crate::api::{Config, EndReason, Evict, FlowRecord, ZONES};
use crate::base::{BURST_MAX, HugeRegion, NO_RECORD};
use crate::conn::{Hot, Neighbours};

/// Bytes that a table counts the embryonic flows of a zone in.
pub(crate) const EMBRYONIC_BYTES: usize = size_of::<u32>();

/// A list through the records.
pub(super) struct Embryonic {
    oldest: u32,
    youngest: u32,
    len: u32,
    /// Most that there may be.
    max: u32,
    evicts: bool,
    /// How many each zone has.
    of_zone: Box<[u32]>,
}

impl Embryonic {
    pub(crate) fn new(capacity: u32, config: &Config) -> Self {
        let max = u64::from(capacity) * u64::from(config.embryonic_percent) / 100;
        Self {
            oldest: NO_RECORD,
            youngest: NO_RECORD,
            len: 0,
            max: (max as u32).clamp(1, capacity),
            evicts: config.evict == Evict::Embryonic,
            of_zone: vec![0; ZONES].into(),
        }
    }

    fn push<const W: usize>(
        &mut self,
        (hot, cold): (&mut HugeRegion<Hot<W>>, &mut ColdParts),
        record: u32,
    ) {
        let neighbours = Neighbours { older: self.youngest, younger: NO_RECORD };
        hot[record as usize].join(&mut cold.0[record as usize], neighbours);
        self.set_younger(cold, self.youngest, record);
        self.youngest = record;
        self.len += 1;
        self.of_zone[usize::from(hot[record as usize].key.zone())] += 1;
    }

    fn remove<const W: usize>(
        &mut self,
        (hot, cold): (&mut HugeRegion<Hot<W>>, &mut ColdParts),
        record: u32,
    ) {
        let Neighbours { older, younger } =
            hot[record as usize].leave(&mut cold.0[record as usize]);
        self.set_younger(cold, older, younger);
        match cold.0.get_mut(younger as usize) {
            Some(cold) => cold.set_neighbours(Neighbours { older, ..cold.neighbours() }),
            None => self.youngest = older,
        }
        self.len -= 1;
        self.of_zone[usize::from(hot[record as usize].key.zone())] -= 1;
    }

    /// Of a record, or [`NO_RECORD`], which is before the oldest.
    fn set_younger(&mut self, cold: &mut ColdParts, record: u32, younger: u32) {
        match cold.0.get_mut(record as usize) {
            Some(cold) => cold.set_neighbours(Neighbours { younger, ..cold.neighbours() }),
            None => self.oldest = younger,
        }
    }
}

impl<const W: usize> FlowTable<W> {
    /// Whether a burst of new flows may find too little room. Then what comes first counts first.
    pub(crate) fn is_tight(&self) -> bool {
        let (records, embryonic) = (self.hot.len() as u32 - self.live, &self.embryonic);
        records.min(embryonic.max.saturating_sub(embryonic.len)) < BURST_MAX as u32
    }

    /// Whether such a burst may end a flow to make room: that may be one with a mark.
    pub(crate) fn may_evict(&self) -> bool {
        self.embryonic.evicts && self.embryonic.len > 0 && self.is_tight()
    }

    /// Makes room for a flow that is about to begin, if there is none: the oldest embryonic one
    /// goes, and is returned.
    pub(crate) fn make_room(&mut self) -> Option<FlowRecord> {
        let is_full = !self.may_begin() || self.live == self.hot.len() as u32;
        if is_full { self.evict() } else { None }
    }

    fn evict(&mut self) -> Option<FlowRecord> {
        let Embryonic { oldest, evicts, .. } = self.embryonic;
        if !evicts || oldest == NO_RECORD {
            return None;
        }
        self.wheel.disarm(&mut self.cold, oldest);
        let hash = self.hasher.hash_one(&self.hot[oldest as usize].key.0);
        Some(self.end(oldest, hash, EndReason::Evicted))
    }

    /// Whether one more embryonic flow may begin, as every flow does.
    pub(super) fn may_begin(&self) -> bool {
        self.embryonic.len < self.embryonic.max
    }

    /// A flow is about to begin in the place of one that is over. If there are as many embryonic
    /// ones as there may be, and it is none of them, the oldest goes.
    pub(super) fn make_room_for_reuse(&mut self, record: u32) -> Option<FlowRecord> {
        let is_one_more = !self.hot[record as usize].is_embryonic();
        if is_one_more && !self.may_begin() { self.evict() } else { None }
    }

    /// Embryonic flows of a zone.
    pub(crate) fn embryonic_in(&self, zone: u16) -> u32 {
        self.embryonic.of_zone[usize::from(zone)]
    }

    /// A flow has begun.
    pub(super) fn join_embryonic(&mut self, record: u32) {
        self.leave_embryonic(record);
        self.embryonic.push((&mut self.hot, &mut self.cold), record);
    }

    /// A flow is assured, or over.
    pub(super) fn leave_embryonic(&mut self, record: u32) {
        if self.hot[record as usize].is_embryonic() {
            self.embryonic.remove((&mut self.hot, &mut self.cold), record);
        }
    }
}
