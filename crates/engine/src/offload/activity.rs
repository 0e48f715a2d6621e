// SPDX-License-Identifier: BSD-3-Clause
//! How busy a direction is, and whether its rule pays.

use super::candidates::CandidateId;
use super::effect::{MISSES_MAX, RuleKind, SETTLING};
use super::rules::{FlowRules, RateState};
use super::score::{RateSample, Score};
use super::slots::{RuleEntry, RuleLifecycle};
use crate::api::Side;
use crate::base::{Nanos, Tick};
use crate::conn::ConnHot;

/// A direction of which the NIC has counted nothing for so long is quiet.
const QUIET: Nanos = 2_000_000_000;

impl RateState {
    /// How busy a direction is by what the NIC counted.
    pub(super) fn rate_of_bypassed(&self, direction: usize, now: Tick) -> Score {
        let quiet = now.since(self.looked_at[direction]);
        let rate = self.rate[direction];
        if quiet < QUIET { rate } else { rate.min(Score::of(1, quiet)) }
    }
}

impl FlowRules {
    pub(super) fn rule_of(&self, record: u32, direction: usize) -> Option<&RuleEntry> {
        let slot = self.slots.get(self.watched[record as usize].slot)?;
        Some(&slot.rules[direction])
    }

    /// Whether the NIC may forward a direction by itself.
    pub(super) fn is_bypassed(&self, record: u32, direction: usize) -> bool {
        self.rule_of(record, direction).is_some_and(RuleEntry::is_forwarding)
    }

    /// Whether a direction that has had so many packets is left to the NIC.
    pub(super) fn may_bypass_again<const W: usize>(
        &self,
        (who, side): (CandidateId, Side),
        packets: u64,
        hot: &ConnHot<W>,
    ) -> bool {
        let is_tried = self.watched[who.record as usize].no_bypass[usize::from(who.direction)];
        let least = self.offload.bypass[side as usize];
        least.is_some_and(|least| packets >= least.into())
            && hot.is_open_udp()
            && !is_tried
            && !self.classes.is_aside(side, RuleKind::Bypass, self.now)
    }

    /// Whether a direction with marks is to be left to the NIC: its rule makes room for the other.
    pub(super) fn deserves_bypass<const W: usize>(
        &self,
        sight: RateSample,
        hot: &ConnHot<W>,
    ) -> bool {
        let RateSample { record, direction, packets, .. } = sight;
        let rule = self.rule_of(record, usize::from(direction & 1));
        let is_here = rule.is_some_and(|rule| {
            rule.side == self.side
                && matches!(rule.standing, RuleLifecycle::Installed | RuleLifecycle::Effective)
        });
        let who = CandidateId { record, direction: direction & 1 };
        is_here && self.may_bypass_again((who, self.side), packets, hot)
    }

    /// A packet arrived of a direction that the NIC is to forward by itself.
    pub(super) fn saw_packet(&mut self, sight: RateSample) {
        let (now, direction) = (Tick::of(self.now), usize::from(sight.direction & 1));
        let watched = &mut self.watched[sight.record as usize];
        let Some(state) = self.slots.get_mut(watched.slot) else { return };
        let rule = &mut state.rules[direction];
        let is_there = matches!(rule.standing, RuleLifecycle::Installed | RuleLifecycle::Effective);
        if !is_there || now.since(rule.since) < SETTLING {
            return;
        }
        rule.misses += 1;
        if rule.misses < MISSES_MAX {
            return;
        }
        watched.no_bypass[direction] = true;
        let (slot, side) = (watched.slot, rule.side);
        if rule.standing == RuleLifecycle::Effective {
            self.stats.lost_effect += 1;
        } else {
            self.stats.ineffective += 1;
            self.classes.no_effect(side, RuleKind::Bypass, self.now);
        }
        self.withdraw(slot, direction);
    }

    /// Counts a live rule with another worth.
    pub(super) fn update_score(&mut self, slot: u32, direction: usize, worth: Score) {
        let Some(slot) = self.slots.get_mut(slot) else { return };
        let rule = &mut slot.rules[direction];
        let before = std::mem::replace(&mut rule.weight, worth);
        self.live[rule.side as usize].remove(before);
        self.live[rule.side as usize].add(worth);
    }

    /// A packet had the mark of a rule; true if it is the first.
    pub(super) fn take_effect(&mut self, slot: u32, direction: usize, kind: RuleKind) -> bool {
        let now = Tick::of(self.now);
        let Some(state) = self.slots.get_mut(slot) else { return false };
        let rule = &mut state.rules[direction];
        let is_first = !std::mem::replace(&mut rule.is_seen, true);
        if is_first {
            if rule.standing == RuleLifecycle::Installed {
                (rule.standing, rule.since) = (RuleLifecycle::Effective, now);
            }
            self.stats.effective += 1;
            let side = rule.side;
            self.classes.effect_seen(side, kind);
        }
        is_first
    }
}
