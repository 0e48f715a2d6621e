// SPDX-License-Identifier: BSD-3-Clause
//! Turns a frame round in place, so that it goes back to where it came from.
//!
//! Addresses and ports change places, which leaves the internet checksum as it is; the CRC of SCTP
//! is made anew. VLAN tags, TTL, packets inside of tunnels and everything else stay.

use crate::link::find_packet;
use std::ops::Range;
use wire::checksum::{Crc32c, update};
use wire::ethernet::{Ethernet, ether_type};
use wire::ipv6::{Ipv6, is_extension};
use wire::{icmp, ipv4::Ipv4, proto, sctp::Sctp};

/// Addresses and ports of a frame that are exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Swap {
    /// Nothing: it goes back as it is.
    None,
    /// MAC addresses.
    Mac,
    /// MAC and IP addresses.
    Ip,
    /// MAC and IP addresses, and ports of TCP, UDP and SCTP; echo requests become replies.
    Ports,
}

/// Why a frame is not turned round, and stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NotTurned {
    /// The frame has no IP header.
    NotIp,
    /// The frame is truncated within its headers.
    Short,
    /// Its destination or its source is a group address, such as broadcast.
    Group,
    /// The frame has an IPv6 routing header with segments left: its checksum is not for its
    /// destination.
    Routed,
}

impl NotTurned {
    /// Every reason.
    pub const ALL: [Self; 4] = [Self::NotIp, Self::Short, Self::Group, Self::Routed];

    /// Its name in results.
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
pub enum Turned {
    /// Everything that was requested. For protocols without ports, these are the addresses.
    Whole,
    /// Its addresses were exchanged, but not its ports.
    WithoutPorts(KeptPorts),
}

/// Why the ports of a frame stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum KeptPorts {
    /// A fragment that does not have them, or one of SCTP, whose CRC covers all fragments.
    Fragment,
    /// The frame ends before the ports, or before the end of an SCTP packet, which needs a new CRC.
    Short,
    /// The frame has more IPv6 extension headers than are read.
    Extensions,
}

impl KeptPorts {
    /// Every reason.
    pub const ALL: [Self; 3] = [Self::Fragment, Self::Short, Self::Extensions];

    /// Its name in results.
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
    /// Turns the frame round. A request for an ICMP echo becomes its reply if ports are exchanged.
    #[inline]
    pub fn turn(self, frame: &mut [u8]) -> Result<Turned, NotTurned> {
        if self == Swap::None {
            return Ok(Turned::Whole);
        }
        if frame.len() < Ethernet::LEN {
            return Err(NotTurned::Short);
        }
        // Every reflector of a network would answer a packet for a group.
        if (frame[0] | frame[6]) & 1 != 0 {
            return Err(NotTurned::Group);
        }
        if self == Swap::Mac {
            swap(frame, 0, 6, 6);
            return Ok(Turned::Whole);
        }
        let (kind, at) = find_packet(frame).ok_or(NotTurned::Short)?;
        let packet = &mut frame[at..];
        let transport = match kind {
            ether_type::IPV4 => turn_ipv4(packet)?,
            ether_type::IPV6 => turn_ipv6(packet)?,
            _ => return Err(NotTurned::NotIp),
        };
        let turned = match (self, transport) {
            (Swap::Ports, Ok(transport)) => {
                turn_transport(&mut packet[transport.range.clone()], &transport)
            }
            (Swap::Ports, Err(kept)) => Err(kept),
            _ => Ok(()),
        };
        swap(frame, 0, 6, 6);
        Ok(turned.map_or_else(Turned::WithoutPorts, |()| Turned::Whole))
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
    /// Place in the packet, as far as that arrived.
    range: Range<usize>,
    protocol: u8,
    /// End of the segment by the IP header; `None` if it continues in the next fragment.
    end: Option<usize>,
}

/// Exchanges the addresses; returns where the ports are, or why they stay.
#[inline]
fn turn_ipv4(packet: &mut [u8]) -> Result<Result<Transport, KeptPorts>, NotTurned> {
    if packet.len() < Ipv4::LEN {
        return Err(NotTurned::Short);
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

/// Exchanges the addresses of an IPv6 packet, as for IPv4; returns its transport part.
#[inline]
fn turn_ipv6(packet: &mut [u8]) -> Result<Result<Transport, KeptPorts>, NotTurned> {
    let ip = Ipv6::new(packet).ok_or(NotTurned::Short)?;
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

/// True for the extension headers that are walked. What follows an authentication header stays: it
/// is no longer authentic with other addresses.
#[inline(always)]
fn is_walked(number: u8) -> bool {
    is_extension(number) && number != proto::AUTH
}

/// Finds the transport segment behind extension headers.
#[cold]
fn walk_extensions(ip: &Ipv6) -> Result<Result<Transport, KeptPorts>, NotTurned> {
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
        // RFC 8200 section 8.1: the checksum has the address that the packet goes to in the end.
        if protocol == proto::ROUTING && extension.bytes()[3] > 0 {
            return Err(NotTurned::Routed);
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
fn turn_transport(segment: &mut [u8], transport: &Transport) -> Result<(), KeptPorts> {
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

/// Makes a message of type `request` one of type `reply`.
#[inline]
fn answer(message: &mut [u8], request: u8, reply: u8) {
    if message[0] != request {
        return;
    }
    let [code, checksum @ ..] = [message[1], message[2], message[3]];
    let [old, new] = [request, reply].map(|kind| u16::from_be_bytes([kind, code]));
    let mut updated = update(u16::from_be_bytes(checksum), old, new);
    // RFC 1624 section 3: of nothing but zeros the checksum is not 0.
    if updated == 0 && new == 0 && message[4..].iter().all(|byte| *byte == 0) {
        updated = 0xffff;
    }
    message[0] = reply;
    message[2..4].copy_from_slice(&updated.to_be_bytes());
}
