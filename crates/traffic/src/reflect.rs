// SPDX-License-Identifier: BSD-3-Clause
//! Turns a frame round in place, so that it goes back to its sender.
//!
//! Source and destination are exchanged. That does not change an internet checksum; the CRC of SCTP
//! is computed again. VLAN tags, TTL, packets inside of tunnels and everything else stay.

use crate::link::find_packet;
use std::ops::Range;
use wire::checksum::{Crc32c, update};
use wire::ethernet::{Ethernet, ether_type};
use wire::ipv6::{Ipv6, is_extension};
use wire::{icmp, ipv4::Ipv4, proto, sctp::Sctp};

/// Addresses and ports of a frame that are exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Swap {
    /// Nothing: the frame goes back unchanged.
    None,
    /// MAC addresses.
    Mac,
    /// MAC and IP addresses.
    Ip,
    /// MAC and IP addresses, and ports of TCP, UDP and SCTP; echo requests become replies.
    Ports,
}

/// Reason why a frame was left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NotSwapped {
    /// The frame has no IP header.
    NotIp,
    /// The frame is truncated within its headers.
    Short,
    /// The destination or source MAC address is a group address, such as broadcast.
    Group,
    /// The frame has an IPv6 routing header with segments left. Its checksum is computed with
    /// another address than its destination.
    Routed,
}

impl NotSwapped {
    /// Every reason.
    pub const ALL: [Self; 4] = [Self::NotIp, Self::Short, Self::Group, Self::Routed];

    /// Returns the name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotIp => "not_ip",
            Self::Short => "short",
            Self::Group => "group",
            Self::Routed => "routed",
        }
    }
}

/// What was exchanged in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swapped {
    /// All requested fields were exchanged. In protocols without ports, these are the addresses.
    Whole,
    /// The addresses were exchanged, but not the ports.
    WithoutPorts(KeptPorts),
}

/// Reason why the ports of a frame were not exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum KeptPorts {
    /// The packet is a later fragment without ports, or a fragment of SCTP, whose CRC covers all
    /// fragments.
    Fragment,
    /// The frame ends before the ports, or before the end of an SCTP packet, whose CRC then cannot
    /// be computed.
    Short,
    /// The frame has more IPv6 extension headers than are read.
    Extensions,
}

impl KeptPorts {
    /// Every reason.
    pub const ALL: [Self; 3] = [Self::Fragment, Self::Short, Self::Extensions];

    /// Returns the name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fragment => "fragment",
            Self::Short => "short_transport",
            Self::Extensions => "extensions",
        }
    }
}

/// Maximum number of IPv6 extension headers that are read.
const EXTENSIONS_MAX: usize = 8;

impl Swap {
    /// Exchanges the two ends of the frame, in place. With [`Swap::Ports`], an ICMP echo request
    /// becomes a reply.
    ///
    /// # Errors
    /// The ends cannot be exchanged. The frame is unchanged.
    #[inline]
    pub fn apply(self, frame: &mut [u8]) -> Result<Swapped, NotSwapped> {
        if self == Swap::None {
            return Ok(Swapped::Whole);
        }
        if frame.len() < Ethernet::LEN {
            return Err(NotSwapped::Short);
        }
        // Every reflector of a network would answer a packet to a group address.
        if (frame[0] | frame[6]) & 1 != 0 {
            return Err(NotSwapped::Group);
        }
        if self == Swap::Mac {
            swap(frame, 0, 6, 6);
            return Ok(Swapped::Whole);
        }
        let (kind, at) = find_packet(frame).ok_or(NotSwapped::Short)?;
        let packet = &mut frame[at..];
        let transport = match kind {
            ether_type::IPV4 => swap_ipv4(packet)?,
            ether_type::IPV6 => swap_ipv6(packet)?,
            _ => return Err(NotSwapped::NotIp),
        };
        let ports = match (self, transport) {
            (Swap::Ports, Ok(transport)) => {
                swap_transport(&mut packet[transport.range.clone()], &transport)
            }
            (Swap::Ports, Err(kept)) => Err(kept),
            _ => Ok(()),
        };
        swap(frame, 0, 6, 6);
        Ok(ports.map_or_else(Swapped::WithoutPorts, |()| Swapped::Whole))
    }
}

/// Exchanges `len` bytes at `at` with those at `at + distance`.
#[inline(always)]
fn swap(bytes: &mut [u8], at: usize, distance: usize, len: usize) {
    let (first, second) = bytes[at..].split_at_mut(distance);
    first[..len].swap_with_slice(&mut second[..len]);
}

/// The part of a packet behind its IP headers.
struct Transport {
    /// Its bytes in the packet; if the frame is truncated, those that are there.
    range: Range<usize>,
    protocol: u8,
    /// End of the segment by the IP header; `None` if the segment continues in the next fragment.
    end: Option<usize>,
}

