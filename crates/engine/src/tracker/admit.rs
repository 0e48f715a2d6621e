// SPDX-License-Identifier: BSD-3-Clause
//! Makes a record for a new connection.

use crate::base::{Micros, TimerLink};
use crate::conn::{Cold, When};
use crate::packet::{Arrival, Key};
use crate::table::FlowTable;

impl<const W: usize> FlowTable<W> {
    /// Makes a record for a new flow and counts its first packet. False: the table is full.
    #[must_use]
    pub(crate) fn admit(&mut self, hash: u64, key: Key<W>, packet: &Arrival) -> bool {
        let Arrival { meta, opening, now, .. } = *packet;
        if !self.may_begin() {
            return false;
        }
        let Some(record) = self.take_indexed(hash) else { return false };
        let hot = &mut self.hot[record as usize];
        hot.begin(key, packet);
        let is_rare = hot.count(meta, Micros::of(now), self.looks.of(record));
        let cold = &mut self.cold.0[record as usize];
        *cold = Cold::begin(opening, now, TimerLink::UNLINKED);
        let deadline = now.saturating_add(self.lifetimes.of(hot));
        self.wheel.catch_up(now);
        self.wheel.arm(&mut self.cold, record, deadline);
        self.join_embryonic(record);
        self.mark_new(record);
        self.live += 1;
        if is_rare {
            self.counted(record, meta.swapped(), false);
        }
        true
    }
}
