// SPDX-License-Identifier: BSD-3-Clause
//! Tests lists for frames that are not IP: their text, the search against the definition, and
//! overlaps.

use acl::{
    Action, EthernetList, EthernetRule, EthernetSearch, Frame, Overlap, parse_ethernet_rule,
};
use proptest::prelude::*;

fn rules(lines: &[&str]) -> Vec<EthernetRule> {
    let rule = |line: &&str| parse_ethernet_rule(line).unwrap_or_else(|error| panic!("{error}"));
    lines.iter().map(rule).collect()
}

fn list(lines: &[&str], default: Action) -> EthernetList {
    EthernetList { name: "l".to_owned(), rules: rules(lines), default }
}

#[test]
fn rules_are_read_as_they_are_written() {
    for text in [
        "permit",
        "permit ether-type arp",
        "deny ether-type llc",
        "count ether-type pppoe-discovery,pppoe",
        "permit ether-type 0x1234-0x5678,lldp",
        "deny src-mac 02:00:00:00:00:00/ff:ff:00:00:00:00",
        "permit ether-type eapol src-mac 02:00:00:00:00:0a dst-mac 01:80:c2:00:00:03 zone 7,10-19",
    ] {
        assert_eq!(rules(&[text])[0].to_string(), text);
    }
    for (text, same) in [
        ("permit ether_type 0x0806", "permit ether-type arp"),
        ("permit ether-type 2054", "permit ether-type arp"),
        ("permit ether-type any src-mac any zone any", "permit"),
        ("permit src-mac 00:00:00:00:00:00/00:00:00:00:00:00", "permit"),
        ("deny dst-mac 0A:00:00:00:00:01", "deny dst-mac 0a:00:00:00:00:01"),
    ] {
        assert_eq!(rules(&[text])[0].to_string(), same);
    }
}

#[test]
fn faults_are_named_with_their_column() {
    for (text, column, part) in [
        ("", 1, "an action is missing"),
        ("reject ether-type arp", 1, "write permit, deny, or count"),
        ("permit ether-type", 18, "has no value"),
        ("permit ether-type arp ether_type lldp", 23, "written twice"),
        ("permit ether-type ipv4", 19, "is no EtherType"),
        ("permit ether-type 0x10000", 19, "is no EtherType"),
        ("permit ether-type 0x0800", 19, "lists without kind judge IP packets"),
        ("permit ether-type 0x8100", 19, "the inner EtherType counts"),
        ("permit ether-type 0x9-0x8", 19, "upside down"),
        ("permit proto tcp", 8, "no field of a rule in an ethernet list"),
        ("permit src-mac 02:00", 16, "no MAC address"),
        ("permit src-mac 02:00:00:00:00:+1", 16, "no MAC address"),
        ("permit src-mac 02:00:00:00:00:01/ff:00:00:00:00:00", 16, "not in its mask"),
    ] {
        let error = parse_ethernet_rule(text).unwrap_err();
        assert_eq!(error.column, column, "{text}: {error}");
        assert!(error.message.contains(part), "{text}: {error}");
    }
}

#[test]
fn frames_are_read_as_they_are_written() {
    let text = "ether-type arp src-mac 02:00:00:00:00:01 dst-mac ff:ff:ff:ff:ff:ff";
    let frame: Frame = text.parse().unwrap();
    assert_eq!(
        (frame.ether_type, frame.src_mac, frame.dst_mac),
        (0x806, 0x200_0000_0001, (1 << 48) - 1)
    );
    assert_eq!(frame.to_string(), text);
    let llc: Frame = "ether-type llc".parse().unwrap();
    assert!(llc.to_string().starts_with("ether-type llc "));
    for wrong in [
        "",
        "arp",
        "ether-type",
        "ether-type arp,lldp",
        "ether-type arp src-mac",
        "ether-type arp ttl 1",
    ] {
        assert!(wrong.parse::<Frame>().is_err(), "{wrong}");
    }
}

