// SPDX-License-Identifier: BSD-3-Clause
//! Evaluates directions of connections: measures their packet rates, chooses candidates for rules,
//! and withdraws rules without effect or with a low rate.
//!
//! A direction is evaluated once in at least 64 packets, so the cost per packet is small.

use super::candidates::CandidateId;
use super::effect::{MISSES_MAX, RuleKind, SETTLING};
use super::interval::EVAL_INTERVAL_MIN;
use super::rules::{FlowRules, NoRuleCause};
use super::score::{BETTER, Demand, RateSample, Score};
use super::slots::RuleLifecycle;
use crate::api::{OffloadPolicy, PROTO_TCP, PROTO_UDP, Side};
use crate::base::{Nanos, Tick};
use crate::conn::ConnHot;

impl FlowRules {
    /// Evaluates a direction that may be worth a rule, or has one. `side` is the port at which
    /// its packet arrived.
    #[inline(never)]
    pub(crate) fn evaluate<const W: usize>(
        &mut self,
        (sample, side): (RateSample, Side),
        hot: &mut ConnHot<W>,
    ) {
        let arriving = std::mem::replace(&mut self.side, side);
        self.evaluate_direction(sample, hot);
        self.side = arriving;
    }

    /// Prefetches the memory that the evaluation of a record reads. The prefetched slot is the
    /// right one only if slot and record have the same number.
    pub(crate) fn prefetch(&self, record: u32) {
        self.evals.prefetch(record as usize, 0);
        self.slots.prefetch(record);
    }

    fn evaluate_direction<const W: usize>(&mut self, sample: RateSample, hot: &mut ConnHot<W>) {
        if sample.packets < self.eval_interval.first().into() {
            return;
        }
        hot.set_evaluated();
        let direction = usize::from(sample.direction & 1);
        if self.is_bypassed(sample.record, direction) {
            return self.count_bypass_miss(sample, hot.key.proto());
        }
        let rate = self.rate(sample);
        let eval = self.evals[sample.record as usize];
        let lifecycle = self.slots.get(eval.slot).map(|slot| slot.rules[direction].lifecycle);
        match lifecycle {
            None | Some(RuleLifecycle::None) => {}
            Some(lifecycle) => {
                if lifecycle.is_live() {
                    self.update_score(eval.slot, direction, rate);
                    if self.should_bypass(sample, hot) {
                        return self.withdraw(eval.slot, direction);
                    }
                    self.check_effect((eval.slot, direction), sample, hot);
                }
                return;
            }
        }
        let is_excluded =
            matches!(eval.no_rule[direction], NoRuleCause::Refused | NoRuleCause::Ineffective);
        let (proto, zone) = (hot.key.proto(), hot.key.zone());
        let is_eligible = matches!(proto, PROTO_TCP | PROTO_UDP)
            && self.has_tag(zone)
            && !self.classes.is_suspended(self.side, RuleKind::marks_of(proto), self.now);
        if is_eligible && !is_excluded {
            self.add_candidate(sample, (zone, rate));
        }
    }

    /// Updates the rate of a direction with the packets since its last evaluation; returns the
    /// rate.
    fn rate(&mut self, sample: RateSample) -> Score {
        let direction = usize::from(sample.direction & 1);
        let eval = &mut self.evals[sample.record as usize];
        eval.side[direction] = self.side;
        let now = Tick::of(self.now);
        let last = std::mem::replace(&mut eval.evaluated_at[direction], now);
        let number = self.eval_interval.number(sample.packets, sample.record);
        let before = std::mem::replace(&mut eval.eval_number[direction], number);
        let rate = &mut eval.rate[direction];
        *rate = if last == Tick::ZERO {
            Score::of(sample.packets, self.now.saturating_sub(sample.start))
        } else {
            // The second evaluation may come soon after the first.
            let packets =
                u64::from(number.wrapping_sub(before).max(1)) * u64::from(EVAL_INTERVAL_MIN);
            let packets = packets.min(sample.packets - u64::from(self.eval_interval.first()));
            rate.toward(Score::of(packets, now.since(last)))
        };
        *rate
    }

    /// Returns the score of a direction with this packet count and rate, and the least score that
    /// the policy admits.
    pub(crate) fn score(&self, side: Side, packets: u64, rate: Score) -> (Score, Score) {
        let side = side as usize;
        match self.offload.admission {
            OffloadPolicy::After { .. } => (Score::ZERO, Score::ZERO),
            OffloadPolicy::Rate { per_second } => (rate, Score::per_second_of(per_second)),
            // A connection is expected to send as many packets again as it has sent so far.
            OffloadPolicy::Measured { .. } => {
                (rate.min(Score::of(packets, self.payback_time[side])), self.threshold[side])
            }
        }
    }

