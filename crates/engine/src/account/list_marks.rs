// SPDX-License-Identifier: BSD-3-Clause
//! Keeps how far marks of access lists' rules are trusted.
//!
//! A mark comes from hardware and is a hint. The first packets of each rule are compared with the
//! lists, then a sample of the others. A rule whose mark was wrong once is set aside.

use crate::api::{AccessLists, ListMarkConfig, ListMarkStats, MarkLayout, MarkVerification};

/// Stands for the number of compared packets of a rule whose mark was wrong.
const SET_ASIDE: u8 = u8::MAX;

/// Marks of access lists' rules.
pub(crate) struct ListMarks {
    layout: MarkLayout,
    /// As many first packets of each rule are compared, then one of `one_in`.
    first: u8,
    one_in: u32,
    until_check: u32,
    /// Of each rule, the number of packets that were compared, up to `first`; [`SET_ASIDE`] for a
    /// wrong one.
    compared: Vec<u8>,
    /// All packets of this burst are compared.
    pub(crate) checks_all: bool,
    pub(crate) stats: ListMarkStats,
}

/// The rule that a packet's mark names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedRule {
    pub(crate) rule: u32,
    /// True if the packet is to be compared with the lists all the same.
    pub(crate) is_checked: bool,
}

impl ListMarks {
    pub(crate) fn new(config: &ListMarkConfig, lists: &AccessLists) -> Self {
        let (first, one_in) = match config.check {
            MarkVerification::Always => (0, 1),
            MarkVerification::Sampled { first, one_in } => {
                (first.min(SET_ASIDE - 1), one_in.max(1))
            }
        };
        Self {
            layout: config.layout,
            first,
            one_in,
            until_check: one_in,
            compared: vec![0; lists.counters()],
            checks_all: false,
            stats: ListMarkStats::default(),
        }
    }

    /// True for a mark of a rule of access lists, whatever their epoch.
    #[inline(always)]
    pub(crate) fn is_of_list(&self, mark: u32) -> bool {
        self.layout.is_of_list(mark)
    }

    /// Returns the rule that a mark names, if it is one of lists with this epoch whose marks were
    /// right so far.
    #[inline(always)]
    pub(crate) fn rule_of(&mut self, mark: u32, epoch: u32) -> Option<NamedRule> {
        let rule = self.layout.list_rule(mark, epoch)?;
        let compared = *self.compared.get(rule as usize)?;
        if compared == SET_ASIDE {
            return None;
        }
        self.until_check -= 1;
        let is_sampled = self.until_check == 0;
        if is_sampled {
            self.until_check = self.one_in;
        }
        Some(NamedRule { rule, is_checked: is_sampled || compared < self.first || self.checks_all })
    }

    /// Notes whether the lists found the rule that a mark names.
    pub(crate) fn note_check(&mut self, rule: u32, is_right: bool) {
        self.stats.checked += 1;
        let Some(compared) = self.compared.get_mut(rule as usize) else { return };
        if !is_right {
            self.stats.disagreed += 1;
            self.stats.set_aside += u64::from(*compared != SET_ASIDE);
            *compared = SET_ASIDE;
        } else if *compared < self.first {
            *compared += 1;
        }
    }

    /// Begins anew with the rules of other lists. Returns the memory of the old ones.
    pub(crate) fn replace(&mut self, compared: Vec<u8>) -> Vec<u8> {
        self.stats.set_aside = 0;
        std::mem::replace(&mut self.compared, compared)
    }
}
