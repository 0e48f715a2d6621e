// SPDX-License-Identifier: BSD-3-Clause
//! Answers to rejected packets: etherparse reads them, and each case that the RFCs forbid gets
//! none.

use super::*;
use crate::{FrameBuilder, tcp};
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

fn answer_to(frame: &[u8]) -> Option<Vec<u8>> {
    let mut out = [0xee; ANSWER_MAX];
    answer(frame, &mut out).map(|len| out[..len].to_vec())
}

/// Returns sequence number, acknowledgement number and flags of the reset for this segment.
fn reset(segment: FrameBuilder) -> Option<(u32, u32, u8)> {
    let frame = answer_to(&segment.build())?;
    let tcp = Tcp::new(&frame[34..]).unwrap();
    Some((tcp.seq(), tcp.ack(), tcp.flags()))
}

/// RFC 9293 3.10.7.1.
#[test]
fn a_segment_gets_the_reset_of_a_closed_port() {
    let segment = |flags, seq, ack| v4().tcp(4000, 80).flags(flags).seq(seq).ack(ack);
    assert_eq!(reset(segment(SYN, 100, 0)), Some((0, 101, RST | ACK)));
    assert_eq!(reset(segment(SYN, u32::MAX, 9).payload(b"data")), Some((0, 4, RST | ACK)));
    assert_eq!(reset(segment(SYN | FIN, 7, 0)), Some((0, 9, RST | ACK)));
    assert_eq!(reset(segment(0, 7, 0).tcp_options(&[1; 4])), Some((0, 7, RST | ACK)));
    assert_eq!(reset(segment(ACK | tcp::PSH, 7, 500).payload(b"data")), Some((500, 0, RST)));
    assert_eq!(reset(segment(RST, 7, 0)), None);
    assert_eq!(reset(segment(RST | ACK, 7, 9)), None);
    // The length of a datagram is not known from its first fragment.
    assert_eq!(reset(segment(SYN, 100, 0).fragment(0, true)), None);
    assert_eq!(reset(segment(ACK, 100, 7).fragment(0, true)), Some((7, 0, RST)));
}

#[test]
fn an_error_quotes_as_much_as_the_rfc_says() {
    let long = v4().vlan(5).udp(1, 2).payload([7; 1400]).build();
    let error = answer_to(&long).unwrap();
    assert_eq!(error.len(), 18 + 576, "RFC 1812 4.3.2.3");
    assert_eq!(error[18 + 28..], long[18..][..548]);
    assert_eq!((error[18 + 20], error[18 + 21]), (3, 13));
    let long = v6().udp(1, 2).payload([7; 1400]).build();
    let error = answer_to(&long).unwrap();
    assert_eq!(error.len(), 14 + 1280, "RFC 4443 2.4(c)");
    assert_eq!(error[14 + 48..], long[14..][..1232]);
    assert_eq!((error[14 + 40], error[14 + 41]), (1, 1));
    let short = v4().udp(1, 2).pad().build();
    let error = answer_to(&short).unwrap();
    assert_eq!(Ipv4::new(&error[14..]).unwrap().total_len(), 56, "without the padding");
    assert_eq!(error.len(), 14 + 56);
    assert_eq!(answer_to(&v4().tcp(1, 2).build()).unwrap().len(), MIN_FRAME);
}

#[test]
fn forbidden_answers_are_not_sent() {
    let base = v4().udp(1, 2);
    let group = [0xff; 6];
    let error = |kind| v4().icmp_error(kind, 0, &base.build_packet());
    let error6 = |kind| v6().icmp_error(kind, 0, &v6().udp(1, 2).build_packet());
    let from = |src: [u8; 4]| FrameBuilder::ipv4(src, [10, 0, 0, 2]).udp(1, 2);
    let to = |dst: [u8; 4]| FrameBuilder::ipv4([10, 0, 0, 1], dst).udp(1, 2);
    let from6 = |src| FrameBuilder::ipv6(src, B6).udp(1, 2);
    let mac = [2, 0, 0, 0, 0, 1];
    for (case, frame) in [
        ("ICMP unreachable", error(3)),
        ("ICMP source quench", error(4)),
        ("ICMP redirect", error(5)),
        ("ICMP time exceeded", error(11)),
        ("ICMP parameter problem", error(12)),
        ("ICMP of an unknown type", error(77)),
        ("ICMPv6 unreachable", error6(1)),
        ("ICMPv6 error of an unknown type", error6(100)),
        ("ICMPv6 redirect", error6(137)),
        ("ICMPv6 error behind options", v6().dest_options(&[]).icmp(1, 0, [0; 4])),
        ("later fragment", base.clone().fragment(1480, false)),
        ("later IPv6 fragment", v6().fragment(1480, true).udp(1, 2)),
        ("broadcast link address", base.clone().macs(mac, group)),
        ("multicast link address", base.clone().macs(mac, [1, 0, 0x5e, 0, 0, 1])),
        ("source is a group", base.clone().macs([3, 0, 0, 0, 0, 1], mac)),
        ("multicast", to([224, 0, 0, 1])),
        ("broadcast", to([255, 255, 255, 255])),
        ("IPv6 multicast", FrameBuilder::ipv6(A6, [0xff02, 0, 0, 0, 0, 0, 0, 1]).udp(1, 2)),
        ("unspecified", to([0; 4])),
        ("loopback", to([127, 0, 0, 1])),
        ("unspecified IPv6", FrameBuilder::ipv6(A6, [0; 8]).udp(1, 2)),
        ("loopback IPv6", FrameBuilder::ipv6(A6, [0, 0, 0, 0, 0, 0, 0, 1]).udp(1, 2)),
        ("unspecified source", from([0; 4])),
        ("source of network 0", from([0, 0, 0, 9])),
        ("loopback source", from([127, 0, 0, 1])),
        ("multicast source", from([239, 0, 0, 1])),
        ("broadcast source", from([255, 255, 255, 255])),
        ("unspecified IPv6 source", from6([0; 8])),
        ("loopback IPv6 source", from6([0, 0, 0, 0, 0, 0, 0, 1])),
        ("multicast IPv6 source", from6([0xff02, 0, 0, 0, 0, 0, 0, 1])),
        ("wrong header checksum", base.clone().ip_checksum(1)),
        ("wrong version", base.clone().ip_version(5)),
        ("length inside the header", base.clone().ip_len(19)),
        ("reset", v4().tcp(1, 2).flags(RST)),
        ("IPv6 reset", v6().tcp(1, 2).flags(RST | ACK)),
        ("no IP", FrameBuilder::ethernet(ether_type::ARP).payload([1; 28])),
    ] {
        assert_eq!(answer_to(&frame.build()), None, "{case}");
    }
    // What is cut off might be an ICMP error.
    let whole = v6().dest_options(&[]).icmp_echo(1, 2).build();
    assert!(answer_to(&whole).is_some());
    assert_eq!(answer_to(&whole[..14 + 44]), None);
    assert!(
        answer_to(&base.build()).is_some() && answer_to(&v4().icmp_echo(1, 2).build()).is_some()
    );
}

