// SPDX-License-Identifier: BSD-3-Clause
//! Changes the policy of zones, and applies it to the connections that there are.

use crate::api::Cursor;
use crate::engine::Engine;
use crate::policy::ZonePolicies;
use std::sync::Arc;

impl Engine {
    /// What holds from now on; returns what held before. A [`review`](Self::review) is to follow:
    /// until it has come to a connection, that may live longer than it should, and TCP is judged by
    /// numbers, or not, as it was.
    pub fn set_zones(&mut self, zones: Arc<ZonePolicies>) -> Arc<ZonePolicies> {
        self.trackers.v4.set_zones(zones.clone());
        self.trackers.v6.set_zones(zones.clone());
        self.pipeline.set_zones(zones)
    }

    /// Goes on with a walk that holds connections against what holds in their zones now: looks at
    /// up to `budget` places, and adds to `retimed` how many of them end sooner than their timers
    /// knew. Stops short where those who listen are behind. False: that was the last of it.
    pub fn review(&mut self, cursor: &mut Cursor, budget: u32, retimed: &mut u64) -> bool {
        for _ in 0..budget {
            let used = if cursor.is_v6 {
                self.trackers.v6.table.used()
            } else {
                self.trackers.v4.table.used()
            };
            if cursor.next >= used {
                if cursor.is_v6 {
                    return false;
                }
                (cursor.is_v6, cursor.next) = (true, 0);
                continue;
            }
            if self.accounts.events.is_full() {
                break;
            }
            let record = cursor.next;
            cursor.next += 1;
            let (is_retimed, event) = match cursor.is_v6 {
                false => self.trackers.v4.review_one(record, self.now),
                true => self.trackers.v6.review_one(record, self.now),
            };
            *retimed += u64::from(is_retimed);
            if let Some(event) = event.filter(|_| self.accounts.events.has_subscribers()) {
                self.accounts.events.push(event);
            }
        }
        true
    }
}
