// SPDX-License-Identifier: BSD-3-Clause
//! Makes flow records and events of connections in the table, and writes the marks of new ones.

use super::Tracker;
use super::track::StateChange;
use crate::account::Accounts;
use crate::api::{CtMark, EndReason, EventKind, Filter, FlowEvent, FlowRecord, MarkRule};

impl<const W: usize> Tracker<W> {
    /// Emits the event of a connection that has begun in `record`, if there is a subscriber.
    #[inline(always)]
    pub(super) fn emit_new(&self, record: u32, accounts: &mut Accounts) {
        if accounts.has_subscribers() {
            accounts.emit(self.event(record, EventKind::New));
        }
    }

    /// Emits the event of the connection in `record` if it has just begun there, or if its state
    /// for users has changed.
    #[inline(never)]
    pub(super) fn emit_update(
        &self,
        record: u32,
        transition: Option<StateChange>,
        accounts: &mut Accounts,
    ) {
        let proto_state = self.table.parts(record).0.state().proto_state();
        match transition {
            Some(StateChange::New(_)) => accounts.emit(self.event(record, EventKind::New)),
            Some(StateChange::From(before)) if before.proto_state() != proto_state => {
                accounts.emit(self.event(record, EventKind::Update));
            }
            _ => {}
        }
    }

    /// Returns an event of the connection in a record.
    pub(crate) fn event(&self, record: u32, change: EventKind) -> FlowEvent {
        FlowEvent { change, record: self.record(record, EndReason::Exit) }
    }

    /// Writes the connection mark and label of a connection that begins in a record: those that the
    /// configured rules give it.
    #[inline(always)]
    pub(super) fn write_marks_of_new(&mut self, record: u32) {
        self.table.markings.begin(record);
        if !self.timeouts.zones().mark_rules().is_empty() {
            self.mark_by_rules(record);
        }
    }

    #[inline(never)]
    fn mark_by_rules(&mut self, record: u32) {
        let mut ct_mark = CtMark::default();
        let (hot, _) = self.table.parts(record);
        for MarkRule { filter, change } in self.timeouts.zones().mark_rules() {
            if filter.matches(hot) && filter.matches_mark(ct_mark) {
                ct_mark = change.written_to(ct_mark);
            }
        }
        if ct_mark != CtMark::default() {
            self.table.set_ct_mark(record, ct_mark);
        }
    }

    /// Returns the flow record of the connection in a record, as if it ended now for this reason.
    pub(crate) fn record(&self, record: u32, reason: EndReason) -> FlowRecord {
        let (hot, cold) = self.table.parts(record);
        FlowRecord { ct_mark: self.table.ct_mark(record), ..hot.record(cold, reason) }
    }

    /// True if there is a connection in a record, and the filter matches it.
    pub(crate) fn matches(&self, record: u32, filter: &Filter) -> bool {
        let (hot, _) = self.table.parts(record);
        !hot.is_free()
            && filter.matches(hot)
            && (!filter.has_mark_criteria() || filter.matches_mark(self.table.ct_mark(record)))
    }
}
