// SPDX-License-Identifier: BSD-3-Clause
//! Rules of a port as its programmer knows them. What is asked for is not there, and what is asked
//! to go is not gone, until its result has come.

use crate::port::RuleNumber;
use crate::programmer::Worker;
use engine::{BypassCount, FiveTuple, Nanos, RuleAction, RuleId};
use std::collections::HashMap;

/// How far a rule is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It is asked for.
    Coming,
    /// The port has it.
    There,
    /// It is asked to go.
    Leaving,
    /// The port had it, and is to have it again.
    Lost,
}

/// What is to be done with packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) tuple: FiveTuple,
    pub(crate) action: RuleAction,
}

/// A rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleHandle {
    pub(crate) state: State,
    pub(crate) request: Request,
    pub(crate) worker: Worker,
    /// Its worker knows that it was made.
    pub(crate) is_told: bool,
    /// Its worker wants it no more, and waits for it to go.
    pub(crate) is_unwanted: bool,
    /// When the last operation was begun.
    pub(crate) begun: Nanos,
    /// Of before, where it was lost.
    pub(crate) number: RuleNumber,
    /// What its worker knows that it has forwarded.
    pub(crate) told: BypassCount,
}

/// All rules of a port, at most one for the same packets.
#[derive(Default)]
pub(crate) struct RuleTable {
    rules: HashMap<RuleId, RuleHandle>,
    by_tuple: HashMap<FiveTuple, RuleId>,
    operations: HashMap<RuleNumber, RuleId>,
    /// Rules that the port has.
    there: usize,
    next: RuleNumber,
}

impl RuleTable {
    /// Rules that the port has.
    pub(crate) fn there(&self) -> usize {
        self.there
    }

    /// Rules of all states.
    pub(crate) fn len(&self) -> usize {
        self.rules.len()
    }

    /// Operations that have no result yet.
    pub(crate) fn operations(&self) -> usize {
        self.operations.len()
    }

    pub(crate) fn get(&mut self, rule: RuleId) -> Option<&mut RuleHandle> {
        self.rules.get_mut(&rule)
    }

    /// The rule of these packets.
    pub(crate) fn of_tuple(&self, tuple: &FiveTuple) -> Option<(RuleId, State)> {
        let rule = *self.by_tuple.get(tuple)?;
        Some((rule, self.rules[&rule].state))
    }

    /// So many rules at most of which nothing is on its way.
    pub(crate) fn at_rest(&self, most: usize) -> Vec<RuleId> {
        let is_at_rest = |kept: &RuleHandle| matches!(kept.state, State::There | State::Lost);
        let rules = self.rules.iter().filter(|(_, kept)| is_at_rest(kept));
        rules.take(most).map(|(rule, _)| *rule).collect()
    }

    /// A rule is asked for, of packets that have none.
    pub(crate) fn begin(
        &mut self,
        rule: RuleId,
        (worker, request): (Worker, Request),
        begun: Nanos,
    ) -> RuleNumber {
        let number = self.take_number(rule);
        let (is_told, is_unwanted) = (false, false);
        let (state, told) = (State::Coming, BypassCount::default());
        let kept = RuleHandle { state, request, worker, is_told, is_unwanted, begun, number, told };
        self.rules.insert(rule, kept);
        self.by_tuple.insert(request.tuple, rule);
        number
    }

    /// A lost rule is asked for again.
    pub(crate) fn begin_again(&mut self, rule: RuleId, begun: Nanos) -> RuleNumber {
        let number = self.take_number(rule);
        let kept = self.rules.get_mut(&rule).expect("a lost rule is kept");
        (kept.state, kept.begun, kept.number) = (State::Coming, begun, number);
        kept.told = BypassCount::default();
        number
    }

    /// A rule that is there is asked to go.
    pub(crate) fn leave(&mut self, rule: RuleId, begun: Nanos) -> RuleNumber {
        let kept = self.rules.get_mut(&rule).expect("a rule that is there is kept");
        (kept.state, kept.begun) = (State::Leaving, begun);
        self.operations.insert(kept.number, rule);
        kept.number
    }

    /// The rule that has a result; `None` for one of before all were lost.
    pub(crate) fn end(&mut self, number: RuleNumber) -> Option<(RuleId, RuleHandle)> {
        let rule = self.operations.remove(&number)?;
        Some((rule, self.rules[&rule]))
    }

    /// A rule that was asked for is made. Whether it is to go is asked anew.
    pub(crate) fn arrive(&mut self, rule: RuleId) {
        let kept = self.rules.get_mut(&rule).expect("a rule that comes is kept");
        (kept.state, kept.is_told, kept.is_unwanted) = (State::There, true, false);
        self.there += 1;
    }

    /// Nothing more is known of it.
    pub(crate) fn remove(&mut self, rule: RuleId) {
        let Some(kept) = self.rules.remove(&rule) else { return };
        self.by_tuple.remove(&kept.request.tuple);
        self.there -= usize::from(matches!(kept.state, State::There | State::Leaving));
    }

    /// All rules are lost and no operation will end; returns them as they were before. Whether they
    /// are to go is asked anew.
    pub(crate) fn lose(&mut self) -> Vec<(RuleId, RuleHandle)> {
        self.operations.clear();
        self.there = 0;
        let mut rules: Vec<_> = self.rules.iter().map(|(rule, kept)| (*rule, *kept)).collect();
        // Another order each time would be nobody's gain.
        rules.sort_unstable_by_key(|(rule, _)| (rule.index, rule.direction));
        for kept in self.rules.values_mut() {
            (kept.state, kept.is_unwanted) = (State::Lost, false);
        }
        rules
    }

    fn take_number(&mut self, rule: RuleId) -> RuleNumber {
        let number = self.next;
        self.next += 1;
        self.operations.insert(number, rule);
        number
    }
}
