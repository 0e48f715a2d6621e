// SPDX-License-Identifier: BSD-3-Clause
//! Owns the configuration and the counters of marks that name rules of access lists.

use super::flow_mark::MarkLayout;
use super::offload::MarkVerification;

/// Configuration of a worker for marks of access lists.
///
/// A NIC rule marks the packets whose first matching rule is that of the mark. Such a packet is not
/// compared with the lists. If no zone is tracked, it is not even parsed.
#[derive(Clone, Copy, Debug)]
pub struct ListMarkConfig {
    /// Layout of the marks.
    pub layout: MarkLayout,
    /// Selects the marked packets that are compared with the lists all the same.
    pub check: MarkVerification,
}

/// Packets by what their mark of an access list's rule was good for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListMarkStats {
    /// Decided by the mark: no list was searched.
    pub decided: u64,
    /// Compared with the lists, to check the mark.
    pub checked: u64,
    /// Checked, and the lists found another rule. The mark of that rule is not used any more until
    /// the lists change.
    pub disagreed: u64,
    /// Rules whose marks are not used any more.
    pub set_aside: u64,
}

impl ListMarkStats {
    /// Adds the counters of another worker.
    pub fn merge(&mut self, other: &ListMarkStats) {
        self.decided += other.decided;
        self.checked += other.checked;
        self.disagreed += other.disagreed;
        self.set_aside += other.set_aside;
    }
}
