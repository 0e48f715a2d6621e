// SPDX-License-Identifier: BSD-3-Clause
//! One conversation in every format, byte order and time unit gives the same flow records.

use crate::{SECOND_NS, START_NS, flows_of, run, summary_of};
use serde_json::{Value, json};
use testkit::capture::{ETHERNET, Order, Packet, Pcap, Pcapng, gzip};
use wire::{FrameBuilder, tcp};

const ORDERS: [Order; 2] = [Order::Little, Order::Big];

/// Times are multiples of 1/8 s, which every time unit can say.
fn conversation() -> Vec<Packet> {
    let v4 = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]);
    let tcp = v4.clone().qinq(100).vlan(7).tcp(40_000, 443);
    let v6 =
        FrameBuilder::ipv6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], [0x2001, 0xdb8, 0, 0, 0, 0, 0, 2]);
    let udp = v6.udp(5353, 53);
    let echo = v4.payload([0; 56]);
    let frames = [
        (0, tcp.clone().flags(tcp::SYN)),
        (0, udp.clone().payload([0; 12])),
        (125, tcp.clone().flags(tcp::SYN | tcp::ACK).ack(1).reversed()),
        (250, tcp.clone().flags(tcp::ACK | tcp::PSH).seq(1).ack(1).payload([0; 200])),
        (375, echo.clone().icmp_echo(77, 1)),
        (500, echo.icmp_echo(77, 1).reversed()),
        (625, tcp.clone().flags(tcp::FIN | tcp::ACK).seq(201).ack(1)),
        (750, tcp.flags(tcp::FIN | tcp::ACK).seq(1).ack(202).reversed()),
        (875, FrameBuilder::ethernet(0x0806).payload([0; 28])),
        (1_000_000, udp.payload([0; 20]).reversed()),
    ];
    let packet = |(ms, frame): &(u64, FrameBuilder)| {
        let mut packet = Packet::new(START_NS + ms * 1_000_000, frame.build());
        // A snapshot length that leaves the headers whole.
        packet.bytes.truncate(80);
        packet
    };
    frames.iter().map(packet).collect()
}

/// Time of the last packet.
const LATER_NS: u64 = START_NS + 1000 * SECOND_NS;

fn expected() -> Vec<Value> {
    let none = json!({"packets": 0, "bytes": 0, "ip_bytes": 0, "tcp_flags": 0});
    vec![
        json!({
            "ip_version": 6, "proto": 17, "src": "2001:db8::1", "sport": 5353,
            "dst": "2001:db8::2", "dport": 53, "zone": 0, "vlan": [],
            "start_ns": START_NS, "start_us": START_NS / 1000,
            "end_ns": START_NS, "end_us": START_NS / 1000,
            "orig": {"packets": 1, "bytes": 74, "ip_bytes": 60, "tcp_flags": 0},
            "reply": none, "state": "new", "end_reason": "idle", "mark": 0, "label": "0x0",
            "ct_state": "udp_first", "assured": false,
        }),
        json!({
            "ip_version": 4, "proto": 6, "src": "10.0.0.1", "sport": 40_000,
            "dst": "10.0.0.2", "dport": 443, "zone": 100, "vlan": [100, 7],
            "start_ns": START_NS, "start_us": START_NS / 1000,
            "end_ns": START_NS + 750_000_000, "end_us": (START_NS + 750_000_000) / 1000,
            "orig": {"packets": 3, "bytes": 386, "ip_bytes": 320, "tcp_flags": 27},
            "reply": {"packets": 2, "bytes": 124, "ip_bytes": 80, "tcp_flags": 19},
            "state": "closing", "end_reason": "fin", "mark": 0, "label": "0x0",
            "ct_state": "LAST_ACK", "assured": true,
        }),
        json!({
            "ip_version": 4, "proto": 1, "src": "10.0.0.1", "sport": 77,
            "dst": "10.0.0.2", "dport": 8 * 256, "zone": 0, "vlan": [],
            "start_ns": START_NS + 375_000_000, "start_us": (START_NS + 375_000_000) / 1000,
            "end_ns": START_NS + 500_000_000, "end_us": (START_NS + 500_000_000) / 1000,
            "orig": {"packets": 1, "bytes": 98, "ip_bytes": 84, "tcp_flags": 0},
            "reply": {"packets": 1, "bytes": 98, "ip_bytes": 84, "tcp_flags": 0},
            "state": "open", "end_reason": "idle", "mark": 0, "label": "0x0",
            "ct_state": "icmp_reply", "assured": true,
        }),
        json!({
            "ip_version": 6, "proto": 17, "src": "2001:db8::2", "sport": 53,
            "dst": "2001:db8::1", "dport": 5353, "zone": 0, "vlan": [],
            "start_ns": LATER_NS, "start_us": LATER_NS / 1000,
            "end_ns": LATER_NS, "end_us": LATER_NS / 1000,
            "orig": {"packets": 1, "bytes": 82, "ip_bytes": 68, "tcp_flags": 0},
            "reply": none, "state": "new", "end_reason": "exit", "mark": 0, "label": "0x0",
            "ct_state": "udp_first", "assured": false,
        }),
    ]
}

