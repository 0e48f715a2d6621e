// SPDX-License-Identifier: BSD-3-Clause
//! Random lists and packets: the search finds the rule that comparing one rule after the other
//! finds, and knows whether another packet of the connection may find another.

use acl::{
    AccessList, Action, AddressSet, Addresses, Criteria, CtStates, Family, Fragment, MaskedValue,
    Packet, Ranges, Rule, Search,
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
        Rule { criteria, action }
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
        let overlaps = acl::find_overlaps(&list).found;
        for packet in &packets {
            let rule = list.decide(packet).rule;
            let is_wrong = overlaps
                .iter()
                .any(|overlap| overlap.is_unreachable && Some(overlap.rule) == rule);
            prop_assert!(!is_wrong, "{:?} {:?}", rule, packet);
        }
    }

    /// A rule that matches a packet, which an earlier rule with another action takes, is found.
    #[test]
    fn each_rule_that_loses_a_packet_is_found(
        list in list(),
        packets in prop::collection::vec(packet(), 60),
    ) {
        let overlaps = acl::find_overlaps(&list);
        prop_assert_eq!(overlaps.compared as usize, list.rules.len());
        let replies = [CtStates::ESTABLISHED, CtStates::RELATED].map(|ct| ct | CtStates::REPLY);
        let states = CtStates::ALL.map(|(state, _)| state).into_iter().chain(replies);
        for (packet, ct) in packets.iter().zip(states.cycle()) {
            let packet = &Packet { ct, ..*packet };
            let decision = list.decide(packet);
            let Some(earlier) = decision.rule else { continue };
            for (index, rule) in (0..).zip(&list.rules).skip(earlier as usize + 1) {
                let differs = ![decision.action, Action::Count].contains(&rule.action);
                if differs && rule.criteria.matches(packet) {
                    let found = overlaps.found.iter().find(|overlap| overlap.rule == index);
                    let found = found.filter(|overlap| {
                        overlap.is_unreachable || overlap.earlier <= earlier
                    });
                    prop_assert!(found.is_some(), "{} {} {:?}", index, earlier, packet);
                }
            }
        }
    }

    /// A copy of any rule that decides is unreachable.
    #[test]
    fn a_copy_of_a_rule_is_unreachable(mut list in list(), at in any::<prop::sample::Index>()) {
        prop_assume!(!list.rules.is_empty());
        let copy = list.rules[at.index(list.rules.len())].clone();
        let matches_none = Family::ALL.iter().all(|(family, _)| !copy.criteria.has_family(*family));
        prop_assume!(copy.action != Action::Count && !matches_none);
        list.rules.push(copy);
        let last = list.rules.len() as u32 - 1;
        let found = acl::find_overlaps(&list).found.pop();
        let found = found.map(|overlap| (overlap.rule, overlap.is_unreachable));
        prop_assert_eq!(found, Some((last, true)));
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

/// Rules behind ten thousand others are compared with all of them.
#[test]
fn rules_of_a_large_list_are_compared() {
    let mut list = large_list(10_000);
    let of_rule_2 = Ipv4Addr::from_bits(0x0a00_0000 | 2 * 0x9e37);
    let behind = format!("src 172.16.9.0/24 dst {of_rule_2} proto tcp dport 443");
    let added = [
        (format!("permit {behind}"), Some((2, true))),
        (format!("deny {behind}"), Some((2, true))),
        (format!("deny src 172.16.9.9 dst {of_rule_2}/32 proto tcp"), Some((2, false))),
        ("deny src 192.0.2.1 dst 192.0.2.2".to_owned(), None),
    ];
    list.rules.extend(added.iter().map(|(text, _)| rule_of(text)));
    let overlaps = acl::find_overlaps(&list);
    assert_eq!(overlaps.compared, 10_004);
    for (rule, (text, overlap)) in (10_000..).zip(added) {
        let found = overlaps.found.iter().find(|found| found.rule == rule);
        assert_eq!(found.map(|found| (found.earlier, found.is_unreachable)), overlap, "{text}");
    }
}

/// A search takes the memory that it may have at most, and no list of rules or sets takes more.
#[test]
fn a_search_takes_no_more_memory_than_it_may() {
    let networks = |first: u32| {
        let hosts = (0..64).map(|i| Ipv4Addr::from_bits(first + 2 * i).to_string());
        hosts.collect::<Vec<_>>().join(",")
    };
    let ends = format!("src {} dst {}", networks(0x0a00_0000), networks(0x0b00_0000));
    let many = (1..20).map(|port| rule_of(&format!("deny {ends} proto tcp dport {port}")));
    let host = |i: u32| IpNet::from(IpAddr::from(Ipv4Addr::from_bits(2 * i)));
    let set = AddressSet { name: "s".into(), networks: (0..100_000).map(host).collect() };
    let set = Arc::new(set);
    let of_set = acl::parse_rule("deny src @s dst @s", &|_| Some(set.clone())).unwrap();
    for rules in [many.collect(), vec![of_set], large_list(2000).rules] {
        let list = AccessList { name: "l".into(), rules, default: Action::Permit };
        let needed = Search::new(&list).unwrap().size().bytes;
        let size = Search::within(&list, needed + 4096).unwrap().size();
        assert_eq!(size.bytes, needed);
        for less in [needed - 64, needed / 2, 1000, 0] {
            match Search::within(&list, less) {
                // Trees of their own for rules of different fields may be smaller.
                Ok(search) => assert!(search.size().bytes <= less, "{less}"),
                Err(error) => assert_eq!(error, acl::SearchError::TooMuchMemory),
            }
        }
        assert!(Search::within(&list, 1000).is_err());
    }
}
