// SPDX-License-Identifier: BSD-3-Clause
//! Finds the rules that a device without connections can apply, and the rules that must come before
//! them there.
//!
//! The device is asked about TCP and UDP packets only, without tags, fragments and IP options:
//! devices differ in which headers of other packets they find. So a rule for ICMP alone stands in
//! nobody's way. A rule is *stateless* if addresses, protocol and ports decide whether it matches,
//! and if all earlier rules that match some of its packets are stateless too.

use crate::criteria::{Addresses, Criteria, Family};
use crate::packet::CtStates;
use crate::ranges::Ranges;
use crate::rule::{AccessList, Action};
use ipnet::IpNet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::header_match::{HeaderMatch, Network, PortMatch};
use wire::proto::{TCP, UDP};

/// A rule that a device without connections can apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatelessRule {
    /// The packets that it matches, apart from those that earlier rules match. Packets that match
    /// one of these match the rule.
    pub headers: Vec<HeaderMatch>,
    /// Earlier rules that match some of its packets, in their order.
    pub after: Vec<u32>,
    /// `Ok` if the device may drop the packets of the headers by itself, of every protocol and
    /// whichever of the earlier rules it has: the list denies them all, and does nothing else.
    pub drop: Result<(), NotDropped>,
}

/// Why a device must not drop the packets of a rule by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotDropped {
    /// Its action is not `deny`.
    Action,
    /// It logs them.
    Logs,
    /// This earlier rule matches some of them, and does not only deny, or the device does not have
    /// it.
    Follows(u32),
}

impl fmt::Display for NotDropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotDropped::Action => write!(f, "its action is not deny"),
            NotDropped::Logs => write!(f, "it logs"),
            NotDropped::Follows(rule) => {
                write!(f, "rule {rule} matches some of its packets and is no plain deny in the NIC")
            }
        }
    }
}

/// Why a rule is not stateless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStateless {
    /// It names this field, which the device does not know or does not keep.
    Names(&'static str),
    /// It only counts.
    Counts,
    /// It matches no TCP or UDP packet.
    OtherProtocols,
    /// This earlier rule matches some of its packets, and is not stateless.
    Follows(u32),
    /// It has this many combinations of networks and ports.
    TooManyHeaders(usize),
    /// More than [`StatelessRule::AFTER_MAX`] earlier rules match some of its packets.
    TooManyBefore,
    /// Only the first [`StatelessRule::EXAMINED_MAX`] rules of a list are examined.
    TooLate,
}

impl fmt::Display for NotStateless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotStateless::Names(field) => write!(f, "names {field}, which the NIC cannot match"),
            NotStateless::Counts => write!(f, "only counts, and the search goes on"),
            NotStateless::OtherProtocols => write!(f, "matches no TCP or UDP packet"),
            NotStateless::Follows(rule) => {
                write!(f, "follows rule {rule}, which matches some of its packets in software only")
            }
            NotStateless::TooManyHeaders(headers) => write!(
                f,
                "has {headers} combinations of networks and ports, more than {}",
                StatelessRule::HEADERS_MAX
            ),
            NotStateless::TooManyBefore => write!(
                f,
                "more than {} earlier rules match some of its packets",
                StatelessRule::AFTER_MAX
            ),
            NotStateless::TooLate => {
                write!(f, "is not among the first {} rules", StatelessRule::EXAMINED_MAX)
            }
        }
    }
}

impl StatelessRule {
    /// Maximum number of combinations of networks and ports.
    pub const HEADERS_MAX: usize = 64;

    /// Maximum number of earlier rules that match some of its packets.
    pub const AFTER_MAX: usize = 4096;

    /// Maximum number of rules that are examined: the time grows with the square.
    pub const EXAMINED_MAX: usize = 16_384;
}

/// Examines every rule of a list, and its default as the last one.
pub fn stateless_rules(list: &AccessList) -> Vec<Result<StatelessRule, NotStateless>> {
    let default = Criteria::ANY;
    let rules = list.rules.iter().map(|rule| (&rule.criteria, rule.action, rule.options.log));
    let rules: Vec<_> = rules.chain([(&default, list.default, false)]).collect();
    let spans: Vec<_> = rules.iter().map(|(criteria, ..)| Span::of(criteria)).collect();
    let mut examined: Vec<Result<StatelessRule, NotStateless>> = Vec::with_capacity(rules.len());
    for (index, (criteria, action, logs)) in rules.iter().enumerate() {
        let result = match index < StatelessRule::EXAMINED_MAX {
            true => headers(criteria, *action),
            false => Err(NotStateless::TooLate),
        };
        let result = result.and_then(|headers| {
            let meets =
                |at: &usize| spans[*at].meets(&spans[index]) && rules[*at].0.intersects(criteria);
            let (mut after, mut drop) = (Vec::new(), only_denies(*action, *logs));
            for earlier in (0..index).filter(meets) {
                let follows = Err(NotDropped::Follows(earlier as u32));
                match &examined[earlier] {
                    // The device is not asked about its packets, but it may drop them.
                    Err(NotStateless::OtherProtocols) => {
                        drop = drop.and(follows);
                        continue;
                    }
                    Err(_) => return Err(NotStateless::Follows(earlier as u32)),
                    Ok(_) => {
                        drop = drop.and(only_denies(rules[earlier].1, rules[earlier].2).or(follows))
                    }
                }
                if after.len() == StatelessRule::AFTER_MAX {
                    return Err(NotStateless::TooManyBefore);
                }
                after.push(earlier as u32);
            }
            Ok(StatelessRule { headers, after, drop })
        });
        examined.push(result);
    }
    examined
}