/// The packets in a pcapng file whose clock is `resolution` and `offset_s`, as blocks of both
/// kinds that have a time.
fn timed_pcapng(order: Order, resolution: u8, offset_s: i64) -> Vec<u8> {
    let exponent = u32::from(resolution & 0x7f);
    let units_per_second =
        if resolution & 0x80 == 0 { 10_u128.pow(exponent) } else { 1 << exponent };
    let mut file = Pcapng::new(order).clock(resolution, offset_s);
    for (i, packet) in conversation().iter().enumerate() {
        let since_offset = i128::from(packet.time_ns) - i128::from(offset_s) * 1_000_000_000;
        let ticks = (since_offset as u128 * units_per_second / 1_000_000_000) as u64;
        file = if i % 2 == 0 {
            file.enhanced(0, ticks, packet)
        } else {
            file.obsolete(0, ticks, packet)
        };
    }
    file.bytes
}

#[test]
fn pcap_in_both_byte_orders_and_time_units() {
    for order in ORDERS {
        for nanoseconds in [false, true] {
            let file = Pcap { order, nanoseconds, ..Pcap::plain() }.file(&conversation());
            for file in [gzip(&file), file] {
                let run = flows_of(&file);
                run.assert_good();
                assert_eq!(run.records(), expected(), "{order:?} {nanoseconds}");
            }
        }
    }
}

#[test]
fn pcapng_in_both_byte_orders_and_every_time_unit() {
    for order in ORDERS {
        for (resolution, offset_s) in
            [(3, 0), (6, 0), (9, 0), (9, 1_600_000_000), (6, -3600), (0x80 | 3, 0), (0x80 | 30, 0)]
        {
            let file = timed_pcapng(order, resolution, offset_s);
            for file in [gzip(&file), file] {
                let run = flows_of(&file);
                run.assert_good();
                assert_eq!(run.records(), expected(), "{order:?} {resolution:#x} {offset_s}");
            }
        }
    }
}

#[test]
fn pcapng_sections_have_byte_orders_and_interfaces_of_their_own() {
    let packets = conversation();
    let mut file = Pcapng::new(Order::Big).clock(9, 0).clock(6, 0).block(0x0bad, &[0; 20]);
    for (i, packet) in packets.iter().enumerate() {
        let (interface, unit) = if i % 2 == 0 { (0, 1) } else { (1, 1000) };
        if i == 5 {
            file = file.section(Order::Little).clock(9, 0).clock(6, 0).block(5, &[0; 12]);
        }
        file = file.enhanced(interface, packet.time_ns / unit, packet);
    }
    let run = flows_of(&file.bytes);
    run.assert_good();
    assert_eq!(run.records(), expected());
}

