// SPDX-License-Identifier: BSD-3-Clause
//! Determines the zone of a packet: by its tags or its pair, or by the first zone rule that
//! matches.
//!
//! Both directions of a connection are in one zone, so the two ends of a rule have no order. Each
//! rule becomes two patterns, one per order. Without rules, no key is compared.

use crate::api::{Config, ConnSnapshot, EndpointMatch, ZoneRule, ZoneSource, has_ports};
use crate::packet::{Batches, Key, zone_of, zone_proto};
use std::net::IpAddr;

/// Determines the zones of packets.
pub(crate) struct ZoneClassifier {
    /// Source of the zone if no rule matches.
    pub(crate) from: ZoneSource,
    v4: Box<[KeyPattern<2>]>,
    v6: Box<[KeyPattern<5>]>,
}

/// A rule in one order of its ends: bits of a key of one IP version.
struct KeyPattern<const W: usize> {
    value: Key<W>,
    mask: Key<W>,
    /// True if the rule matches only protocols with ports.
    has_ports: bool,
    pub(crate) zone: u16,
}

impl ZoneClassifier {
    /// Creates the classifier of a configuration.
    ///
    /// # Panics
    /// If there are more than [`ZoneRule::MAX`] rules. The caller's plan has checked their number.
    pub(crate) fn new(config: &Config) -> Self {
        let rules = &config.zone_rules;
        assert!(rules.len() <= ZoneRule::MAX, "{} rules of zones", rules.len());
        Self {
            from: config.zone,
            v4: rules.iter().flat_map(KeyPattern::of_v4).collect(),
            v6: rules.iter().flat_map(KeyPattern::of_v6).collect(),
        }
    }

    /// Applies the rules to the packets in the batches, beginning at index `from` in each batch.
    #[inline(always)]
    pub(crate) fn apply(&self, batches: &mut Batches, from: (usize, usize)) {
        if !self.v4.is_empty() || !self.v6.is_empty() {
            self.apply_rules(batches, from);
        }
    }

    #[inline(never)]
    fn apply_rules(&self, batches: &mut Batches, (from_v4, from_v6): (usize, usize)) {
        batches.v4.assign_zones(from_v4, |key| zone_by(&self.v4, key));
        batches.v6.assign_zones(from_v6, |key| zone_by(&self.v6, key));
    }

    /// Returns the zone of a restored connection; the zone in the snapshot is ignored.
    pub(crate) fn of_saved(&self, flow: &ConnSnapshot) -> u16 {
        let zone = zone_of(&flow.vlan, self.from);
        let flow = ConnSnapshot { zone, ..flow.clone() };
        let by_rule = match (Key::of_saved_v4(&flow), Key::of_saved_v6(&flow)) {
            (Some((key, _)), _) => zone_by(&self.v4, &key),
            (_, Some((key, _))) => zone_by(&self.v6, &key),
            (None, None) => None,
        };
        by_rule.unwrap_or(zone)
    }
}

/// Maps the zone of a connection to the VLAN tag of its packets.
pub(crate) struct ZoneTags {
    is_by_tag: bool,
    /// Zones of rules, sorted.
    given: Box<[u16]>,
}

impl ZoneTags {
    pub(crate) fn new(config: &Config) -> Self {
        let mut given: Vec<u16> = config.zone_rules.iter().map(|rule| rule.zone).collect();
        given.sort_unstable();
        Self { is_by_tag: config.zone.is_by_tag(), given: given.into() }
    }

    /// Returns the identifier of the tag that packets of a zone have.
    ///
    /// 0: they have no tag, or zones do not depend on tags. `None`: a rule may have put packets
    /// with different tags into the zone.
    pub(crate) fn tag(&self, zone: u16) -> Option<u16> {
        match self.is_by_tag {
            false => Some(0),
            true => self.given.binary_search(&zone).is_err().then_some(zone),
        }
    }

    /// True if packets of a zone have no tag.
    pub(crate) fn is_untagged(&self, zone: u16) -> bool {
        self.tag(zone) == Some(0)
    }
}

