// SPDX-License-Identifier: BSD-3-Clause
//! Measures how long a worker's queues wait between two polls. For that time, a NIC's ring must
//! hold all packets that arrive.

use crate::live::clock::Clock;
use report::summary::PollGap;

/// A histogram of gaps by length in cycles, four buckets per octave. It has a fixed size, so a
/// worker that reports it allocates nothing.
#[derive(Debug)]
pub(crate) struct PollGaps {
    counts: [u64; Self::LENGTHS],
    /// The longest gap before the last [`take_longest`](Self::take_longest).
    before: u64,
    /// The longest gap since then.
    since: u64,
}

impl Default for PollGaps {
    fn default() -> Self {
        Self { counts: [0; Self::LENGTHS], before: 0, since: 0 }
    }
}

impl PollGaps {
    const LENGTHS: usize = 4 * u64::BITS as usize;

    /// Adds a gap of `cycles`.
    #[inline(always)]
    pub(crate) fn add(&mut self, cycles: u64) {
        self.counts[length(cycles) % Self::LENGTHS] += 1;
        self.since = self.since.max(cycles);
    }

    /// Returns the longest gap since the last call, in cycles.
    pub(crate) fn take_longest(&mut self) -> u64 {
        self.before = self.longest();
        std::mem::take(&mut self.since)
    }

    fn longest(&self) -> u64 {
        self.before.max(self.since)
    }

    /// Returns an upper bound of the gap below which `share` of all gaps are, to a quarter of an
    /// octave.
    fn quantile(&self, share: f64) -> u64 {
        let all: u64 = self.counts.iter().sum();
        let rank = (share * all as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        let found = self.counts.iter().position(|count| {
            below += count;
            below >= rank
        });
        found.map_or(0, |length| end_of(length).min(self.longest()))
    }

    /// Returns quantiles and the longest gap, in microseconds.
    pub(crate) fn summary(&self, clock: &Clock) -> PollGap {
        let us = |cycles: u64| clock.span(cycles) as f64 / 1e3;
        PollGap {
            p50: us(self.quantile(0.5)),
            p99: us(self.quantile(0.99)),
            p99_9: us(self.quantile(0.999)),
            p99_99: us(self.quantile(0.9999)),
            max: us(self.longest()),
        }
    }
}

/// Returns the number of the bucket: octave times four plus quarter.
#[inline(always)]
fn length(cycles: u64) -> usize {
    let cycles = cycles.max(4);
    let octave = cycles.ilog2();
    octave as usize * 4 + (cycles >> (octave - 2) & 3) as usize
}

/// Returns the first number of cycles above a bucket.
fn end_of(length: usize) -> u64 {
    let (octave, quarter) = (length as u32 / 4, length as u64 % 4);
    ((5 + quarter) << octave.saturating_sub(2)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_gaps_is_no_longer() {
        let (mut gaps, clock) = (PollGaps::default(), Clock::new(0, 1_000_000));
        assert_eq!(gaps.summary(&clock).max, 0.0);
        (0..9_990).for_each(|i| gaps.add(1_000 + i % 20));
        (0..10).for_each(|i| gaps.add(1_000_000 * (1 + i)));
        let PollGap { p50, p99, p99_9, p99_99, max } = gaps.summary(&clock);
        assert_eq!((p50, p99, p99_9), (1024.0, 1024.0, 1024.0));
        assert!((9e6..=1e7).contains(&p99_99) && max == 1e7, "{p99_99} {max}");
        assert_eq!((gaps.take_longest(), gaps.take_longest()), (10_000_000, 0));
        gaps.add(5);
        assert_eq!((gaps.take_longest(), gaps.summary(&clock).max), (5, 1e7));
    }

    #[test]
    fn lengths_are_a_quarter_of_an_octave_apart() {
        for cycles in (4..2_000).chain([u64::MAX / 4]) {
            let end = end_of(length(cycles));
            assert!(cycles < end && end - cycles <= cycles / 4 + 1, "{cycles} {end}");
        }
    }
}
