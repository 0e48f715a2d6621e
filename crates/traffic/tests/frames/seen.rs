// SPDX-License-Identifier: BSD-3-Clause
//! Reads frames with etherparse, an independent parser, and verifies every checksum.

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use std::net::IpAddr;

/// Addresses and ports of one packet, sender first. For ICMP echo, both ports are the identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Direction {
    pub(crate) src: (IpAddr, u16),
    pub(crate) dst: (IpAddr, u16),
    pub(crate) protocol: u8,
}

impl Direction {
    /// Returns a value that both directions of a connection have in common.
    pub(crate) fn flow(self) -> Self {
        let (src, dst) = (self.src.min(self.dst), self.src.max(self.dst));
        Self { src, dst, ..self }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) flags: u8,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) window: u16,
}

#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) direction: Direction,
    pub(crate) tcp: Option<Segment>,
    pub(crate) payload_len: usize,
    pub(crate) vlans: usize,
}

/// Reads a frame. Returns `None` if it is not IP.
///
/// # Panics
/// If a length or a checksum is wrong.
pub(crate) fn see(frame: &[u8]) -> Option<Seen> {
    assert!(frame.len() >= 60 && frame.len() <= traffic::ROOM);
    let sliced = SlicedPacket::from_ethernet(frame).expect("a correct frame");
    let (before_ip, ip_len) = (14 + 4 * sliced.vlan_ids().len(), ip_len(&sliced)?);
    assert_eq!(frame.len(), (before_ip + ip_len).max(60), "the IP length fills the frame");
    see_inside(sliced)
}

fn ip_len(sliced: &SlicedPacket) -> Option<usize> {
    match sliced.net.as_ref()? {
        NetSlice::Ipv4(ip) => Some(ip.header().total_len().into()),
        NetSlice::Ipv6(ip) => Some(40 + usize::from(ip.header().payload_length())),
        NetSlice::Arp(_) => None,
    }
}

/// Reads the packet of a sliced frame, without a check of the frame's length. Returns `None` if it
/// is not IP.
pub(crate) fn see_inside(sliced: SlicedPacket) -> Option<Seen> {
    let (src, dst) = match sliced.net.as_ref()? {
        NetSlice::Ipv4(ip) => {
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            (header.source.into(), header.destination.into())
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header();
            (IpAddr::V6(header.source_addr()), IpAddr::V6(header.destination_addr()))
        }
        NetSlice::Arp(_) => return None,
    };
    let (direction, tcp, payload_len) = transport(sliced.transport.as_ref()?, src, dst);
    Some(Seen { direction, tcp, payload_len, vlans: sliced.vlan_ids().len() })
}

fn transport(
    transport: &TransportSlice,
    src: IpAddr,
    dst: IpAddr,
) -> (Direction, Option<Segment>, usize) {
    match transport {
        TransportSlice::Tcp(tcp) => {
            let expected = match (src, dst) {
                (IpAddr::V4(s), IpAddr::V4(d)) => tcp.calc_checksum_ipv4(s.octets(), d.octets()),
                (IpAddr::V6(s), IpAddr::V6(d)) => tcp.calc_checksum_ipv6(s.octets(), d.octets()),
                _ => panic!("mixed addresses"),
            };
            assert_eq!(tcp.checksum(), expected.unwrap());
            let segment = Segment {
                flags: tcp.slice()[13],
                seq: tcp.sequence_number(),
                ack: tcp.acknowledgment_number(),
                window: tcp.window_size(),
            };
            let (src, dst) = ((src, tcp.source_port()), (dst, tcp.destination_port()));
            (Direction { src, dst, protocol: 6 }, Some(segment), tcp.payload().len())
        }
        TransportSlice::Udp(udp) => {
            let (header, payload) = (udp.to_header(), udp.payload());
            let (s, d) = (src, dst);
            let expected = match (s, d) {
                (IpAddr::V4(s), IpAddr::V4(d)) => {
                    header.calc_checksum_ipv4_raw(s.octets(), d.octets(), payload)
                }
                (IpAddr::V6(s), IpAddr::V6(d)) => {
                    header.calc_checksum_ipv6_raw(s.octets(), d.octets(), payload)
                }
                _ => panic!("mixed addresses"),
            };
            assert_eq!(udp.checksum(), expected.unwrap());
            let (src, dst) = ((src, udp.source_port()), (dst, udp.destination_port()));
            (Direction { src, dst, protocol: 17 }, None, payload.len())
        }
        TransportSlice::Icmpv4(icmp) => {
            assert_eq!(icmp.checksum(), icmp.icmp_type().calc_checksum(icmp.payload()));
            echo(src, dst, 1, icmp.slice())
        }
        TransportSlice::Icmpv6(icmp) => {
            let (IpAddr::V6(s), IpAddr::V6(d)) = (src, dst) else { panic!("ICMPv6 over IPv4") };
            assert!(icmp.is_checksum_valid(s.octets(), d.octets()));
            echo(src, dst, 58, icmp.slice())
        }
        other => panic!("unexpected {other:?}"),
    }
}

fn echo(
    src: IpAddr,
    dst: IpAddr,
    protocol: u8,
    message: &[u8],
) -> (Direction, Option<Segment>, usize) {
    assert!(matches!(message[0], 0 | 8 | 128 | 129));
    let id = u16::from_be_bytes([message[4], message[5]]);
    (Direction { src: (src, id), dst: (dst, id), protocol }, None, message.len() - 8)
}
