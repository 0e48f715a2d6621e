// SPDX-License-Identifier: BSD-3-Clause
//! Compares the rules of a list with each other: finds rules that can never decide, and rules
//! whose order matters.

use crate::criteria::{Addresses, Criteria, Family, MaskedValue};
use crate::rule::{AccessList, Action, Rule};
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

/// Returns for each rule the first earlier rule that makes it unreachable. If there is none,
/// returns the first that takes some of its packets and has another action.
///
/// The time grows with the square of the number of rules.
pub fn find_overlaps(list: &AccessList) -> Vec<Overlap> {
    let mut found = Vec::new();
    for (index, rule) in (0..).zip(&list.rules) {
        let before = (0..).zip(&list.rules[..index as usize]);
        let differs = |other: &Rule| (other.action, other.options) != (rule.action, rule.options);
        let mut partly = None;
        for (earlier, other) in before.filter(|(_, other)| other.action != Action::Count) {
            if !other.criteria.intersects(&rule.criteria) {
                continue;
            }
            if other.criteria.includes(&rule.criteria) {
                partly = Some(Overlap { rule: index, earlier, is_unreachable: true });
                break;
            }
            if partly.is_none() && differs(other) && rule.action != Action::Count {
                partly = Some(Overlap { rule: index, earlier, is_unreachable: false });
            }
        }
        found.extend(partly);
    }
    found
}

impl Criteria {
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
            && self.ct.intersects(other.ct)
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
            (Some(networks), Some(others)) => {
                networks.len() > COMPARED_MAX
                    || others.len() > COMPARED_MAX
                    || others.iter().any(|other| networks.iter().any(|own| meets(own, other)))
            }
            _ => true,
        }
    }
}
