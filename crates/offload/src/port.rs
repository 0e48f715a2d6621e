// SPDX-License-Identifier: BSD-3-Clause
//! Who takes rules, and what it says.

use engine::{BypassCount, FiveTuple};

/// Names a rule to its port, from when it is asked for until it is gone, and nothing else ever.
pub type RuleNumber = u64;

/// A port that takes rules for exact packets. Operations are begun, many at a time if it likes,
/// and what came of each is known later, in any order; a port whose calls wait for the NIC knows
/// it when it is asked next.
pub trait RulePort {
    /// Operations that may be on their way at a time, at least one.
    fn depth(&self) -> usize {
        1
    }

    /// Asks for what becomes of packets of `tuple`. There is no other rule of `tuple`, nor any on
    /// its way, unless one did not go when it was to.
    fn create(&mut self, rule: RuleNumber, tuple: &FiveTuple, fate: OperationResult);

    /// Asks that a rule goes that was made.
    fn destroy(&mut self, rule: RuleNumber);

    /// What a rule that was made with [`OperationResult::Peer`] has counted from its beginning on;
    /// `None` if that cannot be known now. It may be late, as far as the NIC is.
    fn counted(&mut self, rule: RuleNumber) -> Option<BypassCount> {
        let _ = rule;
        None
    }

    /// Has the NIC begin with all that was asked, and tells what came to an end since. Each
    /// operation has one result.
    fn poll(&mut self, done: &mut Vec<Completion>);
}

/// What becomes of the packets of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationResult {
    /// They get a mark, and otherwise go where they would have gone; where the NIC has no such
    /// rule, to this receive queue, whose worker they belong to.
    Mark {
        /// Its value.
        mark: u32,
        /// Of their worker.
        queue: u16,
    },
    /// The NIC counts them and sends them out of the peer port by itself. Asked only of a port that
    /// can.
    Peer,
}

/// The result of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Of this rule.
    pub rule: RuleNumber,
    /// It is made, or gone; else all is as before, as far as anyone knows.
    pub result: Result<(), Refusal>,
}

/// How a port says no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What to make of it.
    pub class: RefusalClass,
    /// The NIC's own words, for people.
    pub words: String,
}

/// What to make of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalClass {
    /// There is no room now.
    Full,
    /// The port or its driver has a problem now.
    Trouble,
    /// This NIC does not take such a rule, or not beside those that it has.
    Unsuitable,
}

impl RefusalClass {
    /// By `rte_errno`. What Intel's drivers answer to a full table, `EINVAL`, cannot be told from
    /// a rule that they do not take.
    pub fn of_errno(errno: i32) -> Self {
        match errno {
            // EAGAIN, ENOMEM, ENOSPC, ENOBUFS.
            11 | 12 | 28 | 105 => Self::Full,
            // EIO, ENXIO, EBUSY, ENODEV, ETIMEDOUT.
            5 | 6 | 16 | 19 | 110 => Self::Trouble,
            _ => Self::Unsuitable,
        }
    }
}
