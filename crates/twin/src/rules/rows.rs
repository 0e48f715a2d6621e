// SPDX-License-Identifier: BSD-3-Clause
//! Manages the rows of a table: the rule in effect, and the rules that wait behind it.

use super::{At, Entry, Rules};
use crate::action::Destination;
use crate::pattern::Key;
use crate::table::Table;
use crate::tuple::{AffectedPackets, Tuple};
use std::collections::VecDeque;

impl Rules {
    /// Returns the rule that is in effect now in the row of `place`: the rule of `place`, or one
    /// that waits behind it. Rules that are not in effect yet, or no longer, are skipped.
    pub(super) fn in_effect(&self, place: u32, now_us: u64) -> Option<&Entry> {
        let entry = |place: u32| {
            let entry = &self.entries[place as usize];
            (entry.from_us <= now_us && now_us < entry.until_us).then_some(entry)
        };
        let waiting = || self.waiting.get(&place)?.iter().find_map(|&other| entry(other));
        entry(place).or_else(waiting)
    }

    /// Returns the rule in effect with this key. Destroyed rules that are still in effect are
    /// removed now.
    pub(super) fn other_with(&mut self, table: usize, key: &Key) -> Option<u32> {
        loop {
            let other = self.tables[table].find(key)?;
            let until_us = self.entries[other as usize].until_us;
            if until_us == u64::MAX {
                return Some(other);
            }
            self.leaving.remove(&(until_us, other));
            self.remove(other);
        }
    }

    /// Puts a rule into its row. `other` is the rule in effect there, if any; its flag is true if
    /// the new rule replaces it.
    pub(super) fn put(&mut self, place: u32, table: usize, key: &Key, other: Option<(u32, bool)>) {
        let tuple = Tuple::of_rule(&self.tables[table].shape, key);
        self.touch(tuple);
        match other {
            None => {
                let row = self.tables[table].insert(key, place).expect("no rule has this key");
                self.entries[place as usize].at = At::Row(table as u32, row);
            }
            Some((other, true)) => {
                let mut waiting = self.waiting.remove(&other).unwrap_or_default();
                waiting.push_front(other);
                self.take_row(place, other);
                self.wait(place, waiting);
            }
            Some((other, false)) => {
                self.waiting.entry(other).or_default().push_back(place);
                self.entries[place as usize].at = At::Behind(other);
            }
        }
    }

    fn take_row(&mut self, place: u32, other: u32) {
        let at = self.entries[other as usize].at;
        let At::Row(table, row) = at else { unreachable!("a rule in effect has a row") };
        self.tables[table as usize].set_rule(row, place);
        self.entries[place as usize].at = at;
    }

    fn wait(&mut self, first: u32, waiting: VecDeque<u32>) {
        for &place in &waiting {
            self.entries[place as usize].at = At::Behind(first);
        }
        if !waiting.is_empty() {
            self.waiting.insert(first, waiting);
        }
    }

    /// Returns which packets may have other verdicts, because rules were created or destroyed since
    /// the last call. [`Rules::next_change_us`] returns when such rules take effect by the clock.
    pub(crate) fn take_touched(&mut self) -> AffectedPackets {
        std::mem::take(&mut self.touched)
    }

    /// True if all packets that are alike, by [`crate::index`], hit the same rules.
    pub(crate) fn sees_only_tuples(&self) -> bool {
        self.tables.iter().all(Table::sees_only_tuples)
    }

    fn touch(&mut self, tuple: Option<Tuple>) {
        let touched = tuple.map_or(AffectedPackets::Everything, AffectedPackets::Packets);
        self.touched = self.touched.and(touched);
    }

    /// Returns the tuple of the packets that a rule may match.
    fn tuple_of(&self, place: u32) -> Option<Tuple> {
        let at = |place: u32| self.entries[place as usize].at;
        let row = match at(place) {
            At::Behind(first) => at(first),
            row => row,
        };
        let At::Row(table, row) = row else { return None };
        let table = &self.tables[table as usize];
        Tuple::of_rule(&table.shape, table.key(row))
    }

    /// Removes a rule from its table, and frees its place.
    pub(super) fn remove(&mut self, place: u32) {
        self.touch(self.tuple_of(place));
        match self.entries[place as usize].at {
            At::Nowhere => unreachable!("a rule that is removed is there"),
            At::Behind(first) => {
                let waiting = self.waiting.get_mut(&first).expect("it waits there");
                waiting.retain(|&other| other != place);
                if waiting.is_empty() {
                    self.waiting.remove(&first);
                }
            }
            At::Row(table, row) => match self.waiting.remove(&place) {
                Some(mut waiting) => {
                    let next = waiting.pop_front().expect("somebody waits");
                    self.take_row(next, place);
                    self.wait(next, waiting);
                }
                None => {
                    if let Some(moved) = self.tables[table as usize].remove(row) {
                        self.entries[moved as usize].at = At::Row(table, row);
                    }
                }
            },
        }
        let entry = &mut self.entries[place as usize];
        entry.at = At::Nowhere;
        self.counters.give_back(entry.counter);
        if let Destination::Spread(spread) = entry.effect.destination {
            self.spreads.give_back(spread);
        }
        self.free.push(place);
    }
}
