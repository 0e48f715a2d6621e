// SPDX-License-Identifier: BSD-3-Clause
//! The engine's dealings with whoever makes rules: wishes out, answers in, and a look at what there
//! is now and then. What both tables share is settled here.

use crate::api::{MarkStats, OffloadStats, OffloadStatus, RuleId, RuleRequest, RuleResult, Side};
use crate::base::Nanos;
use crate::engine::Engine;
use crate::offload::{Demand, FlowRules, RuleBudget, Score};

impl Engine {
    /// What a port is to do next, if there is something. Rules that are to go come first: they make
    /// room, and their marks are the ones that can do harm. No more new ones are wished for than
    /// are made in a moment, so that the best are.
    pub fn next_request(&mut self) -> Option<RuleRequest> {
        let remove = self.trackers.v4.rules_mut().and_then(FlowRules::next_remove);
        let remove =
            remove.or_else(|| self.trackers.v6.rules_mut().and_then(FlowRules::next_remove));
        remove.or_else(|| Side::BOTH.into_iter().find_map(|side| self.request_rule(side)))
    }

    fn request_rule(&mut self, side: Side) -> Option<RuleRequest> {
        let live = self.live(side);
        if !self.budget.as_ref()?.may_ask(side, live, self.now) {
            return None;
        }
        let best = self.best(side);
        let wish = match best {
            (v4, v6) if v4 >= v6 => self.trackers.v4.request_rule(side, v4?),
            (_, v6) => self.trackers.v6.request_rule(side, v6?),
        }?;
        self.budget.as_mut()?.on_request(side);
        Some(wish)
    }

    /// Learns what became of a wish.
    pub fn apply_result(&mut self, rule: RuleId, answer: RuleResult) {
        let Some(marked) = self.pipeline.marked() else { return };
        let is_of_v6 = marked.is_of_v6(rule.index);
        if let RuleResult::Passed(passed) = answer {
            return match is_of_v6 {
                false => self.trackers.v4.add_bypass_count(rule, passed, self.now),
                true => self.trackers.v6.add_bypass_count(rule, passed, self.now),
            };
        }
        let learnt = match is_of_v6 {
            false => self.trackers.v4.apply_result(rule, answer),
            true => self.trackers.v6.apply_result(rule, answer),
        };
        let Some(side) = learnt.answered else { return };
        let live = self.live(side);
        if let Some(governor) = &mut self.budget {
            governor.on_result(side, answer, self.now, live);
        }
    }

    /// Looks at up to `budget` rules, whether they are still worth their place. Call it between
    /// bursts.
    pub fn revisit_rules(&mut self, now: Nanos, budget: usize) {
        self.advance(now);
        let Some(mut governor) = self.budget.take() else { return };
        governor.probe_capacity(self.now);
        let mut wanted = Side::BOTH.map(|side| self.wanted(side, &governor));
        for rules in
            [self.trackers.v4.rules_mut(), self.trackers.v6.rules_mut()].into_iter().flatten()
        {
            for (side, wanted) in Side::BOTH.into_iter().zip(&wanted) {
                rules.set_terms(side, wanted.bar, governor.payback_time(side));
            }
        }
        let turn = (self.now, budget.div_ceil(2));
        self.trackers.v4.revisit(turn, &mut wanted);
        self.trackers.v6.revisit(turn, &mut wanted);
        self.budget = Some(governor);
    }

    /// What a side's candidates want of those that have rules.
    fn wanted(&mut self, side: Side, governor: &RuleBudget) -> Demand {
        let is_full = governor.is_full(side, self.live(side));
        if !(is_full && governor.replaces()) {
            return Demand::NOTHING;
        }
        let of = |rules: Option<&FlowRules>| rules.and_then(|rules| rules.lowest(side));
        let (v4, v6) = (of(self.trackers.v4.rules()), of(self.trackers.v6.rules()));
        let lowest = v4.into_iter().chain(v6).min().unwrap_or(Score::ZERO);
        let (v4, v6) = self.best(side);
        match v4.max(v6) {
            None => Demand::none_above(lowest),
            Some(worth) => Demand::places(governor.in_flight_max(side), worth, lowest),
        }
    }

    /// The worth of the best candidates of both tables.
    fn best(&mut self, side: Side) -> (Option<Score>, Option<Score>) {
        let best = |rules: Option<&mut FlowRules>| rules.and_then(|rules| rules.best(side));
        (best(self.trackers.v4.rules_mut()), best(self.trackers.v6.rules_mut()))
    }

    /// Rules of a side that the NIC is to have.
    pub(crate) fn live(&self, side: Side) -> u32 {
        let of = |rules: Option<&FlowRules>| rules.map_or(0, |rules| rules.live_count(side));
        of(self.trackers.v4.rules()) + of(self.trackers.v6.rules())
    }

    /// Has every flow come back that the NIC forwards by itself, and wishes for no rule any more:
    /// for the end, before [`flush`](Self::flush).
    pub fn withdraw_bypass(&mut self) {
        self.budget = None;
        for rules in
            [self.trackers.v4.rules_mut(), self.trackers.v6.rules_mut()].into_iter().flatten()
        {
            rules.withdraw_all_bypasses();
        }
    }

    /// Rules by which the NIC may still forward by itself. What it counted is known once there is
    /// none.
    pub fn bypasses(&self) -> u32 {
        let of = |rules: Option<&FlowRules>| rules.map_or(0, FlowRules::bypasses);
        of(self.trackers.v4.rules()) + of(self.trackers.v6.rules())
    }

    /// The receive queue of a side was empty: no packet with an older mark is left in it. Who never
    /// says so, or not often, gets rules again after as many packets as a queue holds.
    pub fn queue_drained(&mut self, side: Side) {
        for rules in
            [self.trackers.v4.rules_mut(), self.trackers.v6.rules_mut()].into_iter().flatten()
        {
            rules.queue_drained(side);
        }
    }

    /// What became of packets with a mark.
    pub fn mark_stats(&self) -> MarkStats {
        self.pipeline.marked().map_or(MarkStats::default(), |marked| marked.stats)
    }

    /// What became of rules.
    pub fn offload_stats(&self) -> OffloadStats {
        let of =
            |rules: Option<&FlowRules>| rules.map_or(OffloadStats::default(), FlowRules::stats);
        of(self.trackers.v4.rules()).plus(of(self.trackers.v6.rules()))
    }

    /// How things stand with the rules of a side.
    pub fn offload_state(&self, side: Side) -> OffloadStatus {
        let Some(governor) = &self.budget else { return OffloadStatus::default() };
        let of =
            |rules: Option<&FlowRules>| rules.map_or(0, |rules| rules.suspended(side, self.now));
        let bar = self.trackers.v4.rules().map_or(Score::ZERO, |rules| rules.threshold(side));
        OffloadStatus {
            live: self.live(side),
            threshold: bar.per_second(),
            room: governor.capacity(side),
            horizon_ns: governor.payback_time(side),
            kinds_aside: of(self.trackers.v4.rules()) + of(self.trackers.v6.rules()),
        }
    }
}
