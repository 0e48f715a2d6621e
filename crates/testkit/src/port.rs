// SPDX-License-Identifier: BSD-3-Clause
//! EAL and DPDK ports of tests: without hugepages, in little memory.

use crate::host::{twin_driver, twin_driver_or_skip};
use dpdk::{Eal, EalConfig, Mempool, PortConfig};

/// Returns a configuration of EAL without hugepages.
pub fn eal_config(memory_mb: u32) -> EalConfig {
    EalConfig { no_huge: true, memory_mb, ..EalConfig::default() }
}

/// Starts EAL without hugepages, with the driver of the software NIC if that was built.
pub fn start_eal(memory_mb: u32) -> Eal {
    let drivers = twin_driver().into_iter().collect();
    Eal::init(&EalConfig { drivers, ..eal_config(memory_mb) }).expect("EAL starts once")
}

/// Starts EAL with the driver of the software NIC; skips and returns `None` if it was not built.
pub fn start_eal_with_twin() -> Option<Eal> {
    twin_driver_or_skip().map(|_| start_eal(256))
}

/// Returns a pool of 1023 mbufs, each with room for 2048 bytes.
pub fn mempool(eal: &Eal, name: &str) -> Mempool {
    Mempool::new(eal, name, 1023, 2048, None).expect("memory for a small pool")
}

/// Returns the configuration of a port with as many queues of each kind, and `descriptors` in each.
pub fn port_config(queues: u16, descriptors: u16, mempool: Mempool) -> PortConfig {
    PortConfig {
        rx_queues: queues,
        tx_queues: queues,
        rxd: descriptors,
        txd: descriptors,
        mempools: vec![mempool],
        mtu: None,
        is_endpoint: false,
        sends_on_time: false,
    }
}