#[test]
fn overlaps_are_found() {
    let lines = [
        "permit ether-type arp",
        "count",
        "deny ether-type arp src-mac 02:00:00:00:00:01",
        "deny src-mac 02:00:00:00:00:00/ff:00:00:00:00:00",
        "permit ether-type lldp src-mac 02:00:00:00:00:07",
        "permit ether-type lldp src-mac 04:00:00:00:00:07",
        "deny ether-type 0x0800-0x9000 zone 7",
        "deny ether-type lldp zone 7",
    ];
    let overlap = |rule, earlier, is_unreachable| Overlap { rule, earlier, is_unreachable };
    let expected = [
        overlap(2, 0, true),
        overlap(3, 0, false),
        overlap(4, 3, true),
        overlap(6, 0, false),
        overlap(7, 6, true),
    ];
    assert_eq!(list(&lines, Action::Deny).find_overlaps(), expected);
}

/// Returns one of these, which are few, so that rules and frames meet.
fn word(words: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(words)
}

fn rule_text() -> impl Strategy<Value = String> {
    let action = word(&["permit", "deny", "count"]);
    let kind = word(&[
        "",
        " ether-type arp",
        " ether-type llc",
        " ether-type 0-0xffff",
        " ether-type lldp,arp",
        " ether-type 0x0700-0x0806",
        " ether-type 0x0807-0xffff",
    ]);
    let src =
        word(&["", " src-mac 02:00:00:00:00:01", " src-mac 02:00:00:00:00:00/ff:00:00:00:00:00"]);
    let dst =
        word(&["", " dst-mac ff:ff:ff:ff:ff:ff", " dst-mac 01:00:00:00:00:00/01:00:00:00:00:00"]);
    let zone = word(&["", "", " zone 7", " zone 1-9"]);
    (action, kind, src, dst, zone).prop_map(|(a, b, c, d, e)| format!("{a}{b}{c}{d}{e}"))
}

fn frame() -> impl Strategy<Value = Frame> {
    let kinds = [0, 0x2a, 0x5ff, 0x600, 0x700, 0x806, 0x807, 0x88cc, 0xffff];
    let sources = [0x200_0000_0001, 0x200_0000_0002, 0x400_0000_0001_u64];
    let targets = [0xffff_ffff_ffff, 0x100_0000_0000, 0x200_0000_0001_u64];
    let one = prop::sample::select::<u64>;
    (prop::sample::select(kinds.to_vec()), one(sources.to_vec()), one(targets.to_vec()), 0..9_u16)
        .prop_map(|(ether_type, src_mac, dst_mac, zone)| Frame {
            ether_type,
            src_mac,
            dst_mac,
            zone,
        })
}

proptest! {
    #[test]
    fn the_search_finds_what_the_definition_says(
        texts in prop::collection::vec(rule_text(), 0..12),
        permits: bool,
        frames in prop::collection::vec(frame(), 1..40),
    ) {
        let lines: Vec<_> = texts.iter().map(String::as_str).collect();
        let list = list(&lines, if permits { Action::Permit } else { Action::Deny });
        let search = EthernetSearch::new(&list);
        for frame in frames {
            let mut counting = Vec::new();
            let decision = search.find(&list, &frame, &mut |rule| counting.push(rule));
            prop_assert_eq!(decision, list.decide(&frame));
            prop_assert_eq!(counting, list.counting(decision, &frame).collect::<Vec<_>>());
            for overlap in list.find_overlaps().iter().filter(|overlap| overlap.is_unreachable) {
                prop_assert_ne!(decision.rule, Some(overlap.rule));
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(
        words in prop::collection::vec(word(&[
            "permit", "deny", "count", "ether-type", "src-mac", "dst-mac", "zone", "arp", "llc",
            "0x", "0x806-", "-", "1-2", "02:00:00:00:00:01", "02:00:00:00:00:01/", "any", "\u{e9}",
        ]), 0..8),
    ) {
        let text = words.join(" ");
        if let Ok(rule) = parse_ethernet_rule(&text) {
            let written = rule.to_string();
            prop_assert_eq!(parse_ethernet_rule(&written).unwrap(), rule);
        }
        let _ = text.parse::<Frame>();
    }
}
