// SPDX-License-Identifier: BSD-3-Clause
//! Tests that a frame turned round equals the frame that the builder makes for the way back, with
//! its checksums computed from all bytes.

use crate::seen::see;
use crate::streams::{any_stream, streams, take};
use proptest::prelude::*;
use traffic::{KeptPorts, NotSwapped, Swap, Swapped};
use wire::FrameBuilder;

const WHOLE: Result<Swapped, NotSwapped> = Ok(Swapped::Whole);

fn kept(reason: KeptPorts) -> Result<Swapped, NotSwapped> {
    Ok(Swapped::WithoutPorts(reason))
}

fn turned(swap: Swap, frame: &[u8]) -> (Result<Swapped, NotSwapped>, Vec<u8>) {
    let mut frame = frame.to_vec();
    (swap.apply(&mut frame), frame)
}

/// Returns IPv4 and IPv6 headers, with and without VLAN tags, options and extension headers.
fn packets() -> Vec<FrameBuilder> {
    let v4 = FrameBuilder::ipv4([10, 0, 0, 1], [10, 9, 8, 7]);
    let v6 = FrameBuilder::ipv6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], [0x2001, 2, 0, 0, 0, 0, 0, 9]);
    vec![
        v4.clone(),
        v4.clone().vlan(5).qinq(6),
        v4.ip_options(&[7, 3, 4]),
        v6.clone(),
        v6.clone().vlan(5).hop_by_hop(&[5, 2, 0, 0]),
        v6.clone().dest_options(&[1, 12]).routing(&[4, 0, 1, 2, 3, 4, 5, 6, 7, 8]),
        v6.hop_by_hop(&[]).dest_options(&[]).dest_options(&[1, 20]),
    ]
}

/// Returns packets of every transport protocol in the IP header of `packet`, with a payload.
fn transports(packet: &FrameBuilder, payload: &[u8]) -> Vec<FrameBuilder> {
    let packet = packet.clone().macs([2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 8]);
    let all = [
        packet.clone().udp(1000, 53),
        packet.clone().tcp(1000, 80).seq(5).flags(2),
        packet.clone().sctp(36412, 2905).verification_tag(9),
        packet.clone().icmp_echo(7, 9),
        packet.clone().icmp_echo(0, 0),
        packet.protocol(47),
    ];
    all.into_iter().map(|it| it.payload(payload)).collect()
}

#[test]
fn a_frame_is_turned_as_it_is_built_for_the_way_back() {
    for payload in [&[0; 40][..], &[0xff; 41], b"", b"abc"] {
        for frame in packets().iter().flat_map(|packet| transports(packet, payload)) {
            let expected = frame.clone().reversed().build();
            assert_eq!(turned(Swap::Ports, &frame.build()), (WHOLE, expected), "{frame:?}");
        }
    }
}

#[test]
fn icmp_but_echo_requests_keeps_its_type() {
    for packet in packets() {
        let replies = [packet.clone().icmp_echo_reply(7, 9), packet.icmp(3, 1, [0; 4])];
        for frame in replies {
            // Only the addresses are exchanged.
            let (result, bytes) = turned(Swap::Ports, &frame.build());
            let (_, by_ip) = turned(Swap::Ip, &frame.build());
            assert_eq!((result, bytes), (WHOLE, by_ip), "{frame:?}");
        }
    }
}

#[test]
fn fragments_make_the_datagram_that_goes_back() {
    let payload: Vec<u8> = (0..200).collect();
    for frame in packets().iter().flat_map(|packet| transports(packet, &payload)) {
        let is_sctp = frame.build().windows(2).any(|it| it == 36412_u16.to_be_bytes());
        let (there, back) = (frame.fragments(64), frame.clone().reversed().fragments(64));
        for (number, (there, back)) in there.iter().zip(back).enumerate() {
            let (result, bytes) = turned(Swap::Ports, &there.build());
            if is_sctp {
                // With other ports, the CRC of the datagram would be wrong.
                assert_eq!(result, kept(KeptPorts::Fragment));
                assert_eq!(bytes, turned(Swap::Ip, &there.build()).1);
                continue;
            }
            let is_first = number == 0;
            let expected = if is_first { WHOLE } else { kept(KeptPorts::Fragment) };
            assert_eq!((result, bytes), (expected, back.build()), "{there:?}");
        }
    }
}

#[test]
fn what_lacks_its_ports_is_reported_by_its_reason() {
    for (number, packet) in packets().iter().enumerate() {
        let raw = |protocol: u8, len: usize| {
            packet.clone().protocol(protocol).payload(vec![1; len]).build()
        };
        for (protocol, least) in [(6, 4), (17, 4), (132, 12), (1, 4), (58, 4)] {
            for len in 0..14 {
                let expected = if len < least { kept(KeptPorts::Short) } else { WHOLE };
                let (result, bytes) = turned(Swap::Ports, &raw(protocol, len));
                assert_eq!(result, expected, "packet {number}, protocol {protocol}, {len} bytes");
                if len < least {
                    assert_eq!(bytes, turned(Swap::Ip, &raw(protocol, len)).1);
                }
                assert_eq!(turned(Swap::Ip, &raw(protocol, len)).0, WHOLE);
            }
        }
        // In a truncated packet, ports can be exchanged, but a CRC cannot be computed.
        let cut = |frame: FrameBuilder| {
            let frame = frame.payload([5; 100]).build();
            turned(Swap::Ports, &frame[..frame.len() - 1]).0
        };
        assert_eq!(cut(packet.clone().udp(1, 2)), WHOLE);
        assert_eq!(cut(packet.clone().sctp(1, 2)), kept(KeptPorts::Short));
    }
}

