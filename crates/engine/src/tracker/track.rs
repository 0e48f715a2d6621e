// SPDX-License-Identifier: BSD-3-Clause
//! Counts a packet to its connection, and moves the connection from state to state.

use super::Tracker;
use crate::api::{CtState, Irregular};
use crate::base::{LinkStore, Micros, Nanos};
use crate::conn::{Event, Phase, When};
use crate::packet::{Arrival, Key, Meta, Numbers, Opening};
use crate::pipeline::Outcome;

impl<const W: usize> Tracker<W> {
    /// If `record` is the flow with this key and the packet no more than one more of it, counts it.
    /// False, and nothing has changed: `record` is another flow, or none, or the packet does more.
    #[inline(always)]
    #[must_use]
    pub(crate) fn count(
        &mut self,
        (record, key): (u32, &Key<W>),
        (meta, numbers): (Meta, impl FnOnce() -> Option<Numbers>),
        now: Micros,
        looks: impl When,
    ) -> bool {
        // No record is as many as `NO_RECORD`: the bounds check is the test for a candidate.
        let Some(hot) = self.table.hot.get_mut(record as usize) else { return false };
        if hot.key != *key || !hot.is_one_more(meta) {
            return false;
        }
        if hot.is_judged() && !hot.takes_of_sender(meta, numbers()) {
            return false;
        }
        if hot.count(meta, now, looks.of(record)) {
            self.counted(record, meta.swapped(), false);
        }
        true
    }

    /// Counts any packet of the flow in `record` and moves it through its life. `outcome` learns of
    /// a flow that ends by the packet, and of a packet that changes nothing.
    pub(crate) fn track(&mut self, record: u32, packet: &Arrival, outcome: &mut impl Outcome) {
        let Arrival { meta, opening, now, .. } = *packet;
        let hot = &mut self.table.hot[record as usize];
        let before = hot.phase();
        let event = hot.event(packet);
        let event = event.or_else(|reason| self.agree(record, packet, reason));
        let event = match event.or_else(|reason| self.resync(record, packet, reason)) {
            Ok(event) => event,
            Err(reason) => return self.ignore(record, packet, reason, outcome),
        };
        match event {
            Event::None => {}
            Event::Enter(phase) => {
                self.table.hot[record as usize].enter(phase);
                self.entered(record);
            }
            Event::Reuse | Event::Agree(_) => {
                if let Err(reason) = self.replace(record, packet, event, outcome) {
                    let zone = self.table.hot[record as usize].key.zone();
                    return outcome.full(opening.position, zone, reason);
                }
            }
        }
        let before = Some(before).filter(|_| event != Event::None);
        let is_new = matches!(event, Event::Reuse | Event::Agree(_));
        self.settle(record, (meta, opening, now), (before, is_new), outcome);
    }

    /// The flow in `record` has come from one phase to another.
    #[inline(always)]
    pub(super) fn entered(&mut self, record: u32) {
        let hot = &mut self.table.hot[record as usize];
        let phase = hot.phase();
        if let Some(rules) = &mut self.rules {
            rules.steady(record, hot);
        }
        if phase.is_assured() {
            self.table.leave_embryonic(record);
        }
    }

    /// Counts a packet that has done to the flow in `record` what it does: which phase that was in
    /// before, if anything has changed, and whether it is another flow now.
    #[inline(always)]
    pub(super) fn settle(
        &mut self,
        record: u32,
        (meta, opening, now): (Meta, &Opening, Nanos),
        (before, is_new): (Option<Phase>, bool),
        outcome: &mut impl Outcome,
    ) {
        let looks = self.looks.filter(|_| !opening.is_further()).of(record);
        let hot = &mut self.table.hot[record as usize];
        let is_rare = hot.count(meta, Micros::of(now), looks);
        if let Some(before) = before {
            let timeout = self.lifetimes.of(hot);
            // A timer may come up early but never late.
            if timeout < self.lifetimes.of_phase(hot, before) {
                self.hasten(record, now.saturating_add(timeout));
            }
        }
        if is_rare {
            self.counted(record, meta.swapped(), false);
        }
        outcome.state(opening.position, || self.state(record, meta));
        if outcome.listens() {
            self.tell_change(record, (before, is_new), outcome);
        }
    }

    /// A packet of the flow in `record` changes nothing.
    fn ignore(
        &mut self,
        record: u32,
        packet: &Arrival,
        reason: Irregular,
        outcome: &mut impl Outcome,
    ) {
        let Arrival { meta, opening, .. } = *packet;
        if outcome.irregular(opening.position, reason) {
            if matches!(reason, Irregular::TcpSyn | Irregular::TcpSynOfOther) {
                self.keep_asked(record, packet);
            }
            let looks = self.looks.of(record);
            if self.table.hot[record as usize].count_irregular(meta, looks) {
                self.counted(record, meta.swapped(), false);
            }
        }
        outcome.state(opening.position, || match reason.is_invalid() {
            true => CtState::INVALID,
            false => self.state(record, meta),
        });
    }

    /// Has the timer of a flow come up by a deadline that may be earlier than the one before.
    /// False: it does so as it is.
    pub(crate) fn hasten(&mut self, record: u32, deadline: Nanos) -> bool {
        let is_late = !self.table.wheel.comes_by(*self.table.cold.link(record), deadline);
        if is_late {
            self.table.wheel.disarm(&mut self.table.cold, record);
            self.table.wheel.arm(&mut self.table.cold, record, deadline);
        }
        is_late
    }
}
