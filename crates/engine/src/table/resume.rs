// SPDX-License-Identifier: BSD-3-Clause
//! Flows of another table, which go on in this one.

use super::FlowTable;
use crate::api::{CtMark, Restored};
use crate::base::Nanos;
use crate::conn::{Cold, Hot};
use std::net::IpAddr;

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
