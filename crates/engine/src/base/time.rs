// SPDX-License-Identifier: BSD-3-Clause
//! Owns the engine's units of time.
//!
//! The interface uses nanoseconds, records use microseconds, statistics of NIC rules use ticks.

/// Nanoseconds: a duration, or a time since the Unix epoch.
pub type Nanos = u64;

/// Rounds a time down to whole microseconds, the resolution of records and timers.
#[inline(always)]
pub(crate) fn whole_micros(now: Nanos) -> Nanos {
    now - now % 1000
}

/// A time in units of 2^16 ns. It wraps after three days, which suffices to compute rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tick(u32);

impl Tick {
    /// A value that no time has.
    pub(crate) const ZERO: Tick = Tick(0);

    pub(crate) fn of(now: Nanos) -> Self {
        Tick(((now >> 16) as u32).max(1))
    }

    /// Returns the time that has passed since `earlier`.
    pub(crate) fn since(self, earlier: Tick) -> Nanos {
        u64::from(self.0.wrapping_sub(earlier.0)) << 16
    }
}

/// Lower 45 bits of the microseconds since the Unix epoch, as stored in a record.
///
/// They wrap after 1.1 years; no connection lives that long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Micros(pub(crate) u64);

impl Micros {
    pub(crate) const MASK: u64 = (1 << 45) - 1;

    #[inline(always)]
    pub(crate) fn of(now: Nanos) -> Self {
        Micros(now / 1000 & Self::MASK)
    }

    /// Returns the full time, given that it is not before `start`.
    pub(crate) fn since(self, start: Nanos) -> Nanos {
        let later = self.0.wrapping_sub(start / 1000) & Self::MASK;
        (start / 1000 + later) * 1000
    }
}
