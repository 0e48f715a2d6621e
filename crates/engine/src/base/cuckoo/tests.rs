// SPDX-License-Identifier: BSD-3-Clause
//! Compares the index with a map: after any order of operations, it holds the inserted entries.

use super::*;
use crate::base::keyed_hash::KeyedHasher;
use proptest::prelude::*;
use std::collections::BTreeMap;

impl CuckooIndex {
    /// Checks the invariants that lookups rely on; returns the number of entries.
    fn audit(&self) -> usize {
        let mut moved = BTreeMap::<usize, Vec<u16>>::new();
        let mut entries = 0;
        for (at, bucket) in self.buckets.iter().enumerate() {
            for slot in 0..SLOTS {
                let away = bucket.away >> slot & 1 != 0;
                assert!(!away || bucket.tags[slot] != 0, "an empty slot is not away");
                entries += usize::from(bucket.tags[slot] != 0);
                if away {
                    let tag = bucket.tags[slot];
                    moved.entry(self.other(at, tag)).or_default().push(tag);
                }
            }
        }
        for (at, bucket) in self.buckets.iter().enumerate() {
            let tags = moved.remove(&at).unwrap_or_default();
            assert_eq!(usize::from(bucket.moved), tags.len());
            assert!(tags.iter().all(|&tag| bucket.may_have_moved(tag)));
            assert!(bucket.moved != 0 || bucket.moved_tags == 0);
        }
        entries
    }
}

/// A hash with few primary buckets and few tags, so that everything collides.
fn narrow_hash(seed: u16) -> u64 {
    u64::from(seed % 8) << 48 | u64::from(seed >> 3 & 7)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn behaves_as_a_map(operations in prop::collection::vec((any::<u16>(), 0..3), 1..400)) {
        let mut index = CuckooIndex::new(96, false);
        // The model: record -> hash. Records are numbered by their seed, so a seed is in once.
        let mut model = BTreeMap::<u32, u64>::new();
        for (seed, operation) in operations {
            let (record, hash) = (u32::from(seed), narrow_hash(seed));
            match operation {
                0 | 1 if !model.contains_key(&record) => {
                    if index.insert(hash, record) {
                        model.insert(record, hash);
                    }
                }
                _ => {
                    if model.remove(&record).is_some() {
                        index.remove(hash, record);
                    }
                }
            }
            let found = index.find(hash, |r| r == record);
            prop_assert_eq!(found.is_some(), model.contains_key(&record));
        }
        prop_assert_eq!(index.audit(), model.len());
        for (&record, &hash) in &model {
            prop_assert_eq!(index.find(hash, |r| r == record), Some(record));
            prop_assert_ne!(index.candidate(hash), NO_RECORD);
        }
    }
}

#[test]
fn fills_to_its_capacity_without_a_failed_insert() {
    for capacity in [1, 2, 16, 1_000, 58_982, 100_000] {
        let mut index = CuckooIndex::new(capacity, false);
        let hasher = KeyedHasher::new([1, 2]);
        let hash = |i: u32| hasher.hash_one(&[u64::from(i), 0]);
        for i in 0..capacity {
            assert!(index.insert(hash(i), i), "{i} of {capacity}");
        }
        assert_eq!(index.audit(), capacity as usize);
        for i in 0..capacity {
            assert_eq!(index.find(hash(i), |r| r == i), Some(i));
            index.remove(hash(i), i);
        }
        assert_eq!(index.audit(), 0);
    }
}

#[test]
fn one_place_for_all_is_refused_without_harm() {
    let mut index = CuckooIndex::new(1_000, false);
    // All entries have the same two buckets: 16 fit, regardless of room elsewhere.
    let fit = (0..40).filter(|&i| index.insert(77 << 48 | 5, i)).count();
    assert_eq!(fit, 16);
    assert_eq!(index.audit(), 16);
    assert!((0..16).all(|i| index.find(77 << 48 | 5, |r| r == i) == Some(i)));
}
