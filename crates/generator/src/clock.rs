// SPDX-License-Identifier: BSD-3-Clause
//! Nanoseconds of a run, by the processor's time-stamp counter.

use dpdk::{Eal, tsc, tsc_hz};
use std::time::{Duration, Instant};

/// How long the rate of the counter is measured: the system's clock, read to 50 ns at both ends,
/// gives it to one part in a million.
const MEASUREMENT: Duration = Duration::from_millis(100);

/// Counts nanoseconds from its start; copies count the same.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: u64,
    /// Nanoseconds in a cycle, times 2^32.
    scale: u64,
}

impl Clock {
    /// Starts at 0.
    pub fn new(eal: &Eal) -> Self {
        Self::of_rate(1_000_000_000, tsc_hz(eal))
    }

    /// Starts at 0, without DPDK: measures the rate against the system's clock for 0.1 s.
    pub fn measured() -> Self {
        let (begun, first) = (Instant::now(), tsc());
        std::thread::sleep(MEASUREMENT);
        let (elapsed, last) = (begun.elapsed(), tsc());
        Self::of_rate(elapsed.as_nanos() as u64, last.saturating_sub(first).max(1))
    }

    /// Starts at 0; the counter counts `cycles` in `ns` nanoseconds.
    fn of_rate(ns: u64, cycles: u64) -> Self {
        Self { start: tsc(), scale: ((u128::from(ns) << 32) / u128::from(cycles)) as u64 }
    }

    /// Nanoseconds since the start.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        let cycles = tsc().saturating_sub(self.start);
        (u128::from(cycles) * u128::from(self.scale) >> 32) as u64
    }
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
}
