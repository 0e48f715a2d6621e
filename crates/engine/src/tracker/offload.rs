// SPDX-License-Identifier: BSD-3-Clause
//! Connects the table with its NIC rules: counts of bypasses, requests, results and evaluations.

use super::Tracker;
use crate::api::{BypassCount, RuleId, RuleRequest, RuleResult, Side};
use crate::base::Nanos;
use crate::offload::{
    Demand, EvalInterval, FlowRules, PendingEval, RateSample, ResultEffect, Score, SlotIndex,
};
use crate::packet::PacketView;

/// Time between two checks whether a bypassed connection may end, in nanoseconds.
pub(super) const RECALL_WAIT: Nanos = 20_000_000;

impl<const W: usize> Tracker<W> {
    /// Counts packets that the NIC has forwarded by a rule since the last count.
    pub(crate) fn add_bypass_count(&mut self, rule: RuleId, passed: BypassCount, now: Nanos) {
        let Some(rules) = self.rules.as_deref_mut() else { return };
        let Some(record) = rules.bypassed(rule) else { return };
        // Until a connection leaves the embryonic list, words of its counters are links.
        self.table.unlink_embryonic(record);
        let hot = &mut self.table.hot[record as usize];
        let cold = &mut self.table.cold.0[record as usize];
        hot.add_bypass_count(cold, rule.direction, passed, now);
        let packets = hot.totals(cold, rule.direction).0;
        rules.add_bypass_count((record, rule), (passed, packets), hot.key.proto());
    }

    /// True if a connection whose timeout has passed must wait for the NIC's last count.
    pub(crate) fn bypass_pending(&mut self, record: u32, now: Nanos) -> bool {
        self.rules.as_deref_mut().is_some_and(|rules| rules.withdraw_bypass(record, now))
    }

    /// Withdraws the bypasses of a connection whose state this packet may change: SYN, FIN or RST.
    pub(super) fn end_bypass(&mut self, record: u32, packet: &PacketView) {
        let hot = &self.table.hot[record as usize];
        let Some(rules) = self.rules.as_deref_mut().filter(|_| hot.was_evaluated()) else { return };
        // A packet that changes nothing must not cost a rule.
        if rules.has_bypass(record) && packet.is_intact(&hot.key) {
            rules.end_bypass(record, packet.now);
        }
    }

    /// Arms the timer of a connection whose numbers are unknown, after a FIN or RST. It lives on if
    /// packets follow.
    pub(super) fn shorten_unknown(&mut self, record: u32, now: Nanos) {
        let hot = &self.table.hot[record as usize];
        if hot.has_unknown_numbers() {
            let timeout = self.timeouts.of(hot);
            self.rearm_earlier(record, now.saturating_add(timeout));
        }
    }

    /// Returns at which packets a direction is evaluated; `None` without rules.
    #[inline(always)]
    pub(crate) fn eval_interval(&self) -> Option<EvalInterval> {
        self.eval_interval
    }

    /// True if this mark, which names the record, is not trusted yet. With
    /// [`MarkVerification::Always`](crate::MarkVerification::Always), none ever is.
    pub(crate) fn is_unverified(&self, record: u32, (mark, rule): (u32, RuleId)) -> bool {
        // If the record alone decides, the slot, which is rarely in the cache, is not loaded.
        let is_expected = (mark ^ self.table.hot[record as usize].expected) & !1 == 0;
        let rules = self.rules.as_ref().filter(|_| !is_expected);
        rules.is_some_and(|rules| rules.is_unverified(record, rule))
    }

    /// Notes that a packet with the mark of this record had its key. True if it is the first of its
    /// rule.
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

    /// Notes that packets of this burst had the mark of their rule and are processed without it.
    #[cold]
    pub(crate) fn set_unread_marks(&mut self) {
        if let Some(rules) = &mut self.rules {
            rules.set_unread_marks();
        }
    }

