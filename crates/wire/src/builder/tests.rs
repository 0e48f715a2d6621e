// SPDX-License-Identifier: BSD-3-Clause
//! Tests the builder: etherparse, an independent parser, reads back what it builds.

use super::*;
use crate::{ethernet::Ethernet, ipv4::Ipv4, tcp::Tcp, udp::Udp, vlan::Vlan};
use crate::{icmp, tcp};
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;

const A6: [u16; 8] = [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1];
const B6: [u16; 8] = [0x2001, 0xdb8, 0, 0, 0, 0, 0, 2];

fn v4() -> FrameBuilder {
    FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2])
}

fn v6() -> FrameBuilder {
    FrameBuilder::ipv6(A6, B6)
}

#[test]
fn a_frame_byte_by_byte() {
    let frame = v4().vlan(5).tcp(1000, 80).flags(tcp::SYN).seq(7).payload(b"hi").build();
    let expected = "020000000002 020000000001 8100 0005 0800 \
        4500002a00000000400666cc0a0000010a000002 \
        03e80050000000070000000050 02 ffff 2f36 0000 6869";
    let hex: String = frame.iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(hex, expected.replace(' ', ""));
}

#[test]
fn reversed_swaps_both_ends() {
    let there = v4().udp(1000, 53).build();
    let back = FrameBuilder::ipv4([10, 0, 0, 2], [10, 0, 0, 1])
        .macs([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1])
        .udp(53, 1000);
    assert_eq!(back.clone().reversed().build(), there);
    assert_eq!(v6().icmp_echo(1, 2).reversed().build_packet()[40], icmp::v6::ECHO_REPLY);
    assert_eq!(v4().icmp_echo_reply(1, 2).reversed().build_packet()[20], icmp::v4::ECHO_REQUEST);
}

#[test]
fn padding_is_outside_the_packet() {
    let frame = v4().udp(1, 2).pad().build();
    assert_eq!(frame.len(), 60);
    assert_eq!(Ipv4::new(&frame[14..]).unwrap().total_len(), 28);
}

#[test]
fn frames_without_ip() {
    let arp = FrameBuilder::ethernet(ether_type::ARP).payload([1; 28]).pad().build();
    assert_eq!(Ethernet::new(&arp).unwrap().ether_type(), ether_type::ARP);
    assert_eq!(arp.len(), 60);
    let llc = FrameBuilder::ieee_802_3().payload([0x42, 0x42, 3]).pad().build();
    assert_eq!(Ethernet::new(&llc).unwrap().ether_type(), 3);
}

#[test]
fn tags_nest_outermost_first() {
    let frame = v4().qinq(100).vlan(5).udp(1, 2).build();
    let ethernet = Ethernet::new(&frame).unwrap();
    assert_eq!(ethernet.ether_type(), ether_type::QINQ);
    let outer = Vlan::new(ethernet.payload()).unwrap();
    assert_eq!((outer.id(), outer.ether_type()), (100, ether_type::VLAN));
    let inner = Vlan::new(outer.payload()).unwrap();
    assert_eq!((inner.id(), inner.ether_type()), (5, ether_type::IPV4));
}

#[test]
fn overrides_change_their_field_and_nothing_else() {
    let right = v4().udp(1, 2).payload(b"abcd").build_packet();
    let wrong = |builder: FrameBuilder| {
        let packet = builder.payload(b"abcd").build_packet();
        assert_eq!(packet.len(), right.len());
        (0..right.len()).filter(|&i| packet[i] != right[i]).collect::<Vec<_>>()
    };
    let checksum = 10..12;
    let udp = || v4().udp(1, 2);
    assert_eq!(wrong(udp().ip_checksum(0xdead)), [10, 11]);
    assert!(wrong(udp().ip_len(9999)).iter().all(|i| checksum.contains(i) || [2, 3].contains(i)));
    assert!(wrong(udp().ip_version(6)).iter().all(|i| checksum.contains(i) || *i == 0));
    assert!(wrong(udp().header_words(15)).iter().all(|i| checksum.contains(i) || *i == 0));
    assert_eq!(wrong(udp().checksum(0)), [26, 27]);
    let udp_len = udp().udp_len(7).payload(b"abcd").build_packet();
    assert_eq!(Udp::new(&udp_len[20..]).unwrap().len_field(), 7);
    let offset = v4().tcp(1, 2).data_offset(15).build_packet();
    assert!(Tcp::new(&offset[20..]).is_none());
}

