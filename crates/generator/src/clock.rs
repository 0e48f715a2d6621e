// SPDX-License-Identifier: BSD-3-Clause
//! Nanoseconds of a run, by the processor's time-stamp counter.

use dpdk::{Eal, tsc, tsc_hz};

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
        let hz = u128::from(tsc_hz(eal));
        Self { start: tsc(), scale: ((1_000_000_000_u128 << 32) / hz) as u64 }
    }

    /// Nanoseconds since the start.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        let cycles = tsc().saturating_sub(self.start);
        (u128::from(cycles) * u128::from(self.scale) >> 32) as u64
    }
}
