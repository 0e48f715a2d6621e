// SPDX-License-Identifier: BSD-3-Clause
//! The records of all ends of a worker, found by their addresses and ports.

use crate::endpoint::{Endpoint, EndpointId, State};
use crate::wheel::NONE;

/// What identifies a connection at one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Numbers of the peer's address and of ours.
    pub(crate) remote: u32,
    pub(crate) local: u32,
    pub(crate) remote_port: u16,
    pub(crate) local_port: u16,
    pub(crate) is_udp: bool,
}

impl Key {
    #[inline(always)]
    pub(crate) fn hash(&self) -> u64 {
        let addresses = u64::from(self.remote) << 32 | u64::from(self.local);
        let ports = u64::from(self.remote_port) << 17
            | u64::from(self.local_port) << 1
            | u64::from(self.is_udp);
        // Multiplication by odd numbers, and a shift that brings the upper bits down: enough
        // against keys that count up; peers of a generator do not attack its hash.
        let mixed = (addresses ^ ports.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23))
            .wrapping_mul(0xd6e8_feb8_6659_fd93);
        (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93)
    }

    #[inline(always)]
    fn of(record: &Endpoint) -> Self {
        Self {
            remote: record.remote,
            local: record.local,
            remote_port: record.remote_port,
            local_port: record.local_port,
            is_udp: matches!(record.state, State::Udp | State::RestsUdp),
        }
    }
}

/// Bits of an entry of the index that hold the record's number plus 1; the others are a part of the
/// hash.
const ID_BITS: u32 = 25;
const ID_MASK: u32 = (1 << ID_BITS) - 1;
/// Most records of a table.
pub const CAPACITY_MAX: u32 = ID_MASK - 1;

/// Records, and an index with linear probing. Both are allocated at the start. The system gives
/// them memory when it is first used, so that room for many connections costs nothing without them.
#[derive(Debug)]
pub(crate) struct Table {
    /// Those that have been used at least once; never more than its capacity.
    pub(crate) records: Vec<Endpoint>,
    capacity: usize,
    index: Box<[u32]>,
    free: u32,
    used: u32,
}

impl Table {
    /// Makes a table for `capacity` records, at most [`CAPACITY_MAX`].
    pub(crate) fn new(capacity: u32) -> Self {
        let capacity = capacity.clamp(1, CAPACITY_MAX);
        // Three quarters of the places are taken at most.
        let places = capacity as usize / 3 * 4 + 8;
        let capacity = capacity as usize;
        let records = Vec::with_capacity(capacity);
        Self { records, capacity, index: vec![0; places].into(), free: NONE, used: 0 }
    }

    /// Returns the number of records in use.
    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    /// Returns the bytes of memory for each record.
    pub(crate) fn bytes_per_record(&self) -> f64 {
        let of_index = size_of_val(&*self.index) as f64 / self.capacity as f64;
        size_of::<Endpoint>() as f64 + of_index
    }

