// SPDX-License-Identifier: BSD-3-Clause
//! Owns lists for frames that are not IP: their rules, the definition of which one decides, the
//! search for it, and the comparison of rules with each other.
//!
//! The search compares a frame only with rules for its EtherType. A list has few rules, so that a
//! flood of frames of one EtherType costs little too.

use crate::compare::Overlap;
use crate::criteria::MaskedValue;
use crate::linear::Decision;
use crate::ranges::Ranges;
use crate::rule::Action;

/// The fields of a frame that is not IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// EtherType behind all VLAN tags, or the length of an LLC frame, which is below 0x600.
    pub ether_type: u16,
    /// Source MAC address, in the low 48 bits.
    pub src_mac: u64,
    /// Destination MAC address, in the low 48 bits.
    pub dst_mac: u64,
    /// Zone of the frame.
    pub zone: u16,
}

/// What a frame must have to match a rule. A frame matches if it meets every criterion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EthernetCriteria {
    /// EtherType; lengths of LLC frames are below 0x600.
    pub ether_type: Ranges<u16>,
    /// Bits of the source MAC address.
    pub src_mac: Option<MaskedValue<u64>>,
    /// Bits of the destination MAC address.
    pub dst_mac: Option<MaskedValue<u64>>,
    /// Zone.
    pub zone: Ranges<u16>,
}

impl EthernetCriteria {
    /// Every frame matches.
    pub const ANY: EthernetCriteria = EthernetCriteria {
        ether_type: Ranges::ANY,
        src_mac: None,
        dst_mac: None,
        zone: Ranges::ANY,
    };

    /// True if the frame meets every criterion.
    pub fn matches(&self, frame: &Frame) -> bool {
        self.ether_type.contains(frame.ether_type) && self.matches_but_type(frame)
    }

    /// True if the frame meets every criterion but that of its EtherType.
    fn matches_but_type(&self, frame: &Frame) -> bool {
        let has = |bits: Option<MaskedValue<u64>>, address: u64| {
            bits.is_none_or(|bits| address & bits.mask == bits.value)
        };
        has(self.src_mac, frame.src_mac)
            && has(self.dst_mac, frame.dst_mac)
            && self.zone.contains(frame.zone)
    }

    /// True if every frame that matches `other` matches these criteria too.
    fn includes(&self, other: &Self) -> bool {
        let has = |bits: Option<MaskedValue<u64>>, other: Option<MaskedValue<u64>>| {
            bits.is_none_or(|bits| {
                let MaskedValue { value, mask } =
                    other.unwrap_or(MaskedValue { value: 0, mask: 0 });
                bits.mask & !mask == 0 && value & bits.mask == bits.value
            })
        };
        self.ether_type.includes(&other.ether_type)
            && self.zone.includes(&other.zone)
            && has(self.src_mac, other.src_mac)
            && has(self.dst_mac, other.dst_mac)
    }

    /// True if a frame can match both.
    fn intersects(&self, other: &Self) -> bool {
        let meets = |[one, two]: [Option<MaskedValue<u64>>; 2]| {
            one.zip(two).is_none_or(|(one, two)| (one.value ^ two.value) & one.mask & two.mask == 0)
        };
        self.ether_type.intersects(&other.ether_type)
            && self.zone.intersects(&other.zone)
            && meets([self.src_mac, other.src_mac])
            && meets([self.dst_mac, other.dst_mac])
    }
}

/// A rule for frames that are not IP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EthernetRule {
    /// What a frame must have.
    pub criteria: EthernetCriteria,
    /// What happens to it then: [`Action::Permit`], [`Action::Deny`] or [`Action::Count`].
    pub action: Action,
}

/// An ordered list of rules for frames that are not IP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EthernetList {
    /// Name, for messages and commands.
    pub name: String,
    /// The rules. The first that matches decides.
    pub rules: Vec<EthernetRule>,
    /// Action for frames that no rule matches: [`Action::Permit`] or [`Action::Deny`].
    pub default: Action,
}

