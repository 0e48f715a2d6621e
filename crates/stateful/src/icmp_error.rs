// SPDX-License-Identifier: BSD-3-Clause
//! Reads ICMP errors that say that a destination is unreachable, and the packet that they quote.

use crate::frame::pseudo;
use crate::profile::{number_of, number_of_v4};
use wire::checksum::internet;
use wire::ethernet::{Ethernet, ether_type};
use wire::icmp::{Icmp, v4, v6};
use wire::ipv4::Ipv4;
use wire::ipv6::Ipv6;
use wire::proto;

/// Code of ICMP for a port without a program.
const PORT_UNREACHABLE: u8 = 3;
/// Code of ICMP for a packet that is too long: no connection ends by it.
const FRAGMENTATION_NEEDED: u8 = 4;
/// Code of ICMPv6 for a port without a program.
const PORT_UNREACHABLE_V6: u8 = 4;

/// An error, with what it quotes of a packet that this end has sent.
pub(crate) struct IcmpError {
    /// True if the peer has no program at the port.
    pub(crate) is_port: bool,
    pub(crate) src: u128,
    pub(crate) dst: u128,
    pub(crate) sport: u16,
    pub(crate) dport: u16,
    pub(crate) is_udp: bool,
    /// Sequence number of TCP.
    pub(crate) seq: u32,
}

impl IcmpError {
    /// Reads a frame; `None` if it is no such error with a right checksum.
    pub(crate) fn read(frame: &[u8]) -> Option<Self> {
        let ethernet = Ethernet::new(frame)?;
        match ethernet.ether_type() {
            ether_type::IPV4 => Self::read_v4(ethernet.payload()),
            ether_type::IPV6 => Self::read_v6(ethernet.payload()),
            _ => None,
        }
    }

    fn read_v4(packet: &[u8]) -> Option<Self> {
        let ip = Ipv4::new(packet).filter(|ip| ip.protocol() == proto::ICMP)?;
        let message = packet.get(ip.header_len()..ip.total_len().into())?;
        let icmp = Icmp::new(message).filter(|_| internet(message) == 0)?;
        if icmp.kind() != v4::UNREACHABLE || icmp.code() == FRAGMENTATION_NEEDED {
            return None;
        }
        let quoted = Ipv4::new(icmp.payload()).filter(|ip| ip.fragment_offset() == 0)?;
        Self::of_quoted(
            icmp.code() == PORT_UNREACHABLE,
            [number_of_v4(quoted.src()), number_of_v4(quoted.dst())],
            quoted.protocol(),
            icmp.payload().get(quoted.header_len()..)?,
        )
    }

    fn read_v6(packet: &[u8]) -> Option<Self> {
        let ip = Ipv6::new(packet).filter(|ip| ip.next_header() == proto::ICMPV6)?;
        let message = ip.payload().get(..ip.payload_len().into())?;
        let [src, dst] = [ip.src(), ip.dst()].map(|it| number_of(it.into()));
        let sum = pseudo(src, dst, proto::ICMPV6, message.len()).add_bytes(message);
        let icmp = Icmp::new(message).filter(|_| sum.is_zero())?;
        if icmp.kind() != v6::UNREACHABLE {
            return None;
        }
        let quoted = Ipv6::new(icmp.payload())?;
        let ends = [quoted.src(), quoted.dst()].map(|it| number_of(it.into()));
        let is_port = icmp.code() == PORT_UNREACHABLE_V6;
        Self::of_quoted(is_port, ends, quoted.next_header(), quoted.payload())
    }

    /// At least the first eight bytes behind the IP header are quoted (RFC 792).
    fn of_quoted(is_port: bool, [src, dst]: [u128; 2], protocol: u8, bytes: &[u8]) -> Option<Self> {
        let [a, b, c, d, seq @ ..] = *bytes.first_chunk::<8>()?;
        let is_udp = protocol == proto::UDP;
        (is_udp || protocol == proto::TCP).then(|| Self {
            is_port,
            src,
            dst,
            sport: u16::from_be_bytes([a, b]),
            dport: u16::from_be_bytes([c, d]),
            is_udp,
            seq: u32::from_be_bytes(seq),
        })
    }
}
