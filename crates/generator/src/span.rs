// SPDX-License-Identifier: BSD-3-Clause
//! Measures the time from the first event to the last.

/// Times of the first event and of the last, in nanoseconds of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    first: u64,
    /// 0: there was no event.
    last: u64,
}

impl Span {
    /// Notes an event at time `now`, the latest one.
    #[inline(always)]
    pub(crate) fn widen(&mut self, now: u64) {
        if self.last == 0 {
            self.first = now;
        }
        self.last = now;
    }

    /// Extends the span to include another.
    pub(crate) fn join(&mut self, other: Self) {
        if other.last == 0 {
            return;
        }
        *self = match self.last {
            0 => other,
            last => Self { first: self.first.min(other.first), last: last.max(other.last) },
        };
    }

    /// Returns the nanoseconds from the first event to the last; 0 if there was at most one.
    pub fn length_ns(&self) -> u64 {
        self.last - self.first
    }
}
