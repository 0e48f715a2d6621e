// SPDX-License-Identifier: BSD-3-Clause
//! Interface of the second way to make rules: by templates and a flow queue, whose results come
//! later.

use super::subject::{Answer, Refused, RuleProbe};

/// The error that prevented a table.
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
    /// Sets the queue up, while the port is stopped.
    fn configure(&mut self, operations: u32) -> Answer;
    /// Makes the table and its templates, for rules that differ from `like` in values only.
    fn make_table(&mut self, like: &RuleProbe, room: u32) -> Result<(), NoTable>;
    fn destroy_table(&mut self) -> Answer;
    /// Puts an operation into the queue.
    fn enqueue_create(&mut self, question: &RuleProbe, number: u64) -> Answer;
    fn enqueue_destroy(&mut self, number: u64) -> Answer;
    /// Begins all queued operations.
    fn push(&mut self) -> Answer;
    /// Returns the results that have arrived.
    fn pull(&mut self) -> Result<Vec<Done>, Refused>;
}
