// SPDX-License-Identifier: BSD-3-Clause
//! Configures the two ports of one wire.

use super::queue_lease::QueuePair;
use dpdk::{Lcore, Mempool, Port, PortConfig, PortError, Queues};
use engine::{AccessLists, Tracking, ZoneSource};
use std::sync::Arc;

/// Two ports and the lcores of the workers between them: the configuration of one wire.
pub(crate) struct PortPair {
    pub(crate) a: Port,
    pub(crate) b: Port,
    pub(crate) workers: Vec<Lcore>,
    /// Pool of the packet buffers that both ports receive into.
    pub(crate) mempool: Mempool,
    pub(crate) rx_descriptors: u16,
    pub(crate) tx_descriptors: u16,
    /// Source of the zone of this pair's connections.
    pub(crate) zone: ZoneSource,
    /// Deepest tracking in any zone of the pair.
    pub(crate) deepest: Tracking,
    /// Access lists of its ports; `None` without any.
    pub(crate) access: Option<Arc<AccessLists>>,
    /// MTU to set for each port; `None` keeps the port's own.
    pub(crate) mtu: [Option<u16>; 2],
    /// Name of the Linux interface that each port reads beside the host's stack; `None` for others.
    pub(crate) read_beside: [Option<String>; 2],
    /// MTU of the Linux interface of each port; `None` if the port has none.
    pub(crate) interface_mtu: [Option<u32>; 2],
    /// Frames of at least this many bytes may have been cut by the port's driver; `None` if none
    /// are.
    pub(crate) cuts_from: [Option<u32>; 2],
}

impl PortPair {
    /// Configures both ports; returns the queues of each worker at them.
    pub(crate) fn configure(&mut self) -> Result<Vec<[QueuePair; 2]>, PortError> {
        let config = PortConfig {
            rx_queues: self.workers.len() as u16,
            tx_queues: self.workers.len() as u16,
            rxd: self.rx_descriptors,
            txd: self.tx_descriptors,
            mempools: vec![self.mempool],
            mtu: None,
            is_endpoint: false,
            sends_on_time: false,
        };
        let pairs_of =
            |(rx, tx): Queues| rx.into_iter().zip(tx).map(|(rx, tx)| QueuePair { rx, tx });
        let [mtu_a, mtu_b] = self.mtu;
        let a = pairs_of(self.a.configure(&PortConfig { mtu: mtu_a, ..config.clone() })?);
        let b = pairs_of(self.b.configure(&PortConfig { mtu: mtu_b, ..config })?);
        Ok(a.zip(b).map(|(a, b)| [a, b]).collect())
    }
}
