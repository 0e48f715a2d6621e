// SPDX-License-Identifier: BSD-3-Clause
//! Owns the counters of a worker that its engine does not have, and the worker's report.

use super::stages::StageSample;
use engine::{
    Engine, MarkStats, MemoryUse, OffloadStats, OffloadStatus, STALL_CYCLES, Side, Stats,
};
use report::summary::{PollGap, Rejects};

/// Side at which packets of each direction arrive.
pub(crate) const SIDES: [Side; 2] = [Side::A, Side::B];

/// Counters of a worker that its engine does not have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    pub(crate) received: u64,
    /// Packets and frame bytes sent, by direction.
    pub(crate) sent: [(u64, u64); 2],
    /// Packets dropped because the transmit queue was full.
    pub(crate) tx_full: u64,
    /// Packets dropped because the port was being reset.
    pub(crate) port_reset: u64,
    /// Packets dropped because their port may have truncated them.
    pub(crate) cut: u64,
    /// Packets dropped because they exceed the MTU of the port that they should leave by.
    pub(crate) over_mtu: u64,
    /// Answers to packets that access lists rejected.
    pub(crate) rejects: Rejects,
    pub(crate) bursts: u64,
    pub(crate) busy_cycles: u64,
    pub(crate) idle_cycles: u64,
    /// Cycles of turns that took at least [`STALL_CYCLES`]: the worker was interrupted, so they are
    /// neither busy nor idle.
    pub(crate) stalled_cycles: u64,
    pub(crate) housekeeping_cycles: u64,
    /// Measurements of the sampled bursts, without those of the engine.
    pub(crate) sampled: StageSample,
}

impl Account {
    /// Returns the packets that the worker dropped; the engine counts its own.
    pub(crate) fn dropped(&self) -> u64 {
        self.tx_full + self.port_reset + self.cut + self.over_mtu
    }

    /// Adds the cycles of a turn to the busy, idle or stalled cycles; `work` is the number of
    /// packets or items that it processed. True if they were added to the busy cycles.
    #[inline(always)]
    pub(crate) fn charge(&mut self, cycles: u64, work: usize) -> bool {
        let account = match work {
            _ if cycles >= STALL_CYCLES => &mut self.stalled_cycles,
            0 => &mut self.idle_cycles,
            _ => &mut self.busy_cycles,
        };
        *account += cycles;
        work > 0 && cycles < STALL_CYCLES
    }

    /// Returns the measurements of the sampled bursts so far, with those of the engine.
    pub(crate) fn stages(&self, stats: &Stats) -> StageSample {
        StageSample {
            engine_packets: stats.sampled_packets,
            stage_cycles: stats.stage_cycles,
            stage_readings: stats.stage_readings,
            housekeeping_cycles: self.housekeeping_cycles,
            ..self.sampled
        }
    }
}

/// All counters of a worker between two bursts, or at the end of a run.
pub(crate) struct WorkerReport {
    pub(crate) account: Account,
    pub(crate) stats: Stats,
    pub(crate) marks: MarkStats,
    pub(crate) rules: OffloadStats,
    /// Offload state by side. In the report at the end of a run, it is from before the remaining
    /// connections are ended.
    pub(crate) admission: [OffloadStatus; 2],
    pub(crate) memory: MemoryUse,
    pub(crate) poll_gap: PollGap,
}

impl WorkerReport {
    /// Returns the counters of a worker as they are now.
    pub(crate) fn of(account: &Account, engine: &Engine, poll_gap: PollGap) -> Self {
        Self {
            account: account.clone(),
            stats: engine.stats().clone(),
            marks: engine.mark_stats(),
            rules: engine.offload_stats(),
            admission: SIDES.map(|side| engine.offload_state(side)),
            memory: engine.memory(),
            poll_gap,
        }
    }
}
