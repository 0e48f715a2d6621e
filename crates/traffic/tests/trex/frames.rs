// SPDX-License-Identifier: BSD-3-Clause
//! Tests the frames of a replay: addresses, ports, tags, times and checksums.

use crate::seen::{Seen, see};
use crate::{bind, capture, profile, udp_exchange};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use traffic::Side;
use traffic::trex::{
    Capture, Decimal, MAX_FRAME, Missing, Options, Profile, Replay, ReplayError, Split, Traffic,
};
use wire::FrameBuilder;
use wire::tcp::{ACK, FIN, SYN};

/// Returns time, side and headers of the next `count` frames.
fn take(replay: &mut Replay, count: usize) -> Vec<(u64, Side, Seen)> {
    let mut frame = vec![0xa5; MAX_FRAME];
    let mut next = || {
        let due_ns = replay.due()?;
        let (side, len) = replay.write(&mut frame);
        Some((due_ns, side, see(&frame[..len])))
    };
    (0..count).map_while(|_| next()).collect()
}

fn play(traffic: &Traffic, options: &Options, count: usize) -> Vec<(u64, Side, Seen)> {
    take(&mut traffic.replay(options).unwrap(), count)
}

fn v4(address: [u8; 4]) -> IpAddr {
    Ipv4Addr::from(address).into()
}

fn times(frames: &[(u64, Side, Seen)]) -> Vec<u64> {
    frames.iter().map(|(due_ns, ..)| *due_ns).collect()
}

#[test]
fn a_flow_has_its_addresses_and_the_server_port_of_the_capture() {
    let traffic = bind(&profile("", "cps: 10\nipg: 100\nrtt: 2000"), &udp_exchange());
    let frames = play(&traffic, &Options::default(), 6);
    let ms = 1_000_000;
    assert_eq!(
        times(&frames),
        [0, 2 * ms, 2 * ms + 100_000, 100 * ms, 102 * ms, 102 * ms + 100_000]
    );
    let sides: Vec<Side> = frames.iter().map(|(_, side, _)| *side).collect();
    assert_eq!(sides, [Side::A, Side::B, Side::B, Side::A, Side::B, Side::B]);
    for (flow, frames) in frames.chunks(3).enumerate() {
        let client = (v4([16, 0, 0, 1 + flow as u8]), 1024);
        let server = (v4([48, 0, 0, 1 + flow as u8]), 53);
        let ends: Vec<_> = frames.iter().map(|(_, _, seen)| (seen.src, seen.dst)).collect();
        assert_eq!(ends, [(client, server), (server, client), (server, client)]);
        let [a, b] = Options::default().macs;
        assert_eq!((frames[0].2.macs, frames[1].2.macs), ([a, b], [b, a]));
        assert_eq!(frames[0].2.payload, b"request");
        assert_eq!(frames[1].2.payload, [7; 333]);
    }
}

#[test]
fn gaps_may_be_those_of_the_capture() {
    let ms = 1_000_000;
    for (more, template, expected) in [
        ("cap_ipg: true", "cps: 1", [0, ms, 2 * ms]),
        ("", "cps: 1\ncap_ipg: true\nipg: 7", [0, ms, 2 * ms]),
        ("cap_ipg: true", "cps: 1\ncap_ipg: false\nipg: 7\nrtt: 9.5", [0, 9_500, 16_500]),
        ("", "cps: 1", [0, 10 * ms, 20 * ms]),
        ("cap_ipg: true\ncap_ipg_min: 1001\ncap_override_ipg: 30", "cps: 1", [0, 30_000, 60_000]),
        ("cap_ipg: true\ncap_ipg_min: 1000\ncap_override_ipg: 30", "cps: 1", [0, ms, 2 * ms]),
    ] {
        let traffic = bind(&profile(more, template), &udp_exchange());
        assert_eq!(times(&play(&traffic, &Options::default(), 3)), expected, "{more} {template}");
    }
}