impl EthernetList {
    /// Maximum number of rules.
    pub const RULES_MAX: usize = 256;

    /// True if a rule can have this action.
    pub fn allows(action: Action) -> bool {
        matches!(action, Action::Permit | Action::Deny | Action::Count)
    }

    /// Returns the decision about a frame, by comparing it with one rule after the other.
    pub fn decide(&self, frame: &Frame) -> Decision {
        let decides =
            |rule: &EthernetRule| rule.action != Action::Count && rule.criteria.matches(frame);
        match (0..).zip(&self.rules).find(|(_, rule)| decides(rule)) {
            Some((index, rule)) => Decision { rule: Some(index), action: rule.action },
            None => Decision { rule: None, action: self.default },
        }
    }

    /// Returns the rules with [`Action::Count`] that count the frame of a decision: those before
    /// the rule that decides.
    pub fn counting(&self, decision: Decision, frame: &Frame) -> impl Iterator<Item = u32> {
        let end = decision.rule.map_or(self.rules.len(), |rule| rule as usize);
        let counts =
            |rule: &EthernetRule| rule.action == Action::Count && rule.criteria.matches(frame);
        (0..).zip(&self.rules[..end]).filter(move |(_, rule)| counts(rule)).map(|(index, _)| index)
    }

    /// Returns for each rule the first earlier rule that makes it unreachable. If there is none,
    /// returns the first that takes some of its frames and has another action.
    pub fn find_overlaps(&self) -> Vec<Overlap> {
        let overlap = |(index, rule): (u32, &EthernetRule)| {
            let earlier = (0..).zip(&self.rules[..index as usize]);
            let mut deciding = earlier.filter(|(_, other)| other.action != Action::Count);
            let all = deciding.clone().find(|(_, other)| other.criteria.includes(&rule.criteria));
            let some = || {
                deciding.find(|(_, other)| {
                    rule.action != Action::Count
                        && other.action != rule.action
                        && other.criteria.intersects(&rule.criteria)
                })
            };
            let is_unreachable = all.is_some();
            let (earlier, _) = all.or_else(some)?;
            Some(Overlap { rule: index, earlier, is_unreachable })
        };
        (0..).zip(&self.rules).filter_map(overlap).collect()
    }
}

/// Finds the rule that decides about a frame, among those for its EtherType.
#[derive(Clone, Debug)]
pub struct EthernetSearch {
    /// First EtherType of each span, sorted; the first is 0.
    starts: Vec<u16>,
    /// Rules that match EtherTypes of each span, in their order.
    rules: Vec<Vec<u32>>,
}

impl EthernetSearch {
    /// Builds the search of a list.
    pub fn new(list: &EthernetList) -> Self {
        let ranges = list.rules.iter().flat_map(|rule| rule.criteria.ether_type.as_slice());
        let ends = ranges.flat_map(|[first, last]| [Some(*first), last.checked_add(1)]);
        let mut starts: Vec<u16> = ends.flatten().chain([0]).collect();
        starts.sort_unstable();
        starts.dedup();
        let of_span = |start: &u16| {
            let takes =
                |(_, rule): &(u32, &EthernetRule)| rule.criteria.ether_type.contains(*start);
            (0..).zip(&list.rules).filter(takes).map(|(index, _)| index).collect()
        };
        let rules = starts.iter().map(of_span).collect();
        Self { starts, rules }
    }

    /// Returns the decision of the list about a frame. Calls `count` for each rule with
    /// [`Action::Count`] that counts the frame.
    pub fn find(
        &self,
        list: &EthernetList,
        frame: &Frame,
        count: &mut impl FnMut(u32),
    ) -> Decision {
        let span = self.starts.partition_point(|start| *start <= frame.ether_type) - 1;
        for index in &self.rules[span] {
            let rule = &list.rules[*index as usize];
            if !rule.criteria.matches_but_type(frame) {
                continue;
            }
            match rule.action {
                Action::Count => count(*index),
                action => return Decision { rule: Some(*index), action },
            }
        }
        Decision { rule: None, action: list.default }
    }
}
