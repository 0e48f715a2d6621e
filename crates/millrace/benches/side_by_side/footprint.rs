// SPDX-License-Identifier: BSD-3-Clause
//! Bytes per flow: an engine of this process, filled to the last record with flows of its own.

use engine::{BURST_MAX, Config, Engine, Verdict};
use serde::Serialize;
use std::fs;
use traffic::flood::{self, Target};
use wire::BytesPacket;

/// Name for `--only`.
pub(crate) const NAME: &str = "bytes-per-flow-10m";
/// Bytes per IPv4 flow.
pub(crate) const MUST: f64 = 144.0;
/// The same.
pub(crate) const GOAL: f64 = 128.0;

const FLOWS: u32 = 10_000_000;

/// Memory of a full table.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Footprint {
    /// Flows in the table.
    pub(crate) flows: u64,
    /// Growth of the process, resident, over the flows.
    pub(crate) resident_bytes_per_flow: f64,
    /// The engine's own account over the flows.
    pub(crate) engine_bytes_per_flow: f64,
}

/// Fills a table and looks at what it takes.
pub(crate) fn measure() -> Footprint {
    eprintln!("filling a table with {FLOWS} flows");
    let before = resident_bytes();
    let mut engine = Engine::new(&Config {
        capacity_ipv4: FLOWS,
        capacity_ipv6: 1,
        embryonic_percent: 100,
        ..Config::default()
    });
    let mut frames: Vec<Vec<u8>> = Vec::with_capacity(BURST_MAX);
    flood::packets(1, Target::Random, FLOWS, |_, frame| {
        frames.push(frame.to_vec());
        if frames.len() == BURST_MAX {
            process(&mut engine, &frames);
            frames.clear();
        }
    });
    process(&mut engine, &frames);
    let flows = engine.stats().active();
    let grown = resident_bytes().saturating_sub(before);
    Footprint {
        flows,
        resident_bytes_per_flow: grown as f64 / flows as f64,
        engine_bytes_per_flow: engine.memory_bytes() as f64 / flows as f64,
    }
}

fn process(engine: &mut Engine, frames: &[Vec<u8>]) {
    let packets: Vec<BytesPacket> = frames.iter().map(|frame| BytesPacket::new(frame)).collect();
    engine.process(1, &packets, &mut [Verdict::Forward; BURST_MAX]);
}

/// Memory of this process that is really there.
fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
    kilobytes.unwrap_or(0) << 10
}