#[test]
fn a_capture_that_goes_back_in_time_does_not() {
    let mut capture = udp_exchange();
    capture.frames[1].at_ns = 0;
    let traffic = bind(&profile("cap_ipg: true", "cps: 1"), &capture);
    assert_eq!(times(&play(&traffic, &Options::default(), 3)), [0, 0, 7_000_000]);
}

#[test]
fn clients_and_servers_come_in_turn_and_ports_after_a_round() {
    let text = profile("", "cps: 1000")
        .replace("clients_end: 16.0.0.255", "clients_end: 16.0.0.3")
        .replace("servers_end: 48.0.255.255", "servers_end: 48.0.0.2");
    let traffic = bind(&text, &Capture::by_formula("udp_64B.pcap").unwrap());
    let ends: Vec<_> = play(&traffic, &Options::default(), 8)
        .into_iter()
        .map(|(_, _, seen)| (seen.src, seen.dst.0))
        .collect();
    let expected = (0..8u8).map(|flow| {
        let port = 1024 + u16::from(flow / 3);
        ((v4([16, 0, 0, 1 + flow % 3]), port), v4([48, 0, 0, 1 + flow % 2]))
    });
    assert_eq!(ends, expected.collect::<Vec<_>>());
}

#[test]
fn a_burst_of_flows_has_one_pair_of_addresses() {
    let traffic =
        bind(&profile("", "cps: 1000\nw: 4"), &Capture::by_formula("udp_64B.pcap").unwrap());
    let frames = play(&traffic, &Options::default(), 8);
    let ms = 1_000_000;
    assert_eq!(times(&frames), [0, 0, 0, 0, 4 * ms, 4 * ms, 4 * ms, 4 * ms]);
    for (burst, frames) in frames.chunks(4).enumerate() {
        for (port, (_, _, seen)) in frames.iter().enumerate() {
            assert_eq!(seen.src, (v4([16, 0, 0, 1 + burst as u8]), 1024 + port as u16));
            assert_eq!(seen.dst.0, v4([48, 0, 0, 1 + burst as u8]));
        }
    }
}

#[test]
fn templates_share_a_pool_without_a_common_tuple() {
    let entry = |keys: &str| format!("    - {{name: a.pcap, {keys}}}\n");
    let text = profile("", "cps: 1000\nlimit: 40")
        .replace("clients_end: 16.0.0.255", "clients_end: 16.0.0.7")
        .replace("servers_end: 48.0.255.255", "servers_end: 48.0.0.1")
        + &entry("cps: 1000, limit: 30, w: 4")
        + &entry("cps: 1000")
        + &entry("cps: 1000, w: 5");
    let traffic = bind(&text, &Capture::by_formula("udp_64B.pcap").unwrap());
    let frames = play(&traffic, &Options::default(), 40_000);
    let mut often = HashMap::new();
    for (_, _, seen) in &frames {
        *often.entry((seen.src, seen.dst)).or_insert(0) += 1;
    }
    let repeated: Vec<i32> = often.values().copied().filter(|times| *times > 1).collect();
    assert_eq!(repeated.len(), 40 + 30, "only limited flows come again");
    assert!(repeated.iter().all(|times| (200..400).contains(times)), "{repeated:?}");
}

#[test]
fn a_pool_gives_all_its_tuples_before_one_comes_again() {
    // Bursts of five flows use 64510 of the 64512 ports.
    let text = profile("", "cps: 1000\nw: 5")
        .replace("clients_end: 16.0.0.255", "clients_end: 16.0.0.1")
        .replace("servers_end: 48.0.255.255", "servers_end: 48.0.0.1");
    let traffic = bind(&text, &Capture::by_formula("udp_64B.pcap").unwrap());
    let frames = play(&traffic, &Options::default(), 64_515);
    let ports: Vec<u16> = frames.iter().map(|(_, _, seen)| seen.src.1).collect();
    let distinct: HashSet<u16> = ports[..64_510].iter().copied().collect();
    assert_eq!(distinct.len(), 64_510);
    assert_eq!(ports[64_510..], ports[..5]);
}

