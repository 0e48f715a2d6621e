// SPDX-License-Identifier: BSD-3-Clause
//! Interface to a flow queue: rules made from templates, by operations whose results come later.

use super::subject::{Answer, Refused, RuleProbe};

/// The refusal that prevented a template table.
#[derive(Clone, Debug)]
pub struct NoTable {
    /// The failed step: a template, or the table.
    pub(crate) step: String,
    pub(crate) refused: Refused,
}

/// The result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The rule's number.
    pub(crate) number: u64,
    pub(crate) is_good: bool,
}

/// A port's flow queue and the table that its rules are made from.
pub trait FlowQueue {
    /// Returns the number of operations that a queue may hold; an error if the NIC has no templates
    /// and queues.
    fn most_operations(&mut self) -> Result<u32, Refused>;
    /// Sets up the queue; the port must be stopped.
    fn configure(&mut self, operations: u32) -> Answer;
    /// Creates the table and its templates, for rules that differ from `like` only in values.
    fn make_table(&mut self, like: &RuleProbe, room: u32) -> Result<(), NoTable>;
    fn destroy_table(&mut self) -> Answer;
    /// Puts an operation into the queue.
    fn enqueue_create(&mut self, question: &RuleProbe, number: u64) -> Answer;
    fn enqueue_destroy(&mut self, number: u64) -> Answer;
    /// Hands all queued operations to the NIC.
    fn push(&mut self) -> Answer;
    /// Returns the results that have come.
    fn pull(&mut self) -> Result<Vec<Done>, Refused>;
}