#[test]
fn extension_headers_are_walked_with_a_bound() {
    let v6 = FrameBuilder::ipv6([1_u16; 8], [2_u16; 8]);
    let with = |count: usize| {
        let packet = (0..count).fold(v6.clone(), |packet, _| packet.dest_options(&[]));
        packet.udp(1, 2).payload([7; 10])
    };
    let eight = with(8);
    let expected = eight.clone().reversed().build();
    assert_eq!(turned(Swap::Ports, &eight.build()), (WHOLE, expected));
    assert_eq!(turned(Swap::Ports, &with(9).build()).0, kept(KeptPorts::Extensions));
    assert_eq!(turned(Swap::Ports, &with(180).build()).0, kept(KeptPorts::Extensions));
    let frame = with(2).build();
    for len in 14 + 40..14 + 40 + 16 + 4 {
        assert_eq!(turned(Swap::Ports, &frame[..len]).0, kept(KeptPorts::Short), "{len} bytes");
    }
    let routed = v6.clone().routing(&[4, 1, 0, 0, 0, 0]).udp(1, 2).build();
    for swap in [Swap::Ports, Swap::Ip] {
        assert_eq!(turned(swap, &routed), (Err(NotSwapped::Routed), routed.clone()));
    }
    assert_eq!(turned(Swap::Mac, &routed).0, WHOLE);
    // Everything behind an authentication header stays.
    let authenticated = v6.auth(1, 2, &[3; 12]).udp(1, 2).build();
    let (result, bytes) = turned(Swap::Ports, &authenticated);
    assert_eq!((result, bytes), (WHOLE, turned(Swap::Ip, &authenticated).1));
}

#[test]
fn what_is_not_turned_stays_as_it_is() {
    let frame = FrameBuilder::ipv4([1; 4], [2; 4]).vlan(5).udp(1, 2).build();
    for swap in [Swap::Ports, Swap::Ip] {
        for len in 0..14 + 4 + 20 {
            assert_eq!(
                turned(swap, &frame[..len]),
                (Err(NotSwapped::Short), frame[..len].to_vec())
            );
        }
    }
    let arp = FrameBuilder::ethernet(0x0806).payload([0; 46]).build();
    assert_eq!(turned(Swap::Ports, &arp), (Err(NotSwapped::NotIp), arp.clone()));
    let group = [&[0xff; 6], &frame[6..]].concat();
    assert_eq!(turned(Swap::Mac, &group), (Err(NotSwapped::Group), group.clone()));
    assert_eq!(turned(Swap::None, &group), (WHOLE, group.clone()));
    let tags = (0..100).fold(FrameBuilder::ipv4([1; 4], [2; 4]), |frame, id| frame.vlan(id));
    assert_eq!(turned(Swap::Ports, &tags.build()).0, Err(NotSwapped::NotIp));
}

proptest! {
    /// Etherparse verifies the checksums. A frame that is turned twice is the original.
    #[test]
    fn every_stream_is_turned_with_right_checksums(text in any_stream()) {
        for sent in take(&mut streams(&[&text], true), 50) {
            let (result, bytes) = turned(Swap::Ports, &sent.bytes);
            prop_assert_eq!(result, WHOLE);
            let (there, back) = (see(&sent.bytes).unwrap(), see(&bytes).unwrap());
            let expected = (there.direction.dst, there.direction.src);
            prop_assert_eq!((back.direction.src, back.direction.dst), expected);
            if !text.contains("icmp") {
                prop_assert_eq!(turned(Swap::Ports, &bytes), (WHOLE, sent.bytes));
            }
        }
    }

    #[test]
    fn arbitrary_bytes_are_turned_or_not(mut bytes: Vec<u8>, kind in 0..5_usize) {
        let kinds = [[0x08, 0x00], [0x86, 0xdd], [0x81, 0x00], [0x88, 0xa8], [0, 0]];
        if bytes.len() > 20 {
            bytes[12..14].copy_from_slice(&kinds[kind]);
            bytes[0] &= 0xfe;
            bytes[6] &= 0xfe;
        }
        let before = bytes.clone();
        for swap in [Swap::None, Swap::Mac, Swap::Ip, Swap::Ports] {
            let (result, after) = turned(swap, &bytes);
            prop_assert!(result.is_ok() || after == before);
            prop_assert_eq!(after.len(), before.len());
        }
    }
}
