// SPDX-License-Identifier: BSD-3-Clause
//! Reads ICMP errors that say that a destination is unreachable, and the packet that they quote.

use crate::ends::Ends;
use crate::frame::pseudo;
use crate::profile::number_of;
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
    /// Ends of the quoted packet, its sender first.
    pub(crate) ends: Ends,
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
        let (ends, seq) = Ends::of_ipv4(icmp.payload())?;
        Some(Self { is_port: icmp.code() == PORT_UNREACHABLE, ends, seq })
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
        let (ends, seq) = Ends::of_ipv6(icmp.payload())?;
        Some(Self { is_port: icmp.code() == PORT_UNREACHABLE_V6, ends, seq })
    }
}