#[test]
fn a_limit_repeats_the_same_flows() {
    let traffic = bind(&profile("", "cps: 1000\nlimit: 7"), &udp_exchange());
    let frames = play(&traffic, &Options::default(), 300);
    let starts: Vec<_> = frames.iter().filter(|it| it.2.payload == b"request").collect();
    for (number, pair) in starts.iter().zip(starts.iter().skip(7)).enumerate() {
        assert_eq!(pair.0.2, pair.1.2, "flow {number} repeats");
        assert_eq!(pair.1.0 - pair.0.0, 7_000_000, "after limit / cps");
    }
    let distinct: HashSet<_> = starts.iter().map(|it| &it.2).collect();
    assert_eq!(distinct.len(), 7);
}

#[test]
fn the_server_and_the_client_port_can_be_fixed() {
    let text =
        profile("", "cps: 100\nserver_addr: 9.9.9.9\none_app_server: true\nkeep_src_port: true");
    let traffic = bind(&text, &udp_exchange());
    for (_, side, seen) in play(&traffic, &Options::default(), 30) {
        let (client, server) =
            if side == Side::A { (seen.src, seen.dst) } else { (seen.dst, seen.src) };
        assert_eq!((client.1, server), (5000, (v4([9, 9, 9, 9]), 53)));
    }
}

#[test]
fn the_first_frame_can_be_of_the_server() {
    let traffic = bind(&profile("", "cps: 100\nfirst_from: server"), &udp_exchange());
    let frames = play(&traffic, &Options::default(), 3);
    assert_eq!(frames[0].1, Side::B);
    assert_eq!(frames[0].2.src, (v4([48, 0, 0, 1]), 5000));
    assert_eq!(frames[0].2.dst, (v4([16, 0, 0, 1]), 1024));
    assert_eq!(frames[1].1, Side::A);
}

#[test]
fn pools_have_names() {
    let more = "generator_clients:\n      - {name: c, ip_start: 1.0.0.1, ip_end: 1.0.0.2}\n    \
                generator_servers:\n      - {name: s, ip_start: 2.0.0.1, ip_end: 2.0.0.2}\n    \
                clients_start";
    let text = profile("", "cps: 1\nclient_pool: c\nserver_pool: s").replace("clients_start", more);
    let [(_, _, seen)] = &play(&bind(&text, &udp_exchange()), &Options::default(), 1)[..] else {
        panic!()
    };
    assert_eq!((seen.src.0, seen.dst.0), (v4([1, 0, 0, 1]), v4([2, 0, 0, 1])));
    // If the generator has no range of its own, the first pool is the default.
    let first = text.find("    clients_start").unwrap();
    let end = text.find("  cap_info").unwrap();
    let text = format!("{}{}", &text[..first], &text[end..]);
    let text = text.replace("      client_pool: c\n      server_pool: s\n", "");
    let [(_, _, seen)] = &play(&bind(&text, &udp_exchange()), &Options::default(), 1)[..] else {
        panic!()
    };
    assert_eq!((seen.src.0, seen.dst.0), (v4([1, 0, 0, 1]), v4([2, 0, 0, 1])));
}

#[test]
fn further_port_pairs_have_further_addresses() {
    let text = profile("", "cps: 1")
        .replace("clients_start", "dual_port_mask: 1.0.0.0\n    clients_start");
    let options = Options { port_pair: 2, ..Options::default() };
    let frames = play(&bind(&text, &udp_exchange()), &options, 1);
    assert_eq!((frames[0].2.src.0, frames[0].2.dst.0), (v4([18, 0, 0, 1]), v4([50, 0, 0, 1])));
}