/// Says whether a rule drops its packets and does nothing else.
fn only_denies(action: Action, logs: bool) -> Result<(), NotDropped> {
    match action {
        Action::Deny if logs => Err(NotDropped::Logs),
        Action::Deny => Ok(()),
        _ => Err(NotDropped::Action),
    }
}

/// First and last address of source and destination, which tell most rules apart quickly.
struct Span {
    src: [u128; 2],
    dst: [u128; 2],
}

impl Span {
    fn of(criteria: &Criteria) -> Self {
        Self { src: span(&criteria.src), dst: span(&criteria.dst) }
    }

    fn meets(&self, other: &Span) -> bool {
        let meet = |a: [u128; 2], b: [u128; 2]| a[0] <= b[1] && b[0] <= a[1];
        meet(self.dst, other.dst) && meet(self.src, other.src)
    }
}

/// Returns the first and last of these addresses. Those of IPv4 are numbers of 32 bits, like some
/// of IPv6: then the rules are compared in full.
fn span(addresses: &Addresses) -> [u128; 2] {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    };
    let Some(networks) = addresses.networks() else { return [0, u128::MAX] };
    let first = networks.iter().map(|network| bits(network.network())).min();
    let last = networks.iter().map(|network| bits(network.broadcast())).max();
    [first.unwrap_or(0), last.unwrap_or(u128::MAX)]
}

/// Returns the headers of the TCP and UDP packets that match.
fn headers(criteria: &Criteria, action: Action) -> Result<Vec<HeaderMatch>, NotStateless> {
    let is_for_icmp = !criteria.icmp_type.is_any() || !criteria.icmp_code.is_any();
    let protos = [TCP, UDP].map(|proto| criteria.proto.contains(proto));
    if is_for_icmp || protos == [false; 2] {
        return Err(NotStateless::OtherProtocols);
    }
    let named = [
        ("TCP flags", criteria.tcp_flags.is_some()),
        ("kinds of fragments", criteria.fragment.is_some()),
        ("zones", !criteria.zone.is_any()),
        ("states of connections", criteria.ct != CtStates::ANY),
        ("connection marks", criteria.mark.is_some()),
    ];
    if let Some((field, _)) = named.iter().find(|(_, is_named)| *is_named) {
        return Err(NotStateless::Names(field));
    }
    if action == Action::Count {
        return Err(NotStateless::Counts);
    }
    let has_ports = !criteria.sport.is_any() || !criteria.dport.is_any();
    let protos: Vec<Option<u8>> = match criteria.proto.is_any() && !has_ports {
        true => vec![None],
        false => {
            [TCP, UDP].into_iter().zip(protos).filter(|(_, is)| *is).map(|(p, _)| Some(p)).collect()
        }
    };
    let (sports, dports) = (port_matches(&criteria.sport), port_matches(&criteria.dport));
    let networks = Family::ALL.map(|(family, _)| network_pairs(criteria, family));
    let pairs: usize = networks.iter().map(|[src, dst]| src.len().saturating_mul(dst.len())).sum();
    let count = pairs.saturating_mul(protos.len() * sports.len() * dports.len());
    if count > StatelessRule::HEADERS_MAX {
        return Err(NotStateless::TooManyHeaders(count));
    }
    let mut all = Vec::with_capacity(count);
    for [srcs, dsts] in &networks {
        for (src, dst) in srcs.iter().flat_map(|src| dsts.iter().map(move |dst| (*src, *dst))) {
            for &proto in &protos {
                for (&sport, &dport) in
                    sports.iter().flat_map(|s| dports.iter().map(move |d| (s, d)))
                {
                    all.push(HeaderMatch { src, dst, proto, sport, dport });
                }
            }
        }
    }
    Ok(all)
}

fn port_matches(ports: &Ranges<u16>) -> Vec<PortMatch> {
    match ports.is_any() {
        true => vec![PortMatch::ANY],
        false => ports.as_slice().iter().flat_map(|range| PortMatch::of_range(*range)).collect(),
    }
}

/// Returns the networks of source and destination with this IP version; none if no packet of it
/// matches.
fn network_pairs(criteria: &Criteria, family: Family) -> [Vec<Network>; 2] {
    if !criteria.has_family(family) {
        return [Vec::new(), Vec::new()];
    }
    [&criteria.src, &criteria.dst].map(|addresses| match addresses.networks() {
        None => vec![everywhere(family)],
        Some(networks) => {
            let of_family = |network: &&IpNet| Family::of(network.addr()) == family;
            networks.iter().filter(of_family).map(network_of).collect()
        }
    })
}

fn everywhere(family: Family) -> Network {
    let address = match family {
        Family::Ipv4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        Family::Ipv6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    Network { address, prefix: 0 }
}

fn network_of(network: &IpNet) -> Network {
    Network { address: network.network(), prefix: network.prefix_len() }
}
