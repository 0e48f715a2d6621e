// SPDX-License-Identifier: BSD-3-Clause
//! Reads any text as the rules of an access list. A rule that is read is written so that it is read
//! as the same rule, and the search finds the rule that comparing every rule finds.
#![no_main]

use acl::{AccessList, Action, AddressSet, CtStates, Fragment, Packet, Rule, Search, parse_rule};
use libfuzzer_sys::fuzz_target;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Most rules of a list: comparing every rule takes long.
const RULES: usize = 64;

fn find_set(name: &str) -> Option<Arc<AddressSet>> {
    let networks = ["10.0.0.0/8", "192.0.2.0/25", "2001:db8::/32"];
    let networks = networks.iter().filter_map(|network| network.parse().ok()).collect();
    (name == "s").then(|| Arc::new(AddressSet { name: name.to_owned(), networks }))
}

fn read(line: &str) -> Option<Rule> {
    let rule = parse_rule(line, &find_set).ok()?;
    let again = parse_rule(&rule.to_string(), &find_set);
    assert_eq!(again.map(|again| again.to_string()), Ok(rule.to_string()), "{line}");
    Some(rule)
}

/// Makes a packet of 16 bytes.
fn packet(bytes: &[u8; 16]) -> Packet {
    let [a, b, c, d, e, f, g, h, sport, dport, proto, flags, fragment, zone, ct, mark] = *bytes;
    let is_v6 = mark & 0x80 != 0;
    let address = |bytes: [u8; 4]| match is_v6 {
        false => Ipv4Addr::from(bytes).into(),
        true => {
            let [a, b, c, d] = bytes.map(u16::from);
            Ipv6Addr::new(0x2001, 0xdb8, a, b, 0, 0, c, d).into()
        }
    };
    let fragment = Fragment::ALL[usize::from(fragment % 3)].0;
    let has_header = fragment != Fragment::Later;
    let ports = [sport, dport].map(u16::from);
    Packet {
        src: address([a, b, c, d]),
        dst: address([e, f, g, h]),
        proto,
        ports: ([6, 17].contains(&proto) && has_header).then_some(ports),
        icmp: ([1, 58].contains(&proto) && has_header).then_some([sport, dport]),
        tcp_flags: (proto == 6 && has_header).then_some(flags),
        fragment,
        zone: zone.into(),
        ct: CtStates::ALL[usize::from(ct % 6)].0,
        mark: mark.into(),
    }
}

fuzz_target!(|data: &[u8]| {
    let cut = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let (text, packets) = data.split_at(cut);
    let text = String::from_utf8_lossy(text);
    let rules: Vec<_> = text.lines().filter_map(read).take(RULES).collect();
    let list = AccessList { name: "fuzz".to_owned(), rules, default: Action::Deny };
    let Ok(search) = Search::new(&list) else { return };
    for packet in packets.chunks_exact(16).filter_map(|bytes| bytes.first_chunk()).map(packet) {
        assert_eq!(search.find(&packet).rule, list.decide(&packet).rule, "{packet:?}");
    }
    acl::find_overlaps(&list);
});
