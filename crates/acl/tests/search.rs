// SPDX-License-Identifier: BSD-3-Clause
//! Random lists and packets: the search finds the rule that comparing one rule after the other
//! finds, and knows whether another packet of the connection may find another.

use acl::{
    AccessList, Action, AddressSet, Addresses, Criteria, CtStates, Family, Fragment, MaskedValue,
    Packet, Ranges, Rule, RuleOptions, Search,
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

fn list() -> impl Strategy<Value = AccessList> {
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

fn packet() -> impl Strategy<Value = Packet> {
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn the_search_finds_what_comparing_every_rule_finds(
        list in list(),
        packets in prop::collection::vec(packet(), 60),
    ) {
        let search = Search::new(&list).unwrap();
        for packet in &packets {
            let found = search.find(packet);
            prop_assert_eq!(found.rule, list.decide(packet).rule, "{:?}", packet);
            // Whatever differs between packets of one connection and direction.
            let varies = Fragment::ALL.iter().any(|(fragment, _)| {
                (0..4).any(|flags| (0..4).any(|mark| {
                    let tcp_flags = packet.tcp_flags.map(|_| flags);
                    let other = Packet { fragment: *fragment, tcp_flags, mark, ..*packet };
                    let counts = list.counting(list.decide(&other), &other).next().is_some();
                    counts || list.decide(&other).rule != found.rule
                }))
            });
            prop_assert!(found.varies || !varies, "{:?}", packet);
        }
    }

    /// An unreachable rule can go, and nothing changes.
    #[test]
    fn rules_that_are_called_unreachable_decide_nothing(
        list in list(),
        packets in prop::collection::vec(packet(), 60),
    ) {
        let overlaps = acl::find_overlaps(&list);
        for packet in &packets {
            let rule = list.decide(packet).rule;
            let is_wrong = overlaps
                .iter()
                .any(|overlap| overlap.is_unreachable && Some(overlap.rule) == rule);
            prop_assert!(!is_wrong, "{:?} {:?}", rule, packet);
        }
    }
}

fn rule_of(text: &str) -> Rule {
    acl::parse_rule(text, &|_| None).unwrap()
}

/// Returns a list of rules for single hosts and nets, as operators write them.
fn large_list(rules: u32) -> AccessList {
    let rule = |i: u32| {
        let host = Ipv4Addr::from_bits(0x0a00_0000 | i.wrapping_mul(0x9e37) & 0xff_ffff);
        rule_of(&match i % 4 {
            0 => format!("permit src {host} proto tcp dport {}", 1 + i % 5000),
            1 => format!("deny dst {host} proto udp"),
            2 => format!("permit src 172.16.0.0/12 dst {host} proto tcp dport 443"),
            _ => format!("deny src {host} dst 192.168.0.0/16"),
        })
    };
    AccessList {
        name: "large".into(),
        rules: (0..rules).map(rule).collect(),
        default: Action::Permit,
    }
}

/// The number of steps hardly grows with the number of rules.
#[test]
fn large_lists_take_few_steps() {
    let steps = [100, 1_000, 10_000, 60_000].map(|rules| {
        let size = Search::new(&large_list(rules)).unwrap().size();
        assert!(size.bytes < 100 << 20, "{size:?}");
        size.steps
    });
    assert!(steps[3] < 4 * steps[0] + 60, "{steps:?}");
}

/// Rules that name different fields get trees of their own.
#[test]
fn rules_of_different_fields_take_few_steps() {
    let mut random = 88_172_645_463_325_252_u64;
    let mut next = |below: u32| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 32) as u32 % below
    };
    let mut rule = |_| {
        let mut text = "deny".to_owned();
        for field in ["src", "dst", "sport", "dport", "zone"] {
            let value = match field {
                "src" | "dst" => Ipv4Addr::from_bits(next(u32::MAX)).to_string(),
                _ => next(60_000).to_string(),
            };
            if next(2) == 0 {
                text += &format!(" {field} {value}");
            }
        }
        rule_of(&text)
    };
    let rules: Vec<_> =
        (0..10_000).map(&mut rule).filter(|rule| *rule != rule_of("deny")).collect();
    let list = AccessList { name: "mixed".into(), rules, default: Action::Permit };
    let size = Search::new(&list).unwrap().size();
    assert!(size.steps < 600, "{size:?}");
}

/// A set of many networks is one region, and its networks may overlap.
#[test]
fn a_set_of_many_networks_is_one_region() {
    let host = |i: u32| IpNet::from(IpAddr::from(Ipv4Addr::from_bits(0x0a00_0000 + 2 * i)));
    let mut networks: Vec<_> = (0..100_000).map(host).collect();
    networks.push("10.0.0.0/31".parse().unwrap());
    let set = Arc::new(AddressSet { name: "many".into(), networks });
    let find = |name: &str| (name == "many").then(|| set.clone());
    let rules = vec![acl::parse_rule("deny src @many dst @many", &find).unwrap()];
    let list = AccessList { name: "l".into(), rules, default: Action::Permit };
    let search = Search::new(&list).unwrap();
    assert_eq!(search.size().regions, 1);
    let at = |src: u32, dst: u32| Packet {
        src: Ipv4Addr::from_bits(0x0a00_0000 + src).into(),
        dst: Ipv4Addr::from_bits(0x0a00_0000 + dst).into(),
        ..Packet::EMPTY
    };
    for (src, dst, is_in) in [
        (0, 1, true),
        (2, 4, true),
        (3, 4, false),
        (2, 5, false),
        (199_998, 0, true),
        (200_000, 0, false),
    ] {
        assert_eq!(search.find(&at(src, dst)).rule.is_some(), is_in, "{src} {dst}");
    }
}
