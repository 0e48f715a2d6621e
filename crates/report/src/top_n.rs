// SPDX-License-Identifier: BSD-3-Clause
//! Keeps the items of highest rank, in memory for those items only.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// The items of highest rank of all offered so far.
pub struct TopN<T> {
    limit: usize,
    offered: u64,
    /// A heap with the lowest rank on top.
    kept: BinaryHeap<Reverse<Entry<T>>>,
}

impl<T> TopN<T> {
    /// Creates a list of up to `limit` items.
    pub fn new(limit: usize) -> Self {
        Self { limit, offered: 0, kept: BinaryHeap::new() }
    }

    /// Keeps the result of `item` if `rank` is one of the highest. Of equals, it keeps the first
    /// offered.
    pub fn offer(&mut self, rank: u64, item: impl FnOnce() -> T) {
        self.offered += 1;
        let rank = (rank, Reverse(self.offered));
        let is_full = self.kept.len() >= self.limit;
        if is_full && self.kept.peek().is_none_or(|Reverse(least)| rank < least.rank) {
            return;
        }
        self.kept.push(Reverse(Entry { rank, what: item() }));
        if self.kept.len() > self.limit {
            self.kept.pop();
        }
    }

    /// True if it can keep any item.
    pub(crate) fn has_room(&self) -> bool {
        self.limit > 0
    }

    /// Returns the number of items offered.
    pub fn offered(&self) -> u64 {
        self.offered
    }

    /// Returns the number of items kept.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Returns the items kept, highest rank first.
    pub fn into_sorted(self) -> impl ExactSizeIterator<Item = T> {
        // Ascending order of `Reverse` is descending order of rank.
        self.kept.into_sorted_vec().into_iter().map(|Reverse(entry)| entry.what)
    }
}

/// An item, ordered by rank and then by time of offer. No two are equal.
struct Entry<T> {
    rank: (u64, Reverse<u64>),
    what: T,
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank.cmp(&other.rank)
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl<T> Eq for Entry<T> {}
