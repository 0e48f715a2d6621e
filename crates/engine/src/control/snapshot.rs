// SPDX-License-Identifier: BSD-3-Clause
//! Saves connections to snapshots, and restores them into another engine.
//!
//! Embryonic connections are left out. They are cheap to begin anew, and most of a flood consists
//! of them. NIC rules are left out too: they are gone with the program that made them.

use crate::api::{ConnSnapshot, Cursor, RestoreOutcome};
use crate::base::Nanos;
use crate::engine::Engine;
use crate::packet::Key;

impl Engine {
    /// Continues to save, which begins with `Cursor::default()`. Visits up to `budget` places and
    /// passes the connections in them to `saved`. False once all are saved.
    ///
    /// As with [`list`](Self::list), connections that begin or end meanwhile may or may not be
    /// included. Of two connections that had one key one after the other, both may be.
    pub fn save(
        &self,
        cursor: &mut Cursor,
        budget: u32,
        saved: &mut impl FnMut(ConnSnapshot),
    ) -> bool {
        let mut left = budget;
        loop {
            let places = if cursor.is_v6 {
                self.trackers.v6.table.used()
            } else {
                self.trackers.v4.table.used()
            };
            let end = places.min(cursor.next.saturating_add(left));
            let range = cursor.next..end;
            left -= range.len() as u32;
            cursor.next = end;
            match cursor.is_v6 {
                false => range.clone().for_each(|record| self.trackers.v4.table.prefetch(record)),
                true => range.clone().for_each(|record| self.trackers.v6.table.prefetch(record)),
            }
            range
                .filter_map(|record| match cursor.is_v6 {
                    false => self.trackers.v4.saved(record),
                    true => self.trackers.v6.saved(record),
                })
                .for_each(&mut *saved);
            if end < places || cursor.is_v6 {
                return end < places;
            }
            (cursor.is_v6, cursor.next) = (true, 0);
        }
    }

    /// Restores a connection that another engine has saved. It counts against limits as if it had
    /// begun here, but no limit keeps it out: the connection exists in any case.
    pub fn restore(&mut self, flow: &ConnSnapshot, now: Nanos) -> RestoreOutcome {
        self.advance(now);
        let zone = self.pipeline.zone_rules().of_saved(flow);
        let (flow, now) = (ConnSnapshot { zone, ..flow.at_most(self.now) }, self.now);
        let replaced = match (Key::of_saved_v4(&flow), Key::of_saved_v6(&flow)) {
            (Some(key), _) => self.trackers.v4.restore(key, &flow, now),
            (_, Some(key)) => self.trackers.v6.restore(key, &flow, now),
            (None, None) => Err(RestoreOutcome::Refused),
        };
        let replaced = match replaced {
            Ok(replaced) => replaced,
            Err(restored) => return restored,
        };
        let accounts = &mut self.accounts;
        match replaced {
            Some(source) => accounts.limits.count_end(flow.zone, || source),
            None => accounts.stats.restored += 1,
        }
        accounts.limits.count_restored(flow.zone, flow.src);
        RestoreOutcome::Known
    }
}