#[test]
fn parity_decides_the_port_of_a_whole_flow() {
    let traffic = bind(&profile("", "cps: 100"), &udp_exchange());
    let options = Options { split: Split::Parity, ..Options::default() };
    for (_, side, seen) in play(&traffic, &options, 600) {
        let client = if seen.dst.1 == 53 { seen.src.0 } else { seen.dst.0 };
        let IpAddr::V4(client) = client else { panic!() };
        assert_eq!(side, if client.to_bits() % 2 == 0 { Side::A } else { Side::B });
        let macs = Options::default().macs;
        assert_eq!(seen.macs, [macs[side as usize], macs[side.other() as usize]]);
    }
}

#[test]
fn tags_follow_the_parity_of_the_client() {
    let text = profile("vlan: {enable: 1, vlan0: 100, vlan1: 200}", "cps: 10")
        .replace("servers_start: 48.0.0.1", "servers_start: 48.0.0.2");
    let frames = play(&bind(&text, &udp_exchange()), &Options::default(), 30);
    for (number, (_, _, seen)) in frames.iter().enumerate() {
        // The first client is odd.
        assert_eq!(seen.vlans, [if number / 3 % 2 == 0 { 200 } else { 100 }]);
    }
    // Tags of the capture stay, inside the tag of the profile.
    let tagged =
        FrameBuilder::ipv4([1; 4], [2; 4]).qinq(5).vlan(6).udp(1, 2).payload([0; 64]).build();
    let frames = play(&bind(&text, &capture([tagged])), &Options::default(), 1);
    assert_eq!(frames[0].2.vlans, [200, 5, 6]);
}

#[test]
fn mac_addresses_can_hold_the_addresses() {
    let macs = |mode: &str| {
        let text = profile(&format!("mac_override_by_ip: {mode}"), "cps: 1");
        let frames = play(&bind(&text, &udp_exchange()), &Options::default(), 2);
        [frames[0].2.macs, frames[1].2.macs]
    };
    let [a, b] = Options::default().macs;
    let (client, server) = ([2, 0, 16, 0, 0, 1], [2, 0, 48, 0, 0, 1]);
    assert_eq!(macs("0"), [[a, b], [b, a]]);
    assert_eq!(macs("1"), [[client, b], [b, a]]);
    assert_eq!(macs("2"), [[client, server], [server, client]]);
}

#[test]
fn frames_become_ipv6_behind_their_prefixes() {
    let text = profile(
        "src_ipv6: [0x2001, 0x0232, 0, 0, 0, 1]\ndst_ipv6: [0x3001, 0x0db8, 0, 0, 0, 2]",
        "cps: 1",
    );
    let client: Ipv6Addr = "2001:232::1:1000:1".parse().unwrap();
    let server: Ipv6Addr = "3001:db8::2:3000:1".parse().unwrap();
    let v4_frames = udp_exchange();
    let v6_frames = {
        let request = FrameBuilder::ipv6([1u8; 16], [2u8; 16]).udp(5000, 53);
        let answer = request.clone().reversed();
        capture([request.payload(b"request").build(), answer.payload([7; 333]).build()])
    };
    for captured in [v4_frames, v6_frames] {
        let frames = play(&bind(&text, &captured), &Options::default(), 2);
        assert_eq!(
            (frames[0].2.src, frames[0].2.dst),
            ((client.into(), 1024), (server.into(), 53))
        );
        assert_eq!(
            (frames[1].2.src, frames[1].2.dst),
            ((server.into(), 53), (client.into(), 1024))
        );
        assert_eq!(frames[1].2.payload, [7; 333]);
    }
}

#[test]
fn ipv6_without_prefixes_keeps_those_of_the_capture() {
    let frame = FrameBuilder::ipv6([0x11u8; 16], [0x22u8; 16]).tcp(5000, 80).flags(SYN).build();
    let frames = play(&bind(&profile("", "cps: 1"), &capture([frame])), &Options::default(), 1);
    let expected: Ipv6Addr = "1111:1111:1111:1111:1111:1111:1000:1".parse().unwrap();
    assert_eq!(frames[0].2.src, (expected.into(), 1024));
}

