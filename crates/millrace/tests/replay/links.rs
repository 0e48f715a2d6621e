// SPDX-License-Identifier: BSD-3-Clause
//! The same IP packets under every link type that is read, and one that is not.

use crate::{START_NS, datagram, flows_of, run, summary_of};
use serde_json::json;
use testkit::capture::{Packet, Pcap};

/// A capture of one IPv4 packet behind `link`, of which the capture holds all but `cut` bytes.
fn capture(link_type: u32, link: &[u8], cut: usize) -> Vec<u8> {
    let mut packet = Packet::new(START_NS, [link, &datagram(1000, 20).build_packet()[..]].concat());
    packet.bytes.truncate(packet.bytes.len() - cut);
    Pcap { network: link_type, ..Pcap::plain() }.file(&[packet])
}

#[test]
fn ip_packets_are_found_behind_every_link_header_that_is_read() {
    let mut sll = [0; 16];
    sll[14] = 8;
    let mut sll2 = [0; 20];
    sll2[0] = 8;
    for (link_type, link) in [
        (101, &[][..]),
        (228, &[]),
        (0, &[2, 0, 0, 0]),
        (108, &[0, 0, 0, 2]),
        (113, &sll),
        (276, &sll2),
        (9, &[0xff, 3, 0, 0x21]),
        (104, &[0x0f, 0, 8, 0]),
    ] {
        for cut in [0, 10] {
            let run = flows_of(&capture(link_type, link, cut));
            run.assert_good();
            let records = run.records();
            let bytes = 48 + link.len();
            let orig = json!({"packets": 1, "bytes": bytes, "ip_bytes": 48, "tcp_flags": 0});
            assert_eq!(records[0]["orig"], orig, "link type {link_type}");
            assert_eq!(records[0]["sport"], 1000);
        }
    }
}

#[test]
fn vlan_tags_behind_a_cooked_header_are_seen() {
    let mut sll = [0; 20];
    sll[14] = 0x81;
    sll[17] = 42;
    sll[18] = 8;
    let records = flows_of(&capture(113, &sll, 0)).records();
    assert_eq!(records[0]["vlan"], json!([42]));
}

#[test]
fn other_link_types_are_passed_counted_and_named_once() {
    let packet = Packet::new(START_NS, vec![0; 60]);
    let capture =
        Pcap { network: 127, ..Pcap::plain() }.file(&[packet.clone(), packet.clone(), packet]);
    let run = summary_of(&capture);
    assert_eq!(run.status, Some(0));
    let message = "link type 127 (IEEE 802.11 with radiotap header) is not read";
    assert_eq!(run.stderr.matches(message).count(), 1);
    let summary = run.summary();
    assert_eq!(summary["passed"]["link_type"], 3);
    let ledger = json!({"rx": 3, "tx": 3, "dropped": 0, "held": 0, "balanced": true});
    assert_eq!(summary["ledger"], ledger);
}

#[test]
fn a_packet_that_ends_in_its_link_header_is_counted_with_a_reason() {
    let file = |original_len| {
        let packet = Packet { time_ns: START_NS, bytes: vec![0; 10], original_len };
        Pcap { network: 113, ..Pcap::plain() }.file(&[packet])
    };
    assert_eq!(summary_of(&file(10)).summary()["passed"]["ethernet_truncated"], 1);
    assert_eq!(summary_of(&file(80)).summary()["passed"]["capture_cut"], 1);
    run(&["-"], &file(10)).assert_good();
}
