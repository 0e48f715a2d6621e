// SPDX-License-Identifier: BSD-3-Clause
//! Applies the NIC's counts to bypassed directions, and ends bypasses.
//!
//! No packet of a bypassed direction arrives, so the NIC's counts keep its connection alive. A
//! connection does not end before its rule is gone and the last count is known, unless that takes
//! longer than `RECALL_MAX`.

use super::effect::RuleKind;
use super::rules::{EvalState, FlowRules};
use super::score::Score;
use super::slots::MarkSlot;
use crate::api::{BypassConfig, BypassCount, RuleId};
use crate::base::{Nanos, Tick};

/// How long the removal of a rule may delay the end of its connection, in nanoseconds.
const RECALL_MAX: Nanos = 2_000_000_000;

impl FlowRules {
    /// Returns the record of the connection that a rule forwards, if it is alive.
    pub(crate) fn bypassed(&self, rule: RuleId) -> Option<u32> {
        let slot = self.slots.get(self.slots.of_rule(rule)?)?;
        let of_rule = &slot.rules[usize::from(rule.direction & 1)];
        slot.record().filter(|_| of_rule.is_forwarding())
    }

    /// Adds packets that the NIC has forwarded for the connection in a record. `packets` is the
    /// total of the direction, with these.
    pub(crate) fn add_bypass_count(
        &mut self,
        (record, rule): (u32, RuleId),
        (passed, packets): (BypassCount, u64),
        proto: u8,
    ) {
        self.stats.passed.packets += passed.packets;
        self.stats.passed.bytes += passed.bytes;
        let (now, direction) = (Tick::of(self.now), usize::from(rule.direction & 1));
        let eval = &mut self.evals[record as usize];
        let last = std::mem::replace(&mut eval.evaluated_at[direction], now);
        eval.eval_number[direction] = self.eval_interval.number(packets, record);
        let rate = eval.rate[direction].toward(Score::of(passed.packets, now.since(last)));
        eval.rate[direction] = rate;
        let slot = eval.slot;
        let Some(state) = self.slots.get_mut(slot) else { return };
        let of_rule = &mut state.rules[direction];
        of_rule.passed += passed.packets;
        of_rule.misses = 0;
        if of_rule.lifecycle.is_live() {
            self.update_score(slot, direction, rate);
            self.take_effect(slot, direction, RuleKind::bypass_of(proto));
        }
    }

    /// Withdraws the bypasses of a connection that is about to end. True if the end has to wait for
    /// their last counts.
    pub(crate) fn withdraw_bypass(&mut self, record: u32, now: Nanos) -> bool {
        self.now = self.now.max(now);
        let slot = self.evals[record as usize].slot;
        let mut is_waiting = false;
        for direction in 0..2 {
            let Some(rule) = self.rule_of(record, direction).filter(|rule| rule.is_forwarding())
            else {
                continue;
            };
            if rule.lifecycle.is_live() {
                self.withdraw(slot, direction);
                is_waiting = true;
            } else {
                is_waiting |= Tick::of(self.now).since(rule.since) < RECALL_MAX;
            }
        }
        is_waiting
    }

    /// True if the NIC may forward packets of a connection.
    pub(crate) fn has_bypass(&self, record: u32) -> bool {
        (0..2).any(|direction| self.is_bypassed(record, direction))
    }

    /// Withdraws the bypasses of a connection for good: it gets marks from now on.
    pub(crate) fn end_bypass(&mut self, record: u32, now: Nanos) {
        self.evals[record as usize].no_bypass = [true; 2];
        self.withdraw_bypass(record, now);
    }

    /// True if the NIC may forward packets by itself.
    pub(crate) fn may_bypass(&self) -> bool {
        self.offload.bypass.iter().any(|bypass| *bypass != BypassConfig::OFF)
    }

    /// Withdraws the rules of a connection whose place a new one with the same key takes. True if
    /// the NIC may still forward packets: then the new connection keeps the slot until the rules
    /// are gone, and gets their last counts.
    pub(crate) fn reopen(&mut self, record: u32, now: Nanos) -> bool {
        if !self.has_bypass(record) {
            self.release_rules(record);
            return false;
        }
        self.now = self.now.max(now);
        let slot = self.evals[record as usize].slot;
        self.evals[record as usize] = EvalState { slot, ..EvalState::NONE };
        for direction in 0..2 {
            let is_live = |slot: &MarkSlot| slot.rules[direction].lifecycle.is_live();
            if self.slots.get(slot).is_some_and(is_live) {
                self.withdraw(slot, direction);
            }
        }
        true
    }

    /// Withdraws the bypasses of all connections, without waiting for their last counts.
    pub(crate) fn withdraw_all_bypasses(&mut self) {
        (0..self.slots.used()).for_each(|slot| self.withdraw_bypasses_of(slot));
    }

    /// Allows no bypass until [`end_recall`](Self::end_recall), and withdraws those of up to
    /// `budget` more slots.
    pub(crate) fn recall_bypasses(&mut self, budget: u32, now: Nanos) {
        self.now = self.now.max(now);
        let from = self.next_recalled.unwrap_or(0);
        let until = from.saturating_add(budget).min(self.slots.used());
        (from..until).for_each(|slot| self.withdraw_bypasses_of(slot));
        self.next_recalled = Some(until);
    }

    /// Allows bypasses again.
    pub(crate) fn end_recall(&mut self) {
        self.next_recalled = None;
    }

    fn withdraw_bypasses_of(&mut self, slot: u32) {
        for direction in 0..2 {
            let rule = self.slots.get(slot).map(|slot| slot.rules[direction]);
            if rule.is_some_and(|rule| rule.is_bypass && rule.lifecycle.is_live()) {
                self.withdraw(slot, direction);
            }
        }
    }

    /// Returns the number of rules by which the NIC may forward packets.
    pub(crate) fn bypasses(&self) -> u32 {
        self.bypasses
    }
}
