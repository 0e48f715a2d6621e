// SPDX-License-Identifier: BSD-3-Clause
//! Keeps the busiest of many, in memory for those it keeps.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// The busiest of those offered so far.
pub struct TopN<T> {
    limit: usize,
    offered: u64,
    /// The least of those kept is at the top of the heap.
    kept: BinaryHeap<Reverse<Entry<T>>>,
}

impl<T> TopN<T> {
    /// Keeps up to `limit`.
    pub fn new(limit: usize) -> Self {
        Self { limit, offered: 0, kept: BinaryHeap::new() }
    }

    /// Keeps what `what` makes if its rank is one of the highest; of equals, the first offered.
    pub fn offer(&mut self, rank: u64, what: impl FnOnce() -> T) {
        self.offered += 1;
        let rank = (rank, Reverse(self.offered));
        let is_full = self.kept.len() >= self.limit;
        if is_full && self.kept.peek().is_none_or(|Reverse(least)| rank < least.rank) {
            return;
        }
        self.kept.push(Reverse(Entry { rank, what: what() }));
        if self.kept.len() > self.limit {
            self.kept.pop();
        }
    }

    /// Whether it can keep any.
    pub(crate) fn keeps_some(&self) -> bool {
        self.limit > 0
    }

    /// How many there were.
    pub fn offered(&self) -> u64 {
        self.offered
    }

    /// How many are kept.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Those kept, busiest first.
    pub fn into_sorted(self) -> impl ExactSizeIterator<Item = T> {
        // Of `Reverse`, ascending order is busiest first.
        self.kept.into_sorted_vec().into_iter().map(|Reverse(entry)| entry.what)
    }
}

/// Ordered by its rank and then by who was first. No two are equal.
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
