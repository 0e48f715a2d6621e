// SPDX-License-Identifier: BSD-3-Clause
//! Splits the busy cycles of a worker into stages, which add up to them.
//!
//! Stages are measured in a sample of the bursts. Sampled bursts are slower than others: reading
//! the clock takes time, and keeps the processor from overlapping stages. So the cost of the
//! readings is subtracted, and the sample gives only the share of each stage in the busy cycles,
//! which are measured always.

use engine::{STALL_CYCLES, Stage};
use report::summary::StageCycles;

const STAGES: usize = Stage::ALL.len();
/// Clock readings in a sampled burst beside those between the engine's stages: after receiving, at
/// the engine's start and end, and after sending.
const READINGS: u64 = 4;

/// Measurements of the sampled bursts of one or more workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StageSample {
    /// Sampled bursts, and packets in them.
    pub(crate) bursts: u64,
    pub(crate) packets: u64,
    /// Cycles from the start of these bursts to the end of sending.
    pub(crate) cycles: u64,
    /// Cycles of them spent on receiving.
    pub(crate) rx_cycles: u64,
    /// Cycles of them spent on sending.
    pub(crate) tx_cycles: u64,
    /// Packets in the bursts that the engine sampled.
    pub(crate) engine_packets: u64,
    /// Cycles of the engine's stages in these bursts.
    pub(crate) stage_cycles: [u64; STAGES],
    /// Clock readings in the engine's stages.
    pub(crate) stage_readings: [u64; STAGES],
    /// Cycles of all housekeeping that did some work, not of a sample.
    pub(crate) housekeeping_cycles: u64,
}

impl StageSample {
    /// Adds a burst unless it was interrupted. `at`: when it began, and when receiving, the engine
    /// and sending were done.
    pub(crate) fn add_burst(&mut self, packets: u64, at: [u64; 4]) {
        let [since, fetched, judged, sent] = at;
        let cycles = sent.wrapping_sub(since);
        if cycles < STALL_CYCLES {
            self.bursts += 1;
            self.packets += packets;
            self.cycles += cycles;
            self.rx_cycles += fetched.wrapping_sub(since);
            self.tx_cycles += sent.wrapping_sub(judged);
        }
    }

    /// Returns all numbers, for [`PublishedCounters`](super::published::PublishedCounters).
    pub(crate) fn to_counters(self) -> [u64; Self::COUNTERS] {
        let Self { bursts, packets, cycles, rx_cycles, tx_cycles, .. } = self;
        let rest = [self.engine_packets, self.housekeeping_cycles];
        let of_worker = [bursts, packets, cycles, rx_cycles, tx_cycles].into_iter().chain(rest);
        let mut all = of_worker.chain(self.stage_cycles).chain(self.stage_readings);
        std::array::from_fn(|_| all.next().expect("as many as counted"))
    }

    /// Restores a sample from its numbers.
    pub(crate) fn from_counters(counters: [u64; Self::COUNTERS]) -> Self {
        let [bursts, packets, cycles, rx_cycles, tx_cycles, engine_packets, rest @ ..] = counters;
        let [housekeeping_cycles, stages @ ..] = rest;
        Self {
            bursts,
            packets,
            cycles,
            rx_cycles,
            tx_cycles,
            engine_packets,
            stage_cycles: std::array::from_fn(|stage| stages[stage]),
            stage_readings: std::array::from_fn(|stage| stages[STAGES + stage]),
            housekeeping_cycles,
        }
    }

    pub(crate) const COUNTERS: usize = 7 + 2 * STAGES;

    /// Returns the sum of both samples.
    pub(crate) fn plus(self, other: Self) -> Self {
        let (a, b) = (self.to_counters(), other.to_counters());
        Self::from_counters(std::array::from_fn(|i| a[i] + b[i]))
    }

    /// Returns the difference to an earlier sample.
    pub(crate) fn since(self, before: Self) -> Self {
        let (now, then) = (self.to_counters(), before.to_counters());
        Self::from_counters(std::array::from_fn(|i| now[i].saturating_sub(then[i])))
    }

    /// Splits `busy_cycles` of the same time into stages, which add up to them.
    pub(crate) fn split(&self, busy_cycles: u64) -> StageCycles {
        self.split_with(busy_cycles, reading_cycles())
    }

