// SPDX-License-Identifier: BSD-3-Clause
//! Attacks, each with the figures that it must not change. `MILLRACE_FULL=1` has them in full size
//! (`make prove-attacks`), else they are a tenth of it or less.

mod blind;
mod clocks;
mod floods;
mod fragments;
mod limits;

use crate::sized;
use engine::{BURST_MAX, Engine, Evict, FlowRecord, Verdict};
use wire::BytesPacket;

const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = SECOND / 1000;

/// An engine, what it was given, and the records that it gave.
struct Tried {
    engine: Engine,
    given: u64,
    memory: usize,
    records: Vec<FlowRecord>,
}

impl Tried {
    fn new(config: &engine::Config) -> Self {
        let engine = Engine::new(config);
        Self { given: 0, memory: engine.memory_bytes(), records: vec![], engine }
    }

    /// Gives it packets, and takes records of flows that are kept apart by `wants`.
    fn give(&mut self, now: u64, frames: &[Vec<u8>], wants: impl Fn(&FlowRecord) -> bool) {
        for frames in frames.chunks(BURST_MAX) {
            let packets: Vec<_> = frames.iter().map(|frame| BytesPacket::new(frame)).collect();
            self.engine.process(now, &packets, &mut [Verdict::Drop; BURST_MAX]);
            self.given += packets.len() as u64;
            self.engine.expire(now, BURST_MAX);
            let records = std::iter::from_fn(|| self.engine.next_record());
            self.records.extend(records.filter(|record| wants(record)));
        }
    }

    /// Every packet is in one counter, no memory was taken; then all flows end.
    fn close(&mut self, wants: impl Fn(&FlowRecord) -> bool) {
        assert_eq!(self.engine.stats().packets(), self.given);
        assert_eq!(self.engine.memory_bytes(), self.memory);
        let mut is_more = true;
        while is_more {
            is_more = self.engine.flush(BURST_MAX);
            let records = std::iter::from_fn(|| self.engine.next_record());
            self.records.extend(records.filter(|record| wants(record)));
        }
        assert_eq!(self.engine.stats().records_lost, 0);
        assert_eq!(self.engine.stats().active(), 0);
    }
}

/// A table of this size that makes room for new flows.
fn config(capacity: u32) -> engine::Config {
    engine::Config {
        capacity_ipv4: capacity,
        capacity_ipv6: 64,
        evict: Evict::Embryonic,
        embryonic_percent: 50,
        secret: [0x1234_5678_9abc_def0, 0x0fed_cba9_8765_4321],
        ..engine::Config::default()
    }
}
