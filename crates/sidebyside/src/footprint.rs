// SPDX-License-Identifier: BSD-3-Clause
//! Measures bytes per flow: fills an engine in this process to its capacity.

use engine::{BURST_MAX, Config, Engine, Verdict};
use serde::Serialize;
use std::fs;
use traffic::flood::{self, Target, Tuple};
use wire::{BytesPacket, FrameBuilder};

/// Name for `--only`.
pub(crate) const NAME: &str = "bytes-per-flow-10m";

const FLOWS: u32 = 10_000_000;

/// Memory of an engine whose table for one IP version is full.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Footprint {
    pub(crate) ip_version: u8,
    /// Flows in the table.
    pub(crate) flows: u64,
    /// Growth of the process's resident memory, divided by the flows.
    pub(crate) resident_bytes_per_flow: f64,
    /// `Engine::memory_bytes`, divided by the flows.
    pub(crate) engine_bytes_per_flow: f64,
}

impl Footprint {
    /// Returns the largest bytes per flow: required, and desired.
    pub(crate) fn thresholds(&self) -> [f64; 2] {
        if self.ip_version == 4 { [144.0, 128.0] } else { [208.0, 192.0] }
    }
}

/// Fills a table of each IP version and measures its memory.
pub(crate) fn measure() -> [Footprint; 2] {
    [4, 6].map(of_version)
}

fn of_version(ip_version: u8) -> Footprint {
    eprintln!("filling a table with {FLOWS} flows of IPv{ip_version}");
    let before = resident_bytes();
    let capacity = |version| if version == ip_version { FLOWS } else { 1 };
    let mut engine = Engine::new(&Config {
        capacity_ipv4: capacity(4),
        capacity_ipv6: capacity(6),
        embryonic_percent: 100,
        ..Config::default()
    });
    let mut frames: Vec<Vec<u8>> = Vec::with_capacity(BURST_MAX);
    for tuple in flood::tuples(1, Target::Random, FLOWS) {
        frames.push(frame(tuple, ip_version));
        if frames.len() == BURST_MAX {
            process(&mut engine, &frames);
            frames.clear();
        }
    }
    process(&mut engine, &frames);
    let flows = engine.stats().active();
    let grown = resident_bytes().saturating_sub(before);
    Footprint {
        ip_version,
        flows,
        resident_bytes_per_flow: grown as f64 / flows as f64,
        engine_bytes_per_flow: engine.memory_bytes() as f64 / flows as f64,
    }
}

fn frame(Tuple { src, dst, sport, dport }: Tuple, ip_version: u8) -> Vec<u8> {
    let builder = match ip_version {
        4 => FrameBuilder::ipv4(src.octets(), dst.octets()),
        _ => FrameBuilder::ipv6(
            src.to_ipv6_compatible().segments(),
            dst.to_ipv6_compatible().segments(),
        ),
    };
    builder.udp(sport, dport).build()
}

fn process(engine: &mut Engine, frames: &[Vec<u8>]) {
    let packets: Vec<BytesPacket> = frames.iter().map(|frame| BytesPacket::new(frame)).collect();
    engine.process(1, &packets, &mut [Verdict::Forward; BURST_MAX]);
}

/// Returns the resident memory of this process in bytes.
fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
    kilobytes.unwrap_or(0) << 10
}