    /// Splits `busy_cycles` if one reading of the clock takes `reading` cycles.
    fn split_with(&self, busy_cycles: u64, reading: u64) -> StageCycles {
        let housekeeping = self.housekeeping_cycles.min(busy_cycles);
        let of_bursts = busy_cycles - housekeeping;
        // Both samples are of the same bursts, unless the worker has dropped a burst whole. The
        // engine's has no packets that the worker dropped before.
        let per_packet = |cycles: u64, readings: u64, packets: u64| {
            cycles.saturating_sub(readings * reading) as f64 / packets.max(1) as f64
        };
        let engine = |stage: Stage| {
            let stage = stage as usize;
            per_packet(self.stage_cycles[stage], self.stage_readings[stage], self.engine_packets)
        };
        let engine = Stage::ALL.map(engine);
        let rx = per_packet(self.rx_cycles, self.bursts, self.packets);
        let tx = per_packet(self.tx_cycles, self.bursts, self.packets);
        let readings = self.stage_readings.iter().sum::<u64>() + READINGS * self.bursts;
        let all = per_packet(self.cycles, readings, self.packets);
        let named = rx + tx + engine.iter().sum::<f64>();
        // Cycles between the stages count only if they exceed the noise of the clock.
        let scale = of_bursts as f64 / all.max(named).max(f64::MIN_POSITIVE);
        let share = |per_packet: f64| (per_packet * scale) as u64;
        let [mark, parse, lookup, track, miss] = engine.map(share);
        let (rx, tx) = (share(rx), share(tx));
        let other = of_bursts.saturating_sub(rx + mark + parse + lookup + track + miss + tx);
        StageCycles { rx, mark, parse, lookup, track, miss, tx, housekeeping, other }
    }
}

/// Cycles that one reading of the clock takes.
fn reading_cycles() -> u64 {
    // Tables of made-up readings must not depend on the host.
    if cfg!(test) { 25 } else { dpdk::tsc_reading_cycles() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten bursts of 8 packets; a reading of the clock takes 40 cycles.
    fn sample() -> StageSample {
        StageSample {
            bursts: 10,
            packets: 80,
            // 3200 of it are 80 clock readings: 40 of the worker, 40 of the engine.
            cycles: 8_400 + 3_200,
            rx_cycles: 2_000 + 400,
            tx_cycles: 1_000 + 400,
            engine_packets: 80,
            stage_cycles: [0, 1_000 + 400, 2_000 + 800, 1_000 + 400, 0],
            stage_readings: [0, 10, 20, 10, 0],
            housekeeping_cycles: 5_000,
        }
    }

    fn sum(stages: &StageCycles) -> u64 {
        stages.named().iter().map(|(_, cycles)| cycles).sum()
    }

    #[test]
    fn stages_add_up_to_the_busy_cycles() {
        // A hundred times the packets of the sample, at the same cost per packet.
        let stages = sample().split_with(840_000 + 5_000, 40);
        assert_eq!((stages.rx, stages.tx, stages.housekeeping), (200_000, 100_000, 5_000));
        assert_eq!((stages.parse, stages.lookup, stages.track), (100_000, 200_000, 100_000));
        assert_eq!((stages.mark, stages.miss, stages.other), (0, 0, 140_000));
        assert_eq!(sum(&stages), 845_000);
    }

    #[test]
    fn stages_add_up_whatever_was_measured() {
        for busy in [0, 1, 4_999, 5_000, 123_457, 1 << 50] {
            for reading in [0, 40, 1_000_000] {
                assert_eq!(sum(&sample().split_with(busy, reading)), busy);
                assert_eq!(sum(&StageSample::default().split_with(busy, reading)), busy);
            }
        }
        // Less than the sum of its parts: worker and engine sampled different bursts.
        let odd = StageSample { cycles: 100, ..sample() };
        let stages = odd.split_with(100_000, 0);
        assert!(sum(&stages) == 100_000 && stages.other < 10, "{stages:?}");
    }

    #[test]
    fn counters_are_the_sample() {
        let sample = sample();
        assert_eq!(StageSample::from_counters(sample.to_counters()), sample);
        assert_eq!(sample.plus(sample).since(sample), sample);
    }
}