#[test]
fn udp_without_checksum_stays_so_over_ipv4_only() {
    let frame =
        || FrameBuilder::ipv4([1; 4], [2; 4]).udp(1, 2).checksum(0).payload([0; 64]).build();
    let frames = play(&bind(&profile("", "cps: 1"), &capture([frame()])), &Options::default(), 1);
    assert!(!frames[0].2.has_checksum);
    let text = profile("src_ipv6: [1,2,3,4,5,6]\ndst_ipv6: [1,2,3,4,5,6]", "cps: 1");
    let frames = play(&bind(&text, &capture([frame()])), &Options::default(), 1);
    assert!(frames[0].2.has_checksum);
}

#[test]
fn a_udp_checksum_is_never_0() {
    // With all client ports, the checksum of the datagram takes every value.
    let frame = FrameBuilder::ipv4([1; 4], [2; 4]).udp(1, 2).payload([0; 64]).build();
    let text = profile("", "cps: 1000000")
        .replace("clients_end: 16.0.0.255", "clients_end: 16.0.0.1")
        .replace("servers_end: 48.0.255.255", "servers_end: 48.0.0.1");
    let mut hits = 0;
    for payload in [0u16, 0x9000] {
        let mut frame = frame.clone();
        frame[50..52].copy_from_slice(&payload.to_be_bytes());
        let mut replay = bind(&text, &capture([frame])).replay(&Options::default()).unwrap();
        let mut buf = [0; 128];
        for _ in 0..64_512 {
            let (_, len) = replay.write(&mut buf);
            assert!(see(&buf[..len]).has_checksum);
            hits += u32::from(buf[40..42] == [0xff, 0xff]);
        }
    }
    assert!(hits > 0, "some sum is 0");
}

#[test]
fn bytes_behind_the_packet_stay() {
    let mut frame = FrameBuilder::ipv4([1; 4], [2; 4]).udp(1, 2).payload([0; 64]).build();
    frame.extend([1, 2, 3, 4]);
    let traffic = bind(&profile("", "cps: 1"), &capture([frame.clone()]));
    let mut buf = [0; 256];
    let (_, len) = traffic.replay(&Options::default()).unwrap().write(&mut buf);
    assert_eq!(len, frame.len());
    assert_eq!(buf[len - 4..len], [1, 2, 3, 4]);
    assert_eq!(see(&buf[..len]).trailer, 4);
    assert_eq!(traffic.longest_frame(), len);
}

#[test]
fn short_frames_are_padded() {
    let frame = FrameBuilder::ipv4([1; 4], [2; 4]).tcp(1, 2).flags(ACK).build();
    let traffic = bind(&profile("", "cps: 1"), &capture([frame[..54].to_vec()]));
    let frames = play(&traffic, &Options::default(), 1);
    assert_eq!(frames[0].2.trailer, 6);
    assert_eq!(traffic.load(Decimal::ONE, Split::Side).total().captured_bits_per_second, 480.0);
}

/// Makes a capture of a control connection and of a data flow.
fn two_flows() -> Capture {
    let control = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(5000, 554);
    let data = FrameBuilder::ipv4([10, 0, 0, 2], [10, 0, 0, 1]).udp(6970, 6971).payload([1; 100]);
    capture([
        control.clone().flags(SYN).build(),
        control.clone().reversed().flags(SYN | ACK).build(),
        data.build(),
        control.flags(FIN | ACK).build(),
    ])
}

