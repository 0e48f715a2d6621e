// SPDX-License-Identifier: BSD-3-Clause
//! Reads frames with etherparse, an independent parser, and verifies every checksum.

use etherparse::{LinkSlice, NetSlice, SlicedPacket, TransportSlice};
use std::net::IpAddr;

/// Headers of a frame, sender first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Seen {
    pub(crate) protocol: u8,
    pub(crate) src: (IpAddr, u16),
    pub(crate) dst: (IpAddr, u16),
    pub(crate) macs: [[u8; 6]; 2],
    pub(crate) vlans: Vec<u16>,
    pub(crate) payload: Vec<u8>,
    /// True if the packet is TCP, or UDP with a checksum.
    pub(crate) has_checksum: bool,
    /// Bytes behind the IP packet.
    pub(crate) trailer: usize,
}

/// Reads a TCP or UDP frame.
///
/// # Panics
/// If a length or a checksum is wrong.
pub(crate) fn see(frame: &[u8]) -> Seen {
    let sliced = SlicedPacket::from_ethernet(frame).expect("a correct frame");
    let Some(LinkSlice::Ethernet2(link)) = &sliced.link else { panic!("no Ethernet") };
    let (src, dst, len): (IpAddr, IpAddr, usize) = match sliced.net.as_ref().expect("IP") {
        NetSlice::Ipv4(ip) => {
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            (header.source.into(), header.destination.into(), header.total_len.into())
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header();
            let len = 40 + usize::from(header.payload_length());
            (header.source_addr().into(), header.destination_addr().into(), len)
        }
        NetSlice::Arp(_) => panic!("ARP"),
    };
    let vlans: Vec<u16> = sliced.vlan_ids().iter().map(|id| id.value()).collect();
    let (protocol, ports, payload, has_checksum) =
        transport(sliced.transport.as_ref().expect("TCP or UDP"), src, dst);
    Seen {
        protocol,
        src: (src, ports[0]),
        dst: (dst, ports[1]),
        macs: [link.source(), link.destination()],
        trailer: frame.len() - 14 - 4 * vlans.len() - len,
        vlans,
        payload,
        has_checksum,
    }
}

fn transport(
    transport: &TransportSlice<'_>,
    src: IpAddr,
    dst: IpAddr,
) -> (u8, [u16; 2], Vec<u8>, bool) {
    match transport {
        TransportSlice::Tcp(tcp) => {
            let expected = match (src, dst) {
                (IpAddr::V4(s), IpAddr::V4(d)) => tcp.calc_checksum_ipv4(s.octets(), d.octets()),
                (IpAddr::V6(s), IpAddr::V6(d)) => tcp.calc_checksum_ipv6(s.octets(), d.octets()),
                _ => panic!("mixed addresses"),
            };
            assert_eq!(tcp.checksum(), expected.unwrap());
            (6, [tcp.source_port(), tcp.destination_port()], tcp.payload().to_vec(), true)
        }
        TransportSlice::Udp(udp) => {
            let (header, payload) = (udp.to_header(), udp.payload());
            let expected = match (src, dst) {
                (IpAddr::V4(s), IpAddr::V4(d)) => {
                    header.calc_checksum_ipv4_raw(s.octets(), d.octets(), payload)
                }
                (IpAddr::V6(s), IpAddr::V6(d)) => {
                    header.calc_checksum_ipv6_raw(s.octets(), d.octets(), payload)
                }
                _ => panic!("mixed addresses"),
            };
            let has_checksum = udp.checksum() != 0;
            assert!(has_checksum || src.is_ipv4(), "UDP over IPv6 has a checksum");
            assert!(!has_checksum || udp.checksum() == expected.unwrap());
            (17, [udp.source_port(), udp.destination_port()], payload.to_vec(), has_checksum)
        }
        other => panic!("unexpected {other:?}"),
    }
}
