// SPDX-License-Identifier: BSD-3-Clause
//! Owns the rules that write marks and labels to new connections.

use super::ct_mark::MarkChange;
use super::filter::Filter;

/// A change of mark and label for new connections that match a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkRule {
    /// Connections that the rule applies to. The mark and label of a new connection are 0, or the
    /// values that earlier rules have written.
    pub filter: Filter,
    /// Change of mark and label.
    pub change: MarkChange,
}

impl MarkRule {
    /// Maximum number of rules: each new connection is compared with all of them in turn.
    pub const MAX: usize = 256;
}
