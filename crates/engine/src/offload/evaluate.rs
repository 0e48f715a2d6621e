// SPDX-License-Identifier: BSD-3-Clause
//! Evaluates directions: how busy they are, whether one is worth a rule, whether a rule has an
//! effect, and which rule makes room for a better one.
//!
//! Many packets of a direction lie between two evaluations, so that none of this costs per packet.

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
    /// Evaluates a direction that may be worth a rule, or has one. `side` is where its packet
    /// arrived.
    #[inline(never)]
    pub(crate) fn evaluate<const W: usize>(
        &mut self,
        (sight, side): (RateSample, Side),
        hot: &mut ConnHot<W>,
    ) {
        let arriving = std::mem::replace(&mut self.side, side);
        self.evaluate_direction(sight, hot);
        self.side = arriving;
    }

    /// Starts to load what the evaluation of a record reads, if its slot has its number.
    pub(crate) fn prefetch(&self, record: u32) {
        self.watched.prefetch(record as usize, 0);
        self.slots.prefetch(record);
    }

    fn evaluate_direction<const W: usize>(&mut self, sight: RateSample, hot: &mut ConnHot<W>) {
        if sight.packets < self.eval_interval.first().into() {
            return;
        }
        hot.set_evaluated();
        let direction = usize::from(sight.direction & 1);
        if self.is_bypassed(sight.record, direction) {
            return self.saw_packet(sight);
        }
        let rate = self.rate(sight);
        let watched = self.watched[sight.record as usize];
        let lifecycle = self.slots.get(watched.slot).map(|slot| slot.rules[direction].lifecycle);
        match lifecycle {
            None | Some(RuleLifecycle::None) => {}
            Some(lifecycle) => {
                if lifecycle.is_live() {
                    self.update_score(watched.slot, direction, rate);
                    if self.deserves_bypass(sight, hot) {
                        return self.withdraw(watched.slot, direction);
                    }
                    self.watch((watched.slot, direction), sight, hot);
                }
                return;
            }
        }
        let is_out =
            matches!(watched.note[direction], NoRuleCause::Refused | NoRuleCause::Ineffective);
        let (proto, zone) = (hot.key.proto(), hot.key.zone());
        let is_tried = matches!(proto, PROTO_TCP | PROTO_UDP)
            && self.is_told_by_tags(zone)
            && !self.classes.is_aside(self.side, RuleKind::marks_of(proto), self.now);
        if is_tried && !is_out {
            self.consider(sight, (zone, rate));
        }
    }

    /// Updates the rate of a direction with the packets since its last evaluation; returns the
    /// rate.
    fn rate(&mut self, sight: RateSample) -> Score {
        let direction = usize::from(sight.direction & 1);
        let watched = &mut self.watched[sight.record as usize];
        watched.side[direction] = self.side;
        let now = Tick::of(self.now);
        let last = std::mem::replace(&mut watched.evaluated_at[direction], now);
        let number = self.eval_interval.number(sight.packets, sight.record);
        let before = std::mem::replace(&mut watched.eval_number[direction], number);
        let rate = &mut watched.rate[direction];
        *rate = if last == Tick::ZERO {
            Score::of(sight.packets, self.now.saturating_sub(sight.start))
        } else {
            // The second evaluation may come soon after the first.
            let packets =
                u64::from(number.wrapping_sub(before).max(1)) * u64::from(EVAL_INTERVAL_MIN);
            let packets = packets.min(sight.packets - u64::from(self.eval_interval.first()));
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
            // The best guess is that a connection lasts as long again.
            OffloadPolicy::Measured { .. } => {
                (rate.min(Score::of(packets, self.horizon[side])), self.bar[side])
            }
        }
    }

    fn consider(&mut self, sight: RateSample, (zone, rate): (u16, Score)) {
        let (worth, least) = self.score(self.side, sight.packets, rate);
        if worth < least {
            return;
        }
        if self.zones.is_full(self.side, zone) {
            return self.zones.miss(self.side, zone, worth);
        }
        let RateSample { record, direction, .. } = sight;
        let note = &mut self.watched[record as usize].note[usize::from(direction & 1)];
        if matches!(*note, NoRuleCause::Candidate(queued) if queued >= worth) {
            return;
        }
        *note = NoRuleCause::Candidate(worth);
        let who = CandidateId { record, direction: direction & 1 };
        if let Some((score, gone)) = self.candidates[self.side as usize].push(worth, who) {
            self.stats.crowded_out += 1;
            let note = &mut self.watched[gone.record as usize].note[usize::from(gone.direction)];
            if *note == NoRuleCause::Candidate(score) {
                *note = NoRuleCause::None;
            }
        }
    }

    /// Notes whether an evaluated packet has the rule's mark; withdraws a rule without effect.
    fn watch<const W: usize>(
        &mut self,
        (slot, direction): (u32, usize),
        sight: RateSample,
        hot: &mut ConnHot<W>,
    ) {
        let now = Tick::of(self.now);
        let Some(state) = self.slots.get_mut(slot) else { return };
        let rule = &mut state.rules[direction];
        if sight.is_marked {
            rule.misses = 0;
            return;
        }
        // Packets that were queued before the rule was installed have no mark.
        if rule.lifecycle == RuleLifecycle::Requested || now.since(rule.since) < SETTLING {
            return;
        }
        rule.misses += 1;
        if rule.misses < MISSES_MAX {
            return;
        }
        let was_effective = rule.lifecycle == RuleLifecycle::Effective;
        let side = rule.side;
        let note = &mut self.watched[sight.record as usize].note[direction];
        if was_effective {
            self.stats.lost_effect += 1;
        } else {
            *note = NoRuleCause::Ineffective;
            self.stats.ineffective += 1;
            self.classes.no_effect(side, RuleKind::marks_of(hot.key.proto()), self.now);
        }
        self.withdraw(slot, direction);
    }

    /// Frees slots, and rechecks up to `budget` slots: whether their rules are still worth their
    /// place.
    ///
    /// Each slot is rechecked once in the payback time. `wanted` is, by side, the demand of
    /// candidates for places.
    pub(crate) fn revisit<const W: usize>(
        &mut self,
        hot: &[ConnHot<W>],
        (now, budget): (Nanos, usize),
        wanted: &mut [Demand; 2],
    ) {
        self.now = self.now.max(now);
        self.slots.drain();
        let used = self.slots.used();
        for _ in 0..self.due_visits(used).min(budget as u64) {
            self.last_visited =
                if self.last_visited + 1 < used { self.last_visited + 1 } else { 0 };
            for direction in 0..2 {
                self.recheck((self.last_visited, direction), hot, wanted);
            }
        }
    }

    /// Returns how many of the `used` slots are due for a recheck.
    fn due_visits(&mut self, used: u32) -> u64 {
        if matches!(self.offload.admission, OffloadPolicy::After { .. }) {
            // Under this policy, no rule is removed for its score.
            return 0;
        }
        let pass = self.horizon.into_iter().min().unwrap_or(0).max(1);
        let due = (self.now - self.visited_at).saturating_mul(used.into()) / pass;
        if due > 0 {
            self.visited_at = self.now;
        }
        due.min(used.into())
    }

    fn recheck<const W: usize>(
        &mut self,
        (slot, direction): (u32, usize),
        hot: &[ConnHot<W>],
        wanted: &mut [Demand; 2],
    ) {
        let Some(state) = self.slots.get(slot) else { return };
        let (rule, zone) = (state.rules[direction], state.zone);
        let Some(record) = state.record().filter(|_| rule.lifecycle.is_live()) else { return };
        let watched = &mut self.watched[record as usize];
        let packets = u64::from(hot[record as usize].packets(direction as u8));
        let number = self.eval_interval.number(packets, record);
        let now = Tick::of(self.now);
        let rate = match rule.is_bypass {
            true => watched.rate_of_bypassed(direction, now),
            false => watched.rate_now(direction, number, now),
        };
        watched.rate[direction] = rate;
        if rate != rule.weight {
            self.update_score(slot, direction, rate);
        }
        let wanted = &mut wanted[rule.side as usize];
        let is_low = rate <= wanted.lowest.plus(1) && rate.plus(BETTER) <= wanted.worth;
        let is_too_slow = match self.offload.admission {
            OffloadPolicy::Rate { per_second } => rate.plus(4) < Score::per_second_of(per_second),
            _ => false,
        };
        let is_low_in_zone = rate.plus(BETTER) <= self.zones.missed(rule.side, zone);
        if is_low_in_zone {
            self.zones.make_room(rule.side, zone);
        }
        if is_too_slow || is_low_in_zone || is_low && wanted.places > 0 {
            wanted.places = wanted.places.saturating_sub(1);
            self.stats.evicted += 1;
            self.withdraw(slot, direction);
        }
    }
}
