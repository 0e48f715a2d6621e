// SPDX-License-Identifier: BSD-3-Clause
//! Flow records and events made of a connection in the table.

use crate::api::{Change, EndReason, FlowEvent};
use crate::burst::Outcome;
use crate::conn::Phase;
use crate::packet::Key;
use crate::table::FlowTable;

impl<const W: usize> FlowTable<W> {
    /// Tells those who listen that a flow has begun.
    #[inline(always)]
    pub(crate) fn tell_new(&self, hash: u64, key: &Key<W>, outcome: &mut impl Outcome) {
        if !outcome.listens() {
            return;
        }
        if let Some(record) = self.find(hash, key) {
            outcome.changed(self.event(record, Change::New));
        }
    }

    /// Those who listen learn what has become of the flow in `record`, if that is new to them.
    #[inline(never)]
    pub(crate) fn tell_change(
        &self,
        record: u32,
        (before, is_new): (Option<Phase>, bool),
        outcome: &mut impl Outcome,
    ) {
        let progress = self.parts(record).0.phase().progress();
        if is_new {
            outcome.changed(self.event(record, Change::New));
        } else if before.is_some_and(|before| before.progress() != progress) {
            outcome.changed(self.event(record, Change::Update));
        }
    }

    /// What became of the flow in a record.
    pub(crate) fn event(&self, record: u32, change: Change) -> FlowEvent {
        let (hot, _) = self.parts(record);
        FlowEvent {
            change,
            record: self.record(record, EndReason::Exit),
            progress: hot.phase().progress(),
            is_assured: !hot.is_embryonic(),
        }
    }
}
