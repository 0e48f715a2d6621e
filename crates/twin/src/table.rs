// SPDX-License-Identifier: BSD-3-Clause
//! A hash table of the rules of one shape, stage, group and priority, by their masked bytes.

use crate::headers::Headers;
use crate::pattern::{Attributes, Key, Shape, WORDS_MAX};
use crate::tuple::sees_only_tuples;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// Maximum number of rows that are compared one after the other. That is cheaper than a hash, and
/// tables of wildcard lists have no more rows.
const FEW: usize = 4;

/// Stages that packets pass, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// The switch between ports: rules with `transfer`.
    Switch,
    /// The engine ahead of the port's usual one.
    Ahead,
    /// The port.
    Port,
}

/// One hash table of rules.
pub(crate) struct Table {
    pub(crate) shape: Shape,
    pub(crate) stage: Stage,
    pub(crate) group: u32,
    pub(crate) priority: u32,
    /// See [`sees_only_tuples`].
    sees_only_tuples: bool,
    /// Row numbers by the hash of their key.
    index: HashTable<u32>,
    /// Rows, one behind the other: the words of the key, as many as the shape has, and the rule.
    rows: Vec<u64>,
}

impl Table {
    pub(crate) fn new(shape: Shape, stage: Stage, attributes: Attributes) -> Self {
        let Attributes { group, priority, .. } = attributes;
        let (index, rows) = (HashTable::new(), Vec::new());
        let sees_only_tuples = sees_only_tuples(&shape);
        Self { shape, stage, group, priority, sees_only_tuples, index, rows }
    }

    /// True if no rule of the table distinguishes packets of one tuple that have the same headers.
    pub(crate) fn sees_only_tuples(&self) -> bool {
        self.sees_only_tuples || self.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the rule with this key.
    pub(crate) fn find(&self, key: &Key) -> Option<u32> {
        let key = &key[..self.shape.len()];
        let row = self.index.find(hash(key), |&row| self.key(row) == key)?;
        Some(self.rule(*row))
    }

    /// Returns the rule that a frame hits.
    pub(crate) fn matches(&self, frame: &[u8], headers: &Headers) -> Option<u32> {
        if !self.shape.fits(headers) {
            return None;
        }
        let words = || self.shape.key(frame, headers);
        if self.len() <= FEW {
            let mut rows = 0..self.len() as u32;
            let row = rows.find(|&row| self.key(row).iter().copied().eq(words()));
            return row.map(|row| self.rule(row));
        }
        let mut key = [0; WORDS_MAX];
        key.iter_mut().zip(words()).for_each(|(place, word)| *place = word);
        self.find(&key)
    }

    /// Returns a text of the pattern of a row.
    pub(crate) fn describe(&self, row: u32) -> String {
        self.shape.describe(self.key(row))
    }

    /// Adds a rule and returns its row; `None` if there is one with this key.
    pub(crate) fn insert(&mut self, key: &Key, rule: u32) -> Option<u32> {
        let len = self.shape.len();
        let key = &key[..len];
        let row = u32::try_from(self.len()).expect("fewer rules than 2^32");
        let rows = &self.rows;
        let of = |row: &u32| key_of(rows, len, *row);
        match self.index.entry(hash(key), |row| of(row) == key, |row| hash(of(row))) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(place) => place.insert(row),
        };
        self.rows.extend_from_slice(key);
        self.rows.push(rule.into());
        Some(row)
    }

    /// Gives a row to another rule.
    pub(crate) fn set_rule(&mut self, row: u32, rule: u32) {
        let stride = self.stride();
        self.rows[(row as usize + 1) * stride - 1] = rule.into();
    }

    /// Removes a row. Returns the rule whose row now has this number, if another took its place.
    pub(crate) fn remove(&mut self, row: u32) -> Option<u32> {
        let stride = self.stride();
        let last = self.len() as u32 - 1;
        self.entry_of(row).remove();
        if row != last {
            *self.entry_of(last).get_mut() = row;
            self.rows.copy_within(last as usize * stride.., row as usize * stride);
        }
        self.rows.truncate(last as usize * stride);
        (row != last).then(|| self.rule(row))
    }

    fn stride(&self) -> usize {
        self.shape.len() + 1
    }

    /// Returns the number of rows.
    fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns the words of a row's key.
    pub(crate) fn key(&self, row: u32) -> &[u64] {
        key_of(&self.rows, self.shape.len(), row)
    }

    fn rule(&self, row: u32) -> u32 {
        self.rows[(row as usize + 1) * self.stride() - 1] as u32
    }

    fn entry_of(&mut self, row: u32) -> hashbrown::hash_table::OccupiedEntry<'_, u32> {
        let hash = hash(key_of(&self.rows, self.shape.len(), row));
        let entry = self.index.find_entry(hash, |&other| other == row);
        entry.unwrap_or_else(|_| unreachable!("every row is indexed"))
    }
}

/// Returns the key of a row.
fn key_of(rows: &[u64], len: usize, row: u32) -> &[u64] {
    &rows[row as usize * (len + 1)..][..len]
}

/// Returns the hash of a key, by multiply and fold. It has no secret: the rules are the user's own,
/// so there is no attacker.
pub(crate) fn hash(key: &[u64]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    key.iter().fold(ODD, |state, &word| {
        let product = u128::from(state ^ word) * u128::from(ODD);
        (product as u64) ^ (product >> 64) as u64
    })
}
