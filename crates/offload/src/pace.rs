// SPDX-License-Identifier: BSD-3-Clause
//! How often the port is asked: so that calls take no more than a share of the time, whatever one
//! takes, and less after trouble.

use engine::Nanos;

/// When the port may be asked again.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Of the time, in 1/256.
    share: u64,
    /// Not before.
    next: Nanos,
    /// After trouble: twice as long each time.
    rest: Nanos,
}

/// The first rest after trouble, and the longest.
const REST_MIN: Nanos = 1_000_000;
const REST_MAX: Nanos = 1_000_000_000;

impl Pace {
    /// Calls may take `share` of 256 parts of the time (1 to 256).
    pub fn new(share: u32) -> Self {
        Self { share: u64::from(share.clamp(1, 256)), next: 0, rest: REST_MIN }
    }

    /// Not before then.
    pub(crate) fn next(&self) -> Nanos {
        self.next
    }

    /// From one call to the next, where each takes so long.
    pub(crate) fn interval(&self, took: Nanos) -> Nanos {
        took.saturating_mul(256) / self.share
    }

    /// A call went well, from one time to another.
    pub(crate) fn went_well(&mut self, from: Nanos, until: Nanos) {
        self.rest = REST_MIN;
        self.took(from, until);
    }

    /// A call was refused for what the rule is, which costs the port no less.
    pub(crate) fn took(&mut self, from: Nanos, until: Nanos) {
        let took = until.saturating_sub(from);
        self.next = until + took * (256 - self.share) / self.share;
    }

    /// The port has a problem, or is full.
    pub(crate) fn rest(&mut self, until: Nanos) {
        self.next = until + self.rest;
        self.rest = (2 * self.rest).min(REST_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_take_their_share_of_the_time() {
        let mut pace = Pace::new(64);
        pace.went_well(1000, 1100);
        assert_eq!(pace.next(), 1400, "100 of 400");
        let mut pace = Pace::new(256);
        pace.went_well(1000, 1100);
        assert_eq!(pace.next(), 1100);
    }

    #[test]
    fn rests_get_longer_until_something_goes_well() {
        let mut pace = Pace::new(256);
        let rests: Vec<_> = (0..12).map(|_| (pace.rest(0), pace.next()).1).collect();
        assert_eq!(rests[..3], [REST_MIN, 2 * REST_MIN, 4 * REST_MIN]);
        assert_eq!(rests[11], REST_MAX);
        pace.went_well(0, 0);
        pace.rest(0);
        assert_eq!(pace.next(), REST_MIN);
    }
}