#[test]
fn further_flows_need_a_plugin_and_keep_their_ports() {
    let parsed = crate::parse(&profile("", "cps: 1"));
    let error = parsed.bind(|_| Some(two_flows()), Missing::Refuse).map(|_| ()).unwrap_err();
    assert!(error.to_string().starts_with("p.yaml:8: a.pcap: frame 3 belongs to a second flow"));
    let text = profile("", "cps: 1\nplugin_id: 1");
    let frames = play(&bind(&text, &two_flows()), &Options::default(), 4);
    let (client, server) = (v4([16, 0, 0, 1]), v4([48, 0, 0, 1]));
    assert_eq!((frames[0].2.src, frames[0].2.dst), ((client, 1024), (server, 554)));
    assert_eq!((frames[2].2.src, frames[2].2.dst), ((server, 6970), (client, 6971)));
    assert_eq!(frames[2].1, Side::B);
    // A third host takes the role of the first frame's host that its packet does not have.
    let between = |src, dst| FrameBuilder::ipv4(src, dst).udp(1, 2).payload([0; 64]).build();
    let mut captured = two_flows();
    captured.frames[2].bytes = between([10, 0, 0, 3], [10, 0, 0, 1]);
    captured.frames[3].bytes = between([10, 0, 0, 3], [10, 0, 0, 2]);
    let frames = play(&bind(&text, &captured), &Options::default(), 4);
    assert_eq!((frames[2].2.src, frames[2].2.dst), ((server, 1), (client, 2)));
    assert_eq!((frames[3].2.src, frames[3].2.dst), ((client, 1), (server, 2)));
    captured.frames[3].bytes = between([10, 0, 0, 3], [10, 0, 0, 4]);
    let error = crate::parse(&text).bind(|_| Some(captured.clone()), Missing::Refuse);
    assert!(error.map(|_| ()).unwrap_err().to_string().contains("frame 4 has no host in common"));
}

#[test]
fn frames_that_cannot_be_rewritten_are_refused() {
    let udp = FrameBuilder::ipv4([1; 4], [2; 4]).udp(1, 2).payload([0; 64]).build();
    let changed = |at: usize, value: u8| {
        let mut frame = udp.clone();
        frame[at] = value;
        frame
    };
    let icmp = FrameBuilder::ipv4([1; 4], [2; 4]).icmp_echo(1, 2).payload([0; 64]).build();
    for (frame, words) in [
        (udp[..udp.len() - 1].to_vec(), "ends before its IP packet"),
        (udp[..20].to_vec(), "ends before its IP packet"),
        (changed(20, 0x20), "is an IP fragment"),
        (changed(21, 0x08), "is an IP fragment"),
        (changed(23, 47), "is neither TCP nor UDP"),
        (changed(14, 0x65), "is not an IPv4 or IPv6 packet"),
        (changed(39, 255), "ends before its IP packet"),
        (changed(39, 7), "ends before its IP packet"),
        (FrameBuilder::ethernet(0x0806).payload([0; 64]).build(), "is not an IPv4 or IPv6"),
        (FrameBuilder::ipv4([1; 4], [2; 4]).udp(1, 2).payload([0; 9800]).build(), "is longer than"),
    ] {
        let bound = crate::parse(&profile("", "cps: 1"))
            .bind(|_| Some(capture([frame.clone()])), Missing::Refuse);
        let error = bound.map(|_| ()).expect_err(words).to_string();
        assert!(
            error.starts_with("p.yaml:8: a.pcap: frame 1 ") && error.contains(words),
            "{error}"
        );
    }
    // ICMP has no ports, and cannot become IPv6.
    let traffic = bind(&profile("", "cps: 1"), &capture([icmp.clone()]));
    let mut buf = [0; 256];
    let (_, len) = traffic.replay(&Options::default()).unwrap().write(&mut buf);
    assert_eq!(buf[26..34], [16, 0, 0, 1, 48, 0, 0, 1]);
    assert_eq!(buf[34..len], icmp[34..]);
    let text = profile("src_ipv6: [1,2,3,4,5,6]\ndst_ipv6: [1,2,3,4,5,6]", "cps: 1");
    let bound = crate::parse(&text).bind(|_| Some(capture([icmp.clone()])), Missing::Refuse);
    assert!(bound.map(|_| ()).unwrap_err().to_string().contains("is ICMP of IPv4"));
}

