// SPDX-License-Identifier: BSD-3-Clause
//! Compares the rules of a list with each other: finds rules that can never decide, and rules
//! whose order matters.

mod candidates;

use crate::criteria::{Addresses, Criteria, Family, MaskedValue};
use crate::rule::{AccessList, Action, Rule};
use candidates::{Candidates, Relation};
use ipnet::IpNet;

/// A rule, and an earlier one that takes packets from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// Index of the rule.
    pub rule: u32,
    /// Index of the earlier rule.
    pub earlier: u32,
    /// True if the earlier rule matches every packet that the rule matches, so that it never
    /// decides. False if it matches some, and has another action or other options.
    pub is_unreachable: bool,
}

/// What comparing the rules of a list with each other has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlaps {
    /// At most one for each rule, in the order of rules.
    pub found: Vec<Overlap>,
    /// Number of rules, from the first on, that were compared with all earlier ones. Fewer than the
    /// list has if that would take too long.
    pub compared: u32,
}

/// Comparisons of networks after which the rest of a list is left out: some seconds.
const WORK_MAX: u64 = 300_000_000;

/// Returns for each rule the first earlier rule that makes it unreachable. If there is none,
/// returns the first that takes some of its packets and has another action.
pub fn find_overlaps(list: &AccessList) -> Overlaps {
    find_overlaps_within(list, WORK_MAX)
}

/// Finds overlaps until `work_left` networks were compared.
fn find_overlaps_within(list: &AccessList, mut work_left: u64) -> Overlaps {
    let candidates = Candidates::new(&list.rules, |rule| rule.action != Action::Count);
    let mut overlaps = Overlaps::default();
    for (index, rule) in (0..).zip(&list.rules) {
        // Reading the masks takes time too.
        work_left = work_left.saturating_sub(1 + u64::from(index) / 64);
        let mut has_time = |other: &Rule| {
            work_left = work_left.saturating_sub(other.criteria.cost_to_compare(&rule.criteria));
            work_left > 0
        };
        let earlier = candidates.find(index, Relation::Includes, |earlier| {
            let other = &list.rules[earlier as usize];
            !has_time(other)
                || other.criteria.intersects(&rule.criteria)
                    && other.criteria.includes(&rule.criteria)
        });
        let mut overlap = earlier.map(|earlier| (earlier, true));
        if overlap.is_none() && rule.action != Action::Count {
            let earlier = candidates.find(index, Relation::Meets, |earlier| {
                let other = &list.rules[earlier as usize];
                (other.action, other.options) != (rule.action, rule.options)
                    && (!has_time(other) || other.criteria.intersects(&rule.criteria))
            });
            overlap = earlier.map(|earlier| (earlier, false));
        }
        if work_left == 0 {
            break;
        }
        overlaps.found.extend(overlap.map(|(earlier, is_unreachable)| Overlap {
            rule: index,
            earlier,
            is_unreachable,
        }));
        overlaps.compared = index + 1;
    }
    overlaps
}

impl Criteria {
    /// Returns about how many networks [`includes`](Self::includes) and
    /// [`intersects`](Self::intersects) compare; at least 1.
    fn cost_to_compare(&self, other: &Criteria) -> u64 {
        self.src.cost_to_compare(&other.src) + self.dst.cost_to_compare(&other.dst)
    }

    /// True if every packet that matches `other` matches these criteria too.
    pub(crate) fn includes(&self, other: &Criteria) -> bool {
        let has_family = match self.family {
            None => true,
            Some(family) => Family::ALL
                .iter()
                .all(|(candidate, _)| *candidate == family || !other.has_family(*candidate)),
        };
        has_family
            && self.proto.includes(&other.proto)
            && self.dport.includes(&other.dport)
            && self.sport.includes(&other.sport)
            && self.zone.includes(&other.zone)
            && self.icmp_type.includes(&other.icmp_type)
            && self.icmp_code.includes(&other.icmp_code)
            && self.fragment.is_none_or(|kind| other.fragment == Some(kind))
            && self.ct.contains(other.ct)
            && includes_bits(self.tcp_flags.map(widen), other.tcp_flags.map(widen))
            && includes_bits(self.mark, other.mark)
            && self.src.includes(&other.src)
            && self.dst.includes(&other.dst)
    }

