// SPDX-License-Identifier: BSD-3-Clause
//! Owns the account of a port's rules. A rule exists only once the result of its creation has come,
//! and is gone only once the result of its removal has come.

use crate::port::RuleNumber;
use crate::programmer::Worker;
use engine::{BypassCount, FiveTuple, Nanos, RuleAction, RuleId};
use std::collections::HashMap;

/// State of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Its creation has no result yet.
    Coming,
    /// The port has it.
    There,
    /// Its removal has no result yet.
    Leaving,
    /// The port had it, and is to have it again after a reset.
    Lost,
}

/// What a rule does with which packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) tuple: FiveTuple,
    pub(crate) action: RuleAction,
}

/// A rule of the port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleHandle {
    pub(crate) state: State,
    pub(crate) request: Request,
    pub(crate) worker: Worker,
    /// True once its worker has the result that it was installed.
    pub(crate) is_told: bool,
    /// True if its worker has requested its removal and waits for the result.
    pub(crate) is_unwanted: bool,
    /// When its last operation began.
    pub(crate) begun: Nanos,
    /// Its number at the port; of a lost rule, the last one.
    pub(crate) number: RuleNumber,
    /// Packets and bytes of the NIC's count that its worker has received.
    pub(crate) told: BypassCount,
}

/// All rules of a port, at most one for each five-tuple.
#[derive(Default)]
pub(crate) struct RuleTable {
    rules: HashMap<RuleId, RuleHandle>,
    by_tuple: HashMap<FiveTuple, RuleId>,
    operations: HashMap<RuleNumber, RuleId>,
    /// Number of rules that the port has.
    there: usize,
    next: RuleNumber,
}

impl RuleTable {
    /// Returns the number of rules that the port has.
    pub(crate) fn there(&self) -> usize {
        self.there
    }

    /// Returns the number of rules in all states.
    pub(crate) fn len(&self) -> usize {
        self.rules.len()
    }

    /// Returns the number of operations without a result.
    pub(crate) fn operations(&self) -> usize {
        self.operations.len()
    }

    pub(crate) fn get(&mut self, rule: RuleId) -> Option<&mut RuleHandle> {
        self.rules.get_mut(&rule)
    }

    /// Returns the rule for these packets, with its state.
    pub(crate) fn of_tuple(&self, tuple: &FiveTuple) -> Option<(RuleId, State)> {
        let rule = *self.by_tuple.get(tuple)?;
        Some((rule, self.rules[&rule].state))
    }

    /// Returns up to `most` rules without an operation in flight.
    pub(crate) fn at_rest(&self, most: usize) -> Vec<RuleId> {
        let is_at_rest = |kept: &RuleHandle| matches!(kept.state, State::There | State::Lost);
        let rules = self.rules.iter().filter(|(_, kept)| is_at_rest(kept));
        rules.take(most).map(|(rule, _)| *rule).collect()
    }

    /// Begins the creation of a rule for packets that have none. Returns its number.
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

    /// Begins the creation of a lost rule again. Returns its new number.
    pub(crate) fn begin_again(&mut self, rule: RuleId, begun: Nanos) -> RuleNumber {
        let number = self.take_number(rule);
        let kept = self.rules.get_mut(&rule).expect("a lost rule is kept");
        (kept.state, kept.begun, kept.number) = (State::Coming, begun, number);
        kept.told = BypassCount::default();
        number
    }

    /// Begins the removal of a rule that the port has. Returns its number.
    pub(crate) fn leave(&mut self, rule: RuleId, begun: Nanos) -> RuleNumber {
        let kept = self.rules.get_mut(&rule).expect("a rule that is there is kept");
        (kept.state, kept.begun) = (State::Leaving, begun);
        self.operations.insert(kept.number, rule);
        kept.number
    }

    /// Ends an operation and returns its rule; `None` if the operation began before all rules were
    /// lost.
    pub(crate) fn end(&mut self, number: RuleNumber) -> Option<(RuleId, RuleHandle)> {
        let rule = self.operations.remove(&number)?;
        Some((rule, self.rules[&rule]))
    }

    /// Notes that a rule was created. A removal requested meanwhile must be requested again.
    pub(crate) fn arrive(&mut self, rule: RuleId) {
        let kept = self.rules.get_mut(&rule).expect("a rule that comes is kept");
        (kept.state, kept.is_told, kept.is_unwanted) = (State::There, true, false);
        self.there += 1;
    }

    /// Forgets a rule.
    pub(crate) fn remove(&mut self, rule: RuleId) {
        let Some(kept) = self.rules.remove(&rule) else { return };
        self.by_tuple.remove(&kept.request.tuple);
        self.there -= usize::from(matches!(kept.state, State::There | State::Leaving));
    }

    /// Marks all rules as lost and forgets all operations. Returns the rules as they were before.
    /// Removals requested meanwhile must be requested again.
    pub(crate) fn lose(&mut self) -> Vec<(RuleId, RuleHandle)> {
        self.operations.clear();
        self.there = 0;
        let mut rules: Vec<_> = self.rules.iter().map(|(rule, kept)| (*rule, *kept)).collect();
        // Sorted, so that the order is always the same.
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
