// SPDX-License-Identifier: BSD-3-Clause
//! Random lists and packets, in which few bits differ.

use acl::{
    AccessList, Action, AddressSet, Addresses, Criteria, CtStates, Family, Fragment, MaskedValue,
    Packet, Ranges, Rule, RuleOptions,
};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Few bits of addresses differ, so that rules meet packets and each other.
fn v4(bits: u16) -> Ipv4Addr {
    let [a, b] = bits.to_be_bytes();
    Ipv4Addr::new(10, a & 3, b & 0xc1, b & 7)
}

fn v6(bits: u16) -> Ipv6Addr {
    let [a, b] = bits.to_be_bytes();
    let [a, b] = [a, b].map(u16::from);
    Ipv6Addr::new(0x2001, 0xdb8, a & 3, b & 0xc1, b & 1, 0, a & 1, b & 7)
}

fn network() -> impl Strategy<Value = IpNet> {
    (any::<u16>(), 0..=32_u8, any::<bool>()).prop_map(|(bits, len, is_v6)| match is_v6 {
        false => Ipv4Net::new(v4(bits), len).unwrap().trunc().into(),
        true => Ipv6Net::new(v6(bits), len * 4).unwrap().trunc().into(),
    })
}

fn ranges16() -> impl Strategy<Value = Ranges<u16>> {
    let number = prop_oneof![0..6_u16, Just(80), Just(443), Just(65_535), any::<u16>()];
    let range = (number.clone(), number).prop_map(|(a, b)| [a.min(b), a.max(b)]);
    let some = prop::collection::vec(range, 1..3).prop_map(Ranges::new);
    prop_oneof![2 => Just(Ranges::ANY), 3 => some]
}

fn addresses(sets: Vec<Arc<AddressSet>>) -> impl Strategy<Value = (Addresses, bool)> {
    let networks = (prop::collection::vec(network(), 1..4), any::<bool>()).prop_map(
        |(networks, is_v6): (Vec<IpNet>, bool)| {
            let family = if is_v6 { Family::Ipv6 } else { Family::Ipv4 };
            let own = |net: &IpNet| Family::of(net.addr()) == family;
            let networks: Vec<_> = networks.into_iter().filter(own).collect();
            if networks.is_empty() { Addresses::Any } else { Addresses::Networks(networks) }
        },
    );
    let addresses = prop_oneof![
        2 => Just(Addresses::Any),
        3 => networks,
        1 => prop::sample::select(sets).prop_map(Addresses::Set),
    ];
    (addresses, any::<bool>())
}

fn ct() -> impl Strategy<Value = CtStates> {
    let all = CtStates::ALL.map(|(state, _)| state).to_vec();
    prop_oneof![
        3 => Just(CtStates::ANY),
        1 => prop::collection::vec(prop::sample::select(all), 2).prop_map(|ct| ct[0] | ct[1]),
    ]
}

fn fragment() -> impl Strategy<Value = Fragment> {
    prop::sample::select(Fragment::ALL.map(|(kind, _)| kind).to_vec())
}

/// One proto of those with ports, flags or types.
fn proto() -> impl Strategy<Value = u8> {
    prop::sample::select(vec![6_u8, 17, 1, 58, 47])
}

fn rule(sets: Vec<Arc<AddressSet>>) -> impl Strategy<Value = Rule> {
    let action = prop::sample::select(Action::ALL.map(|(action, _)| action).to_vec());
    let proto = prop_oneof![Just(Ranges::ANY), proto().prop_map(Ranges::one)];
    let ends = (addresses(sets.clone()), addresses(sets), ranges16(), ranges16());
    let few8 = || prop_oneof![4 => Just(Ranges::ANY), 1 => (0..4_u8).prop_map(Ranges::one)];
    let flags = prop::option::weighted(0.2, (0..4_u8, 1..4_u8));
    let rest = (
        few8(),
        few8(),
        flags,
        prop::option::weighted(0.1, fragment()),
        prop_oneof![4 => Just(Ranges::ANY), 1 => (0..3_u16).prop_map(Ranges::one)],
        ct(),
        prop::option::weighted(0.1, (0..4_u32, 0..4_u32)),
    );
    (action, proto, ends, rest).prop_map(|(action, proto, (src, dst, sport, dport), rest)| {
        let (icmp_type, icmp_code, flags, fragment, zone, ct, mark) = rest;
        let criteria = Criteria {
            family: None,
            src: src.0,
            dst: dst.0,
            proto,
            sport,
            dport,
            icmp_type,
            icmp_code,
            tcp_flags: flags.map(|(value, mask)| MaskedValue { value: value & mask, mask }),
            fragment,
            zone,
            ct,
            mark: mark.map(|(value, mask)| MaskedValue { value: value & mask, mask }),
        };
        Rule { criteria, action, options: RuleOptions::default() }
    })
}

pub(crate) fn list() -> impl Strategy<Value = AccessList> {
    let set = prop::collection::vec(network(), 0..20);
    prop::collection::vec(set, 1..4).prop_flat_map(|sets| {
        let sets: Vec<_> = (0..)
            .zip(sets)
            .map(|(i, networks)| Arc::new(AddressSet { name: format!("s{i}"), networks }))
            .collect();
        prop::collection::vec(rule(sets), 0..120).prop_map(|rules| AccessList {
            name: "list".into(),
            rules,
            default: Action::Deny,
        })
    })
}

pub(crate) fn packet() -> impl Strategy<Value = Packet> {
    let port = || prop_oneof![0..6_u16, Just(80), Just(443), any::<u16>()];
    let ends = (any::<u16>(), any::<u16>(), any::<bool>(), port(), port());
    let rest = (proto(), 0..4_u8, fragment(), 0..3_u16, ct(), 0..4_u32);
    (ends, rest).prop_map(|((src, dst, is_v6, sport, dport), rest)| {
        let (proto, flags, fragment, zone, ct, mark) = rest;
        let address = |bits| if is_v6 { IpAddr::from(v6(bits)) } else { IpAddr::from(v4(bits)) };
        let has_header = fragment != Fragment::Later;
        Packet {
            src: address(src),
            dst: address(dst),
            proto,
            ports: ([6, 17].contains(&proto) && has_header).then_some([sport, dport]),
            icmp: ([1, 58].contains(&proto) && has_header).then_some([flags, flags]),
            tcp_flags: (proto == 6 && has_header).then_some(flags),
            fragment,
            zone,
            ct,
            mark,
        }
    })
}
