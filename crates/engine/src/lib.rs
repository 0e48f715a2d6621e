// SPDX-License-Identifier: BSD-3-Clause
//! The flow engine of one worker: packets, `now` and commands in; verdicts and flow records out.
//!
//! Sans-I/O: no DPDK, no clock, no thread, no lock, no logging, and no allocation after
//! [`Engine::new`]. The same engine runs live, on captures, in tests and under the fuzzer.
#![deny(unsafe_code)]

mod config;
mod reason;
mod record;
mod stats;

pub use config::{Config, MAX_CAPACITY, Malformed, Timeouts, WhenFull, ZoneFrom};
pub use reason::Reason;
pub use record::{EndReason, FlowRecord, State, Tally, VlanTags};
pub use stats::{Stage, Stats};

/// Nanoseconds: a span, or a time since the Unix epoch.
pub type Nanos = u64;

/// Most packets in one call of [`Engine::process`].
pub const BURST_MAX: usize = 64;

/// What to do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Verdict {
    /// Send it out of the peer port.
    Forward,
    /// Free it; a counter in [`Stats::dropped`] says why.
    Drop,
}

/// Flow table, tracking and timers of one worker.
pub struct Engine;

impl Engine {
    /// Takes all the memory `config` asks for, touched once so that no page fault is left for the
    /// packet path.
    ///
    /// # Panics
    /// If a capacity is 0 or above [`MAX_CAPACITY`]: the caller's plan has checked them.
    pub fn new(_config: &Config) -> Self {
        todo!()
    }

    /// Tracks one burst of at most [`BURST_MAX`] packets that arrived at `now` and writes one
    /// verdict per packet. `now` never runs backwards (a smaller value counts as the last one).
    pub fn process<P: wire::Packet>(
        &mut self,
        _now: Nanos,
        _packets: &[P],
        _verdicts: &mut [Verdict],
    ) {
        todo!()
    }

    /// Ends flows whose time is over, looking at no more than `budget` timers. Returns the timers
    /// looked at: fewer than `budget` means that nothing more is due at `now`.
    pub fn expire(&mut self, _now: Nanos, _budget: usize) -> usize {
        todo!()
    }

    /// Ends up to `budget` live flows with [`EndReason::Exit`]; returns how many it ended. Call
    /// until it returns 0, taking the records between calls.
    pub fn flush(&mut self, _budget: usize) -> usize {
        todo!()
    }

    /// The oldest flow record not yet taken. The queue is bounded: while it is full, `expire` and
    /// `flush` end nothing, so a caller that stops taking records loses none.
    pub fn next_record(&mut self) -> Option<FlowRecord> {
        todo!()
    }

    /// Counters so far.
    pub fn stats(&self) -> &Stats {
        todo!()
    }

    /// Bytes of memory taken at start: table, records, timers.
    pub fn memory_bytes(&self) -> usize {
        todo!()
    }
}
