// SPDX-License-Identifier: BSD-3-Clause
//! Rules that write marks and labels to connections as they begin.

use super::ct_mark::MarkChange;
use super::filter::Filter;

/// What is written to connections as they begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkRule {
    /// Those that are meant. A new one has no more of a state, a mark and a label than what rules
    /// before have written to it.
    pub filter: Filter,
    /// To these.
    pub change: MarkChange,
}

impl MarkRule {
    /// Most rules there may be: a connection is held against all of them, one after the other.
    pub const MAX: usize = 256;
}
