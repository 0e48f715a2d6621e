// SPDX-License-Identifier: BSD-3-Clause
//! Decides which directions are bypassed, and notes which rules take effect.

use super::candidates::CandidateId;
use super::effect::{MISSES_MAX, RuleKind, SETTLING};
use super::rules::{EvalState, FlowRules};
use super::score::{RateSample, Score};
use super::slots::{RuleEntry, RuleLifecycle};
use crate::api::{BypassAfter, PROTO_TCP, Side};
use crate::base::{Nanos, Tick};
use crate::conn::ConnHot;

/// Time after which a direction is quiet if the NIC has counted nothing for it, in nanoseconds.
const QUIET: Nanos = 2_000_000_000;

impl EvalState {
    /// Returns the rate of a bypassed direction, by the counts of the NIC.
    pub(super) fn rate_of_bypassed(&self, direction: usize, now: Tick) -> Score {
        let quiet = now.since(self.evaluated_at[direction]);
        let rate = self.rate[direction];
        if quiet < QUIET { rate } else { rate.min(Score::of(1, quiet)) }
    }
}

impl FlowRules {
    pub(super) fn rule_of(&self, record: u32, direction: usize) -> Option<&RuleEntry> {
        let slot = self.slots.get(self.evals[record as usize].slot)?;
        Some(&slot.rules[direction])
    }

    /// True if the NIC may forward packets of a direction.
    pub(super) fn is_bypassed(&self, record: u32, direction: usize) -> bool {
        self.rule_of(record, direction).is_some_and(RuleEntry::is_forwarding)
    }

    /// True if a direction with this packet count may be bypassed.
    pub(super) fn can_bypass<const W: usize>(
        &self,
        (candidate, side): (CandidateId, Side),
        packets: u64,
        hot: &ConnHot<W>,
    ) -> bool {
        let has_failed =
            self.evals[candidate.record as usize].no_bypass[usize::from(candidate.direction)];
        let (bypass, proto) = (self.offload.bypass[side as usize], hot.key.proto());
        let least = match if proto == PROTO_TCP { bypass.tcp } else { bypass.udp } {
            BypassAfter::Never => u64::MAX,
            BypassAfter::Packets(least) => least.into(),
            BypassAfter::Payback => self.payback_packets[side as usize].into(),
        };
        packets >= least
            && self.next_recalled.is_none()
            && hot.can_be_bypassed()
            && !has_failed
            && !self.classes.is_suspended(side, RuleKind::bypass_of(proto), self.now)
    }

    /// True if a direction with a mark rule should be bypassed. The mark rule is then removed
    /// first.
    pub(super) fn should_bypass<const W: usize>(
        &self,
        sample: RateSample,
        hot: &ConnHot<W>,
    ) -> bool {
        let RateSample { record, direction, packets, .. } = sample;
        let rule = self.rule_of(record, usize::from(direction & 1));
        let is_here = rule.is_some_and(|rule| {
            rule.side == self.side
                && matches!(rule.lifecycle, RuleLifecycle::Installed | RuleLifecycle::Effective)
        });
        let candidate = CandidateId { record, direction: direction & 1 };
        is_here && self.can_bypass((candidate, self.side), packets, hot)
    }

    /// Notes a packet of a direction that the NIC should have forwarded. After too many, withdraws
    /// the rule for good.
    pub(super) fn count_bypass_miss(&mut self, sample: RateSample, proto: u8) {
        let (now, direction) = (Tick::of(self.now), usize::from(sample.direction & 1));
        let eval = &mut self.evals[sample.record as usize];
        let Some(state) = self.slots.get_mut(eval.slot) else { return };
        let rule = &mut state.rules[direction];
        let is_there =
            matches!(rule.lifecycle, RuleLifecycle::Installed | RuleLifecycle::Effective);
        if !is_there || now.since(rule.since) < SETTLING {
            return;
        }
        rule.misses += 1;
        if rule.misses < MISSES_MAX {
            return;
        }
        eval.no_bypass[direction] = true;
        let (slot, side) = (eval.slot, rule.side);
        if rule.lifecycle == RuleLifecycle::Effective {
            self.stats.lost_effect += 1;
        } else {
            self.stats.ineffective += 1;
            self.classes.no_effect(side, RuleKind::bypass_of(proto), self.now);
        }
        self.withdraw(slot, direction);
    }

    /// Changes the score of a live rule.
    pub(super) fn update_score(&mut self, slot: u32, direction: usize, score: Score) {
        let Some(slot) = self.slots.get_mut(slot) else { return };
        let rule = &mut slot.rules[direction];
        let before = std::mem::replace(&mut rule.score, score);
        self.live[rule.side as usize].remove(before);
        self.live[rule.side as usize].add(score);
    }

    /// Notes that a rule has an effect: a packet had its mark, or the NIC counted packets for it.
    /// True the first time.
    pub(super) fn take_effect(&mut self, slot: u32, direction: usize, kind: RuleKind) -> bool {
        let now = Tick::of(self.now);
        let Some(state) = self.slots.get_mut(slot) else { return false };
        let rule = &mut state.rules[direction];
        let is_first = !std::mem::replace(&mut rule.is_seen, true);
        if is_first {
            if rule.lifecycle == RuleLifecycle::Installed {
                (rule.lifecycle, rule.since) = (RuleLifecycle::Effective, now);
            }
            self.stats.effective += 1;
            let side = rule.side;
            self.classes.effect_seen(side, kind);
        }
        is_first
    }
}
