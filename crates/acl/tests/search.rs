// SPDX-License-Identifier: BSD-3-Clause
//! Random lists and packets: the search finds the rule that comparing one rule after the other
//! finds, and knows whether another packet of the connection may find another.

mod random;

use acl::{AccessList, Action, AddressSet, CtStates, Family, Fragment, Packet, Rule, Search};
use ipnet::IpNet;
use proptest::prelude::*;
use random::{list, packet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::sized(100, 2_000)))]

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
