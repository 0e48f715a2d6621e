// SPDX-License-Identifier: BSD-3-Clause
//! How much a rule would be worth, on a scale that is good enough to compare.

use crate::base::Nanos;

/// Packets per second, in quarters of octaves: from 1/8 to 2^28.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Score(u8);

impl Score {
    /// Scores there are.
    pub(crate) const COUNT: usize = 128;

    /// Less than any packet.
    pub(crate) const ZERO: Score = Score(0);

    /// Of so many packets in a span of time.
    pub(crate) fn of(packets: u64, span: Nanos) -> Self {
        // What does not fit is more than any port brings.
        let rate = packets.saturating_mul(16_000_000_000) / span.max(1);
        let rate = rate.min(u32::MAX.into()) as u32;
        // Two bits behind the highest one.
        let octave = (rate | 1).ilog2();
        let quarter = if octave >= 2 { rate >> (octave - 2) & 3 } else { 0 };
        Score((octave * 4 + quarter) as u8)
    }

    /// Of so many packets per second.
    pub(crate) fn per_second_of(packets: u32) -> Self {
        Score::of(packets.into(), 1_000_000_000)
    }

    /// Its number, below [`Score::COUNT`].
    pub(crate) fn number(self) -> usize {
        usize::from(self.0)
    }

    /// The one with this number.
    pub(crate) fn from_number(number: usize) -> Self {
        Score(number.min(Self::COUNT - 1) as u8)
    }

    /// Higher by so many quarters of an octave.
    pub(crate) fn plus(self, quarters: u8) -> Self {
        Score(self.0.saturating_add(quarters).min(Self::COUNT as u8 - 1))
    }

    /// Half way to a later one: a single span of a few packets says little.
    pub(crate) fn toward(self, later: Score) -> Self {
        let up = u8::from(later > self);
        Score((self.0 + later.0 + up) / 2)
    }

    /// Packets per second, the least with this score.
    pub(crate) fn per_second(self) -> f64 {
        let quarter = 1.0 + f64::from(self.0 % 4) / 4.0;
        quarter * f64::from(self.0 / 4).exp2() / 16.0
    }
}

/// How many things have each score.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    total: u32,
    counts: [u32; Score::COUNT],
    /// Bit `i`: somebody has score `i`.
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

    /// How many there are.
    pub(crate) fn total(&self) -> u32 {
        self.total
    }

    /// The lowest score that somebody has.
    pub(crate) fn lowest(&self) -> Option<Score> {
        (self.filled != 0).then(|| Score::from_number(self.filled.trailing_zeros() as usize))
    }
}

/// How much better whoever takes another's place must be, in quarters of an octave: a score of a
/// few packets is no better than that, and rules that come and go cost more than they bring.
pub(super) const BETTER: u8 = 2;

/// A flow that is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateSample {
    pub(crate) record: u32,
    /// 1: the sender is the second end of the key.
    pub(crate) direction: u8,
    /// Of this direction, so far.
    pub(crate) packets: u64,
    /// When the flow began.
    pub(crate) start: Nanos,
    /// Whether the packet was counted by its mark.
    pub(crate) is_marked: bool,
}

/// What the candidates of a side want of those that have rules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    /// Places.
    pub(super) places: u32,
    /// What the best of them is worth.
    pub(super) worth: Score,
    /// What the rule that is worth least is worth.
    pub(super) lowest: Score,
    /// What who would be one of them must be worth.
    pub(crate) bar: Score,
}

impl Demand {
    /// There is room.
    pub(crate) const NOTHING: Demand =
        Demand { places: 0, worth: Score::ZERO, lowest: Score::ZERO, bar: Score::ZERO };

    /// There is no room, and no candidate.
    pub(crate) fn none_above(lowest: Score) -> Self {
        Demand { lowest, bar: lowest.plus(BETTER), ..Self::NOTHING }
    }

    /// So many places at most, for candidates of which the best is worth so much.
    pub(crate) fn places(places: u32, worth: Score, lowest: Score) -> Self {
        Demand { places, worth, ..Self::none_above(lowest) }
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
