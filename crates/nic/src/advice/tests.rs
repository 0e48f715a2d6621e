// SPDX-License-Identifier: BSD-3-Clause
//! Tests that the model accepts each proposed rule, and that a proposal keeps given values.

use super::*;
use crate::flow::{Command, parse, print_rule};
use twin::personality::NAMES;

fn rule(text: &str) -> Rule {
    match parse(&format!("flow create 0 {text}"), 4) {
        Ok(Some(Command::Create { rule, .. })) => rule,
        other => panic!("{text}: {other:?}"),
    }
}

fn advice(personality: &str, text: &str) -> Advice {
    advise(&Personality::named(personality).unwrap(), &rule(text), 4)
}

#[test]
fn the_articles_first_command_becomes_one_that_works() {
    let advice =
        advice("x710-17.02", "ingress pattern eth / ipv4 / udp / end actions queue index 6 / end");
    let instead = advice.instead.clone().expect("a full tuple");
    assert_eq!(
        print_rule(&instead),
        "ingress pattern eth / ipv4 src is 192.0.2.1 dst is 198.51.100.1 / \
         udp src is 49152 dst is 443 / end actions queue index 3 / end"
    );
    assert!(advice.facts[0].contains("ipv4.src, ipv4.dst, udp.src, udp.dst"), "{advice:?}");
}

/// A NIC refuses some rules for a port alone that it accepts in a switch.
#[test]
fn rules_between_ports_keep_their_ports() {
    let to_1 = "transfer pattern port_id id is 0 / eth / end actions port_id id 1 / end";
    let facts = advice("ideal", to_1).facts.join(" ");
    assert!(
        facts.contains("other rules may exclude this one") && facts.contains("switch="),
        "{facts}"
    );
    let spread = "transfer pattern represented_port ethdev_port_id is 0 / eth / end \
                  actions mark id 1 / represented_port ethdev_port_id 1 / end";
    let advice = advice("cx5", spread);
    assert!(advice.facts.concat().contains("with transfer, instead: port_id|represented_port"));
    let instead = advice.instead.map(|rule| print_rule(&rule));
    assert_eq!(instead, Some(spread.replace("mark id 1 / ", "")));
}

#[test]
fn what_was_given_is_kept() {
    let cases = [
        (
            "x710",
            "ingress pattern ipv4 src is 10.0.0.1 / tcp / end actions mark id 5 / count / end",
            "ingress pattern eth / ipv4 src is 10.0.0.1 / tcp / end actions mark id 5 / end",
        ),
        (
            "e810",
            "group 2 ingress pattern eth / ipv4 src spec 10.0.0.1 src prefix 24 / end \
             actions mark id 7 / end",
            "ingress pattern eth / ipv4 src is 10.0.0.1 / end actions mark id 7 / end",
        ),
        // Without a mark, the switch engine takes it, with the mask of the prefix.
        (
            "e810",
            "ingress pattern eth / ipv4 src spec 10.0.0.1 src prefix 24 / tcp flags is 2 / end \
             actions drop / end",
            "ingress pattern eth / ipv4 src spec 10.0.0.1 src prefix 24 / tcp / end \
             actions drop / end",
        ),
        (
            "cx5",
            "ingress pattern eth / udp dst is 53 / end actions mark id 9 / end",
            "ingress pattern eth / ipv4 / udp dst is 53 / end actions queue index 0 / mark id 9 \
             / end",
        ),
        // For UDP it does not match the protocol of IP: the value is removed.
        (
            "x710",
            "ingress pattern eth / ipv4 proto is 17 dst is 192.0.2.7 / udp dst is 9 / end \
             actions drop / end",
            "ingress pattern eth / ipv4 dst is 192.0.2.7 / udp dst is 9 / end actions drop / end",
        ),
        (
            "x710",
            "ingress pattern eth dst is 02:00:00:00:00:05 / ipv4 src is 10.0.0.1 / end \
             actions drop / end",
            "ingress pattern eth / ipv4 src is 10.0.0.1 / end actions drop / end",
        ),
    ];
    for (personality, refused, expected) in cases {
        let advice = advice(personality, refused);
        let instead = advice.instead.as_ref().map(print_rule);
        assert_eq!(instead.as_deref(), Some(expected), "{personality}: {refused}: {advice:?}");
        assert!(!advice.facts.is_empty());
    }
}

/// Facts about a header name the fields that may be masked in its list of headers.
#[test]
fn facts_are_those_of_the_headers() {
    let rule = "ingress pattern eth / ipv4 proto is 17 / udp / end actions drop / end";
    let facts = advice("x710", rule).facts.join("\n");
    assert!(facts.contains("dst, src, tos, ttl with") && !facts.contains("proto"), "{facts}");
}

/// The personality accepts everything that is advised; for a valid rule, no other is advised.
#[test]
fn advice_holds() {
    let patterns = [
        "eth",
        "ipv4",
        "eth / ipv4 / udp",
        "eth / ipv6 / tcp dst is 80",
        "vlan / ipv4",
        "udp",
        "eth / ipv4 src spec 1.2.3.4 src prefix 9 / sctp",
        "eth type is 0x88cc",
        "ipv4 ttl is 9",
        "eth / ipv4 / udp / vxlan vni is 5 / eth / ipv4 / tcp",
        "eth / ipv4 / tcp flags is 2",
        "eth / ipv6 src is ::1 / ipv6_frag_ext",
        "ipv4 / eth",
        "eth / ipv4 / icmp type is 8",
    ];
    let actions = [
        "drop",
        "mark id 1",
        "queue index 9",
        "count",
        "mark id 1 / queue index 1",
        "rss queues 0 2 end",
        "jump group 1",
        "flag / drop",
        "passthru",
    ];
    let mut advised = 0;
    for name in NAMES {
        let personality = Personality::named(name).unwrap();
        for (pattern, action) in patterns.iter().flat_map(|p| actions.iter().map(move |a| (p, a))) {
            let text = format!("ingress pattern {pattern} / end actions {action} / end");
            let rule = rule(&text);
            let is_good = ModelRule::of(&rule).unwrap().judged(&personality, 4).is_ok();
            let advice = advise(&personality, &rule, 4);
            let Some(instead) = advice.instead else { continue };
            assert!(!is_good, "{name}: {text}");
            let judged = ModelRule::of(&instead).unwrap().judged(&personality, 4);
            assert_eq!(judged, Ok(()), "{name}: {text}");
            advised += 1;
        }
    }
    assert!(advised > 500, "only {advised} times");
}

#[test]
fn ports_are_known_by_what_they_play_or_by_their_driver() {
    let name =
        |devargs, driver| personality_of_port(devargs, driver).map(|known| known.unwrap().name);
    assert_eq!(name("net_twin0", "net_twin"), Some("ideal".to_owned()));
    assert_eq!(name("net_twin0,wire=w,personality=e810", "net_twin"), Some("e810".to_owned()));
    assert_eq!(name("0000:18:00.0", "net_i40e"), Some("x710".to_owned()));
    assert_eq!(name("net_tap0", "net_tap"), None);
    assert!(personality_of_port("net_twin0,personality=x", "net_twin").unwrap().is_err());
}
