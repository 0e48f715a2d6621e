// SPDX-License-Identifier: BSD-3-Clause
//! Resets a NIC. Until its application brings it back, the NIC has no rules and refuses all calls.
//! The driver, which has the queues, must receive nothing meanwhile.

use super::{NO_CALL, Nic};
use crate::faults::Fault;
use crate::refusal::{Errno, Kind, Refusal};

impl Nic {
    /// Makes the NIC reset itself. No rule is left, not even those that cannot be destroyed.
    pub fn go_down(&mut self) {
        self.rules.clear();
        self.is_down = true;
    }

    /// Brings the NIC back as new; returns false if that fails.
    pub fn bring_back(&mut self) -> bool {
        self.go_down();
        self.faults.port_was_reset();
        self.is_isolated = false;
        self.is_down = self.faults.strikes(Fault::ResetFails);
        !self.is_down
    }

    /// Refuses calls about rules while the NIC is down.
    pub(super) fn awake(&self) -> Result<(), Refusal> {
        if self.is_down { Err(DOWN) } else { Ok(()) }
    }

    /// Refuses calls about rules if the NIC does not support them or is down.
    pub(super) fn ready(&self) -> Result<(), Refusal> {
        if self.personality.operations.none { Err(NO_CALL) } else { self.awake() }
    }
}

const DOWN: Refusal =
    Refusal::new(Errno::EIO, Kind::Unspecified, c"the port has reset itself; it must be reset");
