// SPDX-License-Identifier: BSD-3-Clause
//! Owns the decision of access lists about a connection, and how a change of lists would change it.

/// What access lists decide about the packets of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConnDecision {
    /// All pass.
    Permitted,
    /// Those of one direction at least are dropped.
    Denied,
    /// It depends on the next packet; for a restored connection, on the port at which it arrives.
    Varies,
}

impl ConnDecision {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            ConnDecision::Permitted => "permitted",
            ConnDecision::Denied => "denied",
            ConnDecision::Varies => "varies",
        }
    }
}

/// What the lists in force decide about a connection, and what other lists would decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DecisionChange {
    /// By the lists in force.
    pub now: ConnDecision,
    /// By the other lists.
    pub then: ConnDecision,
}