#[test]
fn simple_packets_are_counted_at_the_time_of_the_packet_before() {
    let packets = conversation();
    let mut file = Pcapng::new(Order::Little).interface(ETHERNET, 80, &[]);
    file = file.enhanced(0, START_NS / 1000, &packets[4]).simple(&packets[5]).simple(&packets[3]);
    let run = flows_of(&file.bytes);
    run.assert_good();
    let records = run.records();
    assert_eq!(records.len(), 2);
    for record in records {
        assert_eq!(record["start_ns"], START_NS);
        assert_eq!(record["end_ns"], START_NS);
    }
}

#[test]
fn a_capture_that_says_less_than_it_holds_counts_what_it_holds() {
    let mut packet = conversation().swap_remove(1);
    packet.original_len = 10;
    let run = flows_of(&Pcap::plain().file(&[packet]));
    assert_eq!(run.records()[0]["orig"]["bytes"], 74);
}

#[test]
fn the_summary_accounts_for_every_packet() {
    let run = summary_of(&Pcap::plain().file(&conversation()));
    run.assert_good();
    let summary = run.summary();
    assert_eq!(summary["duration_s"], 1000.0);
    let ledger = json!({"rx": 10, "tx": 10, "dropped": 0, "held": 0, "balanced": true});
    assert_eq!(summary["ledger"], ledger);
    assert_eq!(summary["passed"]["non_ip"], 1);
    assert_eq!(summary["passed"]["fragment"], 0);
    let flows = json!({
        "active": 0, "created": 4, "table_full": 0, "records_lost": 0,
        "ended": {"idle": 2, "fin": 1, "rst": 0, "reuse": 0, "evicted": 0, "flushed": 0, "exit": 1},
    });
    assert_eq!(summary["flows"], flows);
    let members: Vec<&str> = summary.as_object().unwrap().keys().map(String::as_str).collect();
    let promised = [
        "version",
        "dpdk",
        "duration_s",
        "ports",
        "workers",
        "directions",
        "cpu_util_percent",
        "drops",
        "passed",
        "invalid",
        "ignored",
        "ledger",
        "flows",
        "offload",
    ];
    assert!(promised.iter().all(|member| members.contains(member)), "{members:?}");
}

#[test]
fn the_report_names_what_happened() {
    let run = run(&["-"], &Pcap::plain().file(&conversation()));
    run.assert_good();
    for line in [
        "ledger: 10 received = 10 sent + 0 dropped + 0 held: balanced",
        "flows: 4 created, 0 active",
        "non_ip",
        "busiest flows (4 of 4, by bytes)",
        "[2001:db8::1]:5353",
    ] {
        assert!(run.stdout.contains(line), "{line:?} not in {}", run.stdout);
    }
}

#[test]
fn lengths_of_old_versions_come_in_either_order() {
    let packet = |time_ns, payload, captured| {
        let mut packet = Packet::new(time_ns, crate::datagram(1000, payload).build());
        packet.bytes.truncate(captured);
        packet
    };
    let packets = [packet(START_NS, 0, 42), packet(START_NS + SECOND_NS, 20, 50)];
    for order in ORDERS {
        // The version, and whether the original length is the first one.
        let versions =
            [((2, 4), false), ((2, 3), false), ((2, 3), true), ((2, 2), true), ((543, 0), true)];
        for ((major, minor), is_exchanged) in versions {
            let pcap = Pcap { order, ..Pcap::plain() };
            let mut file = pcap.header();
            file[4..6].copy_from_slice(&order.u16(major));
            file[6..8].copy_from_slice(&order.u16(minor));
            for packet in &packets {
                let mut record = pcap.record(packet);
                if is_exchanged {
                    record[8..16].rotate_left(4);
                }
                file.extend(record);
            }
            let run = flows_of(&file);
            run.assert_good();
            let orig = json!({"packets": 2, "bytes": 42 + 62, "ip_bytes": 28 + 48, "tcp_flags": 0});
            assert_eq!(run.records()[0]["orig"], orig, "{order:?} {major}.{minor}");
        }
    }
}