/// Exchanges the addresses of an IPv4 packet. Returns its transport part, or why its ports stay.
#[inline]
fn swap_ipv4(packet: &mut [u8]) -> Result<Result<Transport, KeptPorts>, NotSwapped> {
    if packet.len() < Ipv4::LEN {
        return Err(NotSwapped::Short);
    }
    swap(packet, 12, 4, 4);
    let Some(ip) = Ipv4::new(packet) else { return Ok(Err(KeptPorts::Short)) };
    if ip.fragment_offset() > 0 {
        return Ok(Err(KeptPorts::Fragment));
    }
    let (start, end) = (ip.header_len(), usize::from(ip.total_len()));
    if end < start {
        return Ok(Err(KeptPorts::Short));
    }
    let range = start..end.min(packet.len());
    let end = (!ip.more_fragments()).then_some(end);
    Ok(Ok(Transport { range, protocol: ip.protocol(), end }))
}

/// Exchanges the addresses of an IPv6 packet. Returns its transport part, or why its ports stay.
#[inline]
fn swap_ipv6(packet: &mut [u8]) -> Result<Result<Transport, KeptPorts>, NotSwapped> {
    let ip = Ipv6::new(packet).ok_or(NotSwapped::Short)?;
    let transport = match is_walked(ip.next_header()) {
        false => {
            let end = Ipv6::LEN + usize::from(ip.payload_len());
            let range = Ipv6::LEN..end.min(packet.len());
            Ok(Transport { range, protocol: ip.next_header(), end: Some(end) })
        }
        true => walk_extensions(&ip)?,
    };
    swap(packet, 8, 16, 16);
    Ok(transport)
}

/// True for extension headers behind which the transport header is searched.
///
/// The search ends at an authentication header. With other addresses the packet is no longer
/// authentic, so the rest stays.
#[inline(always)]
fn is_walked(number: u8) -> bool {
    is_extension(number) && number != proto::AUTH
}

/// Finds the transport part behind extension headers, or the reason why the ports stay.
#[cold]
fn walk_extensions(ip: &Ipv6) -> Result<Result<Transport, KeptPorts>, NotSwapped> {
    let arrived = Ipv6::LEN + ip.payload().len();
    let mut walk = ip.extensions();
    let mut is_fragment = false;
    for _ in 0..=EXTENSIONS_MAX {
        let protocol = walk.next_header();
        if !is_walked(protocol) {
            let range = arrived - walk.payload().len()..arrived;
            let end = Ipv6::LEN + usize::from(ip.payload_len());
            return Ok(Ok(Transport { range, protocol, end: (!is_fragment).then_some(end) }));
        }
        let Some(extension) = walk.next() else { return Ok(Err(KeptPorts::Short)) };
        // RFC 8200 section 8.1: the checksum is computed with the final destination.
        if protocol == proto::ROUTING && extension.bytes()[3] > 0 {
            return Err(NotSwapped::Routed);
        }
        match extension.fragment() {
            Some((offset, _)) if offset > 0 => return Ok(Err(KeptPorts::Fragment)),
            Some((_, is_more)) => is_fragment |= is_more,
            None => {}
        }
    }
    Ok(Err(KeptPorts::Extensions))
}

/// Exchanges the ports, or makes an echo request a reply.
#[inline]
fn swap_transport(segment: &mut [u8], transport: &Transport) -> Result<(), KeptPorts> {
    match transport.protocol {
        proto::TCP | proto::UDP if segment.len() >= 4 => swap(segment, 0, 2, 2),
        proto::SCTP if transport.end.is_none() => return Err(KeptPorts::Fragment),
        proto::SCTP if segment.len() >= Sctp::LEN && transport.end == Some(transport.range.end) => {
            swap(segment, 0, 2, 2);
            segment[8..12].fill(0);
            let crc = Crc32c::default().add_bytes(segment).finish();
            segment[8..12].copy_from_slice(&crc.to_le_bytes());
        }
        proto::ICMP if segment.len() >= 4 => {
            answer(segment, icmp::v4::ECHO_REQUEST, icmp::v4::ECHO_REPLY);
        }
        proto::ICMPV6 if segment.len() >= 4 => {
            answer(segment, icmp::v6::ECHO_REQUEST, icmp::v6::ECHO_REPLY);
        }
        proto::TCP | proto::UDP | proto::SCTP | proto::ICMP | proto::ICMPV6 => {
            return Err(KeptPorts::Short);
        }
        _ => {}
    }
    Ok(())
}

/// Changes the type of an ICMP message from `request` to `reply`; other types stay.
#[inline]
fn answer(message: &mut [u8], request: u8, reply: u8) {
    if message[0] != request {
        return;
    }
    let [code, checksum @ ..] = [message[1], message[2], message[3]];
    let [old, new] = [request, reply].map(|kind| u16::from_be_bytes([kind, code]));
    let mut updated = update(u16::from_be_bytes(checksum), old, new);
    // RFC 1624 section 3: the checksum of a message of zeros is 0xffff, not 0.
    if updated == 0 && new == 0 && message[4..].iter().all(|byte| *byte == 0) {
        updated = 0xffff;
    }
    message[0] = reply;
    message[2..4].copy_from_slice(&updated.to_be_bytes());
}
