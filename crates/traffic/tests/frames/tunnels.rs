// SPDX-License-Identifier: BSD-3-Clause
//! Tests streams in VXLAN and GTP-U with three readers: etherparse, which reads the headers around
//! and inside, tshark, which also reads the tunnels, and the verifier.

use crate::seen::{Seen, see_inside};
use crate::streams::{SEED, Sent, any_stream, setup, spec, streams, take};
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use std::collections::HashSet;
use std::net::IpAddr;
use std::process::Command;
use testkit::capture::write_pcap;
use testkit::scratch::Scratch;
use traffic::stream::{StreamSpec, Streams};
use traffic::{Finding, ROOM, Source, StampKey, Swap, Verifier};

/// Headers of a tunnel. Their lengths and checksums have been verified.
struct Around {
    src: IpAddr,
    dst: IpAddr,
    sport: u16,
    checksum: u16,
    /// VNI or TEID.
    id: u32,
    inside: Seen,
    /// Bytes before the header of VXLAN or GTP-U.
    header_at: usize,
}

fn look(frame: &[u8]) -> Around {
    let sliced = SlicedPacket::from_ethernet(frame).expect("a correct frame");
    let Some(TransportSlice::Udp(udp)) = &sliced.transport else { panic!("no UDP") };
    let (header, payload) = (udp.to_header(), udp.payload());
    let link_len = 14 + 4 * sliced.vlan_ids().len();
    let (src, dst, expected): (IpAddr, IpAddr, u16) = match sliced.net.as_ref().unwrap() {
        NetSlice::Ipv4(ip) => {
            let ip = ip.header().to_header();
            assert_eq!(ip.header_checksum, ip.calc_header_checksum());
            assert_eq!((usize::from(ip.total_len), ip.time_to_live), (frame.len() - link_len, 64));
            let expected = header.calc_checksum_ipv4_raw(ip.source, ip.destination, payload);
            (ip.source.into(), ip.destination.into(), expected.unwrap())
        }
        NetSlice::Ipv6(ip) => {
            let ip = ip.header().to_header();
            assert_eq!(usize::from(ip.payload_length), frame.len() - link_len - 40);
            let expected = header.calc_checksum_ipv6_raw(ip.source, ip.destination, payload);
            (ip.source.into(), ip.destination.into(), expected.unwrap())
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(usize::from(header.length), payload.len() + 8);
    let word = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
    let (id, inside) = match header.destination_port {
        4789 => {
            assert_eq!(header.checksum, if src.is_ipv4() { 0 } else { expected });
            assert_eq!((word(0), word(4) & 0xff), (0x0800_0000, 0));
            (word(4) >> 8, see_inside(SlicedPacket::from_ethernet(&payload[8..]).unwrap()))
        }
        2152 => {
            assert_eq!(header.checksum, expected);
            assert_eq!(word(0), 0x30ff_0000 | (payload.len() - 8) as u32);
            (word(4), see_inside(SlicedPacket::from_ip(&payload[8..]).unwrap()))
        }
        port => panic!("port {port}"),
    };
    let (sport, checksum) = (header.source_port, header.checksum);
    let header_at = frame.len() - payload.len();
    Around { src, dst, sport, checksum, id, inside: inside.unwrap(), header_at }
}

#[test]
fn tunnels_have_the_defaults_of_the_documentation() {
    let around = |text: &str| look(&take(&mut streams(&[text], true), 1)[0].bytes);
    let vxlan = around("tunnel=vxlan size=112");
    assert_eq!((vxlan.id, vxlan.inside.payload_len), (1, 16));
    assert_eq!(
        [vxlan.src, vxlan.dst],
        ["198.18.0.1", "198.19.0.1"].map(|it| it.parse::<IpAddr>().unwrap())
    );
    assert!(vxlan.sport >= 49_152);
    let gtpu = around("tunnel=gtpu size=118 src=2001:2::1");
    assert_eq!((gtpu.id, gtpu.sport, gtpu.inside.payload_len), (1, 2152, 16));
    assert!(gtpu.src.is_ipv4() && gtpu.inside.direction.src.0.is_ipv6() && gtpu.checksum != 0);
    let over_ipv6 = around("tunnel=vxlan size=132 tunnel_src=2001:2::5");
    let expected = ["2001:2::5", "2001:2:0:8000::1"].map(|it| it.parse::<IpAddr>().unwrap());
    assert_eq!([over_ipv6.src, over_ipv6.dst], expected);
}

/// Neighbours request the MAC address of the tunnel's source address.
#[test]
fn a_tunnel_sends_from_its_own_address() {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let spec = spec("tunnel=gtpu src=2001:2::1 tunnel_src=198.18.0.5-198.18.0.9");
    assert_eq!(spec.first_source(), address("198.18.0.5"));
    assert!(spec.sends_from(address("198.18.0.7")) && !spec.sends_from(address("2001:2::1")));
}

/// Among these are the longest headers that a template may have.
#[test]
fn every_field_of_a_tunnel_varies() {
    let text = "tunnel=vxlan tunnel_src=2001:2::1-2001:2::3 tunnel_dst=2001:2:1::/126 \
                vni=5-16777215 \
                tunnel_sport=50000,50001 src=2001:2::1 proto=tcp vlan=3 outer_vlan=4 size=1000";
    let sent = take(&mut streams(&[text], true), 200);
    let around: Vec<_> = sent.iter().map(|it| look(&it.bytes)).collect();
    assert_eq!([around[0].id, around[199].id], [5, 204]);
    let text = "tunnel=gtpu tunnel_src=198.18.0.1-198.18.0.3 tunnel_dst=198.19.0.0/30 \
                teid=random:0-4294967295 \
                tunnel_sport=1-2 size=300 flows=24";
    let around: Vec<_> =
        take(&mut streams(&[text], false), 48).iter().map(|it| look(&it.bytes)).collect();
    let count = |of: fn(&Around) -> String| around.iter().map(of).collect::<HashSet<_>>().len();
    assert_eq!(count(|it| format!("{} {} {}", it.src, it.dst, it.sport)), 24);
    assert_eq!(count(|it| it.id.to_string()), 24);
}

#[test]
fn a_flow_inside_has_one_source_port_outside() {
    let text = "tunnel=vxlan size=200 sport=1000-1999 ttl=1-64 seq=1-9 proto=tcp";
    let mut ports = HashSet::new();
    let sent = take(&mut streams(&[text], true), 3000);
    let port = |sent: &Sent| look(&sent.bytes).sport;
    for flow in 0..1000 {
        let of_flow = [0, 1000, 2000].map(|turn| port(&sent[turn + flow]));
        assert!(of_flow[0] >= 49_152 && of_flow.iter().all(|port| *port == of_flow[0]));
        ports.insert(of_flow[0]);
    }
    // Of 1000 connections over 16,384 ports, about 30 have the port of an earlier one.
    assert!(ports.len() > 940, "{} ports", ports.len());
}

#[test]
fn a_packet_is_known_in_its_tunnel_out_of_it_and_on_its_way_back() {
    let verifier = Verifier::new(SEED, StampKey::new(SEED));
    for (text, inside_at) in [
        ("tunnel=vxlan size=200", 50),
        ("tunnel=vxlan size=200 proto=sctp tunnel_src=2001:2::1", 70),
        ("tunnel=gtpu size=200 proto=icmp vlan=4", 40),
        ("tunnel=gtpu size=200 src=2001:2::1 tunnel_src=2001:2::1", 56),
    ] {
        for sent in take(&mut streams(&[text], true), 3) {
            let mut bytes = sent.bytes;
            let good = verifier.examine(&bytes);
            assert!(matches!(good, Finding::Good(_)), "{text}: {good:?}");
            Swap::Ports.apply(&mut bytes).unwrap();
            assert_eq!(verifier.examine(&bytes), good, "{text}, turned round");
            if text.contains("vxlan") {
                assert_eq!(verifier.examine(&bytes[inside_at..]), good, "{text}, out of it");
            }
        }
        let sent = take(&mut streams(&[text], false), 1);
        assert_eq!(verifier.examine(&sent[0].bytes), Finding::Foreign, "{text}");
    }
}

/// Of tunnel headers, one in 65,536 looks like a stamp.
#[test]
fn a_tunnel_is_not_taken_for_a_stamp() {
    let verifier = Verifier::new(SEED, StampKey::new(SEED));
    let mut streams = streams(&["tunnel=gtpu teid=random:0-4294967295 size=98"], true);
    let mut room = vec![0; ROOM];
    for number in 0..400_000 {
        let written = streams.write(&mut room, number);
        let finding = verifier.examine(&room[..written.len]);
        assert!(matches!(finding, Finding::Good(_)), "packet {number}: {finding:?}");
    }
}

#[test]
fn keys_of_tunnels_are_refused_where_they_do_not_belong() {
    let refusal = |text: &str| {
        let pairs = text.split_whitespace().map(|pair| pair.split_once('=').unwrap());
        let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
        match StreamSpec::from_pairs(0, pairs) {
            Err(error) => error.to_string(),
            Ok(spec) => Streams::new(&[spec], &setup(true)).expect_err(text).to_string(),
        }
    };
    assert_eq!(refusal("vni=1"), "vni: packets without tunnel=vxlan do not have this field");
    assert_eq!(
        refusal("tunnel=vxlan teid=1"),
        "teid: packets without tunnel=gtpu do not have this field"
    );
    assert_eq!(
        refusal("tunnel_dst=::1"),
        "tunnel_dst: packets without a tunnel do not have this field"
    );
    assert_eq!(refusal("tunnel=geneve"), "tunnel: \"geneve\" is none of vxlan, gtpu");
    assert_eq!(
        refusal("tunnel=vxlan vni=16777216"),
        "vni: \"16777216\" is no number from 0 to 16777215"
    );
    assert_eq!(
        refusal("tunnel=gtpu tunnel_src=::1 tunnel_dst=10.0.0.1"),
        "tunnel_dst: tunnel_src is an address of one family and tunnel_dst of the other"
    );
    let least = |text: &str, least: usize| {
        let too_short = format!("{text} size={}", least - 1);
        let expected =
            format!("{} bytes are too few: these headers need at least {least}", least - 1);
        assert!(refusal(&too_short).contains(&expected), "{}", refusal(&too_short));
        look(&take(&mut streams(&[&format!("{text} size={least}")], true), 1)[0].bytes);
    };
    least("tunnel=vxlan", 112);
    least("tunnel=gtpu", 98);
    least("tunnel=vxlan tunnel_src=2001:2::1 src=2001:2::1", 152);
    least("tunnel=gtpu tunnel_src=2001:2::1 proto=tcp vlan=5", 134);
    let longest = "tunnel=vxlan tunnel_src=2001:2::1 src=2001:2::1 proto=tcp vlan=1 outer_vlan=2";
    least(longest, 172);
    assert_eq!(spec("tunnel=vxlan size=1518").mtu(), 1500);
}

/// Makes any stream in any tunnel.
fn any_tunnel() -> impl Strategy<Value = String> {
    let tunnel = prop_oneof![
        Just("tunnel=vxlan"),
        Just("tunnel=vxlan vni=random:0-16777215 tunnel_src=198.18.0.0/24"),
        Just("tunnel=vxlan vni=1-9 tunnel_dst=2001:2::/120 tunnel_sport=4789"),
        Just("tunnel=gtpu teid=random:0-4294967295 tunnel_dst=random:198.18.0.0/16"),
        Just("tunnel=gtpu tunnel_src=2001:2::fff0-2001:2::1:3 tunnel_sport=2152,9"),
    ];
    let size = 200..9217_u16;
    (any_stream(), tunnel, size).prop_map(|(stream, tunnel, size)| {
        let stream = stream.split(" size=").next().unwrap();
        format!("{stream} {tunnel} size=200,{size}")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_tunnel_is_right(text in any_tunnel(), is_stamped: bool) {
        let verifier = Verifier::new(SEED, StampKey::new(SEED));
        for sent in take(&mut streams(&[&text], is_stamped), 100) {
            look(&sent.bytes);
            let is_good = matches!(verifier.examine(&sent.bytes), Finding::Good(_));
            prop_assert_eq!(is_good, is_stamped, "{}", text);
        }
    }

    /// Inverts one bit of the IP packet.
    #[test]
    fn damage_of_a_tunnel_is_found(text in any_tunnel(), bit: prop::sample::Index) {
        let verifier = Verifier::new(SEED, StampKey::new(SEED));
        for sent in take(&mut streams(&[&text], true), 20) {
            let mut bytes = sent.bytes;
            let around = look(&bytes);
            let link_len = around.header_at - 8 - if around.src.is_ipv4() { 20 } else { 40 };
            let bit = bit.index(8 * (bytes.len() - link_len));
            let at = link_len + bit / 8;
            bytes[at] ^= 0x80 >> (bit % 8);
            let has_checksum = around.checksum != 0;
            let inside_at = around.header_at + 8;
            // No checksum covers source port, VNI, and the MAC addresses inside.
            let is_uncovered = !has_checksum
                && (at < around.header_at || (around.header_at..inside_at + 14).contains(&at));
            // No checksum covers traffic class, flow label and hop limit of IPv6.
            let is_free = around.src.is_ipv6() && at < link_len + 8
                || !has_checksum
                    && around.inside.direction.src.0.is_ipv6()
                    && (inside_at + 14..inside_at + 22).contains(&at);
            // A checksum of 0 means that there is none.
            let has_no_sum = bytes[around.header_at - 2..around.header_at] == [0; 2];
            let is_good = matches!(verifier.examine(&bytes), Finding::Good(_));
            prop_assert!(
                !is_good || is_uncovered || is_free || has_no_sum,
                "{}: bit {}", text, bit
            );
        }
    }
}

/// Tshark verifies all checksums of our frames. Skipped if tshark is not installed.
#[test]
fn tshark_finds_nothing_wrong() {
    let texts = [
        "tunnel=vxlan vni=77 size=200",
        "tunnel=vxlan vni=77 size=201 proto=tcp tunnel_src=2001:2::1",
        "tunnel=vxlan vni=77 size=202 src=2001:2::1 vlan=3 outer_vlan=4 proto=sctp",
        "tunnel=gtpu teid=77 size=203",
        "tunnel=gtpu teid=77 size=204 proto=icmp tunnel_dst=2001:2::1",
        "tunnel=gtpu teid=77 size=205 src=2001:2::1 vlan=3 proto=tcp",
    ];
    let scratch = Scratch::new(env!("CARGO_TARGET_TMPDIR"), "tunnels");
    let path = scratch.path("tunnels.pcap");
    let sent = texts.iter().flat_map(|text| take(&mut streams(&[text], true), 3));
    write_pcap(&path, &sent.map(|sent| sent.bytes).collect::<Vec<_>>());
    let checks = ["ip", "udp", "tcp", "sctp"].map(|it| match it {
        "sctp" => "-osctp.checksum:TRUE".to_owned(),
        _ => format!("-o{it}.check_checksum:TRUE"),
    });
    let fields = ["frame.protocols", "vxlan.vni", "gtp.teid", "_ws.expert.message"];
    let fields = fields.map(|field| format!("-e{field}"));
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(&path).args(checks).args(["-Tfields", "-Eseparator=;"]).args(fields);
    let Ok(output) = tshark.output() else { return };
    let output = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = output.lines().collect();
    assert_eq!(lines.len(), 3 * texts.len());
    for (number, line) in lines.iter().enumerate() {
        let text = texts[number / 3];
        let (tunnel, rest) = if text.contains("vxlan") {
            ("udp:vxlan:eth:ethertype:ip", ";77;;")
        } else {
            ("udp:gtp:ip", ";;0x0000004d;")
        };
        assert!(line.contains(tunnel) && line.contains(rest), "{text}: {line}");
        let lower = line.to_lowercase();
        let is_wrong =
            ["checksum", "malformed", "bad", "length"].iter().any(|it| lower.contains(it));
        assert!(!is_wrong, "{text}: {line}");
    }
}