/// Returns the zone of the first pattern that matches the key.
fn zone_by<const W: usize>(patterns: &[KeyPattern<W>], key: &Key<W>) -> Option<u16> {
    patterns.iter().find(|pattern| pattern.matches(key)).map(|pattern| pattern.zone)
}

/// One end of a pattern: value and mask of address and port.
struct Bits<const N: usize> {
    address: [[u8; N]; 2],
    port: [u16; 2],
}

impl<const N: usize> Bits<N> {
    /// Returns the bits of an end; `None` if its address has the other IP version.
    fn of(end: &EndpointMatch, octets: impl Fn(IpAddr) -> Option<[u8; N]>) -> Option<Self> {
        let port = end.port.map_or([0; 2], |port| [port, u16::MAX]);
        let address = match end.address {
            None => [[0; N]; 2],
            Some(prefix) => {
                let (value, mask) = prefix.bits();
                [octets(value)?, octets(mask)?]
            }
        };
        Some(Self { address, port })
    }
}

impl KeyPattern<2> {
    fn of_v4(rule: &ZoneRule) -> Vec<Self> {
        Self::of(rule, |address| match address {
            IpAddr::V4(address) => Some(address.octets()),
            IpAddr::V6(_) => None,
        })
    }
}

impl KeyPattern<5> {
    fn of_v6(rule: &ZoneRule) -> Vec<Self> {
        Self::of(rule, |address| match address {
            IpAddr::V6(address) => Some(address.octets()),
            IpAddr::V4(_) => None,
        })
    }
}

impl<const W: usize> KeyPattern<W> {
    /// Returns the patterns of a rule in both orders of its ends; none if it is for the other IP
    /// version.
    fn of<const N: usize>(
        rule: &ZoneRule,
        octets: impl Fn(IpAddr) -> Option<[u8; N]> + Copy,
    ) -> Vec<Self> {
        let ends = (Bits::of(&rule.end, octets), Bits::of(&rule.peer, octets));
        let (Some(end), Some(peer)) = ends else { return Vec::new() };
        let pattern = |low: &Bits<N>, high: &Bits<N>| {
            let last = [
                zone_proto(rule.from.unwrap_or(0), rule.proto.unwrap_or(0)),
                zone_proto(rule.from.map_or(0, |_| u16::MAX), rule.proto.map_or(0, |_| u8::MAX)),
            ];
            let [value, mask] = [0, 1].map(|which| {
                let ends = [low, high].map(|end| (&end.address[which][..], end.port[which]));
                Key::laid_out(ends, last[which])
            });
            let has_ports = rule.end.port.or(rule.peer.port).is_some();
            Self { value, mask, has_ports, zone: rule.zone }
        };
        vec![pattern(&end, &peer), pattern(&peer, &end)]
    }

