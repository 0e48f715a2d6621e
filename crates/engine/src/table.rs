// SPDX-License-Identifier: BSD-3-Clause
//! Stores the connections of one IP version: index, records, timers. It allocates all memory at
//! start.
//!
//! The table decides nothing: the tracker admits, changes and ends connections. A record is in use
//! if and only if it is in the index and its timer is armed.

mod access;
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
pub(crate) use access::{AccessColumn, ConnAccess, Searched};
use columns::{ColdColumn, MarkColumns};
pub(crate) use embryonic::{EMBRYONIC_BYTES, EmbryonicList};
use std::ops::Range;

/// Table of connections with keys of `W` words: 2 for IPv4, 5 for IPv6.
pub(crate) struct Table<const W: usize> {
    pub(crate) index: CuckooIndex,
    pub(crate) hot: HugeRegion<ConnHot<W>>,
    pub(crate) cold: ColdColumn,
    pub(crate) markings: MarkColumns,
    /// `None` without access lists.
    pub(crate) access: Option<AccessColumn>,
    pub(crate) wheel: TimerWheel,
    pub(crate) hasher: KeyedHasher,
    pub(crate) embryonic: EmbryonicList,
    /// Number of connections.
    pub(crate) live: u32,
    /// Head of the list of freed records, which are linked through their timer links.
    pub(crate) free: u32,
    /// Number of records that were ever used. Records from this number on are free.
    pub(crate) fresh: u32,
}

impl<const W: usize> Table<W> {
    /// Allocates the memory for `capacity` connections.
    pub(crate) fn new(capacity: u32, config: &Config) -> Self {
        let (len, huge) = (capacity as usize, config.huge_pages);
        Self {
            index: CuckooIndex::new(capacity, huge),
            hot: HugeRegion::new(len, ConnHot::FREE, huge),
            cold: ColdColumn(HugeRegion::new(len, ConnCold::FREE, huge)),
            markings: MarkColumns::new(len, config),
            access: AccessColumn::new(len, config),
            wheel: TimerWheel::new(),
            hasher: KeyedHasher::new(derive(config.secret, KeyDomain::Table(W as u64))),
            embryonic: EmbryonicList::new(capacity, config),
            live: 0,
            free: NO_RECORD,
            fresh: 0,
        }
    }

    /// Returns the memory of all columns, of the index and of the timer wheel.
    pub(crate) fn memory(&self) -> MemoryUse {
        let wheel = MemoryUse { bytes: self.wheel.bytes(), ..MemoryUse::default() };
        let parts = [self.index.memory(), self.hot.memory(), self.cold.0.memory(), wheel];
        let access = self.access.as_ref().map(AccessColumn::memory);
        parts.into_iter().chain([self.markings.memory()]).chain(access).sum()
    }

    /// Hashes the keys in `range` of a burst and prefetches their buckets.
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

    /// Prefetches the hot part of a record.
    #[inline(always)]
    pub(crate) fn prefetch(&self, record: u32) {
        self.hot.prefetch(record as usize, 0);
        if W > 2 {
            self.hot.prefetch(record as usize, 64);
        }
    }

    /// Prefetches the cold part of a record, which most packets do not need.
    #[inline(always)]
    pub(crate) fn prefetch_cold(&self, record: u32) {
        self.cold.0.prefetch(record as usize, 0);
        self.cold.0.prefetch(record as usize, size_of::<ConnCold>() - 1);
    }

    /// Prefetches the hot part of a record into the second-level cache, where more loads can run at
    /// once ([`HugeRegion::prefetch_many`]). Used for whole bursts, whose records are read later.
    #[inline(always)]
    pub(crate) fn prefetch_many(&self, record: u32) {
        self.hot.prefetch_many(record as usize, 0);
        if W > 2 {
            self.hot.prefetch_many(record as usize, 64);
        }
    }

    /// Writes the candidate record of each hash, or [`NO_RECORD`], and prefetches it into the
    /// second-level cache. The caller compares the key of the candidate.
    #[inline(always)]
    pub(crate) fn candidates(&self, hashes: &[u64], candidates: &mut [u32]) {
        for (&hash, candidate) in hashes.iter().zip(candidates) {
            let record = self.index.candidate(hash);
            *candidate = record;
            self.prefetch_many(record);
        }
    }

    /// Returns the record of the connection with this key.
    pub(crate) fn find(&self, hash: u64, key: &Key<W>) -> Option<u32> {
        self.index.find(hash, |record| self.hot[record as usize].key == *key)
    }

    /// True if `record` has this key.
    pub(crate) fn holds(&self, record: u32, key: &Key<W>) -> bool {
        self.hot.get(record as usize).is_some_and(|hot| hot.key == *key)
    }

    /// Returns both parts of the record with this number, whether it is in use or not.
    pub(crate) fn parts(&self, record: u32) -> (&ConnHot<W>, &ConnCold) {
        (&self.hot[record as usize], &self.cold.0[record as usize])
    }

    /// Returns the number of records that were ever used. All records after them are free.
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
