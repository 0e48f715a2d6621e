// SPDX-License-Identifier: BSD-3-Clause
//! Defines which rule decides about a packet: the first that matches. Compares the packet with one
//! rule after the other.

use crate::criteria::{Criteria, Family, MaskedValue};
use crate::packet::Packet;
use crate::ranges::{Number, Ranges};
use crate::rule::{AccessList, Action, Rule};

/// The decision of a list about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Index of the rule that decides; `None` for the default of the list.
    pub rule: Option<u32>,
    /// Its action; never [`Action::Count`].
    pub action: Action,
}

impl Criteria {
    /// True if the packet meets every criterion.
    pub fn matches(&self, packet: &Packet) -> bool {
        let [sport, dport] = [0, 1].map(|end| packet.ports.map(|ports| ports[end]));
        let [kind, code] = [0, 1].map(|part| packet.icmp.map(|icmp| icmp[part]));
        self.family.is_none_or(|family| family == Family::of(packet.src))
            && self.src.contains(packet.src)
            && self.dst.contains(packet.dst)
            && self.proto.contains(packet.proto)
            && takes(&self.sport, sport)
            && takes(&self.dport, dport)
            && takes(&self.icmp_type, kind)
            && takes(&self.icmp_code, code)
            && self.tcp_flags.is_none_or(|flags| packet.tcp_flags.is_some_and(|own| flags.is(own)))
            && self.fragment.is_none_or(|kind| kind == packet.fragment)
            && self.zone.contains(packet.zone)
            && self.ct.intersects(packet.ct)
            && self.mark.is_none_or(|mark| packet.mark & mark.mask == mark.value)
    }
}

impl MaskedValue<u8> {
    /// True if `number` has these bits.
    pub(crate) fn is(self, number: u8) -> bool {
        number & self.mask == self.value
    }
}

/// True if any number will do, or the packet has one of these.
fn takes<T: Number>(ranges: &Ranges<T>, number: Option<T>) -> bool {
    ranges.is_any() || number.is_some_and(|number| ranges.contains(number))
}

impl AccessList {
    /// Returns the decision about a packet, by comparing it with one rule after the other.
    pub fn decide(&self, packet: &Packet) -> Decision {
        let rule = (0..)
            .zip(&self.rules)
            .find(|(_, rule)| rule.action != Action::Count && rule.criteria.matches(packet));
        match rule {
            Some((index, rule)) => Decision { rule: Some(index), action: rule.action },
            None => Decision { rule: None, action: self.default },
        }
    }

    /// Returns the rules with [`Action::Count`] that count the packet of a decision: those before
    /// the rule that decides.
    pub fn counting<'a>(
        &'a self,
        decision: Decision,
        packet: &'a Packet,
    ) -> impl Iterator<Item = u32> + 'a {
        let end = decision.rule.map_or(self.rules.len(), |rule| rule as usize);
        let counts = |(_, rule): &(u32, &Rule)| {
            rule.action == Action::Count && rule.criteria.matches(packet)
        };
        (0..).zip(&self.rules[..end]).filter(counts).map(|(index, _)| index)
    }
}
