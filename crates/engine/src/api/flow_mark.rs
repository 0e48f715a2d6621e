// SPDX-License-Identifier: BSD-3-Clause
//! Owns the layout of marks: the bits for index, generation and direction.
//!
//! The indices of connections come first. Those behind them are the rules of access lists, whose
//! generation is the epoch of the lists.
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
    /// Number of indices of connections.
    indices: u32,
    /// Number of indices of rules of access lists. The highest mark is less than all ones.
    list_rules: u32,
}

/// Minimum number of generation bits: with fewer, generations repeat before the NIC has removed the
/// last rule that used them.
const GENERATION_BITS_MIN: u32 = 3;

/// Most rules of access lists in any layout: twice those of the largest list.
const LIST_RULES_MAX: u32 = 1 << 17;

/// Maximum number of generation bits; a generation is stored in 16 bits.
const GENERATION_BITS_MAX: u32 = 15;

impl MarkLayout {
    /// Creates a layout for marks of `width` bits (12 to 32) and this many connections. `None`:
    /// marks of this width cannot name that many.
    pub fn new(width: u32, indices: u32) -> Option<Self> {
        Self::with_list_rules(width, indices, 0)
    }

    /// Creates a layout for marks of `width` bits (12 to 32), this many connections, and as many
    /// rules of access lists. `None`: marks of this width cannot name that many.
    pub fn with_list_rules(width: u32, indices: u32, list_rules: u32) -> Option<Self> {
        // The highest index plus one must fit, and must not be all ones.
        let all = indices.checked_add(list_rules)?;
        let index_bits = 32 - all.checked_add(1)?.leading_zeros();
        let left = width.min(32).checked_sub(1 + index_bits)?;
        let generation_bits = left.min(GENERATION_BITS_MAX);
        let layout = Self { generation_bits: generation_bits as u8, indices, list_rules };
        (generation_bits >= GENERATION_BITS_MIN).then_some(layout)
    }

    /// Returns the maximum number of connections that marks of `width` bits can distinguish.
    pub fn most(width: u32) -> u32 {
        let index_bits = width.min(32).saturating_sub(1 + GENERATION_BITS_MIN);
        (1_u32 << index_bits).saturating_sub(2)
    }

    /// Returns the number of rules of access lists that are set aside in marks of `width` bits: a
    /// quarter of all indices, and no more than any lists need.
    pub fn list_rules_for(width: u32) -> u32 {
        (Self::most(width) / 4).min(LIST_RULES_MAX)
    }

    /// Returns the number of indices of connections.
    pub fn indices(self) -> u32 {
        self.indices
    }

    /// Returns the number of rules of access lists that marks can name.
    pub fn list_rules(self) -> u32 {
        self.list_rules
    }

    /// Returns the mark of a rule of the access lists, by the number of its counter and the epoch
    /// of the lists.
    pub fn encode_list_rule(self, rule: u32, epoch: u32) -> u32 {
        debug_assert!(rule < self.list_rules);
        self.first_list_mark(epoch).wrapping_add(rule << self.shift())
    }

    /// Returns the rule of the access lists that a mark names, if it is one of lists with this
    /// epoch.
    #[inline(always)]
    pub(crate) fn list_rule(self, mark: u32, epoch: u32) -> Option<u32> {
        let above = mark.wrapping_sub(self.first_list_mark(epoch));
        let is_exact = above & ((1 << self.shift()) - 1) == 0;
        let rule = above >> self.shift();
        (is_exact && rule < self.list_rules).then_some(rule)
    }

    /// True for a mark of a rule of access lists, whatever their epoch.
    #[inline(always)]
    pub(crate) fn is_of_list(self, mark: u32) -> bool {
        (mark >> self.shift()).wrapping_sub(self.indices + 1) < self.list_rules
    }

    /// Returns the mark of the first rule of lists with this epoch.
    #[inline(always)]
    fn first_list_mark(self, epoch: u32) -> u32 {
        let generation = epoch % u32::from(self.generations()) + 1;
        ((self.indices + 1) << self.generation_bits | generation) << 1
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

        #[test]
        fn marks_of_lists_name_their_rule_in_their_epoch_only(
            width in 16..=32_u32, share in 1..=u32::MAX, place: u32, epoch in 0..1_u32 << 31,
            later in 1..7_u32,
        ) {
            let rules = MarkLayout::list_rules_for(width);
            let indices = share % (MarkLayout::most(width) - rules) + 1;
            let layout = MarkLayout::with_list_rules(width, indices, rules).unwrap();
            for rule in [place % rules, 0, rules - 1] {
                let mark = layout.encode_list_rule(rule, epoch);
                prop_assert!(mark != 0 && mark < u32::MAX >> (32 - width));
                prop_assert_eq!(layout.list_rule(mark, epoch), Some(rule));
                prop_assert_eq!(layout.list_rule(mark, epoch + later), None);
                prop_assert_eq!(layout.list_rule(mark ^ 1, epoch), None);
                prop_assert!(layout.is_of_list(mark));
                prop_assert!(layout.decode(mark).index >= indices);
            }
            let rule = RuleId { index: place % indices, generation: 1, direction: 0 };
            prop_assert!(!layout.is_of_list(layout.encode(rule)) && !layout.is_of_list(0));
        }
    }
}
