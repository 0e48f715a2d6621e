// SPDX-License-Identifier: BSD-3-Clause
//! A NIC that gets stuck: after some changes of rules, none has an effect any more, and no call
//! says so. An X710 did this in the article about FlowTable, until the host was started anew.

/// When the NIC gets stuck, and whether it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wedge {
    /// Changes of rules until it gets stuck.
    after: u64,
    /// True if a reset of the port frees it. Otherwise it stays stuck until the port is closed.
    ends_with_reset: bool,
    changes: u64,
}

impl Wedge {
    pub(super) fn new(after: u64, ends_with_reset: bool) -> Self {
        Self { after, ends_with_reset, changes: 0 }
    }

    pub(super) fn is_stuck(&self) -> bool {
        self.changes >= self.after
    }

    /// Counts a change of a rule. True if the NIC gets stuck by it.
    pub(super) fn count_change(&mut self) -> bool {
        self.changes += 1;
        self.changes == self.after
    }

    pub(super) fn reset(&mut self) {
        if self.ends_with_reset {
            self.changes = 0;
        }
    }
}
