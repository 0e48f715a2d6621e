// SPDX-License-Identifier: BSD-3-Clause
//! What a table does for flows that the NIC forwards by itself.

use super::Tracker;
use crate::api::{BypassCount, RuleId, RuleRequest, RuleResult, Side};
use crate::base::Nanos;
use crate::offload::{
    Demand, EvalInterval, FlowRules, PendingEval, RateSample, ResultEffect, Score, SlotIndex,
};

/// Between two looks whether a flow whose time is over may end.
pub(super) const RECALL_WAIT: Nanos = 20_000_000;

impl<const W: usize> Tracker<W> {
    /// The NIC has forwarded so many more packets by a rule, until now.
    pub(crate) fn add_bypass_count(&mut self, rule: RuleId, passed: BypassCount, now: Nanos) {
        let Some(rules) = self.rules.as_deref_mut() else { return };
        let Some(record) = rules.bypassed(rule) else { return };
        let hot = &mut self.table.hot[record as usize];
        let cold = &mut self.table.cold.0[record as usize];
        hot.add_bypass_count(cold, rule.direction, passed, now);
        rules.add_bypass_count((record, rule), passed, hot.totals(cold, rule.direction).0);
    }

    /// Whether a flow whose time is over has to wait for the NIC's last count of it.
    pub(crate) fn bypass_pending(&mut self, record: u32, now: Nanos) -> bool {
        self.rules.as_deref_mut().is_some_and(|rules| rules.withdraw_bypass(record, now))
    }

    /// When somebody looks at a direction; never without rules.
    #[inline(always)]
    pub(crate) fn eval_interval(&self) -> Option<EvalInterval> {
        self.eval_interval
    }

    /// A packet with the mark of this record had its key; true if it is the first of its rule.
    pub(crate) fn confirm_mark(&mut self, record: u32, direction: u8) -> bool {
        let Some(rules) = &mut self.rules else { return false };
        let hot = &mut self.table.hot[record as usize];
        let is_first = rules.confirm_mark(record, direction, hot);
        if is_first {
            let (packets, _) = hot.totals(&self.table.cold.0[record as usize], direction);
            rules.begin_hits(record, direction, packets);
        }
        is_first
    }

    /// Which mark is enough for packets of this record from here on; 0: none. Returns which was.
    #[inline(always)]
    pub(crate) fn set_expected_mark(&mut self, record: u32, mark: u32) -> u32 {
        std::mem::replace(&mut self.table.hot[record as usize].expected, mark)
    }

    /// The rules of its flows.
    pub(crate) fn rules(&self) -> Option<&FlowRules> {
        self.rules.as_deref()
    }

    /// The same, to change them.
    pub(crate) fn rules_mut(&mut self) -> Option<&mut FlowRules> {
        self.rules.as_deref_mut()
    }

    /// Which records slots name.
    #[inline(always)]
    pub(crate) fn named(&self) -> SlotIndex<'_> {
        self.rules.as_deref().map_or(SlotIndex::NONE, |rules| rules.slots().named())
    }

    /// Visits rules: [`FlowRules::revisit`].
    pub(crate) fn revisit(&mut self, turn: (Nanos, usize), wanted: &mut [Demand; 2]) {
        if let Some(rules) = &mut self.rules {
            rules.revisit(&self.table.hot, turn, wanted);
        }
    }

    /// Asks for a rule of the best candidate of a side, which is worth so much.
    pub(crate) fn request_rule(&mut self, side: Side, worth: Score) -> Option<RuleRequest> {
        let rules = self.rules.as_deref_mut()?;
        for _ in 0..CANDIDATES {
            let who = rules.take_candidate(side, worth)?;
            let hot = &mut self.table.hot[who.record as usize];
            if rules.has_place(hot.key.zone(), (side, worth)) {
                let (packets, _) =
                    hot.totals(&self.table.cold.0[who.record as usize], who.direction);
                return rules.request_rule(who, (side, worth), (hot, packets));
            }
        }
        None
    }

    /// Learns what became of a wish.
    pub(crate) fn apply_result(&mut self, rule: RuleId, answer: RuleResult) -> ResultEffect {
        let Some(rules) = &mut self.rules else { return ResultEffect::default() };
        let learnt = rules.apply_result(rule, answer);
        if let Some(record) = learnt.without_rule {
            rules.release(record, &mut self.table.hot[record as usize]);
        }
        learnt
    }

    pub(super) fn evaluate(
        &mut self,
        PendingEval { record, direction, side }: PendingEval,
        is_marked: bool,
    ) {
        let Some(rules) = &mut self.rules else { return };
        let hot = &mut self.table.hot[record as usize];
        let (packets, start) = hot.totals(&self.table.cold.0[record as usize], direction);
        rules.evaluate((RateSample { record, direction, packets, start, is_marked }, side), hot);
    }
}

/// Candidates that are tried for one rule: more are for the next time.
const CANDIDATES: usize = 16;