#[test]
fn a_replay_has_its_bounds() {
    let traffic = bind(&profile("", "cps: 1000\nipg: 1000000\nrtt: 1000000"), &udp_exchange());
    let with = |multiplier: &str| Options {
        multiplier: multiplier.parse().unwrap(),
        ..Options::default()
    };
    for multiplier in ["0", "1000000.1"] {
        let error = traffic.replay(&with(multiplier)).map(|_| ()).unwrap_err();
        assert!(matches!(error, ReplayError::Multiplier { .. }), "{error}");
    }
    // Each flow takes two seconds, and three million begin per second.
    let error = traffic.replay(&with("3000")).map(|_| ()).unwrap_err();
    assert!(matches!(error, ReplayError::ActiveFlows { flows: 6_000_000.. }), "{error}");
    let mut replay = traffic.replay(&with("1")).unwrap();
    take(&mut replay, 20_000);
    assert!((1990..=2002).contains(&replay.active_flows()), "{}", replay.active_flows());
}

#[test]
fn a_random_pool_has_ports_for_a_burst_that_is_longer_than_the_limit() {
    let text = profile("", "cps: 1000\nw: 3\nlimit: 1")
        .replace("clients_start", "distribution: random\n    clients_start");
    let frames = play(&bind(&text, &udp_exchange()), &Options::default(), 9);
    assert!(frames.iter().all(|it| it.2.src.1 == 1024 || it.2.dst.1 == 1024));
}

#[test]
fn a_replay_ends_where_it_should() {
    let traffic = bind(&profile("", "cps: 1000"), &Capture::by_formula("udp_64B.pcap").unwrap());
    let options = Options { end_ns: Some(50_000_000), ..Options::default() };
    let mut replay = traffic.replay(&options).unwrap();
    assert_eq!(take(&mut replay, 1000).len(), 50);
    assert_eq!(replay.due(), None);
}

/// Makes any capture of one flow: TCP or UDP, IPv4 or IPv6, tagged or not, frames of both sides.
fn any_capture() -> impl Strategy<Value = Capture> {
    let steps =
        prop::collection::vec((any::<bool>(), 0usize..1300, 0u64..3_000_000, 0usize..5), 1..6);
    (any::<bool>(), any::<bool>(), any::<bool>(), steps).prop_map(
        |(is_tcp, is_ipv6, tag, steps)| {
            let base = match is_ipv6 {
                true => FrameBuilder::ipv6([0x20u8; 16], [0x30u8; 16]),
                false => FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]),
            };
            let base = if tag { base.vlan(7) } else { base };
            let mut at_ns = 0;
            let mut capture = Capture::default();
            for (is_back, len, gap_ns, trailer) in steps {
                let payload: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
                let frame = match is_tcp {
                    true => {
                        let frame = base.clone().tcp(5000, 80).flags(ACK).payload(payload);
                        if is_back { frame.reversed().build() } else { frame.build() }
                    }
                    false => {
                        let frame = base.clone().udp(5000, 53).payload(payload);
                        if is_back { frame.reversed().build() } else { frame.build() }
                    }
                };
                let mut bytes = frame;
                bytes.extend(vec![0xee; trailer]);
                at_ns += gap_ns;
                capture.frames.push(traffic::trex::CapturedFrame { at_ns, bytes });
            }
            capture
        },
    )
}

