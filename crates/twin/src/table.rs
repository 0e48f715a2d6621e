// SPDX-License-Identifier: BSD-3-Clause
//! Rules of one shape, group and priority: a hash table over the bytes that count.

use crate::headers::Headers;
use crate::pattern::{Key, Shape};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// One hash table of rules.
pub(crate) struct Table {
    pub(crate) shape: Shape,
    pub(crate) group: u32,
    pub(crate) priority: u32,
    /// Places of rows by the hash of their key.
    index: HashTable<u32>,
    /// Keys of all rows, one behind the other, as many words each as the shape has.
    keys: Vec<u64>,
    /// The rule of each row.
    rules: Vec<u32>,
}

impl Table {
    pub(crate) fn new(shape: Shape, group: u32, priority: u32) -> Self {
        let (keys, rules) = (Vec::new(), Vec::new());
        Self { shape, group, priority, index: HashTable::new(), keys, rules }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rule with this key.
    pub(crate) fn find(&self, key: &Key) -> Option<u32> {
        let key = &key[..self.shape.len()];
        let row = self.index.find(hash(key), |&row| self.key(row) == key)?;
        Some(self.rules[*row as usize])
    }

    /// The rule that a frame hits.
    pub(crate) fn matches(&self, frame: &[u8], headers: &Headers) -> Option<u32> {
        self.find(&self.shape.key(frame, headers)?)
    }

    /// The pattern of a row, for people.
    pub(crate) fn describe(&self, row: u32) -> String {
        self.shape.describe(self.key(row))
    }

    /// Adds a rule; its row. `None` if there is one with this key.
    pub(crate) fn insert(&mut self, key: &Key, rule: u32) -> Option<u32> {
        let len = self.shape.len();
        let key = &key[..len];
        let row = u32::try_from(self.rules.len()).expect("fewer rules than 2^32");
        let keys = &self.keys;
        let of = |row: &u32| key_of(keys, len, *row);
        match self.index.entry(hash(key), |row| of(row) == key, |row| hash(of(row))) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(place) => place.insert(row),
        };
        self.keys.extend_from_slice(key);
        self.rules.push(rule);
        Some(row)
    }

    /// Gives a row to another rule.
    pub(crate) fn set_rule(&mut self, row: u32, rule: u32) {
        self.rules[row as usize] = rule;
    }

    /// Removes a row. The rule whose row now has this number, if another took its place.
    pub(crate) fn remove(&mut self, row: u32) -> Option<u32> {
        let len = self.shape.len();
        let last = self.rules.len() as u32 - 1;
        self.entry_of(row).remove();
        self.rules.swap_remove(row as usize);
        if row == last {
            self.keys.truncate(last as usize * len);
            return None;
        }
        *self.entry_of(last).get_mut() = row;
        self.keys.copy_within(last as usize * len.., row as usize * len);
        self.keys.truncate(last as usize * len);
        Some(self.rules[row as usize])
    }

    fn key(&self, row: u32) -> &[u64] {
        key_of(&self.keys, self.shape.len(), row)
    }

    fn entry_of(&mut self, row: u32) -> hashbrown::hash_table::OccupiedEntry<'_, u32> {
        let hash = hash(key_of(&self.keys, self.shape.len(), row));
        let entry = self.index.find_entry(hash, |&other| other == row);
        entry.unwrap_or_else(|_| unreachable!("every row is indexed"))
    }
}

fn key_of(keys: &[u64], len: usize, row: u32) -> &[u64] {
    &keys[row as usize * len..][..len]
}

/// Multiply and fold: the rules are the user's own, nobody attacks their table.
fn hash(key: &[u64]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    key.iter().fold(ODD, |state, &word| {
        let product = u128::from(state ^ word) * u128::from(ODD);
        (product as u64) ^ (product >> 64) as u64
    })
}
