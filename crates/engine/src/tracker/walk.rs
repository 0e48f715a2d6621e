// SPDX-License-Identifier: BSD-3-Clause
//! Processes the records of a walk: finds, lists, ends and marks connections.

use super::Tracker;
use crate::api::{
    ConnView, EndReason, EventKind, Filter, FlowEvent, FlowRecord, MarkChange, NoRuleReason, Query,
    RuleView,
};
use crate::base::Nanos;
use crate::offload::{SideStatus, ViewInput};
use std::ops::Range;

impl<const W: usize> Tracker<W> {
    /// Changes the mark and label of the connection in a record, if the filter matches and it began
    /// by `since`. Returns true if so, and an event if mark or label differ now.
    pub(crate) fn mark_one(
        &mut self,
        record: u32,
        filter: &Filter,
        change: MarkChange,
        since: Nanos,
    ) -> (bool, Option<FlowEvent>) {
        if !self.matches(record, filter) || self.table.parts(record).1.start() > since {
            return (false, None);
        }
        let old = self.table.ct_mark(record);
        self.table.set_ct_mark(record, change.written_to(old));
        let is_new = self.table.ct_mark(record) != old;
        (true, is_new.then(|| self.event(record, EventKind::Update)))
    }
}

/// Result of a sweep for one record.
pub(crate) enum SweepOutcome {
    Stays,
    /// It ends later: a bypass still has to report its last count.
    Held,
    Ends(FlowRecord),
}

impl<const W: usize> Tracker<W> {
    /// Returns the number of places that a walk visits: records, or slots if the query is for
    /// connections with rules.
    pub(crate) fn places(&self, query: &Query) -> u32 {
        match self.rules() {
            _ if !query.has_rules => self.table.used(),
            Some(rules) => rules.slots().used(),
            None => 0,
        }
    }

    /// Finds the records in these places that match the query.
    pub(crate) fn find_all(&self, query: &Query, places: Range<u32>, found: &mut impl FnMut(u32)) {
        let record_at = |place: u32| match self.rules() {
            Some(rules) if query.has_rules => rules.slots().get(place)?.record(),
            _ => Some(place),
        };
        // A walk through slots visits records that lie far apart.
        places.clone().filter_map(record_at).for_each(|record| self.table.prefetch(record));
        for record in places.filter_map(record_at) {
            if self.matches(record, &query.filter) {
                found(record);
            }
        }
    }

    pub(crate) fn prefetch_some(&self, from: u32, count: u32) {
        (from..from.saturating_add(count).min(self.table.used()))
            .for_each(|record| self.table.prefetch(record));
    }

    /// Ends the connection in a record if the filter matches and it began by `since`. If a bypass
    /// still has to report its last count, the connection stays and is reported as held.
    pub(crate) fn sweep_one(
        &mut self,
        record: u32,
        filter: &Filter,
        (since, now): (Nanos, Nanos),
    ) -> SweepOutcome {
        let (hot, cold) = self.table.parts(record);
        if !self.matches(record, filter) || cold.start() > since {
            return SweepOutcome::Stays;
        }
        if hot.was_evaluated() && self.bypass_pending(record, now) {
            return SweepOutcome::Held;
        }
        self.flush_one(record, EndReason::Flushed).map_or(SweepOutcome::Stays, SweepOutcome::Ends)
    }

    /// Returns the view of the connection in a record. Its rules are included only if `sides` is
    /// given, as that takes longer than all the rest.
    pub(crate) fn live_flow(
        &self,
        record: u32,
        (sides, now): (Option<&[SideStatus; 2]>, Nanos),
    ) -> ConnView {
        let (hot, cold) = self.table.parts(record);
        let flow = self.record(record, EndReason::Exit);
        ConnView {
            expires: self.deadline(hot, cold),
            rules: sides.map(|sides| self.rule_views(record, &flow, (sides, now))),
            record: flow,
        }
    }

    /// Returns the views of a connection's rules, that of the originator's direction first.
    fn rule_views(
        &self,
        record: u32,
        flow: &FlowRecord,
        (sides, now): (&[SideStatus; 2], Nanos),
    ) -> [RuleView; 2] {
        let Some(rules) = self.rules() else { return RuleView::NONE };
        let (hot, cold) = self.table.parts(record);
        let orig = hot.originator();
        [orig, orig ^ 1].map(|swapped| {
            let (packets, start) = hot.totals(cold, swapped);
            let (direction, proto, zone) = (usize::from(swapped), flow.proto, flow.zone);
            let view = rules
                .view(ViewInput { record, direction, proto, zone, packets, start, now }, sides);
            match view.reason.filter(|_| !self.allows_offload(record)) {
                Some(_) => RuleView { reason: Some(NoRuleReason::NoOffload), ..view },
                None => view,
            }
        })
    }
}
