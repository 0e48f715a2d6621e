// SPDX-License-Identifier: BSD-3-Clause
//! What a change of a rule does to the whole NIC, if it has such faults.

use super::Nic;
use crate::faults::Fault;

impl Nic {
    /// Applies the faults of a rule that was created or destroyed: packets are missed for a moment,
    /// or no rule has an effect any more.
    pub(super) fn after_change(&mut self, now_us: u64) {
        let stall_us = self.faults.delay_us(Fault::ReceiveStall, 100, 1000);
        if stall_us > 0 {
            self.stalled_until_us = now_us + stall_us;
        }
        if self.faults.count_change() {
            self.rules.make_stale();
        }
    }
}
