// SPDX-License-Identifier: BSD-3-Clause
//! Connections out of and back into the table, as snapshots hold them.

use crate::api::{Restored, SavedFlow};
use crate::base::Nanos;
use crate::conn::Hot;
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
