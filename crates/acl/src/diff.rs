// SPDX-License-Identifier: BSD-3-Clause
//! Compares two versions of a list: which rules stay, and which are new, gone, or moved.

use crate::rule::AccessList;
use std::collections::{HashMap, VecDeque};

/// Differences between two versions of a list. Rules are the same if their texts are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListDiff {
    /// Index in the new version of each rule of the old one; `None` if the rule is gone.
    pub renumbered: Vec<Option<u32>>,
    /// Indices of rules of the old version that are gone.
    pub removed: Vec<u32>,
    /// Indices of rules of the new version that the old one does not have.
    pub added: Vec<u32>,
    /// Rules that stay, but not in their order: index in the old version and in the new one. As few
    /// as possible.
    pub moved: Vec<(u32, u32)>,
}

impl ListDiff {
    /// Compares two versions of a list.
    pub fn new(old: &AccessList, new: &AccessList) -> Self {
        let texts =
            |list: &AccessList| list.rules.iter().map(ToString::to_string).collect::<Vec<_>>();
        Self::of_texts(&texts(old), &texts(new))
    }

    /// Compares the texts of the rules of two versions of a list.
    pub fn of_texts(old: &[String], new: &[String]) -> Self {
        let mut by_text: HashMap<&String, VecDeque<u32>> = HashMap::new();
        for (index, text) in (0..).zip(new) {
            by_text.entry(text).or_default().push_back(index);
        }
        let mut place = |text: &String| by_text.get_mut(text).and_then(VecDeque::pop_front);
        let renumbered: Vec<_> = old.iter().map(&mut place).collect();
        let removed = (0..).zip(&renumbered).filter(|(_, new)| new.is_none());
        let removed = removed.map(|(old, _)| old).collect();
        let mut added: Vec<_> = by_text.into_values().flatten().collect();
        added.sort_unstable();
        let stay = (0..).zip(&renumbered).filter_map(|(old, new)| Some((old, (*new)?)));
        let stay: Vec<_> = stay.collect();
        let moved = out_of_order(&stay);
        Self { renumbered, removed, added, moved }
    }
}

/// Returns the fewest elements without which the second numbers rise. Those left are the longest
/// rising subsequence.
fn out_of_order(pairs: &[(u32, u32)]) -> Vec<(u32, u32)> {
    // By length less one: index of the smallest number that ends a rising subsequence of it.
    let mut ends: Vec<usize> = Vec::new();
    let mut before = vec![None; pairs.len()];
    for (index, (_, number)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|&end| pairs[end].1 < *number);
        before[index] = length.checked_sub(1).map(|shorter| ends[shorter]);
        match ends.get_mut(length) {
            Some(end) => *end = index,
            None => ends.push(index),
        }
    }
    let mut is_in_order = vec![false; pairs.len()];
    let mut next = ends.last().copied();
    while let Some(index) = next {
        is_in_order[index] = true;
        next = before[index];
    }
    let moved = pairs.iter().zip(is_in_order).filter(|(_, is_in_order)| !is_in_order);
    moved.map(|(pair, _)| *pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Action;
    use crate::text::parse_rule;
    use proptest::prelude::*;

    /// Returns a list whose rules have these ports.
    fn list(ports: &[u16]) -> AccessList {
        let rule = |port: &u16| parse_rule(&format!("permit proto tcp dport {port}"), &|_| None);
        let rules = ports.iter().map(|port| rule(port).unwrap()).collect();
        AccessList { name: "l".into(), rules, default: Action::Deny }
    }

    #[test]
    fn rules_are_added_removed_and_moved() {
        let diff = ListDiff::new(&list(&[1, 2, 3, 4, 5]), &list(&[5, 1, 9, 3, 4]));
        assert_eq!(diff.renumbered, [Some(1), None, Some(3), Some(4), Some(0)]);
        assert_eq!((diff.removed, diff.added, diff.moved), (vec![1], vec![2], vec![(4, 0)]));
        let diff = ListDiff::new(&list(&[1, 2, 3]), &list(&[2, 3, 1]));
        assert_eq!((diff.added, diff.moved), (vec![], vec![(0, 2)]));
    }

    proptest! {
        /// The old rules, without those that are gone or moved, with new and moved ones put in
        /// their places, are the new list.
        #[test]
        fn the_differences_lead_from_one_version_to_the_other(
            old in prop::collection::vec(1..9_u16, 0..12),
            new in prop::collection::vec(1..9_u16, 0..12),
        ) {
            let diff = ListDiff::new(&list(&old), &list(&new));
            let is_put = |index: &u32| diff.moved.iter().any(|(from, _)| from == index);
            let stays = (0..old.len() as u32).filter(|index| !diff.removed.contains(index));
            let mut built: Vec<_> =
                stays.filter(|index| !is_put(index)).map(|index| old[index as usize]).collect();
            let moved = diff.moved.iter().map(|(_, to)| *to);
            let mut puts: Vec<u32> = moved.chain(diff.added.iter().copied()).collect();
            puts.sort_unstable();
            puts.iter().for_each(|&to| built.insert(to as usize, new[to as usize]));
            prop_assert_eq!(built, new);
        }
    }
}
