// SPDX-License-Identifier: BSD-3-Clause
//! Knows the limits of the drivers of Linux interfaces: numbers of queues, and MTUs.

use super::{Fault, Interfaces, NetdevError};
use config::Devargs;

/// Most queues of each kind that `net_tap` can have without writing beyond an array. It sends the
/// descriptors of all queues to other processes in one message with 8 slots (`tap_mp_req_on_rxtx`
/// in rte_eth_tap.c, `RTE_MP_MAX_FD_NUM` in rte_eal.h).
const TAP_QUEUES_MAX: u16 = 4;

impl Interfaces {
    /// Returns the MTU that DPDK is to set for `port` of a pair with MTU `written`. A tap gets the
    /// MTU of its interface. Other drivers of interfaces get `None`: the MTU is set already.
    pub(crate) fn mtu(&self, port: &Devargs, written: Option<u16>) -> Option<u16> {
        let Some(used) = self.used.get(&port.name) else { return written };
        let is_tap = used.driver.as_ref().is_some_and(|it| it.devargs.starts_with("net_tap"));
        is_tap.then(|| u16::try_from(used.device.mtu).ok()).flatten()
    }

    /// Returns the numbers of receive and transmit queues of `port`, which wants `(rx, tx)`. A
    /// `net_tap` gets the same number of both.
    ///
    /// # Errors
    ///
    /// If its driver cannot have that many.
    pub(crate) fn queues(
        &self,
        port: &Devargs,
        (rx, tx): (u16, u16),
    ) -> Result<(u16, u16), NetdevError> {
        if !self.devargs(port).starts_with("net_tap") {
            return Ok((rx, tx));
        }
        match rx.max(tx) {
            count if count <= TAP_QUEUES_MAX => Ok((count, count)),
            wanted => Err(NetdevError {
                port: port.to_string(),
                fault: Fault::TooManyQueues { wanted, most: TAP_QUEUES_MAX },
            }),
        }
    }
}
