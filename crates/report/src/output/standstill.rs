// SPDX-License-Identifier: BSD-3-Clause
//! Tells work that takes long from work that has come to a standstill.

use std::time::{Duration, Instant};

/// Watches a counter that grows with each step of some work.
#[derive(Debug)]
pub struct Standstill {
    steps: u64,
    since: Instant,
}

impl Standstill {
    /// From now on, with the counter at `steps`.
    pub fn new(steps: u64) -> Self {
        Self { steps, since: Instant::now() }
    }

    /// For how long the counter, which is at `steps` now, was not seen to grow.
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
