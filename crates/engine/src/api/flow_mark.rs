// SPDX-License-Identifier: BSD-3-Clause
//! Owns the layout of marks: the bits for index, generation and direction.
//!
//! From the top bit down, a mark holds the index plus one, the generation, and the direction. So no
//! mark is 0 or all ones; both mean "no mark" on some NIC (`personalities/` of the twin). A mark
//! comes from hardware and is a hint: the code that decodes it must check the bounds of the index.

/// Identifies a rule: one direction of the connection with this index and generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleId {
    /// Index of the connection's slot, unique over all workers.
    pub index: u32,
    /// Generation, from 1; it changes each time that the index gets another connection.
    pub generation: u16,
    /// 0 if the sender is the first end of the flow key, 1 if it is the second.
    pub direction: u8,
}

/// Number of bits in each part of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkLayout {
    generation_bits: u8,
    /// Number of indices: the highest mark is less than all ones.
    indices: u32,
}

/// Minimum number of generation bits: with fewer, generations repeat before the NIC has removed the
/// last rule that used them.
const GENERATION_BITS_MIN: u32 = 3;

/// Maximum number of generation bits; a generation is stored in 16 bits.
const GENERATION_BITS_MAX: u32 = 15;

impl MarkLayout {
    /// Creates a layout for marks of `width` bits (12 to 32) and this many connections. `None`:
    /// marks of this width cannot name that many.
    pub fn new(width: u32, indices: u32) -> Option<Self> {
        // The highest index plus one must fit, and must not be all ones.
        let index_bits = 32 - indices.checked_add(1)?.leading_zeros();
        let left = width.min(32).checked_sub(1 + index_bits)?;
        let generation_bits = left.min(GENERATION_BITS_MAX);
        let layout = Self { generation_bits: generation_bits as u8, indices };
        (generation_bits >= GENERATION_BITS_MIN).then_some(layout)
    }

    /// Returns the maximum number of connections that marks of `width` bits can distinguish.
    pub fn most(width: u32) -> u32 {
        let index_bits = width.min(32).saturating_sub(1 + GENERATION_BITS_MIN);
        (1_u32 << index_bits).saturating_sub(2)
    }

    /// Returns the number of indices.
    pub fn indices(self) -> u32 {
        self.indices
    }

    /// Returns the number of generations.
    pub(crate) fn generations(self) -> u16 {
        (1 << self.generation_bits) - 1
    }

    /// Returns the generation after this one; after the last comes 1.
    pub(crate) fn next(self, generation: u16) -> u16 {
        if generation >= self.generations() { 1 } else { generation + 1 }
    }

    /// Returns the mark of a rule.
    pub fn encode(self, rule: RuleId) -> u32 {
        let RuleId { index, generation, direction } = rule;
        debug_assert!(index < self.indices);
        ((index + 1) << self.generation_bits | u32::from(generation)) << 1 | u32::from(direction)
    }

    /// Returns the number of bits below the index, which is stored plus one.
    #[inline(always)]
    pub(crate) fn shift(self) -> u32 {
        u32::from(self.generation_bits) + 1
    }

    /// Returns the rule that a mark names. The index may be out of bounds; the caller must check
    /// it.
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
