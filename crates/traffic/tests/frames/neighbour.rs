// SPDX-License-Identifier: BSD-3-Clause
//! Tests ARP and neighbour discovery with etherparse.

use etherparse::{LaxPacketHeaders, LaxPayloadSlice, NetHeaders, SlicedPacket};
use std::net::IpAddr;
use traffic::neighbour::{Message, Neighbour, reply, request};

const OURS: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
const THEIRS: [u8; 6] = [2, 0, 0, 0, 0, 0xb];
const TAGS: [&[u8]; 3] = [&[], &[0x81, 0, 0x20, 5], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 5]];

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn a_question_and_its_answer_are_read_as_they_are_written() {
    for tags in TAGS {
        for (ours, theirs) in [("198.18.0.1", "198.18.0.254"), ("2001:2::1", "2001:2::fe")] {
            let (from, target) = (Neighbour { address: address(ours), mac: OURS }, address(theirs));
            let asked = request(from, target, tags);
            assert_eq!(Message::read(asked.bytes()), Some(Message::Request { from, target }));
            let replied = reply(asked.bytes(), from, target, THEIRS).unwrap();
            let answer = Neighbour { address: target, mac: THEIRS };
            assert_eq!(Message::read(replied.bytes()), Some(Message::Reply(answer)));
            assert_eq!((&replied.bytes()[..6], &replied.bytes()[6..12]), (&OURS[..], &THEIRS[..]));
            for frame in [asked.bytes(), replied.bytes()] {
                assert!(frame.len() >= 60, "a frame of the least size");
                check_with_etherparse(frame, tags.len() / 4);
            }
        }
    }
}

fn check_with_etherparse(frame: &[u8], tags: usize) {
    let sliced = SlicedPacket::from_ethernet(frame).unwrap();
    assert_eq!(sliced.vlan_ids().len(), tags);
    let headers = LaxPacketHeaders::from_ethernet(frame).unwrap();
    match headers.net.unwrap() {
        NetHeaders::Arp(arp) => {
            assert_eq!((arp.hw_addr_size(), arp.protocol_addr_size()), (6, 4));
            assert!(arp.operation.0 == 1 || arp.operation.0 == 2);
        }
        NetHeaders::Ipv6(ip, _) => {
            assert_eq!(ip.hop_limit, 255);
            let icmp = headers.transport.unwrap().icmpv6().unwrap();
            let LaxPayloadSlice::Icmpv6 { payload, .. } = headers.payload else { panic!() };
            let sum = icmp.icmp_type.calc_checksum(ip.source, ip.destination, payload);
            assert_eq!(sum.unwrap(), icmp.checksum);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_neighbour_without_an_address_is_answered_by_multicast() {
    let from = Neighbour { address: address("::"), mac: OURS };
    let target = address("2001:2::1");
    let asked = request(from, target, &[]);
    let replied = reply(asked.bytes(), from, target, THEIRS).unwrap();
    assert_eq!(replied.bytes()[38..54], address_bytes("ff02::1"));
    assert_eq!(replied.bytes()[58] & 0x40, 0, "not solicited");
}

fn address_bytes(text: &str) -> [u8; 16] {
    text.parse::<std::net::Ipv6Addr>().unwrap().octets()
}

#[test]
fn other_frames_are_no_messages() {
    let from = Neighbour { address: address("2001:2::1"), mac: OURS };
    let frame = request(from, address("2001:2::2"), &[]);
    for len in 0..frame.bytes().len() {
        assert_eq!(Message::read(&frame.bytes()[..len]), None);
    }
    for byte in 14..frame.bytes().len() {
        let mut changed = frame.bytes().to_vec();
        changed[byte] ^= 1;
        // No checksum covers version, traffic class and flow label.
        assert!(byte < 18 || Message::read(&changed).is_none(), "byte {byte}");
    }
}
