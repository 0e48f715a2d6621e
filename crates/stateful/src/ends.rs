// SPDX-License-Identifier: BSD-3-Clause
//! The two ends of a connection, also of packets that are damaged, or quoted by an ICMP error.

use crate::profile::{number_of, number_of_v4};
use std::net::IpAddr;
use wire::ethernet::{Ethernet, ether_type};
use wire::ipv4::Ipv4;
use wire::ipv6::Ipv6;
use wire::proto;

/// Addresses and ports of two ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) addresses: [u128; 2],
    pub(crate) ports: [u16; 2],
    pub(crate) is_udp: bool,
}

impl Ends {
    /// Returns them in the other order.
    pub(crate) fn reversed(mut self) -> Self {
        self.addresses.reverse();
        self.ports.reverse();
        self
    }

    /// Reads a frame, the sender first. Its checksums may be wrong. Returns `None` if it is neither
    /// TCP nor UDP, or too short.
    pub(crate) fn of_frame(frame: &[u8]) -> Option<Self> {
        let ethernet = Ethernet::new(frame)?;
        let read = match ethernet.ether_type() {
            ether_type::IPV4 => Self::of_ipv4(ethernet.payload()),
            ether_type::IPV6 => Self::of_ipv6(ethernet.payload()),
            _ => None,
        };
        read.map(|(ends, _)| ends)
    }

    /// Reads the first bytes of a packet, the sender first, and the sequence number of TCP.
    pub(crate) fn of_ipv4(packet: &[u8]) -> Option<(Self, u32)> {
        let ip = Ipv4::new(packet).filter(|ip| ip.fragment_offset() == 0)?;
        let addresses = [number_of_v4(ip.src()), number_of_v4(ip.dst())];
        Self::of_transport(addresses, ip.protocol(), packet.get(ip.header_len()..)?)
    }

    /// Reads the first bytes of a packet, the sender first, and the sequence number of TCP.
    pub(crate) fn of_ipv6(packet: &[u8]) -> Option<(Self, u32)> {
        let ip = Ipv6::new(packet)?;
        let addresses = [ip.src(), ip.dst()].map(|it| number_of(IpAddr::V6(it)));
        Self::of_transport(addresses, ip.next_header(), ip.payload())
    }

    /// An ICMP error quotes at least the first eight bytes behind the IP header (RFC 792).
    fn of_transport(addresses: [u128; 2], protocol: u8, bytes: &[u8]) -> Option<(Self, u32)> {
        let [a, b, c, d, seq @ ..] = *bytes.first_chunk::<8>()?;
        let is_udp = protocol == proto::UDP;
        let ports = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
        let ends = Self { addresses, ports, is_udp };
        (is_udp || protocol == proto::TCP).then_some((ends, u32::from_be_bytes(seq)))
    }
}
