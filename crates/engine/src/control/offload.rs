// SPDX-License-Identifier: BSD-3-Clause
//! Makes rule requests, applies their results, and rechecks rules. What both tables share is
//! decided here.

use crate::api::{
    MarkStats, MarkUse, OffloadStats, OffloadStatus, RuleId, RuleRequest, RuleResult, Side,
};
use crate::base::Nanos;
use crate::engine::Engine;
use crate::offload::{Demand, FlowRules, RuleBudget, RuleCounts, Score};

impl Engine {
    /// Returns the next rule request to the port, if there is one.
    ///
    /// Removals come first: they make room, and their marks are the ones that can do harm. Install
    /// requests in flight are limited to what the NIC installs in a moment, so that the best
    /// candidates get rules.
    pub fn next_request(&mut self) -> Option<RuleRequest> {
        let remove = self.trackers.v4.rules_mut().and_then(FlowRules::next_remove);
        let remove =
            remove.or_else(|| self.trackers.v6.rules_mut().and_then(FlowRules::next_remove));
        remove.or_else(|| Side::BOTH.into_iter().find_map(|side| self.request_rule(side)))
    }

    fn request_rule(&mut self, side: Side) -> Option<RuleRequest> {
        let live = self.live(side);
        if !self.budget.as_ref()?.can_request(side, live, self.now) {
            return None;
        }
        let best = self.best(side);
        let request = match best {
            (v4, v6) if v4 >= v6 => self.trackers.v4.request_rule(side, v4?),
            (_, v6) => self.trackers.v6.request_rule(side, v6?),
        }?;
        self.budget.as_mut()?.on_request(side);
        Some(request)
    }

    /// Applies the result of a rule request.
    pub fn apply_result(&mut self, rule: RuleId, result: RuleResult) {
        let Some(marked) = self.pipeline.marked() else { return };
        let is_of_v6 = marked.is_of_v6(rule.index);
        if let RuleResult::Passed(passed) = result {
            return match is_of_v6 {
                false => self.trackers.v4.add_bypass_count(rule, passed, self.now),
                true => self.trackers.v6.add_bypass_count(rule, passed, self.now),
            };
        }
        let effect = match is_of_v6 {
            false => self.trackers.v4.apply_result(rule, result),
            true => self.trackers.v6.apply_result(rule, result),
        };
        let Some(side) = effect.answered else { return };
        let live = self.live(side);
        if let Some(rule_budget) = &mut self.budget {
            rule_budget.on_result(side, result, self.now, live);
        }
    }

    /// Rechecks up to `budget` rules: whether they are still worth their place. Call it between
    /// bursts.
    pub fn recheck_rules(&mut self, now: Nanos, budget: usize) {
        self.advance(now);
        let evaluates = self.update_mark_choice();
        let allows_marks = self.allows_marks();
        self.trackers.v4.allow_marks((allows_marks, evaluates), budget);
        self.trackers.v6.allow_marks((allows_marks, evaluates), budget);
        let Some(mut rule_budget) = self.budget.take() else { return };
        self.update_payback(&rule_budget);
        if allows_marks {
            rule_budget.probe_capacity(self.now);
        }
        let mut demands = Side::BOTH.map(|side| self.demand(side, &rule_budget));
        for rules in self.trackers.each_rules_mut() {
            for (side, demand) in Side::BOTH.into_iter().zip(&demands) {
                rules.set_threshold(side, demand.threshold, rule_budget.payback_time(side));
            }
        }
        let turn = (self.now, budget.div_ceil(2));
        self.trackers.v4.recheck_slots(turn, &mut demands);
        self.trackers.v6.recheck_slots(turn, &mut demands);
        self.budget = Some(rule_budget);
    }

    /// Gives the choice of marks the numbers of rules and connections. True if directions are
    /// evaluated now.
    fn update_mark_choice(&mut self) -> bool {
        let live = Side::BOTH.map(|side| (side, self.live(side)));
        let connections = self.accounts.stats.active();
        let Some(choice) = &mut self.mark_choice else { return true };
        let (budget, horizon) = (self.budget.as_ref(), choice.horizon());
        let attainable =
            |of_side| budget.map_or(0, |budget: &RuleBudget| budget.attainable(of_side, horizon));
        let attainable = live.into_iter().map(attainable).sum();
        let rules = live.into_iter().map(|(_, live)| live).sum();
        choice.note_counts(RuleCounts { rules, attainable, connections });
        self.pipeline.mark_use = choice.way();
        choice.evaluates(self.now)
    }

    /// Measures how many packets pay for a bypass.
    fn update_payback(&mut self, rule_budget: &RuleBudget) {
        if !self.packet_cost.is_due(self.now) {
            return;
        }
        self.packet_cost.measure((self.now, (self.cycle_counter)()), &self.accounts.stats);
        for rules in self.trackers.each_rules_mut() {
            for side in Side::BOTH {
                let packets = self.packet_cost.payback_packets(rule_budget.effort(side));
                rules.set_payback_packets(side, packets);
            }
        }
    }

