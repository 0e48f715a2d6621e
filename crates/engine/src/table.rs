// SPDX-License-Identifier: BSD-3-Clause
//! The flow table of one IP version: index, records, timers, all memory taken at start.
//!
//! Active iff indexed iff armed: a record is in the index and in the wheel from
//! [`FlowTable::admit`] to [`FlowTable::end`], and nowhere before or after.

mod columns;
mod embryonic;
mod records;

use crate::api::Side;
use crate::base::{CuckooIndex, HugeRegion, KeyedHasher, TimerWheel};
use crate::conn::{Cold, Hot};
use crate::offload::{Due, Looks, Rules};
use crate::packet::Key;
use crate::policy::Lifetimes;
use crate::tracker::{Forgotten, OutOfSync};
pub(crate) use columns::{ColdParts, Markings};
pub(crate) use embryonic::{EMBRYONIC_BYTES, Embryonic};

/// Flows with keys of `W` words.
pub(crate) struct FlowTable<const W: usize> {
    pub(crate) index: CuckooIndex,
    pub(crate) hot: HugeRegion<Hot<W>>,
    pub(crate) cold: ColdParts,
    pub(crate) markings: Markings,
    pub(crate) wheel: TimerWheel,
    pub(crate) hasher: KeyedHasher,
    pub(crate) lifetimes: Lifetimes,
    /// Checksums are verified before a state changes.
    pub(crate) verifies: bool,
    /// Where the packets of this burst came, if there are two ports.
    pub(crate) side: Option<Side>,
    pub(crate) embryonic: Embryonic,
    pub(crate) forgotten: Forgotten,
    pub(crate) out_of_sync: OutOfSync,
    /// Flows there are.
    pub(crate) live: u32,
    /// Rules of the NIC, if there may be any.
    pub(crate) rules: Option<Box<Rules>>,
    pub(crate) looks: Option<Looks>,
    /// What is to be looked at when the next one is: all that it takes is on its way meanwhile.
    pub(crate) waiting: Option<Due>,
    /// Head of the list of records freed, through their links.
    pub(crate) free: u32,
    /// Records from here on were never used.
    pub(crate) fresh: u32,
}

impl<const W: usize> FlowTable<W> {
    /// Starts to load a record.
    #[inline(always)]
    pub(crate) fn prefetch(&self, record: u32) {
        self.hot.prefetch(record as usize, 0);
        if W > 2 {
            self.hot.prefetch(record as usize, 64);
        }
    }

    /// The same of its cold part, which most packets do without.
    #[inline(always)]
    pub(crate) fn prefetch_cold(&self, record: u32) {
        self.cold.0.prefetch(record as usize, 0);
        self.cold.0.prefetch(record as usize, size_of::<Cold>() - 1);
    }

    /// The same where many are loaded at once, and none is needed soon.
    #[inline(always)]
    pub(crate) fn prefetch_many(&self, record: u32) {
        self.hot.prefetch_many(record as usize, 0);
        if W > 2 {
            self.hot.prefetch_many(record as usize, 64);
        }
    }

    /// For each hash the record that may be its flow's, on the way to the second level, or
    /// [`NO_RECORD`].
    #[inline(always)]
    pub(crate) fn candidates(&self, hashes: &[u64], candidates: &mut [u32]) {
        for (&hash, candidate) in hashes.iter().zip(candidates) {
            let record = self.index.candidate(hash);
            *candidate = record;
            self.prefetch_many(record);
        }
    }

    /// The record of the flow with this key.
    pub(crate) fn find(&self, hash: u64, key: &Key<W>) -> Option<u32> {
        self.index.find(hash, |record| self.hot[record as usize].key == *key)
    }

    /// True if `record` is the flow with this key.
    pub(crate) fn holds(&self, record: u32, key: &Key<W>) -> bool {
        self.hot.get(record as usize).is_some_and(|hot| hot.key == *key)
    }

    /// The record with this number, in use or not.
    pub(crate) fn parts(&self, record: u32) -> (&Hot<W>, &Cold) {
        (&self.hot[record as usize], &self.cold.0[record as usize])
    }

    /// Record numbers below this may be in use.
    pub(crate) fn used(&self) -> u32 {
        self.fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Config;
    use crate::base::BURST_MAX;
    use crate::policy::Zones;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    /// Hashes of the same keys in a table with this secret.
    fn hashes<const W: usize>(secret: [u64; 2]) -> [u64; BURST_MAX] {
        let config = Config { secret, ..Config::default() };
        let zones = Arc::new(Zones::new(&config));
        let table = FlowTable::<W>::new(8, &config, zones, 0);
        let keys = [std::array::from_fn(|i| i as u64); W];
        let mut hashes = [0; BURST_MAX];
        table.prepare(&keys, 0..BURST_MAX, &mut hashes);
        hashes
    }

    fn the_secret_decides<const W: usize>() {
        let secrets = [[0, 0], [1, 0], [0, 1], [1, 1], [u64::MAX, 0], [0, u64::MAX]];
        let all: BTreeSet<u64> = secrets.into_iter().flat_map(hashes::<W>).collect();
        assert_eq!(all.len(), secrets.len() * BURST_MAX);
    }

    #[test]
    fn the_secret_decides_where_every_key_goes() {
        the_secret_decides::<2>();
        the_secret_decides::<5>();
    }
}
