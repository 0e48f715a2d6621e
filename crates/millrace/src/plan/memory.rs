// SPDX-License-Identifier: BSD-3-Clause
//! How much memory a plan takes, before any of it is taken.

use super::PairPlan;
use serde::Serialize;

/// Table, record and timer of one IPv4 flow at full load. An upper bound: the design's limit.
const IPV4_FLOW_BYTES: u64 = 144;
/// The same for IPv6.
const IPV6_FLOW_BYTES: u64 = 208;

/// What surrounds the data of an mbuf: `rte_mbuf`, headroom, and the pool's own header.
const MBUF_OVERHEAD_BYTES: u64 = 128 + 128 + 64;
/// Mbufs one worker holds besides those in queues: its pool cache, and a burst of each direction.
const WORKER_MBUFS: u64 = 512 + 2 * engine::BURST_MAX as u64;
/// EAL's own structures, and those of one port.
const EAL_BYTES: u64 = 64 << 20;
const PORT_BYTES: u64 = 4 << 20;

/// The memory of a plan in bytes.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Memory {
    /// Flow table, records and timers of one worker: at most this.
    pub(crate) engine_bytes_per_worker: u64,
    /// Number of workers.
    pub(crate) workers: u64,
    /// Packet buffers, within `eal_bytes`.
    pub(crate) mbuf_bytes: u64,
    /// What DPDK is given.
    pub(crate) eal_bytes: u64,
    /// All engines and DPDK.
    pub(crate) total_bytes: u64,
}

impl super::Plan {
    /// The memory this plan takes.
    pub(crate) fn memory(&self) -> Memory {
        let engine_bytes_per_worker = u64::from(self.engine.capacity_ipv4) * IPV4_FLOW_BYTES
            + u64::from(self.engine.capacity_ipv6) * IPV6_FLOW_BYTES;
        let workers = self.pairs.iter().map(|pair| pair.workers.len() as u64).sum::<u64>();
        let eal_bytes = u64::from(self.eal.memory_mb) << 20;
        Memory {
            engine_bytes_per_worker,
            workers,
            mbuf_bytes: mbuf_bytes(self.eal.mbufs, self.eal.mbuf_data_bytes),
            eal_bytes,
            total_bytes: eal_bytes + workers * engine_bytes_per_worker,
        }
    }
}

/// Mbufs that can be out at one time: all descriptors full, all workers busy.
pub(super) fn mbufs_needed(pairs: &[PairPlan]) -> u64 {
    let of_pair = |pair: &PairPlan| {
        let queues = 2 * (u64::from(pair.rx_descriptors) + u64::from(pair.tx_descriptors));
        pair.workers.len() as u64 * (queues + WORKER_MBUFS)
    };
    pairs.iter().map(of_pair).sum()
}

/// Bytes of a pool of `mbufs`.
fn mbuf_bytes(mbufs: u32, data_bytes: u16) -> u64 {
    u64::from(mbufs) * (u64::from(data_bytes) + MBUF_OVERHEAD_BYTES).next_multiple_of(64)
}

/// Megabytes DPDK needs for a pool and the ports of `pairs`.
pub(super) fn eal_megabytes(mbufs: u32, data_bytes: u16, pairs: usize) -> u32 {
    let bytes = mbuf_bytes(mbufs, data_bytes) + EAL_BYTES + 2 * pairs as u64 * PORT_BYTES;
    u32::try_from(bytes.div_ceil(1 << 20)).unwrap_or(u32::MAX)
}
