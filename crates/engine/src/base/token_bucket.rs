// SPDX-License-Identifier: BSD-3-Clause
//! Limits the rate of events: a token bucket, kept as the time at which it is full again.

use super::Nanos;

const SECOND: Nanos = 1_000_000_000;
/// A full bucket has the tokens of this time, and at least one.
const BURST: Nanos = SECOND / 10;

/// Limits events to a number per second. Up to a tenth of that number may come at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokenBucket {
    full_at: Nanos,
}

impl TokenBucket {
    /// Takes a token, of which `per_second` are added in a second. False if there is none.
    pub fn take(&mut self, per_second: u32, now: Nanos) -> bool {
        if per_second == 0 {
            return false;
        }
        let token = SECOND / Nanos::from(per_second);
        let full_at = self.full_at.max(now) + token;
        let is_left = full_at - now <= BURST.max(token);
        if is_left {
            self.full_at = full_at;
        }
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_the_rate() {
        let mut bucket = TokenBucket::default();
        let mut taken = |now, tries| (0..tries).filter(|_| bucket.take(1000, now)).count();
        assert_eq!(taken(SECOND, 500), 100, "a tenth of a second at once");
        assert_eq!(taken(SECOND + 5_000_000, 500), 5);
        assert_eq!(taken(100 * SECOND, 500), 100, "no more after a pause");
    }

    #[test]
    fn slow_rates_take_one_at_a_time() {
        let mut bucket = TokenBucket::default();
        assert!(!bucket.take(0, SECOND));
        assert!(bucket.take(1, SECOND) && !bucket.take(1, SECOND + SECOND / 2));
        assert!(bucket.take(1, 2 * SECOND));
    }
}
