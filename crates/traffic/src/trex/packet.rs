// SPDX-License-Identifier: BSD-3-Clause
//! Finds the headers of a captured frame, and checks that they can be rewritten.

use super::error::CaptureProblem;
use std::net::IpAddr;
use wire::ethernet::{Ethernet, ether_type};
use wire::vlan::{Vlan, is_tag};
use wire::{ipv4::Ipv4, ipv6::Ipv6, proto, tcp::Tcp, udp::Udp};

/// Maximum number of VLAN tags of a captured frame.
const MAX_TAGS: usize = 2;

/// Transport protocol of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    Udp,
    /// ICMP of IPv4. Its checksum does not cover the addresses, and it has no ports.
    Icmp,
}

/// A captured frame that can be rewritten.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    pub(super) bytes: &'a [u8],
    /// Offset of the IP header.
    pub(super) network_at: usize,
    /// Offset of the transport header.
    pub(super) transport_at: usize,
    /// End of the bytes that the transport checksum covers.
    pub(super) segment_end: usize,
    pub(super) transport: Transport,
    pub(super) src: (IpAddr, u16),
    pub(super) dst: (IpAddr, u16),
}

impl<'a> Packet<'a> {
    /// Finds the headers of a frame.
    ///
    /// # Errors
    /// The frame cannot be replayed.
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, CaptureProblem> {
        let (kind, network_at) = skip_tags(bytes).ok_or(CaptureProblem::NotIp)?;
        match kind {
            ether_type::IPV4 => Self::from_ipv4(bytes, network_at),
            ether_type::IPV6 => Self::from_ipv6(bytes, network_at),
            _ => Err(CaptureProblem::NotIp),
        }
    }

    fn from_ipv4(bytes: &'a [u8], network_at: usize) -> Result<Self, CaptureProblem> {
        let ip = Ipv4::new(&bytes[network_at..]).ok_or(CaptureProblem::Truncated)?;
        let (header_len, len) = (ip.header_len(), usize::from(ip.total_len()));
        if ip.version() != 4 || header_len < Ipv4::LEN || len < header_len {
            return Err(CaptureProblem::NotIp);
        }
        if ip.more_fragments() || ip.fragment_offset() != 0 {
            return Err(CaptureProblem::Fragment);
        }
        let transport = match ip.protocol() {
            proto::TCP => Transport::Tcp,
            proto::UDP => Transport::Udp,
            proto::ICMP => Transport::Icmp,
            _ => return Err(CaptureProblem::Protocol),
        };
        let addresses = [ip.src().into(), ip.dst().into()];
        let transport_at = network_at + header_len;
        Self::with_ports(bytes, [network_at, transport_at, network_at + len], transport, addresses)
    }

    fn from_ipv6(bytes: &'a [u8], network_at: usize) -> Result<Self, CaptureProblem> {
        let ip = Ipv6::new(&bytes[network_at..]).ok_or(CaptureProblem::Truncated)?;
        if ip.version() != 6 {
            return Err(CaptureProblem::NotIp);
        }
        let transport = match ip.next_header() {
            proto::TCP => Transport::Tcp,
            proto::UDP => Transport::Udp,
            proto::FRAGMENT => return Err(CaptureProblem::Fragment),
            _ => return Err(CaptureProblem::Protocol),
        };
        let addresses = [ip.src().into(), ip.dst().into()];
        let transport_at = network_at + Ipv6::LEN;
        let end = transport_at + usize::from(ip.payload_len());
        Self::with_ports(bytes, [network_at, transport_at, end], transport, addresses)
    }

    fn with_ports(
        bytes: &'a [u8],
        [network_at, transport_at, end]: [usize; 3],
        transport: Transport,
        [src, dst]: [IpAddr; 2],
    ) -> Result<Self, CaptureProblem> {
        let segment = bytes.get(transport_at..end).ok_or(CaptureProblem::Truncated)?;
        let ports = match transport {
            Transport::Tcp => Tcp::new(segment).map(|tcp| [tcp.sport(), tcp.dport()]),
            Transport::Udp => Udp::new(segment).map(|udp| [udp.sport(), udp.dport()]),
            Transport::Icmp => Some([0, 0]),
        };
        let [sport, dport] = ports.ok_or(CaptureProblem::Truncated)?;
        let segment_len = match transport {
            // A UDP datagram may end before its IP packet.
            Transport::Udp => Udp::new(segment).map_or(0, |udp| usize::from(udp.len_field())),
            _ => segment.len(),
        };
        if transport == Transport::Udp && !(Udp::LEN..=segment.len()).contains(&segment_len) {
            return Err(CaptureProblem::Truncated);
        }
        let (src, dst) = ((src, sport), (dst, dport));
        let segment_end = transport_at + segment_len;
        Ok(Self { bytes, network_at, transport_at, segment_end, transport, src, dst })
    }

    /// True if `other` belongs to the same flow, in either direction.
    pub(super) fn is_of_flow(&self, other: &Self) -> bool {
        let ends = [(self.src, self.dst), (self.dst, self.src)];
        self.transport == other.transport && ends.contains(&(other.src, other.dst))
    }

    /// True if `other` has a host in common with this packet. The second host may differ in a media
    /// flow, such as with a telephone that has two addresses.
    pub(super) fn shares_host_with(&self, other: &Self) -> bool {
        let hosts = [self.src.0, self.dst.0];
        hosts.contains(&other.src.0) || hosts.contains(&other.dst.0)
    }
}

/// Returns the EtherType behind the VLAN tags, and the offset of its payload.
fn skip_tags(bytes: &[u8]) -> Option<(u16, usize)> {
    let ethernet = Ethernet::new(bytes)?;
    let (mut kind, mut at) = (ethernet.ether_type(), Ethernet::LEN);
    for _ in 0..MAX_TAGS {
        if !is_tag(kind) {
            break;
        }
        kind = Vlan::new(&bytes[at..])?.ether_type();
        at += Vlan::LEN;
    }
    Some((kind, at))
}
