// SPDX-License-Identifier: BSD-3-Clause
//! What a table does for flows that the NIC forwards by itself.

use super::FlowTable;
use crate::api::{Passed, RuleId};
use crate::base::Nanos;

/// Between two looks whether a flow whose time is over may end.
pub(super) const RECALL_WAIT: Nanos = 20_000_000;

impl<const W: usize> FlowTable<W> {
    /// The NIC has forwarded so many more packets by a rule, until now.
    pub(crate) fn pass(&mut self, rule: RuleId, passed: Passed, now: Nanos) {
        let Some(rules) = self.rules.as_deref_mut() else { return };
        let Some(record) = rules.bypassed(rule) else { return };
        let hot = &mut self.hot[record as usize];
        let cold = &mut self.cold.0[record as usize];
        hot.pass(cold, rule.direction, passed, now);
        rules.pass((record, rule), passed, hot.so_far(cold, rule.direction).0);
    }

    /// Whether a flow whose time is over has to wait for the NIC's last count of it.
    pub(crate) fn is_awaited(&mut self, record: u32, now: Nanos) -> bool {
        self.rules.as_deref_mut().is_some_and(|rules| rules.recall(record, now))
    }
}
