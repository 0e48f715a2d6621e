// SPDX-License-Identifier: BSD-3-Clause
//! Opens the tester of this process: the stateful generator on these ports, or a simulated device.

use crate::ports::PortNames;
use crate::tester::{SimulatedDevice, SimulatedTester, Tester, TesterError};

/// A tester of this process.
#[derive(Clone, Debug)]
pub(crate) enum InProcess<'a> {
    /// Clients on the first port and servers on the second.
    Ports(&'a PortNames),
    /// No port: nothing is sent.
    Simulated(SimulatedDevice),
}

impl InProcess<'_> {
    /// Opens the tester. With ports, this starts DPDK.
    pub(crate) fn open(&self) -> Result<Box<dyn Tester>, TesterError> {
        match self {
            Self::Ports(names) => open_generator(names),
            Self::Simulated(device) => Ok(Box::new(SimulatedTester::new(*device))),
        }
    }
}

/// Opens the stateful generator on these ports.
fn open_generator(_: &PortNames) -> Result<Box<dyn Tester>, TesterError> {
    Err(TesterError::NotBuiltIn)
}