#[test]
fn an_icmp_error_quotes_the_packet() {
    let quoted = v4().udp(1, 2).build_packet();
    let error = v4().reversed().icmp_error(icmp::v4::UNREACHABLE, 3, &quoted).build();
    let sliced = SlicedPacket::from_ethernet(&error).unwrap();
    let Some(TransportSlice::Icmpv4(icmp)) = sliced.transport else { panic!("no ICMP") };
    assert_eq!(icmp.payload(), &quoted[..]);
}

#[test]
fn gre_and_esp_have_their_numbers_in_place() {
    let gre = v4().gre(0x6558, Some(0x0102_0304)).payload([9]).build_packet();
    assert_eq!(gre[9], proto::GRE);
    assert_eq!(gre[20..], [0x20, 0, 0x65, 0x58, 1, 2, 3, 4, 9]);
    assert_eq!(v4().gre(0x0800, None).build_packet()[20..], [0, 0, 8, 0]);
    let esp = v4().esp(0x0102_0304, 5).payload([9]).build_packet();
    assert_eq!(esp[9], proto::ESP);
    assert_eq!(esp[20..], [1, 2, 3, 4, 0, 0, 0, 5, 9]);
}

#[test]
fn a_udp_checksum_is_never_zero() {
    // One of 65,536 payloads sums to -0.
    let zero = (0..=u16::MAX)
        .map(|n| v4().udp(1, 2).payload(n.to_be_bytes()).build_packet())
        .find(|packet| packet[26..28] == [0, 0]);
    assert!(zero.is_none());
}

#[test]
#[should_panic(expected = "call tcp() first")]
fn tcp_flags_outside_tcp_are_a_mistake() {
    let _ = v4().udp(1, 2).flags(tcp::SYN);
}

#[test]
fn fragments_are_fragments_to_others() {
    let first = v4().udp(1, 2).payload([9; 24]).fragment(0, true).build();
    let later = v6().ip_id(0x0102_0304).fragment(1480, false).protocol(proto::UDP).build();
    for frame in [first, later] {
        assert!(SlicedPacket::from_ethernet(&frame).unwrap().is_ip_payload_fragmented());
    }
}

fn check_tcp(frame: &[u8], built: &TcpFields) {
    let sliced = SlicedPacket::from_ethernet(frame).unwrap();
    let Some(TransportSlice::Tcp(tcp)) = &sliced.transport else { panic!("no TCP") };
    assert_eq!((tcp.source_port(), tcp.destination_port()), (built.sport, built.dport));
    assert_eq!(tcp.sequence_number(), built.seq);
    assert_eq!(tcp.acknowledgment_number(), built.ack);
    assert_eq!(tcp.window_size(), built.window);
    assert_eq!((tcp.syn(), tcp.fin()), (built.flags & tcp::SYN != 0, built.flags & tcp::FIN != 0));
    assert_eq!((tcp.ack(), tcp.rst()), (built.flags & tcp::ACK != 0, built.flags & tcp::RST != 0));
    assert!(tcp.options().starts_with(&built.options));
    let expected = match sliced.net.as_ref().unwrap() {
        NetSlice::Ipv4(ip) => {
            tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination())
        }
        NetSlice::Ipv6(ip) => {
            tcp.calc_checksum_ipv6(ip.header().source(), ip.header().destination())
        }
        NetSlice::Arp(_) => panic!("ARP"),
    };
    assert_eq!(tcp.checksum(), expected.unwrap());
}

fn check_ip(frame: &[u8], tags: usize, payload: &[u8]) {
    let sliced = SlicedPacket::from_ethernet(frame).unwrap();
    assert_eq!(sliced.vlan_ids().len(), tags);
    if let Some(NetSlice::Ipv4(ip)) = &sliced.net {
        let header = ip.header().to_header();
        assert_eq!(header.header_checksum, header.calc_header_checksum());
    }
    assert!(sliced.ip_payload().unwrap().payload.ends_with(payload));
}

