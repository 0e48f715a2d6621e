// SPDX-License-Identifier: BSD-3-Clause
//! Lists, counts and ends connections, a few records at a time.
//!
//! A walk goes through the records in their order, up to `budget` in each call. It takes no
//! snapshot: it may or may not include a connection that begins or ends meanwhile. It includes
//! every other one once.

use super::place::Place;
use crate::api::{ConnView, Cursor, EndReason, Filter, Query, Side, SweepProgress, ZoneStatus};
use crate::engine::Engine;
use crate::offload::{RuleBudget, SideStatus};
use crate::tracker::SweepOutcome;

impl Engine {
    /// Continues a walk, which begins with `Cursor::default()`. Visits up to `budget` places, and
    /// passes the connections in them that match the query to `found`. False once the walk is
    /// complete.
    pub fn list(
        &self,
        query: &Query,
        cursor: &mut Cursor,
        budget: u32,
        found: &mut impl FnMut(ConnView),
    ) -> bool {
        let side_status = query.with_rules.then(|| Side::BOTH.map(|side| self.side_status(side)));
        let at = (side_status.as_ref(), self.now);
        self.walk(query, cursor, budget, &mut |is_v6, record| {
            found(match is_v6 {
                false => self.trackers.v4.live_flow(record, at),
                true => self.trackers.v6.live_flow(record, at),
            });
        })
    }

    /// Continues a walk that only counts. Visits up to `budget` places, and adds the number of
    /// matching connections in them to `count`. False once the walk is complete.
    pub fn count(&self, query: &Query, cursor: &mut Cursor, budget: u32, count: &mut u64) -> bool {
        self.walk(query, cursor, budget, &mut |_, _| *count += 1)
    }

    /// Returns the connection counts of a zone.
    pub fn zone_status(&self, zone: u16) -> ZoneStatus {
        ZoneStatus {
            connections: self.accounts.limits.of_zone(zone),
            embryonic: self.trackers.v4.table.embryonic_in(zone)
                + self.trackers.v6.table.embryonic_in(zone),
            begun: self.accounts.limits.new_rate(zone, self.now),
        }
    }

    /// Continues a walk that ends the matching connections, with [`EndReason::Flushed`]. Visits up
    /// to `budget` places, and stops early if flow records wait to be taken. It does not end
    /// connections that began after the walk.
    pub fn sweep(&mut self, filter: &Filter, cursor: &mut Cursor, budget: u32) -> SweepProgress {
        let since = cursor.since(self.now);
        match cursor.is_v6 {
            false => self.trackers.v4.prefetch_some(cursor.next, budget),
            true => self.trackers.v6.prefetch_some(cursor.next, budget),
        }
        let mut swept = SweepProgress { more: true, ..SweepProgress::default() };
        for _ in 0..budget {
            let record = match self.place(cursor) {
                Place::Record(record) => record,
                Place::NextTable => continue,
                Place::End => {
                    swept.more = false;
                    break;
                }
            };
            if !self.accounts.has_room() {
                break;
            }
            cursor.next += 1;
            let outcome = match cursor.is_v6 {
                false => self.trackers.v4.sweep_one(record, filter, (since, self.now)),
                true => self.trackers.v6.sweep_one(record, filter, (since, self.now)),
            };
            match outcome {
                SweepOutcome::Stays => {}
                SweepOutcome::Held => swept.held += 1,
                SweepOutcome::Ends(flow) => {
                    swept.ended += 1;
                    self.accounts.end(flow);
                }
            }
        }
        swept
    }

    /// Ends connections with [`EndReason::Exit`]; visits at most `budget` records. False once none
    /// is left. Until then, call again after taking the records.
    pub fn flush(&mut self, budget: usize) -> bool {
        for _ in 0..budget {
            if !self.accounts.has_room() {
                return true;
            }
            let (v4, v6) = &mut self.flushed;
            let flow = if *v4 < self.trackers.v4.table.used() {
                *v4 += 1;
                self.trackers.v4.flush_one(*v4 - 1, EndReason::Exit)
            } else if *v6 < self.trackers.v6.table.used() {
                *v6 += 1;
                self.trackers.v6.flush_one(*v6 - 1, EndReason::Exit)
            } else {
                // The next round ends connections that began behind the cursor meanwhile.
                self.flushed = (0, 0);
                return self.accounts.stats.active() > 0;
            };
            if let Some(flow) = flow {
                self.accounts.end(flow);
            }
        }
        true
    }

    fn walk(
        &self,
        query: &Query,
        cursor: &mut Cursor,
        budget: u32,
        found: &mut impl FnMut(bool, u32),
    ) -> bool {
        let mut left = budget;
        loop {
            let places = if cursor.is_v6 {
                self.trackers.v6.places(query)
            } else {
                self.trackers.v4.places(query)
            };
            let end = places.min(cursor.next.saturating_add(left));
            let range = cursor.next..end;
            left -= range.len() as u32;
            cursor.next = end;
            match cursor.is_v6 {
                false => {
                    self.trackers.v4.find_all(query, range, &mut |record| found(false, record))
                }
                true => self.trackers.v6.find_all(query, range, &mut |record| found(true, record)),
            }
            if end < places || cursor.is_v6 {
                return end < places;
            }
            *cursor = Cursor { is_v6: true, next: 0, ..*cursor };
        }
    }

    pub(crate) fn side_status(&self, side: Side) -> SideStatus {
        let of = |budget: &RuleBudget| SideStatus {
            is_full: budget.is_full(side, self.live(side)),
            is_backing_off: budget.is_backing_off(side, self.now),
        };
        self.budget.as_ref().map(of).unwrap_or_default()
    }
}
