// SPDX-License-Identifier: BSD-3-Clause
//! Starts DPDK and the ports of `millrace nic`. All ports have the same number of queues.

use crate::start::start_eal;
use crate::twin_driver;
use doctor::host::{self, Memory};
use dpdk::{EalConfig, Mempool, Port, PortConfig, RxQueue, TxQueue};

/// Default number of queues of each port.
const QUEUES: u16 = 4;
/// Descriptors of each queue.
const DESCRIPTORS: u16 = 256;
/// Bytes of frame in one mbuf.
const DATA_BYTES: u16 = 2048;
/// Memory that DPDK needs beside the mbufs, in MB.
const EAL_MB: u32 = 64;

/// A started port.
pub(super) struct StartedPort {
    pub(super) port: Port,
    pub(super) queues: (Vec<RxQueue>, Vec<TxQueue>),
    /// The port's own mempool; received packets are in it too.
    pub(super) mempool: Mempool,
}

/// Starts DPDK and the ports, each with `queues` queues. By default each has 4, or fewer if a port
/// has fewer.
pub(super) fn start(ports: &[String], queues: Option<u16>) -> anyhow::Result<Vec<StartedPort>> {
    let count = queues.unwrap_or(QUEUES);
    // Enough for all descriptors, and for the caches of the mempool.
    let mbufs = u32::from(count) * u32::from(2 * DESCRIPTORS) + 511;
    let pages = mbufs.div_ceil((1 << 20) / 4096) * ports.len() as u32;
    let memory_mb = EAL_MB + pages;
    let has_vmbus = ports.iter().any(|port| dpdk::is_vmbus(port));
    let eal = start_eal(&EalConfig {
        companions: if has_vmbus { host::vfs_without_master() } else { Vec::new() },
        no_huge: Memory::free_hugepages_mb_of_this_host() < u64::from(memory_mb),
        memory_mb,
        ports: ports.to_vec(),
        drivers: twin_driver::require(ports)?.into_iter().collect(),
        ..EalConfig::default()
    })?;
    let ports = ports.iter().map(|devargs| Port::probe(&eal, devargs));
    let ports = ports.collect::<Result<Vec<_>, _>>()?;
    let most = |port: &Port| port.info().max_rx_queues.min(port.info().max_tx_queues);
    let fewest = ports.iter().map(most).min().unwrap_or(count);
    let queues = if queues.is_none() { count.min(fewest) } else { count };
    let start = |(number, mut port): (usize, Port)| {
        let socket = port.info().socket_id;
        let mempool = Mempool::new(&eal, &format!("port{number}"), mbufs, DATA_BYTES, socket)?;
        // A refusal is ignored: the probe tests whether marks arrive.
        let _ = port.negotiate_marks();
        let queues = port.configure(&PortConfig {
            rx_queues: queues,
            tx_queues: queues,
            rxd: DESCRIPTORS,
            txd: DESCRIPTORS,
            mempools: vec![mempool],
            mtu: None,
            is_endpoint: false,
            sends_on_time: false,
        })?;
        Ok(StartedPort { port, queues, mempool })
    };
    ports.into_iter().enumerate().map(start).collect()
}
