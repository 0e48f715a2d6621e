// SPDX-License-Identifier: BSD-3-Clause
//! Flow records and events made of a connection in the table.

use super::Tracker;
use crate::api::{Change, CtMark, EndReason, Filter, FlowEvent, FlowRecord, MarkRule};
use crate::conn::Phase;
use crate::packet::Key;
use crate::pipeline::Outcome;

impl<const W: usize> Tracker<W> {
    /// Tells those who listen that a flow has begun.
    #[inline(always)]
    pub(crate) fn tell_new(&self, hash: u64, key: &Key<W>, outcome: &mut impl Outcome) {
        if !outcome.listens() {
            return;
        }
        if let Some(record) = self.table.find(hash, key) {
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
        let progress = self.table.parts(record).0.phase().progress();
        if is_new {
            outcome.changed(self.event(record, Change::New));
        } else if before.is_some_and(|before| before.progress() != progress) {
            outcome.changed(self.event(record, Change::Update));
        }
    }

    /// What became of the flow in a record.
    pub(crate) fn event(&self, record: u32, change: Change) -> FlowEvent {
        let (hot, _) = self.table.parts(record);
        FlowEvent {
            change,
            record: self.record(record, EndReason::Exit),
            progress: hot.phase().progress(),
            is_assured: !hot.is_embryonic(),
        }
    }

    /// A connection has begun in a record: what rules have for it is written to it.
    #[inline(always)]
    pub(super) fn mark_new(&mut self, record: u32) {
        self.table.markings.begin(record);
        if !self.lifetimes.zones().mark_rules().is_empty() {
            self.mark_by_rules(record);
        }
    }

    #[inline(never)]
    fn mark_by_rules(&mut self, record: u32) {
        let mut ct_mark = CtMark::default();
        let (hot, _) = self.table.parts(record);
        for MarkRule { filter, change } in self.lifetimes.zones().mark_rules() {
            if filter.takes(hot) && filter.takes_mark(ct_mark) {
                ct_mark = change.written_to(ct_mark);
            }
        }
        if ct_mark != CtMark::default() {
            self.table.set_ct_mark(record, ct_mark);
        }
    }

    /// What would be left of the connection in a record.
    pub(crate) fn record(&self, record: u32, reason: EndReason) -> FlowRecord {
        let (hot, cold) = self.table.parts(record);
        FlowRecord { ct_mark: self.table.ct_mark(record), ..hot.record(cold, reason) }
    }

    /// Whether there is a connection in a record, and a filter means it.
    pub(crate) fn is_meant(&self, record: u32, filter: &Filter) -> bool {
        let (hot, _) = self.table.parts(record);
        !hot.is_free()
            && filter.takes(hot)
            && (!filter.asks_for_marks() || filter.takes_mark(self.table.ct_mark(record)))
    }
}
