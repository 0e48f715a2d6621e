// SPDX-License-Identifier: BSD-3-Clause
//! Replaces access lists, and reads the counters of their rules.

use super::place::Place;
use crate::api::{AccessLimits, AccessUpdate, Cursor, ListMarkStats, RuleHits};
use crate::engine::Engine;
use crate::offload::FlowRules;
use crate::tracker::Trackers;

impl Engine {
    /// Replaces the access lists between two bursts: each packet is judged by one version of all
    /// lists. Returns what the caller is to free. Does nothing if the engine began without lists.
    ///
    /// A [walk](Self::open_access) must follow. Until it reaches a connection, what the old lists
    /// have decided about it holds.
    pub fn set_access(&mut self, update: AccessUpdate) -> AccessUpdate {
        let AccessUpdate { lists, hits: [v4, v6], frame_hits, from_old, compared } = update;
        self.trackers.each_rules_mut().for_each(FlowRules::end_recall);
        let columns = (&mut self.trackers.v4.table.access, &mut self.trackers.v6.table.access);
        let (Some(of_v4), Some(of_v6)) = columns else {
            return AccessUpdate { lists, hits: [v4, v6], frame_hits, from_old, compared };
        };
        let frame_hits = self.accounts.frames.replace(frame_hits, &from_old[0]);
        let [map_v4, map_v6] = from_old;
        let ((v4, map_v4), (v6, map_v6)) = (of_v4.replace(v4, map_v4), of_v6.replace(v6, map_v6));
        let lists = self.pipeline.set_access(lists);
        let compared = match &mut self.accounts.list_marks {
            Some(marks) => marks.replace(compared),
            None => compared,
        };
        let from_old = [map_v4, map_v6];
        AccessUpdate { lists, hits: [v4, v6], frame_hits, from_old, compared }
    }

    /// Returns what marks of access lists' rules were good for; none without such marks.
    pub fn list_mark_stats(&self) -> Option<ListMarkStats> {
        self.accounts.list_marks.as_ref().map(|marks| marks.stats)
    }

    /// Returns the limits of the access lists in force; the defaults without any.
    pub fn access_limits(&self) -> AccessLimits {
        self.pipeline.access_limits()
    }

    /// Continues a walk after which the lists in force now decide about each connection: its next
    /// packet is compared with them. Visits up to `budget` places, and adds the number of
    /// connections to `opened`. False once the walk is complete.
    pub fn open_access(&mut self, cursor: &mut Cursor, budget: u32, opened: &mut u64) -> bool {
        let now = self.now;
        self.each_record(cursor, budget, &mut |trackers, is_v6, record| {
            *opened += 1;
            match is_v6 {
                false => trackers.v4.open_access(record, now),
                true => trackers.v6.open_access(record, now),
            }
        })
    }

    /// Continues a walk that adds the packets of all connections to the counters of the rules that
    /// permitted them. Visits up to `budget` places. False once the walk is complete.
    pub fn settle_rules(&mut self, cursor: &mut Cursor, budget: u32) -> bool {
        self.each_record(cursor, budget, &mut |trackers, is_v6, record| match is_v6 {
            false => trackers.v4.settle_live(record),
            true => trackers.v6.settle_live(record),
        })
    }

    /// Visits up to `budget` places. False once all were visited.
    fn each_record(
        &mut self,
        cursor: &mut Cursor,
        budget: u32,
        visit: &mut impl FnMut(&mut Trackers, bool, u32),
    ) -> bool {
        for _ in 0..budget {
            let record = match self.place(cursor) {
                Place::Record(record) => record,
                Place::NextTable => continue,
                Place::End => return false,
            };
            cursor.next += 1;
            visit(&mut self.trackers, cursor.is_v6, record);
        }
        true
    }

    /// Adds the counters of all rules to `counters`, which has [`AccessLists::counters`] places.
    /// Packets of connections are in them up to the last [walk](Self::settle_rules).
    ///
    /// [`AccessLists::counters`]: crate::AccessLists::counters
    pub fn add_rule_hits(&self, counters: &mut [RuleHits]) {
        let of_frames = self.accounts.frames.hits();
        for hits in [self.trackers.v4.rule_hits(), self.trackers.v6.rule_hits(), of_frames] {
            for (counter, hits) in counters.iter_mut().zip(hits) {
                counter.merge(*hits);
            }
        }
    }
}
