// SPDX-License-Identifier: BSD-3-Clause
//! Computes the memory that a plan takes, before any is allocated.

use super::PairPlan;
use crate::Huge;
use capture::Capture;
use engine::FragmentLimits;
use serde::Serialize;
use std::fs::File;
use std::path::Path;

/// Most bytes of table, record and timer of one IPv4 connection at full load: the design's limit.
const IPV4_FLOW_BYTES: u64 = 144;
/// Most bytes of table, record and timer of one IPv6 connection at full load.
const IPV6_FLOW_BYTES: u64 = 208;
const LABEL_BYTES: u64 = 16;

/// Most bytes of an incomplete datagram of each IP version, with its sender.
const DATAGRAM_BYTES: u64 = 512;
/// Bytes of the smallest table of datagrams.
const FRAGMENTS_BYTES: u64 = 4096;
/// Bytes of a packet that waits.
const HELD_BYTES: u64 = 64;

/// Bytes of an mbuf beside its data: `rte_mbuf`, headroom, and the pool's own header.
const MBUF_OVERHEAD_BYTES: u64 = 128 + 128 + 64;
const CACHE_LINE_BYTES: u64 = 64;
/// Bytes of an ordinary page.
const PAGE_BYTES: u64 = 4096;
/// Mbufs that one worker holds beside those in queues: its pool cache, and a burst of each
/// direction.
const WORKER_MBUFS: u64 = 512 + 2 * engine::BURST_MAX as u64;
/// Mbufs on their way to one worker of a pair: the other workers share this number, but each has a
/// minimum.
const HANDED_MBUFS: u64 = 512;
const HANDED_MBUFS_MIN: u64 = 16;
/// Bytes of EAL's own structures.
const EAL_BYTES: u64 = 64 << 20;
/// Bytes of EAL's structures of one port.
const PORT_BYTES: u64 = 4 << 20;

/// The memory of a plan, in bytes.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Most bytes of flow table, records and timers of one worker.
    pub engine_bytes_per_worker: u64,
    /// Number of workers.
    pub workers: u64,
    /// Packet buffers, as a part of `eal_bytes`.
    pub mbuf_bytes: u64,
    /// Memory that DPDK gets.
    pub eal_bytes: u64,
    /// Most bytes that workers and ports need for NIC rules.
    pub offload_bytes: u64,
    /// The sum for all workers.
    pub total_bytes: u64,
}

/// The setting that takes most of the memory of a plan.
#[derive(Debug, PartialEq, Eq)]
pub struct LargestPart {
    /// Key and value.
    pub setting: String,
    /// Its share of the memory.
    pub bytes: u64,
    /// What to lower.
    pub to_lower: &'static str,
}

/// Returns the most bytes of flow tables, records and timers of one engine.
pub fn engine_bytes(config: &engine::Config) -> u64 {
    let label = if config.labels { LABEL_BYTES } else { 0 };
    u64::from(config.capacity_ipv4) * (IPV4_FLOW_BYTES + label)
        + u64::from(config.capacity_ipv6) * (IPV6_FLOW_BYTES + label)
        + config.limits_bytes() as u64
        + fragments_bytes(&config.fragments)
}

fn fragments_bytes(limits: &FragmentLimits) -> u64 {
    let held = (u64::from(limits.hold) + engine::BURST_MAX as u64) * HELD_BYTES;
    match limits.datagrams {
        0 => 0,
        datagrams => u64::from(datagrams) * DATAGRAM_BYTES + FRAGMENTS_BYTES + held,
    }
}

impl super::Plan {
    /// Returns the memory that this plan takes.
    pub fn memory(&self) -> Memory {
        let engine_bytes_per_worker = engine_bytes(&self.engine);
        let workers = self.pairs.iter().map(|pair| pair.workers.len() as u64).sum::<u64>();
        let eal_bytes = u64::from(self.eal.memory_mb) << 20;
        let offload_bytes = self.offload.bytes(&self.pairs, &self.engine);
        Memory {
            engine_bytes_per_worker,
            workers,
            mbuf_bytes: pool_bytes(self.eal.mbufs, self.eal.mbuf_data_bytes, self.eal.huge),
            eal_bytes,
            offload_bytes,
            total_bytes: eal_bytes + offload_bytes + workers * engine_bytes_per_worker,
        }
    }
}

