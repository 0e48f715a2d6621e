// SPDX-License-Identifier: BSD-3-Clause
//! Reads the counters of access lists.

use super::place::Place;
use crate::api::{Cursor, RuleHits};
use crate::engine::Engine;

impl Engine {
    /// Continues a walk that adds the packets of all connections to the counters of the rules that
    /// permitted them. Visits up to `budget` places. False once the walk is complete.
    pub fn settle_rules(&mut self, cursor: &mut Cursor, budget: u32) -> bool {
        for _ in 0..budget {
            let record = match self.place(cursor) {
                Place::Record(record) => record,
                Place::NextTable => continue,
                Place::End => return false,
            };
            cursor.next += 1;
            match cursor.is_v6 {
                false => self.trackers.v4.settle_live(record),
                true => self.trackers.v6.settle_live(record),
            }
        }
        true
    }

    /// Adds the counters of all rules to `counters`, which has [`AccessLists::counters`] places.
    /// Packets of connections are in them up to the last [walk](Self::settle_rules).
    ///
    /// [`AccessLists::counters`]: crate::AccessLists::counters
    pub fn add_rule_hits(&self, counters: &mut [RuleHits]) {
        for hits in [self.trackers.v4.rule_hits(), self.trackers.v6.rule_hits()] {
            for (counter, hits) in counters.iter_mut().zip(hits) {
                counter.merge(*hits);
            }
        }
    }
}