proptest! {
    #[test]
    fn frames_are_correct_and_in_order(
        capture in any_capture(),
        second in any_capture(),
        keys in (
            prop::sample::select(vec!["seq", "random", "normal"]),
            any::<bool>(), any::<bool>(), any::<bool>(), 0u8..3,
        ),
        cps in 1u32..5000,
        burst in 1u32..5,
        limit in prop::option::of(1u32..300),
        split in prop::sample::select(vec![Split::Side, Split::Parity]),
    ) {
        let (distribution, has_vlan, is_ipv6, has_cap_ipg, mac_override) = keys;
        let mut more = format!("cap_ipg: {has_cap_ipg}\nmac_override_by_ip: {mac_override}\n");
        if has_vlan {
            more += "vlan: {enable: 1, vlan0: 100, vlan1: 200}\n";
        }
        if is_ipv6 {
            more += "src_ipv6: [1,2,3,4,5,6]\ndst_ipv6: [6,5,4,3,2,1]\n";
        }
        let mut template = format!("cps: {cps}\nw: {burst}\nipg: 70\nrtt: 900\n");
        if let Some(limit) = limit {
            template += &format!("limit: {limit}\n");
        }
        let text = profile(&more, &template)
            .replace("clients_start", &format!("distribution: {distribution}\n    clients_start"))
            + "    - name: b.pcap\n      cps: 77.7\n";
        let captures =
            |name: &str| Some(if name == "a.pcap" { capture.clone() } else { second.clone() });
        let traffic = Profile::parse(&text, "p").unwrap()
            .bind(captures, Missing::Refuse)
            .unwrap();
        let options = Options { split, ..Options::default() };
        let frames = play(&traffic, &options, 500);
        prop_assert_eq!(frames.len(), 500);
        prop_assert!(frames.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        let is_tagged = |seen: &Seen| seen.vlans.first().is_some_and(|id| *id >= 100);
        prop_assert!(frames.iter().all(|it| is_tagged(&it.2) == has_vlan));
    }
}

/// Keys of a profile and of its template that change how frames are prepared.
const SETTINGS: [(&str, &str); 4] = [
    ("", "cps: 100"),
    ("src_ipv6: [1,2,3,4,5,6]\ndst_ipv6: [6,5,4,3,2,1]", "cps: 100\nplugin_id: 2"),
    ("vlan: {enable: 1, vlan0: 1, vlan1: 2}", "cps: 100\nkeep_src_port: true"),
    ("mac_override_by_ip: 2\ncap_ipg: true", "cps: 100\nplugin_id: 1\nfirst_from: server"),
];

proptest! {
    /// A damaged capture is refused or sent, without a panic.
    #[test]
    fn damaged_captures_are_refused_or_sent(
        mut captured in any_capture(),
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), 12usize..80, any::<u8>()),
            0..4,
        ),
        cut in prop::option::of((any::<prop::sample::Index>(), 0usize..80)),
        (more, template) in prop::sample::select(SETTINGS.to_vec()),
    ) {
        for (frame, at, value) in changes {
            let bytes = &mut frame.get_mut(&mut captured.frames).bytes;
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        if let Some((frame, len)) = cut {
            frame.get_mut(&mut captured.frames).bytes.truncate(len);
        }
        let bound = crate::parse(&profile(more, template))
            .bind(|_| Some(captured.clone()), Missing::Refuse);
        if let Ok(traffic) = bound {
            let mut replay = traffic.replay(&Options::default()).unwrap();
            let mut frame = vec![0; traffic.longest_frame()];
            for _ in 0..20 {
                replay.write(&mut frame);
            }
        }
    }

    /// A capture of any bytes is refused or accepted, without a panic.
    #[test]
    fn captures_of_any_bytes_are_refused_or_sent(
        bytes in prop::collection::vec(any::<u8>(), 0..120),
        kind in prop::sample::select(vec![None, Some([0x08, 0x00]), Some([0x86, 0xdd])]),
    ) {
        let mut bytes = bytes;
        if let (Some(kind), true) = (kind, bytes.len() > 14) {
            bytes[12..14].copy_from_slice(&kind);
        }
        let _ = crate::parse(&profile("", "cps: 1"))
            .bind(|_| Some(capture([bytes.clone()])), Missing::Refuse);
    }
}
