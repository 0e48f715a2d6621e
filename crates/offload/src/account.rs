// SPDX-License-Identifier: BSD-3-Clause
//! Owns the record of a port's rules. A rule exists only once the result of its creation has come,
//! and is gone only once the result of its removal has come.

use crate::port::RuleNumber;
use crate::programmer::Worker;
use engine::{BypassCount, FiveTuple, Nanos, RuleAction, RuleId};
use std::collections::HashMap;

/// State of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleState {
    /// Its creation has no result yet.
    Creating,
    /// The port has it.
    Present,
    /// Its removal has no result yet.
    Removing,
    /// The port had it, and is to have it again after a reset.
    Lost,
}

/// The packets that a rule matches, and its action.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) tuple: FiveTuple,
    pub(crate) action: RuleAction,
}

/// A rule of the port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleHandle {
    pub(crate) state: RuleState,
    pub(crate) request: Request,
    pub(crate) worker: Worker,
    /// True once its worker has the result that it was installed.
    pub(crate) is_reported: bool,
    /// True if its worker has requested its removal and waits for the result.
    pub(crate) is_removal_requested: bool,
    /// When its last operation began.
    pub(crate) begun: Nanos,
    /// Its number at the port; of a lost rule, the last one.
    pub(crate) number: RuleNumber,
    /// Packets and bytes of the NIC's count that its worker has received.
    pub(crate) reported: BypassCount,
}

/// All rules of a port, at most one for each five-tuple.
#[derive(Default)]
pub(crate) struct RuleTable {
    rules: HashMap<RuleId, RuleHandle>,
    by_tuple: HashMap<FiveTuple, RuleId>,
    operations: HashMap<RuleNumber, RuleId>,
    /// Number of rules that the port has.
    present: usize,
    next: RuleNumber,
}

impl RuleTable {
    /// Returns the number of rules that the port has.
    pub(crate) fn present(&self) -> usize {
        self.present
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
    pub(crate) fn of_tuple(&self, tuple: &FiveTuple) -> Option<(RuleId, RuleState)> {
        let rule = *self.by_tuple.get(tuple)?;
        Some((rule, self.rules[&rule].state))
    }

    /// Returns up to `most` rules without an operation in flight.
    pub(crate) fn idle(&self, most: usize) -> Vec<RuleId> {
        let is_idle =
            |handle: &RuleHandle| matches!(handle.state, RuleState::Present | RuleState::Lost);
        let rules = self.rules.iter().filter(|(_, handle)| is_idle(handle));
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
        let (is_reported, is_removal_requested) = (false, false);
        let (state, reported) = (RuleState::Creating, BypassCount::default());
        let handle = RuleHandle {
            state,
            request,
            worker,
            is_reported,
            is_removal_requested,
            begun,
            number,
            reported,
        };
        self.rules.insert(rule, handle);
        self.by_tuple.insert(request.tuple, rule);
        number
    }

    /// Begins the creation of a lost rule again. Returns its new number.
    pub(crate) fn recreate(&mut self, rule: RuleId, begun: Nanos) -> RuleNumber {
        let number = self.take_number(rule);
        let handle = self.rules.get_mut(&rule).expect("a lost rule is kept");
        (handle.state, handle.begun, handle.number) = (RuleState::Creating, begun, number);
        handle.reported = BypassCount::default();
        number
    }

    /// Begins the removal of a rule that the port has. Returns its number.
    pub(crate) fn begin_removal(&mut self, rule: RuleId, begun: Nanos) -> RuleNumber {
        let handle = self.rules.get_mut(&rule).expect("a present rule is kept");
        (handle.state, handle.begun) = (RuleState::Removing, begun);
        self.operations.insert(handle.number, rule);
        handle.number
    }

    /// Ends an operation and returns its rule; `None` if the operation began before all rules were
    /// lost.
    pub(crate) fn end(&mut self, number: RuleNumber) -> Option<(RuleId, RuleHandle)> {
        let rule = self.operations.remove(&number)?;
        Some((rule, self.rules[&rule]))
    }

    /// Notes that a rule was created. A removal requested meanwhile must be requested again.
    pub(crate) fn confirm_created(&mut self, rule: RuleId) {
        let handle = self.rules.get_mut(&rule).expect("a rule in creation is kept");
        (handle.state, handle.is_reported, handle.is_removal_requested) =
            (RuleState::Present, true, false);
        self.present += 1;
    }

    /// Forgets a rule.
    pub(crate) fn remove(&mut self, rule: RuleId) {
        let Some(handle) = self.rules.remove(&rule) else { return };
        self.by_tuple.remove(&handle.request.tuple);
        self.present -=
            usize::from(matches!(handle.state, RuleState::Present | RuleState::Removing));
    }

    /// Marks all rules as lost and forgets all operations. Returns the rules as they were before.
    /// Removals requested meanwhile must be requested again.
    pub(crate) fn forget_rules(&mut self) -> Vec<(RuleId, RuleHandle)> {
        self.operations.clear();
        self.present = 0;
        let mut rules: Vec<_> = self.rules.iter().map(|(rule, handle)| (*rule, *handle)).collect();
        // Sorted, so that the order is always the same.
        rules.sort_unstable_by_key(|(rule, _)| (rule.index, rule.direction));
        for handle in self.rules.values_mut() {
            (handle.state, handle.is_removal_requested) = (RuleState::Lost, false);
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