    /// True if a packet may match both. May also be true if none does, but never false if one
    /// does.
    pub(crate) fn intersects(&self, other: &Criteria) -> bool {
        let share_family = Family::ALL
            .iter()
            .any(|(family, _)| self.has_family(*family) && other.has_family(*family));
        share_family
            && self.proto.intersects(&other.proto)
            && self.dport.intersects(&other.dport)
            && self.sport.intersects(&other.sport)
            && self.zone.intersects(&other.zone)
            && self.icmp_type.intersects(&other.icmp_type)
            && self.icmp_code.intersects(&other.icmp_code)
            && (self.fragment.is_none()
                || other.fragment.is_none()
                || self.fragment == other.fragment)
            && self.ct.can_meet(other.ct)
            && share_bits(self.tcp_flags.map(widen), other.tcp_flags.map(widen))
            && share_bits(self.mark, other.mark)
            && self.src.intersects(&other.src)
            && self.dst.intersects(&other.dst)
    }
}

fn widen(bits: MaskedValue<u8>) -> MaskedValue<u32> {
    MaskedValue { value: bits.value.into(), mask: bits.mask.into() }
}

/// True if every number with the bits of `other` has these bits too.
fn includes_bits(bits: Option<MaskedValue<u32>>, other: Option<MaskedValue<u32>>) -> bool {
    match (bits, other) {
        (None, _) => true,
        (Some(bits), None) => bits.mask == 0,
        (Some(bits), Some(other)) => {
            bits.mask & !other.mask == 0 && other.value & bits.mask == bits.value
        }
    }
}

/// True if a number has the bits of both.
fn share_bits(bits: Option<MaskedValue<u32>>, other: Option<MaskedValue<u32>>) -> bool {
    match (bits, other) {
        (Some(bits), Some(other)) => (bits.value ^ other.value) & bits.mask & other.mask == 0,
        _ => true,
    }
}

/// Sets with more networks than this are compared by name only.
const COMPARED_MAX: usize = 1024;

impl Addresses {
    fn cost_to_compare(&self, other: &Addresses) -> u64 {
        let lengths = [self, other].map(|addresses| addresses.networks().map_or(1, <[_]>::len));
        let is_compared = self != other && lengths.iter().all(|len| *len <= COMPARED_MAX);
        if is_compared { 1 + (lengths[0] * lengths[1]) as u64 } else { 1 }
    }

    /// True if every address of `other` is one of these. May be false for large sets although it is
    /// so.
    fn includes(&self, other: &Addresses) -> bool {
        match (self.networks(), other.networks()) {
            (None, _) => true,
            (Some(_), None) => false,
            _ if self == other => true,
            (Some(networks), Some(others)) => {
                networks.len() <= COMPARED_MAX
                    && others.len() <= COMPARED_MAX
                    && others.iter().all(|other| networks.iter().any(|own| own.contains(other)))
            }
        }
    }

    /// True if an address is in both. May be true for large sets although none is.
    fn intersects(&self, other: &Addresses) -> bool {
        let meets = |a: &IpNet, b: &IpNet| a.contains(b) || b.contains(a);
        match (self.networks(), other.networks()) {
            (Some(networks), Some(_)) if self == other => !networks.is_empty(),
            (Some(networks), Some(others)) => {
                networks.len() > COMPARED_MAX
                    || others.len() > COMPARED_MAX
                    || others.iter().any(|other| networks.iter().any(|own| meets(own, other)))
            }
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::parse_rule;

    /// No rule includes another, and only the mark says so: all have to be compared.
    #[test]
    fn rules_that_take_too_long_are_left_out() {
        let rule = |mark| parse_rule(&format!("permit proto tcp mark {mark}"), &|_| None).unwrap();
        let rules = (0..1000).map(rule).collect();
        let list = AccessList { name: "l".into(), rules, default: Action::Deny };
        let overlaps = find_overlaps_within(&list, 50_000);
        assert!((100..400).contains(&overlaps.compared), "{}", overlaps.compared);
        assert_eq!(overlaps.found, []);
        assert_eq!(find_overlaps(&list).compared, 1000);
    }
}
