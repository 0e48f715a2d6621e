// SPDX-License-Identifier: BSD-3-Clause
//! Owns the record of a packet that an access list logs.

use super::offload::Side;
use crate::base::Nanos;
use acl::{AccessList, Action};
use std::sync::Arc;

/// A packet that a rule with the option `log` has decided about or counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    /// Time of the burst in which it arrived.
    pub at: Nanos,
    /// The list as it was then.
    pub list: Arc<AccessList>,
    /// Index of the rule in the list.
    pub rule: u32,
    /// Side at which the packet arrived.
    pub side: Side,
    /// The fields that the rule was compared with.
    pub packet: acl::Packet,
    /// Frame bytes without FCS.
    pub bytes: u64,
}

impl AccessLog {
    /// Returns the action of the rule.
    pub fn action(&self) -> Action {
        self.list.action(Some(self.rule))
    }
}
