// SPDX-License-Identifier: BSD-3-Clause
//! Turns a frame round in place, so that it goes back to where it came from.
//!
//! Addresses and ports change places, which leaves the internet checksum as it is; the CRC of SCTP
//! is made anew. VLAN tags, TTL and everything else stay.

use wire::checksum::Crc32c;
use wire::ethernet::{Ethernet, ether_type};
use wire::{ipv4::Ipv4, ipv6::Ipv6, proto, sctp::Sctp, vlan};

/// How far a frame is turned round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Swap {
    /// Nothing: it goes back as it is.
    None,
    /// MAC addresses.
    Mac,
    /// MAC and IP addresses.
    Ip,
    /// MAC and IP addresses, and ports of TCP, UDP and SCTP.
    Ports,
}

/// Why a frame is not turned round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NotTurned {
    /// It has no IP header.
    NotIp,
    /// It is cut within its headers.
    Short,
    /// Its destination or its source is a group address, such as broadcast.
    Group,
}

impl NotTurned {
    /// Every reason.
    pub const ALL: [Self; 3] = [Self::NotIp, Self::Short, Self::Group];

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotIp => "not_ip",
            Self::Short => "short",
            Self::Group => "group",
        }
    }
}

impl Swap {
    /// Turns the frame round.
    #[inline]
    pub fn turn(self, frame: &mut [u8]) -> Result<(), NotTurned> {
        if self == Swap::None {
            return Ok(());
        }
        if frame.len() < Ethernet::LEN {
            return Err(NotTurned::Short);
        }
        // Every reflector of a network would answer a packet for a group.
        if (frame[0] | frame[6]) & 1 != 0 {
            return Err(NotTurned::Group);
        }
        let headers = if self == Swap::Mac { None } else { Some(find_packet(frame)?) };
        swap(frame, 0, 6, 6);
        let Some((at, is_ipv6)) = headers else { return Ok(()) };
        let packet = &mut frame[at..];
        let transport = if is_ipv6 { turn_ipv6(packet) } else { turn_ipv4(packet) };
        if let (Swap::Ports, Some(segment)) = (self, transport) {
            turn_ports(&mut packet[segment.0], segment.1);
        }
        Ok(())
    }
}

/// Exchanges `len` bytes at `at` with those at `at + distance`.
#[inline(always)]
fn swap(bytes: &mut [u8], at: usize, distance: usize, len: usize) {
    let (first, second) = bytes[at..].split_at_mut(distance);
    first[..len].swap_with_slice(&mut second[..len]);
}

/// Where the IP header begins, and whether it is one of IPv6.
#[inline]
fn find_packet(frame: &[u8]) -> Result<(usize, bool), NotTurned> {
    let kind = |at: usize| {
        let bytes = frame.get(at..at + 2).ok_or(NotTurned::Short)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    };
    let mut at = Ethernet::LEN;
    let mut found = kind(at - 2)?;
    while vlan::is_tag(found) {
        at += 4;
        found = kind(at - 2)?;
    }
    match found {
        ether_type::IPV4 if frame.len() >= at + Ipv4::LEN => Ok((at, false)),
        ether_type::IPV6 if frame.len() >= at + Ipv6::LEN => Ok((at, true)),
        ether_type::IPV4 | ether_type::IPV6 => Err(NotTurned::Short),
        _ => Err(NotTurned::NotIp),
    }
}

/// The range of the transport segment in the packet, and its protocol.
type Transport = Option<(std::ops::Range<usize>, u8)>;

#[inline]
fn turn_ipv4(packet: &mut [u8]) -> Transport {
    swap(packet, 12, 4, 4);
    let ip = Ipv4::new(packet)?;
    if ip.fragment_offset() > 0 || (ip.more_fragments() && ip.protocol() == proto::SCTP) {
        return None;
    }
    whole(ip.header_len()..usize::from(ip.total_len()), packet.len(), ip.protocol())
}

#[inline]
fn turn_ipv6(packet: &mut [u8]) -> Transport {
    swap(packet, 8, 16, 16);
    let ip = Ipv6::new(packet)?;
    // Behind extension headers ports stay: fragments and routing headers are no test traffic.
    let end = Ipv6::LEN + usize::from(ip.payload_len());
    whole(Ipv6::LEN..end, packet.len(), ip.next_header())
}

/// The segment at `range`, as far as the frame goes; nothing of one whose CRC cannot be made.
#[inline(always)]
fn whole(range: std::ops::Range<usize>, len: usize, protocol: u8) -> Transport {
    if range.end > len && protocol == proto::SCTP {
        return None;
    }
    let range = range.start..range.end.min(len);
    (range.start <= range.end).then_some((range, protocol))
}

#[inline]
fn turn_ports(segment: &mut [u8], protocol: u8) {
    match protocol {
        proto::TCP | proto::UDP if segment.len() >= 4 => swap(segment, 0, 2, 2),
        proto::SCTP if segment.len() >= Sctp::LEN => {
            swap(segment, 0, 2, 2);
            segment[8..12].fill(0);
            let crc = Crc32c::default().add_bytes(segment).finish();
            segment[8..12].copy_from_slice(&crc.to_le_bytes());
        }
        _ => {}
    }
}