/// Random packets of both IP versions, with tags, options and data.
fn packet() -> impl Strategy<Value = FrameBuilder> {
    let data = prop::collection::vec(any::<u8>(), 0..1500);
    let tags = prop::collection::vec(0..4095_u16, 0..=2);
    let numbers = (any::<[u32; 2]>(), any::<u8>(), any::<[u16; 2]>());
    (any::<[bool; 2]>(), 0..5_u8, numbers, data, tags).prop_map(
        |([is_v6, has_options], kind, ([seq, ack], flags, [sport, dport]), data, tags)| {
            let base = match (is_v6, has_options) {
                (false, false) => v4(),
                (false, true) => v4().ip_options(&[7, 3, 4]),
                (true, false) => v6(),
                (true, true) => v6().hop_by_hop(&[5, 2, 0, 0]).dest_options(&[]),
            };
            let base = tags.into_iter().fold(base, FrameBuilder::vlan);
            let frame = match kind {
                0 | 1 => base.tcp(sport, dport).flags(flags & !RST).seq(seq).ack(ack),
                2 => base.udp(sport, dport),
                3 => base.icmp_echo(sport, dport),
                _ => base.protocol(253),
            };
            frame.payload(data)
        },
    )
}

proptest! {
    /// etherparse reads each answer, whose addresses, tags, lengths and checksums are right.
    #[test]
    fn answers_are_well_formed(builder in packet()) {
        let frame = builder.build();
        let answer = answer_to(&frame).unwrap();
        let sent = SlicedPacket::from_ethernet(&frame).unwrap();
        let found = SlicedPacket::from_ethernet(&answer).unwrap();
        prop_assert_eq!(&answer[..6], &frame[6..12]);
        prop_assert_eq!(&answer[6..12], &frame[..6]);
        prop_assert_eq!(sent.vlan_ids(), found.vlan_ids());
        let (ends, payload, pseudo) = match (found.net.unwrap(), sent.net.unwrap()) {
            (NetSlice::Ipv4(ip), NetSlice::Ipv4(of)) => {
                let (ip, of) = (ip.header(), of.header());
                prop_assert_eq!(ip.header_checksum(), ip.to_header().calc_header_checksum());
                let same = (ip.source(), ip.destination()) == (of.destination(), of.source());
                let len = usize::from(ip.total_len()) - 20;
                (same, len, pseudo_v4(ip.source_addr(), ip.destination_addr(), 6, len as u16))
            }
            (NetSlice::Ipv6(ip), NetSlice::Ipv6(of)) => {
                let (ip, of) = (ip.header(), of.header());
                let same = (ip.source(), ip.destination()) == (of.destination(), of.source());
                let (len, proto) = (usize::from(ip.payload_length()), ip.next_header().0);
                let (src, dst) = (ip.source_addr(), ip.destination_addr());
                (same, len, pseudo_v6(src, dst, proto, len as u32))
            }
            _ => panic!("the answer has another IP version"),
        };
        prop_assert!(ends, "the addresses are not reversed");
        let (body, is_sum_right) = match found.transport.unwrap() {
            TransportSlice::Tcp(tcp) => {
                let sum = pseudo.add_bytes(tcp.slice()).finish();
                (tcp.slice().len(), sum == 0 && tcp.rst() && tcp.payload().is_empty())
            }
            TransportSlice::Icmpv4(icmp) => (icmp.slice().len(), internet(icmp.slice()) == 0),
            TransportSlice::Icmpv6(icmp) => {
                (icmp.slice().len(), pseudo.add_bytes(icmp.slice()).finish() == 0)
            }
            TransportSlice::Udp(_) | TransportSlice::Igmp(_) => (0, false),
        };
        prop_assert!(is_sum_right);
        prop_assert_eq!(body, payload);
    }

    /// No bytes make it fail.
    #[test]
    fn any_bytes_get_an_answer_or_none(
        builder in packet(),
        (cut, at, value) in (0..1500_usize, 0..80_usize, any::<u8>()),
    ) {
        let mut frame = builder.build();
        frame.truncate(cut);
        if let Some(byte) = frame.get_mut(at) {
            *byte = value;
        }
        answer_to(&frame);
    }
}
