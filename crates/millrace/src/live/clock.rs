// SPDX-License-Identifier: BSD-3-Clause
//! Keeps time for the packet path: converts the cycle counter to nanoseconds since the Unix epoch.

use engine::Nanos;
use std::time::{SystemTime, UNIX_EPOCH};

/// Converts readings of the cycle counter to time. Monotonic: set once, it then follows the
/// counter, whatever happens to the system clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    epoch_ns: Nanos,
    epoch_cycles: u64,
    /// Nanoseconds per cycle, in units of 2^-32.
    ns_per_cycle: u64,
}

impl Clock {
    /// Creates a clock for a counter of `hz` that reads `cycles` now.
    pub(crate) fn new(cycles: u64, hz: u64) -> Self {
        let ns_per_cycle = ((1_000_000_000_u128 << 32) / u128::from(hz.max(1))) as u64;
        Self { epoch_ns: system_now(), epoch_cycles: cycles, ns_per_cycle }
    }

    /// Returns the time at which the counter read `cycles`; the time at which the clock was set if
    /// that is later.
    #[inline(always)]
    pub(crate) fn at(&self, cycles: u64) -> Nanos {
        self.epoch_ns.saturating_add(self.span(cycles.saturating_sub(self.epoch_cycles)))
    }

    /// Returns this clock, set ahead by `ns` nanoseconds or, if negative, behind.
    #[cfg(test)]
    pub(crate) fn ahead_by(self, ns: i64) -> Self {
        Self { epoch_ns: self.epoch_ns.saturating_add_signed(ns), ..self }
    }

    /// Returns the time that `cycles` take, in nanoseconds.
    #[inline(always)]
    pub(crate) fn span(&self, cycles: u64) -> Nanos {
        ((u128::from(cycles) * u128::from(self.ns_per_cycle)) >> 32) as Nanos
    }
}

/// Returns the time of the system clock, which a user or NTP may change.
pub(crate) fn system_now() -> Nanos {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as Nanos
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_century_of_cycles_is_right_to_the_millisecond() {
        let hz = 2_100_000_000;
        let clock = Clock::new(1_000, hz);
        let start = clock.at(1_000);
        assert_eq!(clock.at(0), start);
        let seconds = 100 * 365 * 86_400;
        let ns = clock.at(1_000 + seconds * hz) - start;
        assert!(ns.abs_diff(seconds * 1_000_000_000) < seconds, "{ns}");
    }
}
