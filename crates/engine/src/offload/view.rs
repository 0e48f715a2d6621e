// SPDX-License-Identifier: BSD-3-Clause
//! Reports the rule of one direction to operators: its state, or the reason why there is none.
//! Reports only read. Their rates are those that decide about admission.

use super::effect::RuleKind;
use super::rules::{FlowRules, NoRuleCause};
use super::score::Score;
use super::slots::{RuleEntry, RuleLifecycle};
use crate::api::{NoRuleReason, PROTO_TCP, PROTO_UDP, RuleState, RuleView, Side};
use crate::base::{Nanos, Tick};

/// State of one side, on which a report depends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SideStatus {
    pub(crate) is_full: bool,
    pub(crate) is_backing_off: bool,
}

/// A direction to report on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ViewInput {
    pub(crate) record: u32,
    /// 1: the sender is the second end of the key.
    pub(crate) direction: usize,
    pub(crate) proto: u8,
    pub(crate) zone: u16,
    /// Packets of this direction so far.
    pub(crate) packets: u64,
    /// When the connection began.
    pub(crate) start: Nanos,
    pub(crate) now: Nanos,
}

impl FlowRules {
    /// Returns the state of a direction's rule, or the reason why it has none.
    pub(crate) fn view(&self, subject: ViewInput, side_status: &[SideStatus; 2]) -> RuleView {
        let ViewInput { record, direction, now, .. } = subject;
        let eval = &self.evals[record as usize];
        let evaluated_at = eval.evaluated_at[direction];
        let ago = |tick: Tick| now.saturating_sub(Tick::of(now).since(tick));
        let rate = self.rate_now(subject);
        let slot = self.slots.get(eval.slot);
        if let Some(rule) = slot.map(|slot| slot.rules[direction]) {
            if let Some(state) = state_of(&rule) {
                return RuleView {
                    state,
                    reason: None,
                    since: Some(ago(rule.since)),
                    side: Some(rule.side),
                    rate: rate.per_second(),
                    hits: hits(&rule, subject.packets),
                };
            }
        }
        let was_evaluated = evaluated_at != Tick::ZERO;
        let side = was_evaluated.then_some(eval.side[direction]);
        let is_candidate = matches!(eval.no_rule[direction], NoRuleCause::Candidate(_));
        RuleView {
            state: if is_candidate { RuleState::Candidate } else { RuleState::None },
            reason: Some(self.reason(subject, rate, side_status)),
            since: was_evaluated.then(|| ago(evaluated_at)),
            side,
            rate: rate.per_second(),
            hits: 0,
        }
    }

    /// Returns the rate of a direction: that of the last evaluations, limited by the packets and
    /// the time since then.
    fn rate_now(&self, subject: ViewInput) -> Score {
        let ViewInput { record, direction, packets, start, now, .. } = subject;
        let eval = &self.evals[record as usize];
        let evaluated_at = eval.evaluated_at[direction];
        if self.is_bypassed(record, direction) {
            return eval.rate_of_bypassed(direction, Tick::of(now));
        }
        if evaluated_at == Tick::ZERO {
            return Score::of(packets, now.saturating_sub(start));
        }
        eval.rate_now(direction, self.eval_interval.number(packets, record), Tick::of(now))
    }

    /// Returns why a direction has no rule.
    pub(crate) fn reason(
        &self,
        subject: ViewInput,
        rate: Score,
        side_status: &[SideStatus; 2],
    ) -> NoRuleReason {
        let ViewInput { record, direction, proto, zone, packets, now, .. } = subject;
        if !matches!(proto, PROTO_TCP | PROTO_UDP) {
            return NoRuleReason::Protocol;
        }
        if !self.has_tag(zone) {
            return NoRuleReason::ZoneByRule;
        }
        let eval = &self.evals[record as usize];
        match eval.no_rule[direction] {
            NoRuleCause::Refused => return NoRuleReason::Refused,
            NoRuleCause::Ineffective => return NoRuleReason::Ineffective,
            NoRuleCause::None if eval.evaluated_at[direction] == Tick::ZERO => {
                return NoRuleReason::TooFewPackets { least: self.eval_interval.first() };
            }
            NoRuleCause::None | NoRuleCause::Candidate(_) => {}
        }
        let side = eval.side[direction];
        let side_status = side_status[side as usize];
        if self.classes.is_suspended(side, RuleKind::marks_of(proto), now) {
            return NoRuleReason::KindAside;
        }
        let below = self.below_threshold((side, packets), rate);
        let is_candidate = eval.no_rule[direction] != NoRuleCause::None;
        match below {
            Some(below) if !is_candidate => below,
            _ if side_status.is_backing_off => NoRuleReason::BackOff,
            _ if self.zones.is_full(side, zone) => NoRuleReason::ZoneFull,
            _ if side_status.is_full => NoRuleReason::NoCapacity,
            _ => NoRuleReason::Waiting,
        }
    }

    /// Returns [`NoRuleReason::BelowThreshold`] if a direction with this rate is not busy enough.
    fn below_threshold(&self, (side, packets): (Side, u64), rate: Score) -> Option<NoRuleReason> {
        let (score, least) = self.score(side, packets, rate);
        (score < least).then(|| NoRuleReason::BelowThreshold {
            score: score.per_second(),
            threshold: least.per_second(),
        })
    }
}

/// Returns the packets since the first one with the mark, or the packets that the NIC forwarded.
pub(crate) fn hits(rule: &RuleEntry, packets: u64) -> u64 {
    match rule.lifecycle {
        _ if rule.is_bypass => rule.passed,
        RuleLifecycle::Effective => packets.saturating_sub(rule.marked_from),
        _ => 0,
    }
}

/// Returns the reported state of a rule; `None` if there is no rule.
fn state_of(rule: &RuleEntry) -> Option<RuleState> {
    match rule.lifecycle {
        RuleLifecycle::None => None,
        RuleLifecycle::Requested => Some(RuleState::Requested),
        RuleLifecycle::Installed | RuleLifecycle::Effective if rule.is_bypass => {
            Some(RuleState::Bypassed)
        }
        RuleLifecycle::Installed => Some(RuleState::Installed),
        RuleLifecycle::Effective => Some(RuleState::Effective),
        RuleLifecycle::Withdrawn | RuleLifecycle::Removing => Some(RuleState::Removing),
    }
}
