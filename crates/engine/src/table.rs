// SPDX-License-Identifier: BSD-3-Clause
//! Where the connections of one IP version lie: index, records, timers, all memory taken at start.
//!
//! Stores and decides nothing: the tracker admits, changes and ends connections. A record is in
//! use if and only if it is in the index and its timer is armed.

mod columns;
mod embryonic;
mod records;

use crate::api::Config;
use crate::base::{
    BURST_MAX, Columns, CuckooIndex, HugeRegion, KeyDomain, KeyedHasher, MemoryUse, NO_RECORD,
    TimerWheel, derive,
};
use crate::conn::{ConnCold, ConnHot};
use crate::packet::Key;
use columns::{ColdColumn, MarkColumns};
pub(crate) use embryonic::{EMBRYONIC_BYTES, EmbryonicList};
use std::ops::Range;

/// Connections with keys of `W` words.
pub(crate) struct Table<const W: usize> {
    pub(crate) index: CuckooIndex,
    pub(crate) hot: HugeRegion<ConnHot<W>>,
    pub(crate) cold: ColdColumn,
    pub(crate) markings: MarkColumns,
    pub(crate) wheel: TimerWheel,
    pub(crate) hasher: KeyedHasher,
    pub(crate) embryonic: EmbryonicList,
    /// Connections there are.
    pub(crate) live: u32,
    /// Head of the list of records freed, through their links.
    pub(crate) free: u32,
    /// Records from here on were never used.
    pub(crate) fresh: u32,
}

impl<const W: usize> Table<W> {
    /// Takes the memory for `capacity` connections.
    pub(crate) fn new(capacity: u32, config: &Config) -> Self {
        let (len, huge) = (capacity as usize, config.huge_pages);
        Self {
            index: CuckooIndex::new(capacity, huge),
            hot: HugeRegion::new(len, ConnHot::FREE, huge),
            cold: ColdColumn(HugeRegion::new(len, ConnCold::FREE, huge)),
            markings: MarkColumns::new(len, config),
            wheel: TimerWheel::new(),
            hasher: KeyedHasher::new(derive(config.secret, KeyDomain::Table(W as u64))),
            embryonic: EmbryonicList::new(capacity, config),
            live: 0,
            free: NO_RECORD,
            fresh: 0,
        }
    }

    /// Memory of all columns, of the index and of the wheel.
    pub(crate) fn memory(&self) -> MemoryUse {
        let wheel = MemoryUse { bytes: self.wheel.bytes(), ..MemoryUse::default() };
        let parts = [self.index.memory(), self.hot.memory(), self.cold.0.memory(), wheel];
        parts.into_iter().chain([self.markings.memory()]).sum()
    }

    /// Hashes these keys of a burst and starts to load their buckets.
    #[inline(always)]
    pub(crate) fn prepare(
        &self,
        keys: &Columns<W>,
        range: Range<usize>,
        hashes: &mut [u64; BURST_MAX],
    ) {
        self.hasher.hash_burst(keys, range.clone(), hashes);
        for &hash in &hashes[range] {
            self.index.prefetch(hash);
        }
    }

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
        self.cold.0.prefetch(record as usize, size_of::<ConnCold>() - 1);
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
    pub(crate) fn parts(&self, record: u32) -> (&ConnHot<W>, &ConnCold) {
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
    use std::collections::BTreeSet;

    /// Hashes of the same keys in a table with this secret.
    fn hashes<const W: usize>(secret: [u64; 2]) -> [u64; BURST_MAX] {
        let config = Config { secret, ..Config::default() };
        let table = Table::<W>::new(8, &config);
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