    /// Returns the demand of a side's candidates for the places of existing rules.
    fn demand(&mut self, side: Side, rule_budget: &RuleBudget) -> Demand {
        let is_full = rule_budget.is_full(side, self.live(side));
        if !(is_full && rule_budget.replaces()) {
            return Demand::NOTHING;
        }
        let of = |rules: Option<&FlowRules>| rules.and_then(|rules| rules.lowest(side));
        let (v4, v6) = (of(self.trackers.v4.rules()), of(self.trackers.v6.rules()));
        let lowest = v4.into_iter().chain(v6).min().unwrap_or(Score::ZERO);
        let (v4, v6) = self.best(side);
        match v4.max(v6) {
            None => Demand::none_above(lowest),
            Some(score) => Demand::places(rule_budget.in_flight_max(side), score, lowest),
        }
    }

    /// True if rules that set marks may be installed.
    fn allows_marks(&self) -> bool {
        self.mark_choice.as_ref().is_none_or(|choice| choice.in_use() != MarkUse::NoRules)
    }

    /// Returns the scores of the best candidates of both tables.
    fn best(&mut self, side: Side) -> (Option<Score>, Option<Score>) {
        let best = |rules: Option<&mut FlowRules>| rules.and_then(|rules| rules.best(side));
        (best(self.trackers.v4.rules_mut()), best(self.trackers.v6.rules_mut()))
    }

    /// Returns the number of live rules of a side: those that the NIC has or is to have.
    pub(crate) fn live(&self, side: Side) -> u32 {
        let of = |rules: Option<&FlowRules>| rules.map_or(0, |rules| rules.live_count(side));
        of(self.trackers.v4.rules()) + of(self.trackers.v6.rules())
    }

    /// Withdraws all bypasses, and requests no more rules. For the end of a run, before
    /// [`flush`](Self::flush).
    pub fn withdraw_bypass(&mut self) {
        self.budget = None;
        for rules in self.trackers.each_rules_mut() {
            rules.withdraw_all_bypasses();
        }
    }

    /// Calls connections back from the NIC, before access lists change: allows no bypass until
    /// [`set_access`](Self::set_access), and withdraws those of up to `budget` more slots of marks.
    /// Returns how many rules forward packets, or may still do so. Call it until that is 0, or for
    /// as long as the change can wait.
    pub fn recall_bypasses(&mut self, budget: u32) -> u32 {
        let now = self.now;
        for rules in self.trackers.each_rules_mut() {
            rules.recall_bypasses(budget, now);
        }
        self.bypasses()
    }

    /// Returns the number of rules by which the NIC may still forward packets. Once it is 0, all
    /// counts of the NIC are known.
    pub fn bypasses(&self) -> u32 {
        let of = |rules: Option<&FlowRules>| rules.map_or(0, FlowRules::bypasses);
        of(self.trackers.v4.rules()) + of(self.trackers.v6.rules())
    }

    /// Notes that the receive queue of a side was empty, so that no packet with an older mark is
    /// left in it. Without these calls, slots are used again after as many packets as a queue
    /// holds.
    pub fn queue_drained(&mut self, side: Side) {
        for rules in self.trackers.each_rules_mut() {
            rules.queue_drained(side);
        }
    }

    /// Returns the counters of marked packets.
    pub fn mark_stats(&self) -> MarkStats {
        self.pipeline.marked().map_or(MarkStats::default(), |marked| marked.stats)
    }

    /// Returns the counters of rules.
    pub fn offload_stats(&self) -> OffloadStats {
        let of =
            |rules: Option<&FlowRules>| rules.map_or(OffloadStats::default(), FlowRules::stats);
        of(self.trackers.v4.rules()).plus(of(self.trackers.v6.rules()))
    }

    /// Returns the state of the rules of a side.
    pub fn offload_state(&self, side: Side) -> OffloadStatus {
        let Some(rule_budget) = &self.budget else { return OffloadStatus::default() };
        let of =
            |rules: Option<&FlowRules>| rules.map_or(0, |rules| rules.suspended(side, self.now));
        let threshold = self.trackers.v4.rules().map_or(Score::ZERO, |rules| rules.threshold(side));
        OffloadStatus {
            live: self.live(side),
            threshold: threshold.per_second(),
            room: rule_budget.capacity(side),
            horizon_ns: rule_budget.payback_time(side),
            kinds_aside: of(self.trackers.v4.rules()) + of(self.trackers.v6.rules()),
            marks: self.mark_choice.as_ref().map(|choice| choice.status()).unwrap_or_default(),
            payback_packets: self.packet_cost.payback_packets(rule_budget.effort(side)),
            packet_ns: self.packet_cost.nanos(),
        }
    }
}