    fn matches(&self, key: &Key<W>) -> bool {
        let words = key.0.iter().zip(&self.value.0).zip(&self.mask.0);
        let differ = words.fold(0, |differ, ((word, value), mask)| differ | (word ^ value) & mask);
        differ == 0 && (!self.has_ports || has_ports(key.proto()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Prefix;
    use crate::packet::{KeyParts, L4Id, key4, key6};
    use proptest::prelude::*;

    /// True if a rule matches a connection between these ends; computed without keys.
    fn means(rule: &ZoneRule, parts: &KeyParts) -> bool {
        let ends = [(parts.low, parts.low_port), (parts.high, parts.high_port)];
        let takes = |end: &EndpointMatch, (address, port): (IpAddr, u16)| {
            end.address.is_none_or(|expected| expected.contains(address))
                && end.port.is_none_or(|expected| has_ports(parts.proto) && expected == port)
        };
        let both = |a: usize| takes(&rule.end, ends[a]) && takes(&rule.peer, ends[1 - a]);
        rule.from.is_none_or(|from| from == parts.zone)
            && rule.proto.is_none_or(|proto| proto == parts.proto)
            && (both(0) || both(1))
    }

    /// Few values, so that rules match packets.
    fn address() -> impl Strategy<Value = IpAddr> {
        let few = 0..4_u8;
        (few.clone(), few, any::<bool>()).prop_map(|(net, host, is_v6)| match is_v6 {
            true => IpAddr::from([0x2001, 0xdb8, net.into(), 0, 0, 0, 0, host.into()]),
            false => IpAddr::from([10, net, 0, host]),
        })
    }

    fn end() -> impl Strategy<Value = EndpointMatch> {
        let prefix = (address(), 0..=128_u8).prop_map(|(address, len)| {
            Prefix::new(address, len.min(if address.is_ipv4() { 32 } else { 128 })).unwrap()
        });
        (proptest::option::of(prefix), proptest::option::of(0..3_u16))
            .prop_map(|(address, port)| EndpointMatch { address, port })
    }

    fn rule() -> impl Strategy<Value = ZoneRule> {
        let proto = prop::sample::select(vec![None, None, Some(1), Some(6), Some(17)]);
        let from = prop::sample::select(vec![None, None, Some(0), Some(1)]);
        (from, proto, end(), end(), 0..9_u16).prop_map(|(from, proto, end, peer, zone)| ZoneRule {
            from,
            proto,
            end,
            peer,
            zone,
        })
    }

    proptest! {
        #[test]
        fn the_first_rule_that_means_a_packet_says_its_zone(
            rules in prop::collection::vec(rule(), 0..6), src in address(), other in address(),
            ports: [bool; 2], zone in 0..3_u16,
            proto in prop::sample::select(vec![1_u8, 6, 17, 47]),
        ) {
            let config = Config { zone_rules: rules.clone(), ..Config::default() };
            let zoning = ZoneClassifier::new(&config);
            let [sport, dport] = ports.map(u16::from);
            let ([a, b], [c, d]) = (sport.to_be_bytes(), dport.to_be_bytes());
            let (ports, last) = (L4Id::Pair([a, b, c, d]), zone_proto(zone, proto));
            let (parts, found) = match (src, other) {
                (IpAddr::V4(src), IpAddr::V4(dst)) => {
                    let ([a, b, c, d], [e, f, g, h]) = (src.octets(), dst.octets());
                    let (key, _) = key4([a, b, c, d, e, f, g, h], ports, last);
                    (key.parts(), zone_by(&zoning.v4, &key))
                }
                (IpAddr::V6(src), IpAddr::V6(dst)) => {
                    let mut addresses = [0; 32];
                    addresses[..16].copy_from_slice(&src.octets());
                    addresses[16..].copy_from_slice(&dst.octets());
                    let (key, _) = key6(&addresses, ports, last);
                    (key.parts(), zone_by(&zoning.v6, &key))
                }
                _ => return Ok(()),
            };
            let first = rules.iter().find(|rule| means(rule, &parts));
            prop_assert_eq!(found, first.map(|rule| rule.zone));
        }
    }

    #[test]
    fn a_tag_is_known_where_no_rule_gives_the_zone() {
        let rule = ZoneRule {
            from: None,
            proto: None,
            end: EndpointMatch::default(),
            peer: EndpointMatch::default(),
            zone: 7,
        };
        let tagging =
            |zone| ZoneTags::new(&Config { zone, zone_rules: vec![rule], ..Config::default() });
        let tags = |from| [0, 5, 7].map(|zone| tagging(from).tag(zone));
        assert_eq!(tags(ZoneSource::OuterVlan), [Some(0), Some(5), None]);
        assert_eq!(tags(ZoneSource::InnerVlan), [Some(0), Some(5), None]);
        assert_eq!(tags(ZoneSource::None), [Some(0); 3]);
        assert_eq!(tags(ZoneSource::Fixed(5)), [Some(0); 3]);
        assert!(tagging(ZoneSource::OuterVlan).is_untagged(0));
        assert!(!tagging(ZoneSource::OuterVlan).is_untagged(7));
    }
}
