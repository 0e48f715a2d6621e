// SPDX-License-Identifier: BSD-3-Clause
//! Saves connections to snapshots, and restores them into the table.

use super::Tracker;
use crate::api::{ConnSnapshot, CtMark, RestoreOutcome, Tracking};
use crate::base::Nanos;
use crate::conn::{ConnCold, ConnHot};
use crate::packet::Key;
use std::net::IpAddr;

impl<const W: usize> Tracker<W> {
    /// Returns the snapshot of the connection in a record; `None` if there is none, if it is
    /// embryonic, or if connections in its state are not saved.
    pub(crate) fn saved(&self, record: u32) -> Option<ConnSnapshot> {
        let (hot, cold) = self.table.parts(record);
        if hot.is_free() || hot.is_embryonic() {
            return None;
        }
        Some(ConnSnapshot { ct_mark: self.table.ct_mark(record), ..hot.saved(cold)? })
    }

    /// Restores a saved connection. If it replaces one with the same key, returns the address of
    /// that one's originator.
    ///
    /// # Errors
    /// [`RestoreOutcome`] if the connection is not restored.
    pub(crate) fn restore(
        &mut self,
        (key, swapped): (Key<W>, bool),
        flow: &ConnSnapshot,
        now: Nanos,
    ) -> Result<Option<IpAddr>, RestoreOutcome> {
        let has_window_check = self.checks_window(flow.zone);
        let parts = ConnHot::restored((key, swapped), flow, has_window_check);
        let (mut hot, cold) = parts.ok_or(RestoreOutcome::Refused)?;
        match self.tracking(flow.zone) {
            Tracking::Off => return Err(RestoreOutcome::Refused),
            Tracking::Connections if hot.state().is_flow() => {
                hot.set_tracks_states(true);
                hot.set_window_check(has_window_check);
            }
            Tracking::Connections => {}
            Tracking::Flows => hot.set_tracks_states(false),
        }
        if self.deadline(&hot, &cold) <= now {
            return Err(RestoreOutcome::Expired);
        }
        self.put((hot, cold), flow.ct_mark, now)
    }
}

impl<const W: usize> Tracker<W> {
    /// Returns when a connection ends if no packet comes.
    pub(crate) fn deadline(&self, hot: &ConnHot<W>, cold: &ConnCold) -> Nanos {
        hot.last_seen(cold).saturating_add(self.timeouts.of(hot))
    }

    /// Puts a connection into the table. If it replaces one with the same key, whose last packet is
    /// older, returns the address of that one's originator.
    ///
    /// # Errors
    /// [`RestoreOutcome::Refused`] if the table has no room or a newer connection with this key.
    pub(crate) fn put(
        &mut self,
        (hot, cold): (ConnHot<W>, ConnCold),
        ct_mark: CtMark,
        now: Nanos,
    ) -> Result<Option<IpAddr>, RestoreOutcome> {
        let hash = self.table.hasher.hash_one(&hot.key.0);
        let known = self.table.find(hash, &hot.key);
        if let Some(record) = known {
            let (there, cold_there) = self.table.parts(record);
            // An embryonic connection has begun in this run, so it is newer. A restored one is
            // never embryonic.
            if there.is_embryonic() || there.last_seen(cold_there) >= hot.last_seen(&cold) {
                return Err(RestoreOutcome::Refused);
            }
            self.table.wheel.disarm(&mut self.table.cold, record);
            self.end_access(record);
        }
        let record = match known {
            Some(record) => record,
            None => self.table.alloc_record(hash).ok_or(RestoreOutcome::Refused)?,
        };
        let replaced = known.map(|record| {
            let there = &self.table.hot[record as usize];
            there.key.end(there.originator())
        });
        self.table.hot[record as usize] = hot;
        self.table.cold.0[record as usize] = cold;
        // It is not known at which side it began: its next packet shows that.
        self.open_access(record, now);
        self.table.markings.begin(record);
        if ct_mark != CtMark::default() {
            self.table.set_ct_mark(record, ct_mark);
        }
        let deadline = self.deadline(&hot, &cold);
        self.table.wheel.catch_up(now);
        self.table.wheel.arm(&mut self.table.cold, record, deadline);
        self.table.live += u32::from(known.is_none());
        Ok(replaced)
    }
}
