// SPDX-License-Identifier: BSD-3-Clause
//! Computes how long a NIC takes for a call.

use crate::personality::Latency;
use crate::random::Random;

/// Draws the times of calls; one seed always gives the same times.
pub(crate) struct Latencies {
    random: Random,
}

impl Latencies {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: Random::new(seed) }
    }

    /// Returns the microseconds for `create`, with a table full beyond its guarantee or not.
    pub(crate) fn create(&mut self, facts: &Latency, is_beyond: bool) -> u32 {
        match facts.best_effort_create_us {
            Some(average) if is_beyond => average,
            _ => self.draw(facts.create_us, facts.create_max_us),
        }
    }

    /// Returns the microseconds for `destroy`.
    pub(crate) fn destroy(&mut self, facts: &Latency) -> u32 {
        self.draw(facts.destroy_us, facts.destroy_max_us)
    }

    /// Draws a time from half of the average up to the longest. Most are near the lower end, so
    /// that the average is right. The mean of u^k is 1 / (k + 1) for u that is uniform between 0
    /// and 1.
    fn draw(&mut self, average: u32, longest: u32) -> u32 {
        if longest <= average {
            return average;
        }
        let (average, longest) = (f64::from(average), f64::from(longest));
        let shortest = average / 2.0;
        let power = (longest - shortest) / (average - shortest) - 1.0;
        (shortest + (longest - shortest) * self.random.even().powf(power)).round() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_the_average_and_stay_below_the_longest() {
        let facts = Latency { create_us: 22, create_max_us: 60, ..Latency::default() };
        let mut latencies = Latencies::new(1);
        let draws: Vec<_> = (0..10_000).map(|_| latencies.create(&facts, false)).collect();
        let average = draws.iter().sum::<u32>() as f64 / draws.len() as f64;
        assert!((21.5..22.5).contains(&average), "{average}");
        assert!(draws.iter().all(|us| (11..=60).contains(us)));
        assert!(draws.iter().any(|&us| us > 55));
        let mut again = Latencies::new(1);
        assert!(draws.iter().all(|&us| us == again.create(&facts, false)));
    }

    #[test]
    fn beyond_the_guarantee_is_the_cliff() {
        let facts = Latency { best_effort_create_us: Some(10_000), ..Latency::default() };
        assert_eq!(Latencies::new(1).create(&facts, false), 0);
        assert_eq!(Latencies::new(1).create(&facts, true), 10_000);
    }
}
