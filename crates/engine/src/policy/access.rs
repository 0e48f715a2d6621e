// SPDX-License-Identifier: BSD-3-Clause
//! Judges a packet by the access lists of its way through the pair.

use crate::api::{AccessLists, MarkChange, RuleDecision, Side};
use acl::{AccessList, Action, Packet, Rule};
use std::sync::Arc;

/// Stands for no counter of a rule.
pub(crate) const NO_RULE: u32 = u32::MAX;

/// What happens to a packet that the lists have judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Permit,
    Deny,
    /// As `Deny`, and its sender is told.
    Reject,
}

/// What the lists say about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Judgement {
    /// Counters of the rules that decided: of the list for arriving packets, and of the list for
    /// leaving ones. [`NO_RULE`] if there is no such list, or the packet did not come so far.
    pub(crate) rules: [u32; 2],
    pub(crate) permits: bool,
    /// True if it is not permitted, and its sender is to be told.
    pub(crate) rejects: bool,
    /// True if all packets of its connection pass, in both directions.
    pub(crate) reflects: bool,
    /// True if its connection gets no NIC rule.
    pub(crate) no_offload: bool,
    /// True if another packet of its connection and direction may be judged otherwise, or if a rule
    /// only counts it.
    pub(crate) varies: bool,
    /// What its rules write to the mark and label of the connection; nothing if it is denied.
    pub(crate) marks: MarkChange,
}

impl Judgement {
    /// Judgement without any list.
    const PERMIT: Judgement = Judgement {
        rules: [NO_RULE; 2],
        permits: true,
        rejects: false,
        reflects: false,
        no_offload: false,
        varies: false,
        marks: MarkChange::NONE,
    };

    /// Returns what happens to the packet.
    pub(crate) fn outcome(&self) -> Outcome {
        match (self.permits, self.rejects) {
            (true, _) => Outcome::Permit,
            (false, false) => Outcome::Deny,
            (false, true) => Outcome::Reject,
        }
    }
}

impl AccessLists {
    /// True if packets that arrive at this side are judged.
    #[inline(always)]
    pub(crate) fn is_bound(&self, side: Side) -> bool {
        self.chains[side as usize] != [None; 2]
    }

    /// True if a packet that cannot be compared with rules is dropped: a rule that might match it
    /// denies, or the default of a list.
    pub(crate) fn denies_unjudged(&self, side: Side) -> bool {
        let lists = self.chains[side as usize].iter().flatten();
        lists.into_iter().any(|list| self.lists[*list].denies)
    }

    /// True if a rule that judges packets which arrive at this side names the state `invalid`.
    #[inline(always)]
    pub(crate) fn mentions_invalid(&self, side: Side) -> bool {
        let lists = self.chains[side as usize].iter().flatten();
        self.mentions_ct && lists.into_iter().any(|list| self.lists[*list].mentions_invalid)
    }

    /// Judges a packet that arrives at this side.
    #[inline(never)]
    pub(crate) fn judge(&self, side: Side, packet: &Packet) -> Judgement {
        let mut judgement = Judgement::PERMIT;
        for (index, counter) in self.chains[side as usize].iter().zip(&mut judgement.rules) {
            let Some(searched) = index.and_then(|index| self.lists.get(index)) else { continue };
            let found = searched.search.find(packet);
            let rules = searched.list.rules.len() as u32;
            *counter = searched.first_rule + found.rule.unwrap_or(rules);
            let action = searched.list.action(found.rule);
            let rule = found.rule.and_then(|rule| searched.list.rules.get(rule as usize));
            judgement.no_offload |= rule.is_some_and(|rule| rule.options.no_offload);
            judgement.varies |= found.varies;
            judgement.reflects |= action == Action::PermitReflect;
            if !action.permits() {
                (judgement.permits, judgement.reflects) = (false, false);
                judgement.rejects = action == Action::Reject;
                break;
            }
        }
        if self.sets_marks && judgement.permits {
            judgement.marks = self.mark_change(side, packet, &judgement);
        }
        judgement
    }

    /// Returns what the rules that count a packet and the rules that permit it write to the mark
    /// and label of its connection, in the order of lists and rules.
    #[inline(never)]
    fn mark_change(&self, side: Side, packet: &Packet, judgement: &Judgement) -> MarkChange {
        let mut change = MarkChange::NONE;
        self.for_each_rule(side, (packet, judgement), &mut |_, rule| {
            change = change.then(MarkChange::of_rule(rule.options));
        });
        change
    }

    /// Returns the judgement about a packet that arrives at this side and whose first matching rule
    /// is known; `None` if that rule does not decide alone.
    pub(crate) fn judge_by_rule(&self, side: Side, rule: u32) -> Option<Judgement> {
        let decision = self.decision_of(side, rule);
        let rules = match self.chains[side as usize][0] {
            Some(_) => [rule, NO_RULE],
            None => [NO_RULE, rule],
        };
        (decision != RuleDecision::Open).then_some(Judgement {
            rules,
            permits: decision != RuleDecision::Deny,
            reflects: decision == RuleDecision::Reflect,
            ..Judgement::PERMIT
        })
    }

    /// Returns the list on the way of a packet, and the index in it, of the rule with this counter,
    /// if it logs packets.
    pub(crate) fn logging_rule(&self, side: Side, counter: u32) -> Option<(&Arc<AccessList>, u32)> {
        let lists = self.chains[side as usize].iter().flatten().map(|list| &self.lists[*list]);
        lists.into_iter().find_map(|searched| {
            let rule = counter.checked_sub(searched.first_rule)?;
            let logs = searched.list.rules.get(rule as usize)?.options.log;
            logs.then_some((&searched.list, rule))
        })
    }

    /// Calls `count` with the counter of each rule that only counts this packet.
    pub(crate) fn for_each_counting(
        &self,
        side: Side,
        packet: (&Packet, &Judgement),
        count: &mut impl FnMut(u32),
    ) {
        self.for_each_rule(side, packet, &mut |counter, rule| {
            if rule.action == Action::Count {
                count(counter);
            }
        });
    }

    /// Calls `visit` for each rule that counts this packet or has decided about it, in their order.
    fn for_each_rule(
        &self,
        side: Side,
        (packet, judgement): (&Packet, &Judgement),
        visit: &mut impl FnMut(u32, &Rule),
    ) {
        for (index, counter) in self.chains[side as usize].iter().zip(judgement.rules) {
            let searched = index.and_then(|index| self.lists.get(index));
            let Some(searched) = searched.filter(|_| counter != NO_RULE) else { continue };
            let end = counter - searched.first_rule;
            for &rule in searched.count_rules.iter().take_while(|rule| **rule < end) {
                let counting = &searched.list.rules[rule as usize];
                if counting.criteria.matches(packet) {
                    visit(searched.first_rule + rule, counting);
                }
            }
            if let Some(rule) = searched.list.rules.get(end as usize) {
                visit(counter, rule);
            }
        }
    }
}
