// SPDX-License-Identifier: BSD-3-Clause
//! Owns the criteria of a rule.

use crate::packet::{CtStates, Fragment};
use crate::ranges::Ranges;
use ipnet::IpNet;
use std::net::IpAddr;
use std::sync::Arc;

/// IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl Family {
    /// Both families and their names.
    pub const ALL: [(Family, &'static str); 2] = [(Family::Ipv4, "ipv4"), (Family::Ipv6, "ipv6")];

    /// Returns the IP version of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Family::Ipv4 } else { Family::Ipv6 }
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// A named set of networks, of either IP version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressSet {
    /// Name, without the `@` before it in rules.
    pub name: String,
    /// The networks. They may overlap.
    pub networks: Vec<IpNet>,
}

impl AddressSet {
    /// Maximum number of networks.
    pub const NETWORKS_MAX: usize = 1_000_000;
}

/// Addresses that a rule matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// Every address.
    Any,
    /// Addresses in one of these networks, which all have one IP version. At least one.
    Networks(Vec<IpNet>),
    /// Addresses in a named set.
    Set(Arc<AddressSet>),
}

impl Addresses {
    /// True if the address is one of these.
    pub fn contains(&self, address: IpAddr) -> bool {
        match self.networks() {
            None => true,
            Some(networks) => networks.iter().any(|network| network.contains(&address)),
        }
    }

    /// Returns the networks; `None` for every address.
    pub fn networks(&self) -> Option<&[IpNet]> {
        match self {
            Addresses::Any => None,
            Addresses::Networks(networks) => Some(networks),
            Addresses::Set(set) => Some(&set.networks),
        }
    }

    /// Returns the IP version, if all addresses have one.
    pub fn family(&self) -> Option<Family> {
        let mut families = self.networks()?.iter().map(|network| Family::of(network.addr()));
        let first = families.next()?;
        families.all(|family| family == first).then_some(first)
    }
}

/// Bits that a number must have: those of `mask` must be those of `value`, which has no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskedValue<T> {
    /// Value of the bits.
    pub value: T,
    /// Which bits count.
    pub mask: T,
}

/// What a packet must have to match a rule. A packet matches if it meets every criterion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Criteria {
    /// IP version; `None`: both.
    pub family: Option<Family>,
    /// Source address.
    pub src: Addresses,
    /// Destination address.
    pub dst: Addresses,
    /// IP protocol number.
    pub proto: Ranges<u8>,
    /// Source port. A packet without ports does not match, unless any port does.
    pub sport: Ranges<u16>,
    /// Destination port, as `sport`.
    pub dport: Ranges<u16>,
    /// ICMP type. A packet without ICMP header does not match, unless any type does.
    pub icmp_type: Ranges<u8>,
    /// ICMP code, as `icmp_type`.
    pub icmp_code: Ranges<u8>,
    /// TCP flags. A packet without TCP header does not match.
    pub tcp_flags: Option<MaskedValue<u8>>,
    /// Kind of fragment.
    pub fragment: Option<Fragment>,
    /// Zone.
    pub zone: Ranges<u16>,
    /// Relation to a connection: one of these.
    pub ct: CtStates,
    /// Connection mark.
    pub mark: Option<MaskedValue<u32>>,
}

impl Criteria {
    /// Every packet matches.
    pub const ANY: Criteria = Criteria {
        family: None,
        src: Addresses::Any,
        dst: Addresses::Any,
        proto: Ranges::ANY,
        sport: Ranges::ANY,
        dport: Ranges::ANY,
        icmp_type: Ranges::ANY,
        icmp_code: Ranges::ANY,
        tcp_flags: None,
        fragment: None,
        zone: Ranges::ANY,
        ct: CtStates::ANY,
        mark: None,
    };

    /// True if a packet of this IP version can match.
    pub fn has_family(&self, family: Family) -> bool {
        let can_have = |addresses: &Addresses| {
            addresses.networks().is_none_or(|networks| {
                networks.iter().any(|network| Family::of(network.addr()) == family)
            })
        };
        self.family.is_none_or(|own| own == family) && can_have(&self.src) && can_have(&self.dst)
    }

    /// True if packets of one connection can differ in whether they match, apart from their
    /// direction and [`ct`](Self::ct). Then every packet has to be compared.
    pub fn varies_by_packet(&self) -> bool {
        self.tcp_flags.is_some() || self.fragment.is_some() || self.mark.is_some()
    }
}
