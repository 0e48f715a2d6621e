// SPDX-License-Identifier: BSD-3-Clause
//! Makes rule requests to the owner of the port, confirms marks, and allows them or not.

use super::candidates::CandidateId;
use super::effect::RuleKind;
use super::rules::FlowRules;
use super::score::Score;
use super::slots::{NO_SLOT, RuleEntry, RuleLifecycle};
use crate::api::{MarkVerification, RuleAction, RuleId, RuleRequest, Side};
use crate::base::Tick;
use crate::conn::ConnHot;

impl FlowRules {
    /// Requests the rule of a candidate, whose direction has had `packets` packets; `None` if no
    /// slot is free.
    pub(crate) fn request_rule<const W: usize>(
        &mut self,
        candidate: CandidateId,
        (side, score): (Side, Score),
        (hot, packets): (&mut ConnHot<W>, u64),
    ) -> Option<RuleRequest> {
        let CandidateId { record, direction } = candidate;
        let is_bypass = self.can_bypass((candidate, side), packets, hot);
        if !is_bypass && !self.allows_marks {
            return None;
        }
        let eval = &mut self.evals[record as usize];
        if eval.slot == NO_SLOT {
            let Some(slot) = self.slots.take(record) else {
                self.stats.no_slot += 1;
                return None;
            };
            eval.slot = slot;
        }
        let slot = eval.slot;
        let rule = self.slots.rule(slot, direction);
        let checks = match self.offload.check {
            MarkVerification::Sampled { first, .. } => first.max(1),
            MarkVerification::Always => u8::MAX,
        };
        let (lifecycle, since) = (RuleLifecycle::Requested, Tick::of(self.now));
        let new = RuleEntry { lifecycle, side, score, since, checks, is_bypass, ..RuleEntry::NONE };
        let state = self.slots.get_mut(slot)?;
        state.zone = hot.key.zone();
        let old = std::mem::replace(&mut state.rules[usize::from(direction)], new);
        if is_bypass && old.is_seen {
            // Marks of the rule before it are trusted as much as before.
            state.rules[usize::from(direction)].checks = old.checks;
        }
        if is_bypass {
            hot.pause_window_check();
            self.bypasses += 1;
        }
        self.live[side as usize].add(score);
        self.zones.add(side, state.zone);
        self.stats.requested += 1;
        self.update_expected_mark(slot, hot);
        let action = if is_bypass { RuleAction::Bypass } else { RuleAction::Mark };
        Some(RuleRequest::Install { rule, side, tuple: self.tuple(&hot.key, direction), action })
    }

    /// True if marks of this rule, whose slot named this record, are not trusted yet.
    pub(crate) fn is_unverified(&self, record: u32, rule: RuleId) -> bool {
        let of_rule = self.slots.of_rule(rule).and_then(|slot| self.slots.get(slot));
        let Some(slot) = of_rule.filter(|slot| slot.record() == Some(record)) else {
            return false;
        };
        let rule = &slot.rules[usize::from(rule.direction & 1)];
        rule.lifecycle.is_live() && rule.checks > 0
    }

    /// Notes that a packet with a mark of this record had its key. True if it is the first of its
    /// rule.
    pub(crate) fn confirm_mark<const W: usize>(
        &mut self,
        record: u32,
        direction: u8,
        hot: &mut ConnHot<W>,
    ) -> bool {
        let slot = self.evals[record as usize].slot;
        let direction = usize::from(direction & 1);
        let is_strict = self.offload.check == MarkVerification::Always;
        let Some(state) = self.slots.get_mut(slot) else { return false };
        let checks = &mut state.rules[direction].checks;
        *checks = checks.saturating_sub(u8::from(!is_strict));
        self.update_expected_mark(slot, hot);
        // A marked packet of a bypassed direction is from before the bypass.
        !self.is_bypassed(record, direction)
            && self.take_effect(slot, direction, RuleKind::marks_of(hot.key.proto()))
    }

    /// True if a connection may get a rule of a kind that is allowed.
    pub(crate) fn may_gain<const W: usize>(&self, hot: &ConnHot<W>) -> bool {
        self.allows_marks || hot.can_be_bypassed()
    }

    /// Sets whether rules that set marks may be installed. If not, withdraws those of up to
    /// `budget` slots.
    pub(crate) fn allow_marks(&mut self, allows_marks: bool, budget: usize) {
        if allows_marks {
            (self.allows_marks, self.next_without_marks) = (true, 0);
            return;
        }
        self.allows_marks = false;
        let until = self.next_without_marks.saturating_add(budget as u32);
        let until = until.min(self.slots.used());
        for slot in self.next_without_marks..until {
            for direction in 0..2 {
                let rule = self.slots.get(slot).map(|slot| slot.rules[direction]);
                if rule.is_some_and(|rule| !rule.is_bypass && rule.lifecycle.is_live()) {
                    self.withdraw(slot, direction);
                }
            }
        }
        self.next_without_marks = until;
    }
}
