// SPDX-License-Identifier: BSD-3-Clause
//! Makes a record for a new connection.

use super::Tracker;
use crate::base::{Micros, TimerLink};
use crate::conn::{Cold, When};
use crate::packet::{Arrival, Key};

impl<const W: usize> Tracker<W> {
    /// Makes a record for a new flow and counts its first packet. False: the table is full.
    #[must_use]
    pub(crate) fn admit(&mut self, hash: u64, key: Key<W>, packet: &Arrival) -> bool {
        let Arrival { meta, opening, now, .. } = *packet;
        if !self.table.may_begin() {
            return false;
        }
        let Some(record) = self.table.take_indexed(hash) else { return false };
        let hot = &mut self.table.hot[record as usize];
        hot.begin(key, packet);
        let is_rare = hot.count(meta, Micros::of(now), self.looks.of(record));
        let cold = &mut self.table.cold.0[record as usize];
        *cold = Cold::begin(opening, now, TimerLink::UNLINKED);
        let deadline = now.saturating_add(self.lifetimes.of(hot));
        self.table.wheel.catch_up(now);
        self.table.wheel.arm(&mut self.table.cold, record, deadline);
        self.table.join_embryonic(record);
        self.mark_new(record);
        self.table.live += 1;
        if is_rare {
            self.counted(record, meta.swapped(), false);
        }
        true
    }
}