impl super::Plan {
    /// Returns the setting that takes most of the memory.
    pub fn largest_part(&self) -> LargestPart {
        let memory = self.memory();
        let tables = memory.workers * memory.engine_bytes_per_worker;
        let needed_mb = eal_megabytes(memory.mbuf_bytes, self.pairs.len());
        let (key, value, to_lower) = if memory.offload_bytes > tables.max(memory.eal_bytes) {
            ("offload.rules_max", self.offload.rules_max, "`rules_max` or `capacity`")
        } else if tables >= memory.eal_bytes {
            let workers = "`capacity` or the number of workers";
            match self.engine.capacity_ipv6 > self.engine.capacity_ipv4 {
                true => ("table.capacity_ipv6", self.engine.capacity_ipv6, workers),
                false => ("table.capacity", self.engine.capacity_ipv4, workers),
            }
        } else if self.eal.memory_mb > needed_mb {
            ("eal.memory_mb", self.eal.memory_mb, "`memory_mb`")
        } else {
            ("eal.mbufs", self.eal.mbufs, "`mbufs`, `capacity` or the number of workers")
        };
        let bytes = tables.max(memory.eal_bytes).max(memory.offload_bytes);
        LargestPart { setting: format!("{key} = {value}"), bytes, to_lower }
    }
}

/// Returns the mbufs that may be in use at one time: in all descriptors, at all workers, held, and
/// in captures that a port replays for ever. `held` is the number of packets that each worker may
/// hold. Pairs share the pool evenly, whatever each one needs.
pub(super) fn mbufs_needed(pairs: &[PairPlan], held: u64) -> u64 {
    let of_pair = |pair: &PairPlan| {
        let queues = 2 * (u64::from(pair.rx_descriptors) + u64::from(pair.tx_descriptors));
        let captures = pair.a.captures_in_buffers().chain(pair.b.captures_in_buffers());
        let workers = pair.workers.len() as u64;
        let handed = workers.saturating_sub(1) * handed_mbufs(workers);
        workers * (queues + WORKER_MBUFS + held + handed) + captures.map(packets_in).sum::<u64>()
    };
    pairs.len() as u64 * pairs.iter().map(of_pair).max().unwrap_or(0)
}

/// Returns the packets that may be on their way from one of `workers` workers to another.
pub fn handed_mbufs(workers: u64) -> u64 {
    (HANDED_MBUFS / workers.saturating_sub(1).max(1)).max(HANDED_MBUFS_MIN)
}

/// Returns the packets in a capture; of a faulty one, those before the fault, which its driver will
/// report.
fn packets_in(path: &Path) -> u64 {
    let capture = File::open(path).ok().and_then(|file| Capture::new("", file).ok());
    let Some(mut capture) = capture else { return 0 };
    let mut packets = 0;
    while let Ok(Some(_)) = capture.next() {
        packets += 1;
    }
    packets
}

/// Returns the megabytes that DPDK needs for a pool of `pool_bytes` and the ports of `pairs`.
pub(super) fn eal_megabytes(pool_bytes: u64, pairs: usize) -> u32 {
    let bytes = pool_bytes + EAL_BYTES + 2 * pairs as u64 * PORT_BYTES;
    u32::try_from(bytes.div_ceil(1 << 20)).unwrap_or(u32::MAX)
}

/// Returns the bytes of a pool, with the ring of pointers to free mbufs.
///
/// No mbuf crosses the border of two pages. With ordinary pages this is costly: an mbuf of 2.3 KB
/// takes 4 KB. While the kind of pages is undecided, ordinary pages are assumed.
pub(super) fn pool_bytes(mbufs: u32, data_bytes: u16, huge: Huge) -> u64 {
    // An odd number of cache lines, which spreads the heads of mbufs over all memory channels.
    let lines = (u64::from(data_bytes) + MBUF_OVERHEAD_BYTES).div_ceil(CACHE_LINE_BYTES) | 1;
    let mbuf = lines * CACHE_LINE_BYTES;
    let count = u64::from(mbufs);
    let buffers = match huge {
        Huge::Yes => count * mbuf,
        Huge::Auto | Huge::No if mbuf > PAGE_BYTES => count * mbuf.next_multiple_of(PAGE_BYTES),
        Huge::Auto | Huge::No => count.div_ceil(PAGE_BYTES / mbuf) * PAGE_BYTES,
    };
    buffers + (count + 1).next_power_of_two() * 8
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with what DPDK 22.11 took from its heap on ordinary pages.
    #[test]
    fn a_pool_takes_what_was_measured() {
        let fixed = 1_100_000;
        for (mbufs, data_bytes, measured) in [
            (300_000, 2048, 1_234_053_312),
            (16_384, 2048, 68_430_016),
            (1024, 192, 1_674_496),
            (200_000, 128, 94_178_176),
            (100_000, 1600, 206_908_800),
            (100_000, 4000, 821_306_944),
            (50_000, 9000, 615_982_656),
        ] {
            let bytes = pool_bytes(mbufs, data_bytes, Huge::Auto);
            let expected = measured - fixed..=measured;
            assert!(expected.contains(&bytes), "{bytes} not in {expected:?}");
        }
    }

    #[test]
    fn hugepages_hold_mbufs_without_gaps() {
        assert_eq!(pool_bytes(1 << 20, 2048, Huge::Yes), (37 * 64 + 16) << 20);
    }
}
