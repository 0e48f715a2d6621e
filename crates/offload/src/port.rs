// SPDX-License-Identifier: BSD-3-Clause
//! Who takes rules, and how it says no.

use engine::Tuple;

/// A port that takes rules for exact packets.
pub trait RulePort {
    /// Names a rule that it took.
    type Rule;

    /// Asks that packets of `tuple` get `mark`, and otherwise go where they would have gone; where
    /// the NIC has no such rule, to the receive queue `queue`, whose worker they belong to.
    ///
    /// # Errors
    ///
    /// It does not take the rule.
    fn create(&mut self, tuple: &Tuple, mark: u32, queue: u16) -> Result<Self::Rule, Refusal>;

    /// Asks that a rule goes.
    ///
    /// # Errors
    ///
    /// It stays, as far as anyone knows.
    fn destroy(&mut self, rule: Self::Rule) -> Result<(), Refusal>;
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
