// SPDX-License-Identifier: BSD-3-Clause
//! Arms timers, and applies a changed policy to existing connections.

use super::Tracker;
use crate::api::{EventKind, FlowEvent, Tracking};
use crate::base::Nanos;
use crate::policy::{AT_ONCE, ZonePolicies};
use std::sync::Arc;

impl<const W: usize> Tracker<W> {
    /// Adapts timeouts to the fill level of the table. If they became shorter, arms some timers
    /// again.
    pub(crate) fn adapt(&mut self, now: Nanos) {
        self.timeouts.adapt(self.table.live);
        if self.timeouts.next >= self.table.fresh {
            return;
        }
        let until = self.table.fresh.min(self.timeouts.next + AT_ONCE);
        for record in self.timeouts.next..until {
            if !self.table.hot[record as usize].is_free() {
                self.rearm(record, now);
            }
        }
        self.timeouts.next = until;
    }

    /// Arms the timer of a connection again if it would expire after the current timeout. False if
    /// it expires in time already.
    fn rearm(&mut self, record: u32, now: Nanos) -> bool {
        let (hot, cold) = self.table.parts(record);
        let deadline = self.deadline(hot, cold).max(now);
        self.rearm_earlier(record, deadline)
    }

    /// Replaces the policy of zones.
    pub(crate) fn set_zones(&mut self, zones: Arc<ZonePolicies>) {
        self.timeouts.zones = zones;
    }

    /// Applies the policy of its zone to the connection in a record. Returns true if its timer was
    /// armed again, and an event if its state for users changed.
    pub(crate) fn review_one(&mut self, record: u32, now: Nanos) -> (bool, Option<FlowEvent>) {
        let hot = &self.table.hot[record as usize];
        if hot.is_free() {
            return (false, None);
        }
        let (zone, before) = (hot.key.zone(), hot.state());
        let (tracking, has_window_check) = (self.tracking(zone), self.checks_window(zone));
        let hot = &mut self.table.hot[record as usize];
        if tracking != Tracking::Off {
            hot.set_tracks_states(tracking == Tracking::Connections);
        }
        hot.set_window_check(has_window_check);
        let is_seen = hot.state().proto_state() != before.proto_state();
        if let Some(rules) = self.rules.as_mut().filter(|_| hot.state() != before) {
            if hot.was_evaluated() && rules.has_bypass(record) {
                rules.withdraw_bypass(record, now);
                hot.pause_window_check();
            }
            rules.sync_mark(record, hot);
        }
        (self.rearm(record, now), is_seen.then(|| self.event(record, EventKind::Update)))
    }
}