    fn add_candidate(&mut self, sample: RateSample, (zone, rate): (u16, Score)) {
        let (score, least) = self.score(self.side, sample.packets, rate);
        if score < least {
            return;
        }
        if self.zones.is_full(self.side, zone) {
            return self.zones.miss(self.side, zone, score);
        }
        let RateSample { record, direction, .. } = sample;
        let no_rule = &mut self.evals[record as usize].no_rule[usize::from(direction & 1)];
        if matches!(*no_rule, NoRuleCause::Candidate(queued) if queued >= score) {
            return;
        }
        *no_rule = NoRuleCause::Candidate(score);
        let candidate = CandidateId { record, direction: direction & 1 };
        if let Some((score, gone)) = self.candidates[self.side as usize].push(score, candidate) {
            self.stats.crowded_out += 1;
            let no_rule =
                &mut self.evals[gone.record as usize].no_rule[usize::from(gone.direction)];
            if *no_rule == NoRuleCause::Candidate(score) {
                *no_rule = NoRuleCause::None;
            }
        }
    }

    /// Notes whether an evaluated packet has the rule's mark; withdraws a rule without effect.
    fn check_effect<const W: usize>(
        &mut self,
        (slot, direction): (u32, usize),
        sample: RateSample,
        hot: &mut ConnHot<W>,
    ) {
        let now = Tick::of(self.now);
        let Some(state) = self.slots.get_mut(slot) else { return };
        let rule = &mut state.rules[direction];
        if sample.is_marked {
            rule.misses = 0;
            return;
        }
        // Packets that were queued before the rule was installed have no mark.
        if self.has_unread_marks
            || rule.lifecycle == RuleLifecycle::Requested
            || now.since(rule.since) < SETTLING
        {
            return;
        }
        rule.misses += 1;
        if rule.misses < MISSES_MAX {
            return;
        }
        let was_effective = rule.lifecycle == RuleLifecycle::Effective;
        let side = rule.side;
        let no_rule = &mut self.evals[sample.record as usize].no_rule[direction];
        if was_effective {
            self.stats.lost_effect += 1;
        } else {
            *no_rule = NoRuleCause::Ineffective;
            self.stats.ineffective += 1;
            self.classes.no_effect(side, RuleKind::marks_of(hot.key.proto()), self.now);
        }
        self.withdraw(slot, direction);
    }

    /// Frees slots, and rechecks up to `budget` slots: whether their rules are still worth their
    /// place.
    ///
    /// Each slot is rechecked once in the payback time. `demands` is, by side, the demand of
    /// candidates for places.
    pub(crate) fn recheck_slots<const W: usize>(
        &mut self,
        hot: &[ConnHot<W>],
        (now, budget): (Nanos, usize),
        demands: &mut [Demand; 2],
    ) {
        self.now = self.now.max(now);
        self.slots.drain();
        let used = self.slots.used();
        for _ in 0..self.rechecks_due(used).min(budget as u64) {
            self.last_rechecked =
                if self.last_rechecked + 1 < used { self.last_rechecked + 1 } else { 0 };
            for direction in 0..2 {
                self.recheck_rule((self.last_rechecked, direction), hot, demands);
            }
        }
    }

    /// Returns how many of the `used` slots are due for a recheck.
    fn rechecks_due(&mut self, used: u32) -> u64 {
        if matches!(self.offload.admission, OffloadPolicy::After { .. }) {
            // Under this policy, no rule is removed for its score.
            return 0;
        }
        if self.live.iter().all(|live| live.total() == 0) {
            return 0;
        }
        let pass = self.payback_time.into_iter().min().unwrap_or(0).max(1);
        let due = (self.now - self.rechecked_at).saturating_mul(used.into()) / pass;
        if due > 0 {
            self.rechecked_at = self.now;
        }
        due.min(used.into())
    }

    fn recheck_rule<const W: usize>(
        &mut self,
        (slot, direction): (u32, usize),
        hot: &[ConnHot<W>],
        demands: &mut [Demand; 2],
    ) {
        let Some(state) = self.slots.get(slot) else { return };
        let (rule, zone) = (state.rules[direction], state.zone);
        let Some(record) = state.record().filter(|_| rule.lifecycle.is_live()) else { return };
        let eval = &mut self.evals[record as usize];
        let packets = u64::from(hot[record as usize].packets(direction as u8));
        let number = self.eval_interval.number(packets, record);
        let now = Tick::of(self.now);
        let rate = match rule.is_bypass {
            true => eval.rate_of_bypassed(direction, now),
            false => eval.rate_now(direction, number, now),
        };
        eval.rate[direction] = rate;
        if rate != rule.score {
            self.update_score(slot, direction, rate);
        }
        let demand = &mut demands[rule.side as usize];
        let is_low = rate <= demand.lowest.plus(1) && rate.plus(BETTER) <= demand.best;
        let is_too_slow = match self.offload.admission {
            OffloadPolicy::Rate { per_second } => rate.plus(4) < Score::per_second_of(per_second),
            _ => false,
        };
        let is_low_in_zone = rate.plus(BETTER) <= self.zones.missed(rule.side, zone);
        if is_low_in_zone {
            self.zones.make_room(rule.side, zone);
        }
        if is_too_slow || is_low_in_zone || is_low && demand.places > 0 {
            demand.places = demand.places.saturating_sub(1);
            self.stats.evicted += 1;
            self.withdraw(slot, direction);
        }
    }
}
