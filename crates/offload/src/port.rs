// SPDX-License-Identifier: BSD-3-Clause
//! Defines the interface of a port that takes rules, and the results of its operations.

use engine::{BypassCount, FiveTuple};

/// Number of a rule at its port, from its creation to its removal. Numbers are not used again.
pub type RuleNumber = u64;

/// A port that takes exact-match rules: one five-tuple each.
///
/// A port begins operations, up to [`depth`](Self::depth) at a time, and reports their results
/// later, in any order. A port whose calls wait for the NIC reports the result at the next
/// [`poll`](Self::poll).
pub trait RulePort {
    /// Returns how many operations may be in flight, at least 1.
    fn depth(&self) -> usize {
        1
    }

    /// Begins to create a rule that does `action` with packets of `tuple`. The caller has no other
    /// rule for `tuple`, except one whose removal failed.
    fn create(&mut self, rule: RuleNumber, tuple: &FiveTuple, action: NicAction);

    /// Begins to remove a rule that was created.
    fn destroy(&mut self, rule: RuleNumber);

    /// Returns what a rule with [`NicAction::Peer`] has counted since its creation; `None` if
    /// that cannot be read now. The NIC may update the count with a delay.
    fn counted(&mut self, rule: RuleNumber) -> Option<BypassCount> {
        let _ = rule;
        None
    }

    /// Makes the NIC begin all requested operations, and adds the operations that have ended since
    /// to `done`. Each operation has one result.
    fn poll(&mut self, done: &mut Vec<Completion>);
}

/// What the NIC does with the packets of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NicAction {
    /// The NIC marks them, and delivers them to the receive queue of their worker. If it takes no
    /// rule that names a queue, it delivers them as it would without a rule.
    Mark {
        /// Its value.
        mark: u32,
        /// Receive queue of their worker.
        queue: u16,
    },
    /// The NIC counts them and sends them out of the peer port. Only ports that support this get
    /// such rules.
    Peer,
}

/// The result of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Rule of the operation.
    pub rule: RuleNumber,
    /// `Ok`: the rule is created, or removed. Error: as far as known, nothing has changed.
    pub result: Result<(), Refusal>,
}

/// Refusal of an operation by the port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its class.
    pub class: RefusalClass,
    /// Message of the NIC or its driver, for operators.
    pub words: String,
}

/// Class of a refusal. The result for the worker depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalClass {
    /// The NIC has no room now.
    Full,
    /// The port or its driver has a problem now.
    PortError,
    /// This NIC does not take such a rule, or not beside those that it has.
    Unsuitable,
}

impl RefusalClass {
    /// Returns the class of an `rte_errno`. Intel's drivers return `EINVAL` for a full table, which
    /// cannot be distinguished from a rule that they do not take.
    pub fn of_errno(errno: i32) -> Self {
        match errno {
            // EAGAIN, ENOMEM, ENOSPC, ENOBUFS.
            11 | 12 | 28 | 105 => Self::Full,
            // EIO, ENXIO, EBUSY, ENODEV, ETIMEDOUT.
            5 | 6 | 16 | 19 | 110 => Self::PortError,
            _ => Self::Unsuitable,
        }
    }
}