    /// Sets whether rules that set marks may be installed: [`FlowRules::allow_marks`].
    ///
    /// Without `evaluates`, or if no rule may be installed at all, no direction is evaluated. If
    /// only bypasses may be installed, directions are evaluated less often: a few packets more make
    /// no difference to them, but each evaluation costs cache misses.
    pub(crate) fn allow_marks(&mut self, (allows_marks, evaluates): (bool, bool), budget: usize) {
        let Some(rules) = self.rules.as_deref_mut() else { return };
        rules.allow_marks(allows_marks, budget);
        let interval = rules.eval_interval();
        self.eval_interval = match allows_marks {
            true => Some(interval),
            false => rules.may_bypass().then(|| interval.with_few_later()),
        };
        self.eval_interval = self.eval_interval.filter(|_| evaluates);
    }

    /// Sets the mark that is enough for packets of this record; 0 for none. Returns the old one.
    #[inline(always)]
    pub(crate) fn set_expected_mark(&mut self, record: u32, mark: u32) -> u32 {
        std::mem::replace(&mut self.table.hot[record as usize].expected, mark)
    }

    /// Returns the NIC rules of its connections.
    pub(crate) fn rules(&self) -> Option<&FlowRules> {
        self.rules.as_deref()
    }

    /// Returns the NIC rules of its connections, to change them.
    pub(crate) fn rules_mut(&mut self) -> Option<&mut FlowRules> {
        self.rules.as_deref_mut()
    }

    /// Returns the map from slots to records.
    #[inline(always)]
    pub(crate) fn slot_index(&self) -> SlotIndex<'_> {
        self.rules.as_deref().map_or(SlotIndex::NONE, |rules| rules.slots().slot_index())
    }

    /// Rechecks rules: [`FlowRules::recheck_slots`].
    pub(crate) fn recheck_slots(&mut self, turn: (Nanos, usize), demands: &mut [Demand; 2]) {
        if let Some(rules) = &mut self.rules {
            rules.recheck_slots(&self.table.hot, turn, demands);
        }
    }

    /// Requests a rule for the best candidate of a side, which has this score.
    pub(crate) fn request_rule(&mut self, side: Side, score: Score) -> Option<RuleRequest> {
        let rules = self.rules.as_deref_mut()?;
        for _ in 0..CANDIDATES {
            let candidate = rules.take_candidate(side, score)?;
            let access = self.table.access.as_ref();
            // It may have become a candidate before a list excluded it.
            if access.is_some_and(|column| column.conns[candidate.record as usize].no_offload) {
                continue;
            }
            let hot = &mut self.table.hot[candidate.record as usize];
            if rules.has_zone_room(hot.key.zone(), (side, score)) {
                let (packets, _) =
                    hot.totals(&self.table.cold.0[candidate.record as usize], candidate.direction);
                return rules.request_rule(candidate, (side, score), (hot, packets));
            }
        }
        None
    }

    /// Applies the result of a rule request.
    pub(crate) fn apply_result(&mut self, rule: RuleId, result: RuleResult) -> ResultEffect {
        let Some(rules) = &mut self.rules else { return ResultEffect::default() };
        let effect = rules.apply_result(rule, result);
        if let Some(record) = effect.without_bypass {
            self.table.hot[record as usize].resume_window_check();
        }
        if let Some(record) = effect.without_rule {
            rules.release(record, &mut self.table.hot[record as usize]);
        }
        effect
    }

    pub(super) fn evaluate(
        &mut self,
        PendingEval { record, direction, side }: PendingEval,
        is_marked: bool,
    ) {
        if !self.allows_offload(record) {
            return;
        }
        let Some(rules) = &mut self.rules else { return };
        let hot = &mut self.table.hot[record as usize];
        let (packets, start) = hot.totals(&self.table.cold.0[record as usize], direction);
        rules.evaluate((RateSample { record, direction, packets, start, is_marked }, side), hot);
    }
}

/// Most candidates that are tried for one rule. The others wait for the next request.
const CANDIDATES: usize = 16;
