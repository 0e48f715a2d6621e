// SPDX-License-Identifier: BSD-3-Clause
//! Resolves the MAC addresses of neighbours at open ports, before their queues are in use.

use super::{OpenPorts, PortNames};
use anyhow::Context;
use generator::{Clock, PortRx, PortTx, resolve};
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use traffic::neighbour::Neighbour;

impl OpenPorts {
    /// Returns the MAC address of `target` at a port, after requests from `from` with these VLAN
    /// tags. `None` if no answer arrived, or the user interrupted the run.
    pub(crate) fn resolve(
        &mut self,
        port: usize,
        (from, tags): (Neighbour, &[u8]),
        target: IpAddr,
        (clock, interrupted): (Clock, &AtomicBool),
    ) -> anyhow::Result<Option<[u8; 6]>> {
        let (rx, tx) = &mut self.queues[port];
        let queues = rx.pop().zip(tx.pop()).context("a port has queues")?;
        let (mut port_rx, mut port_tx) =
            (PortRx::new(queues.0), PortTx::new(queues.1, self.mempool));
        let ends = (&mut port_tx, &mut port_rx);
        let found = resolve(ends, (from, target), tags, clock, interrupted);
        rx.push(port_rx.into_queue());
        tx.push(port_tx.into_queue());
        Ok(found)
    }

    /// Returns the MTU of the Linux interface of a port; `None` if it is another port.
    pub(crate) fn interface_mtu(&self, names: &PortNames, port: usize) -> Option<u32> {
        self.interfaces.interface_mtu(names.0.get(port)?)
    }
}
