// SPDX-License-Identifier: BSD-3-Clause
//! The index of the flow table: maps a hash to a record number with one or two cache lines.
//!
//! It is a two-choice bucketized cuckoo table of fixed size. Each bucket is one cache line of eight
//! slots; a slot holds a 15-bit tag and a record number. An entry lives in its primary bucket or,
//! if that was full, in the alternate one. The alternate bucket follows from bucket and tag alone,
//! so moving an entry never touches its record. A bucket remembers which tags moved out of it, so a
//! miss usually reads one line.
//!
//! Full keys are in the records; this file has no keys. It is a table, not a cache: an inserted
//! entry stays until it is removed.

use super::memory::{HugeRegion, MemoryUse, match_tags};

const SLOTS: usize = 8;

/// Maximum steps of the search for room, before an insert fails. At 95 % load the search needs a
/// few dozen. The hash is keyed, so an attacker cannot aim at buckets and make it need more.
const SEARCH_MAX: usize = 256;

/// One cache line: eight slots, and a summary of the entries that moved out.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Bucket {
    /// Tag of each slot; 0 if the slot is empty.
    tags: [u16; SLOTS],
    records: [u32; SLOTS],
    /// Bit `tag % 64` is set while an entry with such a tag may live in its alternate bucket.
    moved_tags: u64,
    /// Number of entries whose primary bucket this is and that live in the alternate one.
    moved: u16,
    /// Bit per slot, set if this bucket is the entry's alternate bucket.
    away: u8,
}

const _: () = assert!(size_of::<Bucket>() == 64);

impl Bucket {
    const EMPTY: Bucket =
        Bucket { tags: [0; SLOTS], records: [0; SLOTS], moved_tags: 0, moved: 0, away: 0 };

    #[inline(always)]
    fn matches(&self, tag: u16) -> u32 {
        match_tags(&self.tags, tag)
    }

    fn free_slot(&self) -> Option<usize> {
        let free = self.matches(0);
        (free != 0).then(|| free.trailing_zeros() as usize)
    }

    #[inline(always)]
    fn may_have_moved(&self, tag: u16) -> bool {
        self.moved_tags >> (tag % 64) & 1 != 0
    }
}

/// Returns the tag of a hash: its upper bits, which do not choose the bucket. Never 0.
#[inline(always)]
fn tag_of(hash: u64) -> u16 {
    (hash >> 48) as u16 | 1 << 15
}

/// The primary bucket and the tag of a hash.
#[derive(Clone, Copy)]
struct BucketPair {
    primary: usize,
    tag: u16,
}

/// Maps hashes to record numbers.
pub(crate) struct CuckooIndex {
    buckets: HugeRegion<Bucket>,
}

impl CuckooIndex {
    /// Creates an index for `capacity` entries. It is large enough that inserts never fail at this
    /// load.
    pub(crate) fn new(capacity: u32, huge_pages: bool) -> Self {
        // At most 90 % load; a power of two so that the alternate bucket is an XOR away.
        // Below 8 buckets that load is not always reached.
        let expected = (capacity as usize * 10).div_ceil(SLOTS * 9).max(8);
        Self { buckets: HugeRegion::new(expected.next_power_of_two(), Bucket::EMPTY, huge_pages) }
    }

    pub(crate) fn memory(&self) -> MemoryUse {
        self.buckets.memory()
    }

    #[inline(always)]
    fn place(&self, hash: u64) -> BucketPair {
        BucketPair { primary: hash as usize & (self.buckets.len() - 1), tag: tag_of(hash) }
    }

    /// Returns the other bucket of an entry with `tag` in `bucket`. The function is its own
    /// inverse.
    #[inline(always)]
    fn other(&self, bucket: usize, tag: u16) -> usize {
        // Odd, so that the two buckets differ.
        let step = (usize::from(tag) * 0x5bd1_e995) | 1;
        (bucket ^ step) & (self.buckets.len() - 1)
    }