fn check_rest(frame: &[u8], payload: &[u8]) {
    let sliced = SlicedPacket::from_ethernet(frame).unwrap();
    let net = sliced.net.as_ref().unwrap();
    match (sliced.transport.unwrap(), net) {
        (TransportSlice::Udp(udp), NetSlice::Ipv4(ip)) => {
            let (src, dst) = (ip.header().source(), ip.header().destination());
            let calculated = udp.to_header().calc_checksum_ipv4_raw(src, dst, payload);
            assert_eq!(udp.checksum(), calculated.unwrap());
            assert_eq!(udp.payload(), payload);
        }
        (TransportSlice::Udp(udp), NetSlice::Ipv6(ip)) => {
            let (src, dst) = (ip.header().source(), ip.header().destination());
            let calculated = udp.to_header().calc_checksum_ipv6_raw(src, dst, payload);
            assert_eq!(udp.checksum(), calculated.unwrap());
            assert_eq!(udp.payload(), payload);
        }
        (TransportSlice::Icmpv4(icmp), _) => {
            assert_eq!(icmp.icmp_type().calc_checksum(payload), icmp.checksum());
        }
        (TransportSlice::Icmpv6(icmp), NetSlice::Ipv6(ip)) => {
            let (src, dst) = (ip.header().source(), ip.header().destination());
            assert!(icmp.is_checksum_valid(src, dst));
        }
        other => panic!("unexpected {other:?}"),
    }
}

prop_compose! {
    fn network()(is_v6: bool, a: u128, b: u128, ttl: u8, tos: u8, extensions in 0..16u8,
                 options in 0..10usize) -> FrameBuilder {
        if !is_v6 {
            let builder = FrameBuilder::ipv4((a as u32).to_be_bytes(), (b as u32).to_be_bytes());
            return builder.ttl(ttl).tos(tos).ip_options(&[1].repeat(options * 4));
        }
        let mut builder = FrameBuilder::ipv6(a.to_be_bytes(), b.to_be_bytes()).ttl(ttl).tos(tos);
        if extensions & 1 != 0 { builder = builder.hop_by_hop(&[1, options as u8]) }
        if extensions & 2 != 0 { builder = builder.routing(&[0; 6]) }
        if extensions & 4 != 0 { builder = builder.auth(1, 2, &[1].repeat(4 * (options / 2) )) }
        if extensions & 8 != 0 { builder = builder.dest_options(&[1].repeat(options)) }
        builder
    }
}

prop_compose! {
    fn link()(network in network(), tags in 0..3u16, id in 0..4096u16, pad: bool)
        -> (FrameBuilder, usize)
    {
        let mut builder = network;
        if tags == 2 { builder = builder.qinq(id ^ 1) }
        if tags >= 1 { builder = builder.vlan(id) }
        (if pad { builder.pad() } else { builder }, usize::from(tags))
    }
}

proptest! {
    #[test]
    fn tcp_reads_back((builder, tags) in link(), ports: (u16, u16), numbers: (u32, u32),
                      flags: u8, window: u16, options in 0..11usize,
                      payload in proptest::collection::vec(any::<u8>(), 1..100)) {
        let built = TcpFields {
            sport: ports.0, dport: ports.1, seq: numbers.0, ack: numbers.1, flags, window,
            options: [1].repeat(options * 4), offset_words: None,
        };
        let frame = builder.tcp(built.sport, built.dport).flags(flags).seq(built.seq)
            .ack(built.ack).window(window).tcp_options(&built.options).payload(&payload).build();
        check_ip(&frame, tags, &payload);
        check_tcp(&frame, &built);
    }

    #[test]
    fn udp_and_echo_read_back((builder, tags) in link(), ports: (u16, u16),
                              payload in proptest::collection::vec(any::<u8>(), 0..100)) {
        for frame in [
            builder.clone().udp(ports.0, ports.1),
            builder.clone().icmp_echo(ports.0, ports.1),
            builder.icmp_echo_reply(ports.0, ports.1),
        ] {
            let frame = frame.payload(&payload).build();
            check_ip(&frame, tags, &payload);
            check_rest(&frame, &payload);
        }
    }
}
