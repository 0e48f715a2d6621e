// SPDX-License-Identifier: BSD-3-Clause
//! Counts the nanoseconds of a run by the processor's time-stamp counter.

use dpdk::{Eal, tsc, tsc_after_loads, tsc_hz};
use std::time::{Duration, Instant};

/// Time over which the rate of the counter is measured. The system's clock is read to 50 ns at both
/// ends, so the rate is right to one part in a million.
const MEASUREMENT: Duration = Duration::from_millis(100);

const READINGS: u32 = 8;

/// Counts nanoseconds from its start. Copies have the same start and rate.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: u64,
    /// Nanoseconds in a cycle, times 2^32.
    scale: u64,
}

impl Clock {
    /// Returns a clock that starts at 0, with DPDK's rate of the counter.
    pub fn new(eal: &Eal) -> Self {
        Self::of_rate(1_000_000_000, tsc_hz(eal))
    }

    /// Measures the rate against the system's clock for 0.1 s; returns a clock that starts at 0.
    /// DPDK takes the rate from CPUID. If CPUID does not report it, DPDK's rate may be off by some
    /// per mille (`rte_cycles.c`).
    pub fn measured() -> Self {
        let (begun, first) = read_both();
        std::thread::sleep(MEASUREMENT);
        let (ended, last) = read_both();
        let elapsed = ended.duration_since(begun).as_nanos() as u64;
        Self::of_rate(elapsed, last.saturating_sub(first).max(1))
    }

    /// Returns a clock of the same rate that starts after `delay`; until then it is at 0.
    #[must_use]
    pub fn starting_in(self, delay: Duration) -> Self {
        let cycles = (delay.as_nanos() << 32) / u128::from(self.scale);
        Self { start: tsc().saturating_add(cycles as u64), scale: self.scale }
    }

    /// Returns a clock that starts at 0, for a counter that counts `cycles` in `ns` nanoseconds.
    fn of_rate(ns: u64, cycles: u64) -> Self {
        Self { start: tsc(), scale: ((u128::from(ns) << 32) / u128::from(cycles)) as u64 }
    }

    /// Returns the nanoseconds since the start; 0 before it.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        self.nanos(tsc())
    }

    /// Returns the nanoseconds since the start, once all earlier loads are done.
    #[inline(always)]
    pub(crate) fn now_after_loads(&self) -> u64 {
        self.nanos(tsc_after_loads())
    }

    /// Converts a value of the counter to nanoseconds since the start; negative before it.
    pub(crate) fn signed_nanos(&self, tsc: u64) -> i64 {
        let cycles = i128::from(tsc) - i128::from(self.start);
        (cycles * i128::from(self.scale) >> 32) as i64
    }

    /// Converts a value of the counter to nanoseconds since the start; 0 before it.
    #[inline(always)]
    pub(crate) fn nanos(&self, tsc: u64) -> u64 {
        let cycles = tsc.saturating_sub(self.start);
        (u128::from(cycles) * u128::from(self.scale) >> 32) as u64
    }
}

/// Reads the system's clock and the counter at the same time. Returns the quickest of several
/// readings, because during the others the thread may have lost its cpu.
fn read_both() -> (Instant, u64) {
    let read = |_| {
        let before = Instant::now();
        let cycles = tsc();
        (before.elapsed(), before, cycles)
    };
    let best = (0..READINGS).map(read).min_by_key(|(took, ..)| *took);
    best.map_or((Instant::now(), tsc()), |(_, begun, cycles)| (begun, cycles))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measured_clock_counts_as_the_system_does() {
        let clock = Clock::measured();
        let (begun, first) = (Instant::now(), clock.now());
        std::thread::sleep(Duration::from_millis(200));
        let (elapsed, counted) = (begun.elapsed().as_nanos() as u64, clock.now() - first);
        // A pause between two readings counts in one of the two only.
        assert!(counted.abs_diff(elapsed) < elapsed / 20, "{counted} ns, not {elapsed}");
    }

    #[test]
    fn a_clock_that_starts_later_waits() {
        let clock = Clock::measured().starting_in(Duration::from_secs(3600));
        assert_eq!(clock.now(), 0);
        let clock = clock.starting_in(Duration::from_millis(20));
        std::thread::sleep(Duration::from_millis(50));
        assert!(clock.now() >= 20_000_000, "{} ns", clock.now());
    }
}
