// SPDX-License-Identifier: BSD-3-Clause
//! Owns the list of a table's embryonic connections, oldest first, and their number per zone. If
//! the table has no room, the tracker evicts the oldest of them.

use super::columns::ColdColumn;
use crate::api::{Config, Evict, ZONES};
use crate::base::{HugeRegion, NO_RECORD};
use crate::conn::{ConnHot, ListLinks};

/// Bytes per zone of the counter of embryonic connections.
pub(crate) const EMBRYONIC_BYTES: usize = size_of::<u32>();

/// List of embryonic connections, linked through their records.
pub(crate) struct EmbryonicList {
    pub(crate) oldest: u32,
    youngest: u32,
    pub(crate) len: u32,
    /// Maximum number of embryonic connections.
    pub(super) max: u32,
    pub(crate) evicts: bool,
    /// Number of embryonic connections per zone.
    pub(super) of_zone: Box<[u32]>,
}

impl EmbryonicList {
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

    pub(super) fn push<const W: usize>(
        &mut self,
        (hot, cold): (&mut HugeRegion<ConnHot<W>>, &mut ColdColumn),
        record: u32,
    ) {
        let neighbours = ListLinks { older: self.youngest, younger: NO_RECORD };
        hot[record as usize].set_embryonic(&mut cold.0[record as usize], neighbours);
        self.set_younger(cold, self.youngest, record);
        self.youngest = record;
        self.len += 1;
        self.of_zone[usize::from(hot[record as usize].key.zone())] += 1;
    }

    pub(super) fn remove<const W: usize>(
        &mut self,
        (hot, cold): (&mut HugeRegion<ConnHot<W>>, &mut ColdColumn),
        record: u32,
    ) {
        let ListLinks { older, younger } =
            hot[record as usize].clear_embryonic(&mut cold.0[record as usize]);
        self.set_younger(cold, older, younger);
        match cold.0.get_mut(younger as usize) {
            Some(cold) => cold.set_neighbours(ListLinks { older, ..cold.neighbours() }),
            None => self.youngest = older,
        }
        self.len -= 1;
        self.of_zone[usize::from(hot[record as usize].key.zone())] -= 1;
    }

    /// Sets the younger neighbour of a record. For [`NO_RECORD`], which stands before the oldest,
    /// sets the oldest.
    fn set_younger(&mut self, cold: &mut ColdColumn, record: u32, younger: u32) {
        match cold.0.get_mut(record as usize) {
            Some(cold) => cold.set_neighbours(ListLinks { younger, ..cold.neighbours() }),
            None => self.oldest = younger,
        }
    }
}
