// SPDX-License-Identifier: BSD-3-Clause
//! Time as the engine keeps it: nanoseconds at its interface, microseconds in records, ticks in
//! statistics of NIC rules.

/// Nanoseconds: a span, or a time since the Unix epoch.
pub type Nanos = u64;

/// Records keep times to the microsecond; timers go by the same clock.
#[inline(always)]
pub(crate) fn whole_micros(now: Nanos) -> Nanos {
    now - now % 1000
}

/// Time in 2^16 ns, coming round after three days: enough to tell rates by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tick(u32);

impl Tick {
    /// Never.
    pub(crate) const ZERO: Tick = Tick(0);

    pub(crate) fn of(now: Nanos) -> Self {
        Tick(((now >> 16) as u32).max(1))
    }

    /// From an earlier one.
    pub(crate) fn since(self, earlier: Tick) -> Nanos {
        u64::from(self.0.wrapping_sub(earlier.0)) << 16
    }
}

/// Microseconds since the Unix epoch as far as a flow keeps them: they come round after 4.4 years,
/// which no flow lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Micros(pub(crate) u64);

impl Micros {
    pub(crate) const MASK: u64 = (1 << 47) - 1;

    #[inline(always)]
    pub(crate) fn of(now: Nanos) -> Self {
        Micros(now / 1000 & Self::MASK)
    }

    /// The time, which is that of `start` or later.
    pub(crate) fn since(self, start: Nanos) -> Nanos {
        let later = self.0.wrapping_sub(start / 1000) & Self::MASK;
        (start / 1000 + later) * 1000
    }
}
