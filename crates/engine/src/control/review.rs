// SPDX-License-Identifier: BSD-3-Clause
//! Changes the policy of zones, and applies it to existing connections.

use super::place::Place;
use crate::api::Cursor;
use crate::engine::Engine;
use crate::policy::ZonePolicies;
use std::sync::Arc;

impl Engine {
    /// Replaces the zone policies; returns the old ones.
    ///
    /// A [`review`](Self::review) must follow. Until it reaches a connection, that one may live
    /// longer than it should, and keeps its old setting of the TCP window check.
    pub fn set_zones(&mut self, zones: Arc<ZonePolicies>) -> Arc<ZonePolicies> {
        self.trackers.v4.set_zones(zones.clone());
        self.trackers.v6.set_zones(zones.clone());
        self.pipeline.set_zones(zones)
    }

    /// Continues a walk that applies the policy of their zones to connections. Visits up to
    /// `budget` places, and adds to `retimed` the number of connections whose timers now expire
    /// earlier. Stops early if the event queue is full. False once the walk is complete.
    pub fn review(&mut self, cursor: &mut Cursor, budget: u32, retimed: &mut u64) -> bool {
        for _ in 0..budget {
            let record = match self.place(cursor) {
                Place::Record(record) => record,
                Place::NextTable => continue,
                Place::End => return false,
            };
            if self.accounts.events.is_full() {
                break;
            }
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