    /// Prefetches the primary bucket of `hash` into the second-level cache.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.buckets.prefetch_many(hash as usize & (self.buckets.len() - 1), 0);
    }

    /// Returns a record that may belong to `hash`, or [`NO_RECORD`] if certainly none does.
    ///
    /// The caller must compare the key: about 1 candidate in some thousands is wrong.
    #[inline(always)]
    pub(crate) fn candidate(&self, hash: u64) -> u32 {
        let tag = tag_of(hash);
        let bucket = self.buckets.wrapping_get(hash as usize);
        let matches = bucket.matches(tag);
        if matches != 0 {
            return bucket.records[matches.trailing_zeros() as usize & (SLOTS - 1)];
        }
        if bucket.may_have_moved(tag) {
            return self.candidate_in_other(hash);
        }
        NO_RECORD
    }

    #[inline(never)]
    fn candidate_in_other(&self, hash: u64) -> u32 {
        let BucketPair { primary, tag } = self.place(hash);
        let bucket = &self.buckets[self.other(primary, tag)];
        match bucket.matches(tag) {
            0 => NO_RECORD,
            matches => bucket.records[matches.trailing_zeros() as usize & (SLOTS - 1)],
        }
    }

    /// Returns the record for `hash` that `is_it` confirms. Tries every slot with a matching tag.
    pub(crate) fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let BucketPair { primary, tag } = self.place(hash);
        let mut search = |bucket: &Bucket| {
            let mut matches = bucket.matches(tag);
            while matches != 0 {
                let record = bucket.records[matches.trailing_zeros() as usize & (SLOTS - 1)];
                if is_it(record) {
                    return Some(record);
                }
                matches &= matches - 1;
            }
            None
        };
        let bucket = &self.buckets[primary];
        search(bucket).or_else(|| {
            let moved = bucket.may_have_moved(tag);
            moved.then(|| search(&self.buckets[self.other(primary, tag)])).flatten()
        })
    }

    /// Adds an entry, whose key must not be present. Returns false if no room was found; then
    /// nothing has changed.
    #[must_use]
    pub(crate) fn insert(&mut self, hash: u64, record: u32) -> bool {
        let BucketPair { primary, tag } = self.place(hash);
        if let Some(slot) = self.buckets[primary].free_slot() {
            self.put(primary, slot, (tag, record));
            return true;
        }
        let other = self.other(primary, tag);
        if let Some(slot) = self.buckets[other].free_slot() {
            self.put(other, slot, (tag, record));
            self.mark_moved(primary, other, (tag, slot));
            return true;
        }
        let Some((bucket, slot)) = self.make_room(primary, other) else { return false };
        self.put(bucket, slot, (tag, record));
        if bucket != primary {
            self.mark_moved(primary, bucket, (tag, slot));
        }
        true
    }

    /// Removes the entry of `record`, which was inserted under `hash`.
    pub(crate) fn remove(&mut self, hash: u64, record: u32) {
        let BucketPair { primary, tag } = self.place(hash);
        let other = self.other(primary, tag);
        for bucket in [primary, other] {
            let entry = &self.buckets[bucket];
            let is_it = |&s: &usize| entry.tags[s] == tag && entry.records[s] == record;
            if let Some(slot) = (0..SLOTS).find(is_it) {
                self.take(bucket, slot);
                return;
            }
        }
        unreachable!("record {record} is in the table but not in its index");
    }

    fn put(&mut self, bucket: usize, slot: usize, (tag, record): (u16, u32)) {
        let bucket = &mut self.buckets[bucket];
        bucket.tags[slot] = tag;
        bucket.records[slot] = record;
    }

    /// Records that the entry in `slot` of bucket `other` has `primary` as its primary bucket.
    fn mark_moved(&mut self, primary: usize, other: usize, (tag, slot): (u16, usize)) {
        self.buckets[other].away |= 1 << slot;
        let primary = &mut self.buckets[primary];
        primary.moved += 1;
        primary.moved_tags |= 1 << (tag % 64);
    }

    /// Empties a slot, updates the summary in the entry's primary bucket, and returns the entry.
    fn take(&mut self, at: usize, slot: usize) -> (u16, u32) {
        let bucket = &mut self.buckets[at];
        let entry = (bucket.tags[slot], bucket.records[slot]);
        let was_away = bucket.away >> slot & 1 != 0;
        bucket.tags[slot] = 0;
        bucket.away &= !(1 << slot);
        if was_away {
            let primary = self.other(at, entry.0);
            let primary = &mut self.buckets[primary];
            primary.moved -= 1;
            // A bit may stand for several entries, so bits are cleared only when all of them are
            // back.
            if primary.moved == 0 {
                primary.moved_tags = 0;
            }
        }
        entry
    }

    /// Moves the entry at `from`, in a full bucket, to the free slot `to` of its other bucket.
    fn relocate(&mut self, from: (usize, usize), to: (usize, usize)) {
        let was_away = self.buckets[from.0].away >> from.1 & 1 != 0;
        let entry = self.take(from.0, from.1);
        self.put(to.0, to.1, entry);
        if !was_away {
            self.mark_moved(from.0, to.0, (entry.0, to.1));
        }
    }

    /// Frees a slot in one of two full buckets by the shortest chain of moves (breadth first).
    ///
    /// Returns bucket and slot; `None` if the search found no free slot in [`SEARCH_MAX`] steps.
    fn make_room(&mut self, a: usize, b: usize) -> Option<(usize, usize)> {
        /// A slot whose entry could move, and the search step that needs it free.
        #[derive(Clone, Copy)]
        struct Step {
            bucket: usize,
            slot: usize,
            parent: usize,
        }
        const ROOT: usize = usize::MAX;
        let mut steps = [Step { bucket: 0, slot: 0, parent: ROOT }; SEARCH_MAX];
        let mut len = 0;
        for (bucket, slot) in [a, b].into_iter().flat_map(|b| (0..SLOTS).map(move |s| (b, s))) {
            steps[len] = Step { bucket, slot, parent: ROOT };
            len += 1;
        }
        for at in 0..SEARCH_MAX {
            if at >= len {
                return None;
            }
            let Step { bucket, slot, .. } = steps[at];
            let target = self.other(bucket, self.buckets[bucket].tags[slot]);
            if let Some(free) = self.buckets[target].free_slot() {
                let (mut hole, mut step) = ((target, free), at);
                loop {
                    let Step { bucket, slot, parent } = steps[step];
                    self.relocate((bucket, slot), hole);
                    hole = (bucket, slot);
                    if parent == ROOT {
                        return Some(hole);
                    }
                    step = parent;
                }
            }
            for slot in (0..SLOTS).take(SEARCH_MAX - len) {
                steps[len] = Step { bucket: target, slot, parent: at };
                len += 1;
            }
        }
        None
    }
}

/// Stands for "no record" where a record number is expected.
pub(crate) const NO_RECORD: u32 = u32::MAX;

#[cfg(test)]
mod tests;