    /// Returns the place where the search for a hash begins.
    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        (u128::from(hash) * self.index.len() as u128 >> 64) as usize
    }

    /// Returns the entry where the search for a hash begins, so that it is in the cache when the
    /// search follows.
    #[inline(always)]
    pub(crate) fn peek(&self, hash: u64) -> Option<EndpointId> {
        (self.index[self.home(hash)] & ID_MASK).checked_sub(1)
    }

    #[inline(always)]
    fn tag(hash: u64) -> u32 {
        (hash as u32) << ID_BITS
    }

    /// Returns the record of a key.
    #[inline(always)]
    pub(crate) fn find(&self, key: &Key, hash: u64) -> Option<EndpointId> {
        let mut place = self.home(hash);
        loop {
            let entry = self.index[place];
            if entry == 0 {
                return None;
            }
            if entry & !ID_MASK == Self::tag(hash) {
                let id = (entry & ID_MASK) - 1;
                if Key::of(&self.records[id as usize]) == *key {
                    return Some(id);
                }
            }
            place = self.after(place);
        }
    }

    #[inline(always)]
    fn after(&self, place: usize) -> usize {
        if place + 1 == self.index.len() { 0 } else { place + 1 }
    }

    /// Takes a record for a key that has none; `None` if all are in use. The record has the key,
    /// this state, and otherwise default values.
    pub(crate) fn insert(&mut self, key: &Key, hash: u64, state: State) -> Option<EndpointId> {
        let mut id = self.free;
        if id == NONE {
            if self.records.len() == self.capacity {
                return None;
            }
            id = self.records.len() as u32;
            self.records.push(Endpoint { next: NONE, ..Endpoint::default() });
        }
        let record = &mut self.records[id as usize];
        self.free = record.next;
        self.used += 1;
        let Key { remote, local, remote_port, local_port, .. } = *key;
        *record = Endpoint {
            remote,
            local,
            remote_port,
            local_port,
            state,
            prev: NONE,
            next: NONE,
            transport_at: NONE,
            program_at: NONE,
            ..Endpoint::default()
        };
        let mut place = self.home(hash);
        while self.index[place] != 0 {
            place = self.after(place);
        }
        self.index[place] = Self::tag(hash) | (id + 1);
        Some(id)
    }

    /// Frees a record, which the wheel must not hold.
    pub(crate) fn remove(&mut self, id: EndpointId) {
        let hash = Key::of(&self.records[id as usize]).hash();
        let entry = Self::tag(hash) | (id + 1);
        let mut place = self.home(hash);
        while self.index[place] != entry {
            place = self.after(place);
        }
        self.close_gap(place);
        let record = &mut self.records[id as usize];
        record.state = State::Free;
        // Nothing may take it for an end that waits or holds.
        record.flags = 0;
        record.next = self.free;
        self.free = id;
        self.used -= 1;
    }

    /// Empties a place of the index, and moves up the entries behind it that would not be found
    /// otherwise.
    fn close_gap(&mut self, mut gap: usize) {
        let mut place = gap;
        loop {
            place = self.after(place);
            let entry = self.index[place];
            let Some(id) = (entry & ID_MASK).checked_sub(1) else { break };
            let home = self.home(Key::of(&self.records[id as usize]).hash());
            let len = self.index.len();
            let distance = |from: usize| (place + len - from) % len;
            if distance(home) >= distance(gap) {
                self.index[gap] = entry;
                gap = place;
            }
        }
        self.index[gap] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        /// The table finds what a map of the standard library has, with as much room.
        #[test]
        fn the_table_is_a_map(
            ops in prop::collection::vec((0u32..40, any::<bool>()), 1..400),
        ) {
            let mut table = Table::new(30);
            let mut map = HashMap::new();
            for (number, is_removed) in ops {
                let key = Key {
                    remote: number / 8,
                    local: 9,
                    remote_port: 80,
                    local_port: (number % 8 / 2) as u16,
                    is_udp: number % 2 == 0,
                };
                let state = if key.is_udp { State::Udp } else { State::SynSent };
                let found = table.find(&key, key.hash());
                prop_assert_eq!(found, map.get(&number).copied());
                match found {
                    Some(id) if is_removed => {
                        table.remove(id);
                        map.remove(&number);
                    }
                    Some(_) => {}
                    None => {
                        let id = table.insert(&key, key.hash(), state);
                        prop_assert_eq!(id.is_some(), map.len() < 30);
                        map.extend(id.map(|id| (number, id)));
                    }
                }
                prop_assert_eq!(table.used() as usize, map.len());
            }
        }
    }

    /// Both ends of a connection take at most 192 bytes, one end 112.
    #[test]
    fn a_record_with_its_place_takes_few_bytes() {
        let table = Table::new(100_000);
        assert!(table.bytes_per_record() <= 96.0, "{} bytes", table.bytes_per_record());
    }
}
