// SPDX-License-Identifier: BSD-3-Clause
//! Connections out of and back into the table, as snapshots hold them.

use crate::api::{CtMark, Restored, SavedFlow};
use crate::base::Nanos;
use crate::conn::{Cold, Hot};
use crate::packet::Key;
use crate::table::FlowTable;
use std::net::IpAddr;

impl<const W: usize> FlowTable<W> {
    /// The flow in a record, if there is one and it is worth saving.
    pub(crate) fn saved(&self, record: u32) -> Option<SavedFlow> {
        let (hot, cold) = self.parts(record);
        if hot.is_free() || hot.is_embryonic() {
            return None;
        }
        Some(SavedFlow { ct_mark: self.ct_mark(record), ..hot.saved(cold)? })
    }

    /// Who began the flow whose place it took, if there was one with this key.
    pub(crate) fn restore(
        &mut self,
        (key, swapped): (Key<W>, bool),
        flow: &SavedFlow,
        now: Nanos,
    ) -> Result<Option<IpAddr>, Restored> {
        let is_judged = self.judges(flow.zone);
        let parts = Hot::restored((key, swapped), flow, is_judged);
        let (hot, cold) = parts.ok_or(Restored::Refused)?;
        if self.deadline(&hot, &cold) <= now {
            return Err(Restored::Expired);
        }
        self.put((hot, cold), flow.ct_mark, now)
    }
}

impl<const W: usize> FlowTable<W> {
    /// When a flow ends if no packet comes.
    pub(crate) fn deadline(&self, hot: &Hot<W>, cold: &Cold) -> Nanos {
        hot.last_seen(cold).saturating_add(self.lifetimes.of(hot))
    }

    /// Takes a flow into the table, in the place of one with its key if that was not seen later:
    /// then it returns who began that one.
    pub(crate) fn put(
        &mut self,
        (hot, cold): (Hot<W>, Cold),
        ct_mark: CtMark,
        now: Nanos,
    ) -> Result<Option<IpAddr>, Restored> {
        let hash = self.hasher.hash_one(&hot.key.0);
        let known = self.find(hash, &hot.key);
        if let Some(record) = known {
            let (there, cold_there) = self.parts(record);
            // Only what was put here a moment ago is never embryonic.
            if there.is_embryonic() || there.last_seen(cold_there) >= hot.last_seen(&cold) {
                return Err(Restored::Refused);
            }
            self.wheel.disarm(&mut self.cold, record);
        }
        let record = match known {
            Some(record) => record,
            None => self.take_indexed(hash).ok_or(Restored::Refused)?,
        };
        let replaced = known.map(|record| {
            let there = &self.hot[record as usize];
            there.key.end(there.originator())
        });
        self.hot[record as usize] = hot;
        self.cold.0[record as usize] = cold;
        self.markings.begin(record);
        if ct_mark != CtMark::default() {
            self.set_ct_mark(record, ct_mark);
        }
        let deadline = self.deadline(&hot, &cold);
        self.wheel.catch_up(now);
        self.wheel.arm(&mut self.cold, record, deadline);
        self.live += u32::from(known.is_none());
        Ok(replaced)
    }
}
