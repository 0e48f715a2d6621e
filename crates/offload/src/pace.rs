// SPDX-License-Identifier: BSD-3-Clause
//! Paces the calls to a port: they take no more than a share of the time, whatever one call takes,
//! and less after an error of the port.

use engine::Nanos;

/// When the port may be called again.
#[derive(Clone, Copy, Debug)]
pub struct CallPacer {
    /// Share of the time that calls may take, in 1/256.
    share: u64,
    /// No call before this time.
    next: Nanos,
    /// Length of the next back-off after an error of the port. It doubles each time.
    back_off: Nanos,
    /// End of the last back-off.
    back_off_end: Nanos,
}

/// The first back-off after an error, and the longest, in nanoseconds.
const BACK_OFF_MIN: Nanos = 1_000_000;
const BACK_OFF_MAX: Nanos = 1_000_000_000;

impl CallPacer {
    /// Makes a pacer whose calls may take `share` of 256 parts of the time (1 to 256).
    pub fn new(share: u32) -> Self {
        Self {
            share: u64::from(share.clamp(1, 256)),
            next: 0,
            back_off: BACK_OFF_MIN,
            back_off_end: 0,
        }
    }

    /// Returns the earliest time of the next call.
    pub(crate) fn next(&self) -> Nanos {
        self.next
    }

    /// Returns the time from one call to the next, in nanoseconds, if each takes `took`.
    pub(crate) fn interval(&self, took: Nanos) -> Nanos {
        took.saturating_mul(256) / self.share
    }

    /// Notes that calls took the time from `from` to `until`. Their results do not matter: a failed
    /// call takes the port's time too.
    pub(crate) fn took(&mut self, from: Nanos, until: Nanos) {
        let took = until.saturating_sub(from);
        self.next = self.next.max(until + took * (256 - self.share) / self.share);
    }

    /// Notes a success: the next back-off is short again.
    pub(crate) fn reset_back_off(&mut self) {
        self.back_off = BACK_OFF_MIN;
    }

    /// Begins a back-off, because the port has a problem. During a back-off, an error begins no
    /// other one: no operation began since.
    pub(crate) fn back_off(&mut self, until: Nanos) {
        if until >= self.back_off_end {
            self.back_off_end = until + self.back_off;
            self.next = self.next.max(self.back_off_end);
            self.back_off = (2 * self.back_off).min(BACK_OFF_MAX);
        }
    }

    /// Starts over after a reset of the port: earlier calls say nothing about it.
    pub(crate) fn reset(&mut self) {
        *self = Self { share: self.share, ..Self::new(256) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_take_their_share_of_the_time() {
        let mut pace = CallPacer::new(64);
        pace.took(1000, 1100);
        assert_eq!(pace.next(), 1400, "100 of 400");
        pace.back_off(1100);
        pace.took(1200, 1201);
        assert_eq!(pace.next(), 1100 + BACK_OFF_MIN, "a result that is taken ends no back-off");
        let mut pace = CallPacer::new(256);
        pace.took(1000, 1100);
        assert_eq!(pace.next(), 1100);
    }

    #[test]
    fn back_offs_get_longer_until_something_goes_well() {
        let mut pace = CallPacer::new(256);
        let back_off = |pace: &mut CallPacer| {
            let until = pace.next();
            pace.back_off(until);
            pace.next() - until
        };
        let back_offs: Vec<_> = (0..12).map(|_| back_off(&mut pace)).collect();
        assert_eq!(back_offs[..3], [BACK_OFF_MIN, 2 * BACK_OFF_MIN, 4 * BACK_OFF_MIN]);
        assert_eq!(back_offs[11], BACK_OFF_MAX);
        pace.reset_back_off();
        assert_eq!(back_off(&mut pace), BACK_OFF_MIN);
        let next = pace.next();
        pace.back_off(next - 1);
        assert_eq!(pace.next(), next, "what was on its way when the back-off began");
        pace.reset();
        assert_eq!(pace.next(), 0);
    }
}
