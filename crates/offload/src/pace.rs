// SPDX-License-Identifier: BSD-3-Clause
//! Paces the calls to a port: they take no more than a share of the time, whatever one call takes,
//! and less after trouble.

use engine::Nanos;

/// When the port may be called again.
#[derive(Clone, Copy, Debug)]
pub struct CallPacer {
    /// Share of the time that calls may take, in 1/256.
    share: u64,
    /// No call before this time.
    next: Nanos,
    /// Length of the next rest after trouble. It doubles each time.
    rest: Nanos,
    /// End of the last rest.
    rested: Nanos,
}

/// The first rest after trouble, and the longest, in nanoseconds.
const REST_MIN: Nanos = 1_000_000;
const REST_MAX: Nanos = 1_000_000_000;

impl CallPacer {
    /// Makes a pacer whose calls may take `share` of 256 parts of the time (1 to 256).
    pub fn new(share: u32) -> Self {
        Self { share: u64::from(share.clamp(1, 256)), next: 0, rest: REST_MIN, rested: 0 }
    }

    /// Returns the earliest time of the next call.
    pub(crate) fn next(&self) -> Nanos {
        self.next
    }

    /// Returns the time from one call to the next, in nanoseconds, if each takes `took`.
    pub(crate) fn interval(&self, took: Nanos) -> Nanos {
        took.saturating_mul(256) / self.share
    }

    /// Notes that calls took from one time to another. Their result does not matter: they cost the
    /// port the same.
    pub(crate) fn took(&mut self, from: Nanos, until: Nanos) {
        let took = until.saturating_sub(from);
        self.next = self.next.max(until + took * (256 - self.share) / self.share);
    }

    /// Notes a success: the next rest is short again.
    pub(crate) fn went_well(&mut self) {
        self.rest = REST_MIN;
    }

    /// Begins a rest, because the port has a problem. During a rest, trouble begins no other one:
    /// no operation began since.
    pub(crate) fn rest(&mut self, until: Nanos) {
        if until >= self.rested {
            self.rested = until + self.rest;
            self.next = self.next.max(self.rested);
            self.rest = (2 * self.rest).min(REST_MAX);
        }
    }

    /// Starts over after a reset of the port: earlier calls say nothing about it.
    pub(crate) fn begin_anew(&mut self) {
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
        pace.rest(1100);
        pace.took(1200, 1201);
        assert_eq!(pace.next(), 1100 + REST_MIN, "a result that is taken ends no rest");
        let mut pace = CallPacer::new(256);
        pace.took(1000, 1100);
        assert_eq!(pace.next(), 1100);
    }

    #[test]
    fn rests_get_longer_until_something_goes_well() {
        let mut pace = CallPacer::new(256);
        let rest = |pace: &mut CallPacer| {
            let until = pace.next();
            pace.rest(until);
            pace.next() - until
        };
        let rests: Vec<_> = (0..12).map(|_| rest(&mut pace)).collect();
        assert_eq!(rests[..3], [REST_MIN, 2 * REST_MIN, 4 * REST_MIN]);
        assert_eq!(rests[11], REST_MAX);
        pace.went_well();
        assert_eq!(rest(&mut pace), REST_MIN);
        let next = pace.next();
        pace.rest(next - 1);
        assert_eq!(pace.next(), next, "what was on its way when the rest began");
        pace.begin_anew();
        assert_eq!(pace.next(), 0);
    }
}
