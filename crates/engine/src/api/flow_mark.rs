// SPDX-License-Identifier: BSD-3-Clause
//! What a mark says: which connection, in which generation, which of its directions.
//!
//! From the top: index plus one, generation, direction. So no mark is 0, and none is all ones: both
//! mean "no mark" on some NIC (`personalities/` of the twin). A mark comes from hardware and is a
//! hint: whoever decodes one checks the bounds of the index.

/// Names a rule: one direction of the connection with an index, in one of its generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleId {
    /// Of the connection, over all workers.
    pub index: u32,
    /// From 1; another each time that the index has another connection.
    pub generation: u16,
    /// 1: the sender is the second end of the flow key.
    pub direction: u8,
}

/// How the bits of a mark are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkLayout {
    generation_bits: u8,
    /// Indices there are: the highest mark is below all ones.
    indices: u32,
}

/// Fewest generations that are of use: fewer come round before the NIC has forgotten the last one.
const GENERATION_BITS_MIN: u32 = 3;

/// Generations are kept in 16 bits.
const GENERATION_BITS_MAX: u32 = 15;

impl MarkLayout {
    /// For marks of `width` bits (12 to 32) and so many connections. `None`: they are too many.
    pub fn new(width: u32, indices: u32) -> Option<Self> {
        // One more than the highest index, and not the one that is all ones.
        let index_bits = 32 - indices.checked_add(1)?.leading_zeros();
        let left = width.min(32).checked_sub(1 + index_bits)?;
        let generation_bits = left.min(GENERATION_BITS_MAX);
        let layout = Self { generation_bits: generation_bits as u8, indices };
        (generation_bits >= GENERATION_BITS_MIN).then_some(layout)
    }

    /// Most connections that marks of `width` bits can tell apart.
    pub fn most(width: u32) -> u32 {
        let index_bits = width.min(32).saturating_sub(1 + GENERATION_BITS_MIN);
        (1_u32 << index_bits).saturating_sub(2)
    }

    /// Indices it is for.
    pub fn indices(self) -> u32 {
        self.indices
    }

    /// How many generations there are.
    pub(crate) fn generations(self) -> u16 {
        (1 << self.generation_bits) - 1
    }

    /// The generation after another; they come round.
    pub(crate) fn next(self, generation: u16) -> u16 {
        if generation >= self.generations() { 1 } else { generation + 1 }
    }

    /// The mark of a rule.
    pub fn encode(self, rule: RuleId) -> u32 {
        let RuleId { index, generation, direction } = rule;
        debug_assert!(index < self.indices);
        ((index + 1) << self.generation_bits | u32::from(generation)) << 1 | u32::from(direction)
    }

    /// Bits below the index, of which one more than it is there.
    #[inline(always)]
    pub(crate) fn shift(self) -> u32 {
        u32::from(self.generation_bits) + 1
    }

    /// The rule that a mark names. Its index may be any number, above all one that is none.
    #[inline(always)]
    pub fn decode(self, mark: u32) -> RuleId {
        let above = mark >> 1;
        RuleId {
            index: (above >> self.generation_bits).wrapping_sub(1),
            generation: above as u16 & ((1 << self.generation_bits) - 1),
            direction: mark as u8 & 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn narrow_marks_are_for_few() {
        assert_eq!(MarkLayout::most(12), 254);
        assert_eq!(MarkLayout::most(16), 4094);
        for width in 12..=32 {
            let most = MarkLayout::most(width);
            assert!(MarkLayout::new(width, most).is_some(), "{width}");
            assert_eq!(MarkLayout::new(width, most + 1), None, "{width}");
        }
        assert_eq!(MarkLayout::new(32, u32::MAX), None);
    }

    proptest! {
        #[test]
        fn what_is_encoded_comes_back_and_is_never_none(
            width in 12..=32_u32, share in 1..=u32::MAX, place: u32, turns in 0..100_u32,
            direction in 0..2_u8,
        ) {
            let indices = share % MarkLayout::most(width) + 1;
            let layout = MarkLayout::new(width, indices).unwrap();
            let generation = (0..turns).fold(1, |generation, _| layout.next(generation));
            for index in [place % indices, 0, indices - 1] {
                let rule = RuleId { index, generation, direction };
                let mark = layout.encode(rule);
                prop_assert_eq!(layout.decode(mark), rule);
                prop_assert!(mark != 0 && mark < u32::MAX >> (32 - width));
            }
            prop_assert!(layout.decode(0).index >= indices);
            prop_assert!(layout.decode(u32::MAX).index >= indices);
        }
    }
}
