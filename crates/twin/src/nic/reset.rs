// SPDX-License-Identifier: BSD-3-Clause
//! Resets of a NIC. Until its application brings it back, it has no rules and refuses all calls.
//! That it receives nothing meanwhile is up to the driver, which has its queues.

use super::{NO_CALL, Nic};
use crate::faults::Fault;
use crate::refusal::{Errno, Kind, Refusal};

impl Nic {
    /// It resets itself. No rule is left, whatever was said of it.
    pub fn go_down(&mut self) {
        self.rules.clear();
        self.is_down = true;
    }

    /// Brings it back, as new; false if that fails.
    pub fn bring_back(&mut self) -> bool {
        self.go_down();
        self.is_isolated = false;
        self.is_down = self.faults.strikes(Fault::ResetFails);
        !self.is_down
    }

    /// Whether calls about rules are heard.
    pub(super) fn awake(&self) -> Result<(), Refusal> {
        if self.is_down { Err(DOWN) } else { Ok(()) }
    }

    /// Whether there are such calls, and they are heard.
    pub(super) fn ready(&self) -> Result<(), Refusal> {
        if self.personality.operations.none { Err(NO_CALL) } else { self.awake() }
    }
}

const DOWN: Refusal =
    Refusal::new(Errno::EIO, Kind::Unspecified, c"the port has reset itself; it must be reset");
