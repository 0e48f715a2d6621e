// SPDX-License-Identifier: BSD-3-Clause
//! Distinguishes slow work from work that makes no progress.

use std::time::{Duration, Instant};

/// Watches a counter that grows with each step of some work.
#[derive(Debug)]
pub struct Standstill {
    steps: u64,
    since: Instant,
}

impl Standstill {
    /// Starts now, with the counter at `steps`.
    pub fn new(steps: u64) -> Self {
        Self { steps, since: Instant::now() }
    }

    /// Returns how long the counter, now at `steps`, has not grown.
    pub fn lasts(&mut self, steps: u64) -> Duration {
        if self.steps != steps {
            *self = Self::new(steps);
        }
        self.since.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_ends_a_standstill() {
        let mut standstill = Standstill::new(1);
        let nap = Duration::from_millis(3);
        std::thread::sleep(nap);
        assert!(standstill.lasts(1) >= nap);
        std::thread::sleep(nap);
        let lasted = standstill.lasts(1);
        assert!(lasted >= 2 * nap);
        assert!(standstill.lasts(2) < lasted);
    }
}
