// SPDX-License-Identifier: BSD-3-Clause
//! Random lists and packets: the search finds the rule that comparing one rule after the other
//! finds, and knows whether another packet of the connection may find another.

mod random;

use acl::{AccessList, Action, AddressSet, Fragment, Packet, Rule, Search};
use ipnet::IpNet;
use proptest::prelude::*;
use random::{list, packet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

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
