// SPDX-License-Identifier: BSD-3-Clause
//! Scores: the worth of a rule on a logarithmic scale that is exact enough to compare.

use crate::base::Nanos;

/// A packet rate in quarters of octaves: from 1/8 to 2^28 packets per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Score(u8);

impl Score {
    /// Number of scores.
    pub(crate) const COUNT: usize = 128;

    /// The lowest score: less than 1/8 packets per second.
    pub(crate) const ZERO: Score = Score(0);

    /// Returns the score of `packets` packets in a span of time, in nanoseconds.
    pub(crate) fn of(packets: u64, span: Nanos) -> Self {
        // A rate that does not fit is higher than that of any port.
        let rate = packets.saturating_mul(16_000_000_000) / span.max(1);
        let rate = rate.min(u32::MAX.into()) as u32;
        // The two bits below the highest one.
        let octave = (rate | 1).ilog2();
        let quarter = if octave >= 2 { rate >> (octave - 2) & 3 } else { 0 };
        Score((octave * 4 + quarter) as u8)
    }

    /// Returns the score of this many packets per second.
    pub(crate) fn per_second_of(packets: u32) -> Self {
        Score::of(packets.into(), 1_000_000_000)
    }

    /// Returns its number, below [`Score::COUNT`].
    pub(crate) fn number(self) -> usize {
        usize::from(self.0)
    }

    /// Returns the score with this number, or the highest one.
    pub(crate) fn from_number(number: usize) -> Self {
        Score(number.min(Self::COUNT - 1) as u8)
    }

    /// Returns the score that is this many quarters of an octave higher, or the highest one.
    pub(crate) fn plus(self, quarters: u8) -> Self {
        Score(self.0.saturating_add(quarters).min(Self::COUNT as u8 - 1))
    }

    /// Returns the score half way to a later one: a single span of a few packets says little.
    pub(crate) fn toward(self, later: Score) -> Self {
        let up = u8::from(later > self);
        Score((self.0 + later.0 + up) / 2)
    }

    /// Returns the lowest rate with this score, in packets per second.
    pub(crate) fn per_second(self) -> f64 {
        let quarter = 1.0 + f64::from(self.0 % 4) / 4.0;
        quarter * f64::from(self.0 / 4).exp2() / 16.0
    }
}

/// Number of rules with each score.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    total: u32,
    counts: [u32; Score::COUNT],
    /// Bit `i`: a rule has score `i`.
    filled: u128,
}

impl Histogram {
    pub(crate) const EMPTY: Histogram =
        Histogram { total: 0, counts: [0; Score::COUNT], filled: 0 };

    pub(crate) fn add(&mut self, score: Score) {
        self.total += 1;
        self.counts[score.number()] += 1;
        self.filled |= 1 << score.number();
    }

    pub(crate) fn remove(&mut self, score: Score) {
        self.total -= 1;
        let count = &mut self.counts[score.number()];
        *count -= 1;
        if *count == 0 {
            self.filled &= !(1 << score.number());
        }
    }

    /// Returns the number of rules.
    pub(crate) fn total(&self) -> u32 {
        self.total
    }

    /// Returns the lowest score of a rule.
    pub(crate) fn lowest(&self) -> Option<Score> {
        (self.filled != 0).then(|| Score::from_number(self.filled.trailing_zeros() as usize))
    }
}

/// By how much a candidate must exceed a rule to displace it, in quarters of an octave. The score
/// of a few packets is no more exact, and rules that come and go cost more than they bring.
pub(super) const BETTER: u8 = 2;

/// A direction that is evaluated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateSample {
    pub(crate) record: u32,
    /// 1: the sender is the second end of the key.
    pub(crate) direction: u8,
    /// Packets of this direction so far.
    pub(crate) packets: u64,
    /// When the connection began.
    pub(crate) start: Nanos,
    /// True if the packet was counted by its mark.
    pub(crate) is_marked: bool,
}

/// Demand of a side's candidates for the places of existing rules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    /// Number of places.
    pub(super) places: u32,
    /// Score of the best candidate.
    pub(super) best: Score,
    /// Lowest score of an existing rule.
    pub(super) lowest: Score,
    /// Least score of a new candidate.
    pub(crate) threshold: Score,
}

impl Demand {
    /// Demand while there is room.
    pub(crate) const NOTHING: Demand =
        Demand { places: 0, best: Score::ZERO, lowest: Score::ZERO, threshold: Score::ZERO };

    /// Returns the demand if there is neither room nor a candidate.
    pub(crate) fn none_above(lowest: Score) -> Self {
        Demand { lowest, threshold: lowest.plus(BETTER), ..Self::NOTHING }
    }

    /// Returns the demand for up to `places` places, where the best candidate has score `best`.
    pub(crate) fn places(places: u32, best: Score, lowest: Score) -> Self {
        Demand { places, best, ..Self::none_above(lowest) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Nanos = 1_000_000_000;

    #[test]
    fn scores_are_quarters_of_octaves() {
        assert_eq!(Score::of(0, SECOND), Score::ZERO);
        assert_eq!(Score::of(128, SECOND).plus(4), Score::of(256, SECOND));
        assert_eq!(Score::of(100, SECOND), Score::of(50, SECOND / 2));
        assert!(Score::of(u64::MAX, 0).number() < Score::COUNT);
        assert_eq!(Score::of(64, SECOND).per_second(), 64.0);
    }

    #[test]
    fn a_score_comes_to_rest_where_the_later_ones_are() {
        for (from, to) in [(0, 90), (90, 0), (7, 8), (8, 7)] {
            let to = Score(to);
            let rest = (0..9).fold(Score(from), |score, _| score.toward(to));
            assert_eq!(rest, to);
        }
    }

    proptest! {
        #[test]
        fn more_packets_score_no_less(a in 0..1_u64 << 40, b in 0..1_u64 << 40, span: u32) {
            let score = |packets| Score::of(packets, u64::from(span));
            prop_assert_eq!(score(a.max(b)), score(a).max(score(b)));
            let rate = a as f64 * 1e9 / f64::from(span.max(1));
            if (1.0..1e8).contains(&rate) {
                let least = score(a).per_second();
                prop_assert!(least <= rate * 1.000_001 && rate < least * 1.26, "{rate} {least}");
            }
        }
    }
}
