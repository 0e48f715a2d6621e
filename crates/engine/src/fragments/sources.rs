// SPDX-License-Identifier: BSD-3-Clause
//! Owns the senders of fragments, and the number of datagrams of each. A sender above its share
//! displaces its own datagrams, not those of others.

use crate::base::{CuckooIndex, HugeRegion, KeyedHasher, Links, List, MemoryUse};
use crate::packet::{Key, SourceKey};

#[derive(Clone, Copy)]
pub(super) struct Source {
    key: SourceKey,
    /// Its datagrams, the oldest first.
    pub(crate) datagrams: List,
    len: u32,
    /// Packets of its datagrams that wait.
    pub(crate) waiting: u32,
}

/// The senders of the datagrams that are in the table.
pub(super) struct Sources {
    index: CuckooIndex,
    sources: HugeRegion<Source>,
    free: Vec<u32>,
    links: Links,
    hasher: KeyedHasher,
}

impl Sources {
    /// Makes room for the senders of `datagrams` datagrams.
    pub(super) fn new(datagrams: u32, secret: [u64; 2]) -> Self {
        let len = datagrams as usize;
        let source = Source { key: Key([0; 2]), datagrams: List::EMPTY, len: 0, waiting: 0 };
        Self {
            index: CuckooIndex::new(datagrams, false),
            sources: HugeRegion::new(len, source, false),
            free: (0..datagrams).rev().collect(),
            links: Links::new(len),
            hasher: KeyedHasher::new(secret),
        }
    }

    pub(super) fn memory(&self) -> MemoryUse {
        [self.index.memory(), self.sources.memory(), self.links.memory()].into_iter().sum()
    }

    pub(super) fn get(&mut self, source: u32) -> &mut Source {
        &mut self.sources[source as usize]
    }

    /// Returns the oldest datagram of a sender that has at least `most` of them.
    pub(super) fn oldest_of(&self, key: &SourceKey, most: u32) -> Option<u32> {
        let source = self.find(key).map(|source| &self.sources[source as usize])?;
        (source.len >= most).then_some(source.datagrams.first)
    }

    fn find(&self, key: &SourceKey) -> Option<u32> {
        let hash = self.hasher.hash_one(&key.0);
        self.index.find(hash, |source| self.sources[source as usize].key == *key)
    }

    /// Adds a datagram to its sender and returns the sender; `None` if there is no room for a new
    /// sender.
    pub(super) fn add(&mut self, key: SourceKey, datagram: u32) -> Option<u32> {
        let source = match self.find(&key) {
            Some(source) => source,
            None => self.begin(key)?,
        };
        let Source { datagrams, len, .. } = &mut self.sources[source as usize];
        self.links.push(datagrams, datagram);
        *len += 1;
        Some(source)
    }

    fn begin(&mut self, key: SourceKey) -> Option<u32> {
        let source = *self.free.last()?;
        if !self.index.insert(self.hasher.hash_one(&key.0), source) {
            return None;
        }
        self.free.pop();
        self.sources[source as usize] = Source { key, datagrams: List::EMPTY, len: 0, waiting: 0 };
        Some(source)
    }

    /// Removes a datagram from its sender. A sender without datagrams is removed too.
    pub(super) fn remove(&mut self, source: u32, datagram: u32) {
        let Source { key, datagrams, len, .. } = &mut self.sources[source as usize];
        self.links.remove(datagrams, datagram);
        *len -= 1;
        if *len == 0 {
            self.index.remove(self.hasher.hash_one(&key.0), source);
            self.free.push(source);
        }
    }
}
