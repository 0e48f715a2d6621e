// SPDX-License-Identifier: BSD-3-Clause
//! What a walk does with one record: list, sweep, mark.

use super::Tracker;
use crate::api::{
    ConnView, EndReason, EventKind, Filter, FlowEvent, FlowRecord, MarkChange, ProtoState, Query,
    RuleView,
};
use crate::base::Nanos;
use crate::offload::{SideStatus, ViewInput};
use std::ops::Range;

impl<const W: usize> Tracker<W> {
    /// Whether the connection in a record is meant and began by a time; and what became of it, if
    /// it has another mark or label now.
    pub(crate) fn mark_one(
        &mut self,
        record: u32,
        filter: &Filter,
        change: MarkChange,
        since: Nanos,
    ) -> (bool, Option<FlowEvent>) {
        if !self.matches(record, filter) || self.table.parts(record).1.began() > since {
            return (false, None);
        }
        let old = self.table.ct_mark(record);
        self.table.set_ct_mark(record, change.written_to(old));
        let is_new = self.table.ct_mark(record) != old;
        (true, is_new.then(|| self.event(record, EventKind::Update)))
    }
}

/// What is to become of a flow that a walk has come to.
pub(crate) enum SweepOutcome {
    Stays,
    Held,
    Ends(FlowRecord),
}

impl<const W: usize> Tracker<W> {
    /// Places of a walk.
    pub(crate) fn places(&self, query: &Query) -> u32 {
        match self.rules() {
            _ if !query.has_rules => self.table.used(),
            Some(rules) => rules.slots().used(),
            None => 0,
        }
    }

    /// Records of those that are asked for.
    pub(crate) fn find_all(&self, query: &Query, places: Range<u32>, found: &mut impl FnMut(u32)) {
        let record_at = |place: u32| match self.rules() {
            Some(rules) if query.has_rules => rules.slots().get(place)?.record(),
            _ => Some(place),
        };
        // They lie far apart where the walk goes through slots.
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

    /// Ends the flow in a record if it is meant and began by a time. What the NIC has counted of it
    /// is waited for.
    pub(crate) fn sweep_one(
        &mut self,
        record: u32,
        filter: &Filter,
        (since, now): (Nanos, Nanos),
    ) -> SweepOutcome {
        let (hot, cold) = self.table.parts(record);
        if !self.matches(record, filter) || cold.began() > since {
            return SweepOutcome::Stays;
        }
        if hot.was_evaluated() && self.bypass_pending(record, now) {
            return SweepOutcome::Held;
        }
        self.flush_one(record, EndReason::Flushed).map_or(SweepOutcome::Stays, SweepOutcome::Ends)
    }

    /// What there is to tell of the connection in a record; of its rules only with the standing of
    /// both sides, as that takes longer than all the rest.
    pub(crate) fn live_flow(
        &self,
        record: u32,
        (sides, now): (Option<&[SideStatus; 2]>, Nanos),
    ) -> ConnView {
        let (hot, cold) = self.table.parts(record);
        let flow = self.record(record, EndReason::Exit);
        ConnView {
            expires: self.deadline(hot, cold),
            // Only a record that is not in use has none.
            progress: hot.phase().progress().unwrap_or(ProtoState::OtherFirst),
            is_assured: !hot.is_embryonic(),
            rules: sides.map(|sides| self.rule_views(record, &flow, (sides, now))),
            record: flow,
        }
    }

    /// What is known of the rules of a connection, of the originator's packets first.
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
            rules.view(ViewInput { record, direction, proto, zone, packets, start, now }, sides)
        })
    }
}
