// SPDX-License-Identifier: BSD-3-Clause
//! Reads and writes ARP (RFC 826) and neighbour discovery (RFC 4861 sections 4.3, 4.4, 7.2).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::checksum::Sum;
use wire::ethernet::{Ethernet, MIN_FRAME, ether_type};
use wire::icmp::v6;
use wire::ipv6::Ipv6;
use wire::{proto, vlan};

/// Bytes of an ARP packet for IPv4 over Ethernet.
const ARP_LEN: usize = 28;
/// First bytes of an ARP packet: Ethernet, IPv4, and the lengths of their addresses.
const ARP_HEAD: [u8; 6] = [0, 1, 8, 0, 6, 4];
const ARP_REQUEST: u8 = 1;
const ARP_REPLY: u8 = 2;
/// Bytes of a solicitation or advertisement without options.
const ND_LEN: usize = 24;
/// Bytes of an option with a link-layer address.
const LINK_ADDRESS_LEN: usize = 8;
const SOURCE_LINK_ADDRESS: u8 = 1;
const TARGET_LINK_ADDRESS: u8 = 2;
/// Flags of an advertisement: Solicited and Override (RFC 4861 section 4.4).
const SOLICITED_OVERRIDE: u8 = 0x60;
/// Hop limit of neighbour discovery, by which a packet through a router is refused (RFC 4861
/// section 11.2).
const HOP_LIMIT: u8 = 255;

/// An IP address with its MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The IP address.
    pub address: IpAddr,
    /// The MAC address.
    pub mac: [u8; 6],
}

/// A frame of ARP or neighbour discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A request for the MAC address of `target`.
    Request {
        /// The sender of the request. Its address is unspecified if it has none yet.
        from: Neighbour,
        /// The address whose MAC address is requested.
        target: IpAddr,
    },
    /// A reply with the MAC address of a neighbour.
    Reply(Neighbour),
}

/// A short frame that this crate has made.
#[derive(Clone, Copy, Debug)]
pub struct ShortFrame {
    bytes: [u8; Self::ROOM],
    len: usize,
}

impl ShortFrame {
    /// Bytes of the longest: Ethernet with two tags, IPv6, and a query with its UDP header.
    const ROOM: usize = Ethernet::LEN + 8 + Ipv6::LEN + 104;

    /// Returns the bytes, without FCS.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Makes a frame of these bytes.
    ///
    /// # Panics
    /// If there are more than the longest frame has.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let mut frame = Self { bytes: [0; Self::ROOM], len: 0 };
        frame.add(bytes);
        frame
    }

    fn new(macs: [[u8; 6]; 2], tags: &[u8]) -> Self {
        let mut frame = Self { bytes: [0; Self::ROOM], len: 0 };
        let [to, from] = macs;
        frame.add(&to);
        frame.add(&from);
        frame.add(tags);
        frame
    }

    fn add(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

impl Message {
    /// Reads a message. Returns `None` if the frame is something else.
    pub fn read(frame: &[u8]) -> Option<Self> {
        let (tags, kind) = tags(frame)?;
        let packet = &frame[Ethernet::LEN + tags.len()..];
        match kind {
            ether_type::ARP => Self::read_arp(packet),
            ether_type::IPV6 => Self::read_nd(packet),
            _ => None,
        }
    }

    fn read_arp(packet: &[u8]) -> Option<Self> {
        let packet: &[u8; ARP_LEN] = packet.first_chunk()?;
        let address =
            |at: usize| IpAddr::from([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]]);
        let from = Neighbour { address: address(14), mac: *packet[8..].first_chunk()? };
        match (packet[..6] == ARP_HEAD, packet[7]) {
            (true, ARP_REQUEST) => Some(Self::Request { from, target: address(24) }),
            (true, ARP_REPLY) => Some(Self::Reply(from)),
            _ => None,
        }
    }

    fn read_nd(packet: &[u8]) -> Option<Self> {
        let ip = Ipv6::new(packet)?;
        let is_nd = ip.next_header() == proto::ICMPV6 && ip.hop_limit() == HOP_LIMIT;
        let len = usize::from(ip.payload_len());
        let message = packet.get(Ipv6::LEN..Ipv6::LEN + len).filter(|_| is_nd)?;
        let (head, options) = message.split_first_chunk::<ND_LEN>()?;
        if !(pseudo_header(packet) + Sum::default().add_bytes(message)).is_zero() {
            return None;
        }
        let target: [u8; 16] = *head[8..].first_chunk()?;
        let target = IpAddr::V6(Ipv6Addr::from(target));
        match head[0] {
            v6::NEIGHBOUR_SOLICITATION => {
                // A neighbour without an address sends no MAC address; the reply is multicast.
                let mac = link_address(options, SOURCE_LINK_ADDRESS).unwrap_or_default();
                let from = Neighbour { address: IpAddr::V6(ip.src()), mac };
                Some(Self::Request { from, target })
            }
            v6::NEIGHBOUR_ADVERTISEMENT => {
                let mac = link_address(options, TARGET_LINK_ADDRESS)?;
                Some(Self::Reply(Neighbour { address: target, mac }))
            }
            _ => None,
        }
    }
}

/// Returns the frame by which `from` requests the MAC address of `target`. `tags` are the bytes of
/// its VLAN tags, from the first TPID on.
///
/// # Panics
/// If the addresses are of two families, or there are more than two tags.
pub fn request(from: Neighbour, target: IpAddr, tags: &[u8]) -> ShortFrame {
    match (from.address, target) {
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            let mut frame = ShortFrame::new([[0xff; 6], from.mac], tags);
            let asked = Neighbour { address: target.into(), mac: [0; 6] };
            add_arp(&mut frame, ARP_REQUEST, (source, from.mac), (target, asked.mac));
            frame
        }
        (IpAddr::V6(source), IpAddr::V6(target)) => {
            let [.., a, b, c] = target.octets();
            let mut group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 0).octets();
            group[13..].copy_from_slice(&[a, b, c]);
            let mac = [0x33, 0x33, 0xff, a, b, c];
            let mut frame = ShortFrame::new([mac, from.mac], tags);
            let kind = [v6::NEIGHBOUR_SOLICITATION, 0];
            let option = (SOURCE_LINK_ADDRESS, from.mac);
            add_nd(&mut frame, (source, group.into()), kind, target, option);
            frame
        }
        _ => panic!("{} and {target} are of two families", from.address),
    }
}

/// Returns the reply to the request in the frame `asked`: `target` has the MAC address `mac`.
///
/// `from` is the sender of the request. Returns `None` if the request has more than two tags, or if
/// the addresses are of two families.
pub fn reply(asked: &[u8], from: Neighbour, target: IpAddr, mac: [u8; 6]) -> Option<ShortFrame> {
    let (tags, _) = tags(asked)?;
    let asker = *asked[6..].first_chunk()?;
    let mut frame = ShortFrame::new([asker, mac], tags);
    match (target, from.address) {
        (IpAddr::V4(target), IpAddr::V4(address)) => {
            add_arp(&mut frame, ARP_REPLY, (target, mac), (address, from.mac));
        }
        (IpAddr::V6(target), IpAddr::V6(address)) => {
            let all_nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
            let (to, flags) = match address.is_unspecified() {
                true => (all_nodes, SOLICITED_OVERRIDE & 0x20),
                false => (address, SOLICITED_OVERRIDE),
            };
            let kind = [v6::NEIGHBOUR_ADVERTISEMENT, flags];
            let option = (TARGET_LINK_ADDRESS, mac);
            add_nd(&mut frame, (target, to), kind, target, option);
        }
        _ => return None,
    }
    Some(frame)
}

fn add_arp(
    frame: &mut ShortFrame,
    operation: u8,
    (source, source_mac): (Ipv4Addr, [u8; 6]),
    (target, target_mac): (Ipv4Addr, [u8; 6]),
) {
    frame.add(&ether_type::ARP.to_be_bytes());
    frame.add(&ARP_HEAD);
    frame.add(&[0, operation]);
    frame.add(&source_mac);
    frame.add(&source.octets());
    frame.add(&target_mac);
    frame.add(&target.octets());
    frame.len = frame.len.max(MIN_FRAME);
}

/// Adds a solicitation or advertisement with this type and these flags, and one option.
fn add_nd(
    frame: &mut ShortFrame,
    (source, to): (Ipv6Addr, Ipv6Addr),
    [kind, flags]: [u8; 2],
    target: Ipv6Addr,
    (option, mac): (u8, [u8; 6]),
) {
    frame.add(&ether_type::IPV6.to_be_bytes());
    let ip = frame.len;
    frame.add(&[0x60, 0, 0, 0, 0, (ND_LEN + LINK_ADDRESS_LEN) as u8, proto::ICMPV6, HOP_LIMIT]);
    frame.add(&source.octets());
    frame.add(&to.octets());
    let message = frame.len;
    frame.add(&[kind, 0, 0, 0, flags, 0, 0, 0]);
    frame.add(&target.octets());
    frame.add(&[option, 1]);
    frame.add(&mac);
    let sum = pseudo_header(&frame.bytes[ip..]).add_bytes(&frame.bytes[message..frame.len]);
    frame.bytes[message + 2..message + 4].copy_from_slice(&sum.finish().to_be_bytes());
}

/// Returns the sum of the pseudo header of an ICMPv6 packet (RFC 8200 section 8.1).
fn pseudo_header(packet: &[u8]) -> Sum {
    let len = u16::from_be_bytes([packet[4], packet[5]]);
    Sum::default().add_bytes(&packet[8..40]).add_u16(len).add_u16(proto::ICMPV6.into())
}

/// Returns the bytes of a frame's VLAN tags, at most two, and the EtherType behind them.
fn tags(frame: &[u8]) -> Option<(&[u8], u16)> {
    let begin = Ethernet::LEN - 2;
    for count in 0..=2 {
        let end = begin + 4 * count;
        let kind = u16::from_be_bytes(*frame.get(end..)?.first_chunk()?);
        if !vlan::is_tag(kind) {
            return Some((&frame[begin..end], kind));
        }
    }
    None
}

/// Returns the MAC address in the first option of this type.
fn link_address(mut options: &[u8], kind: u8) -> Option<[u8; 6]> {
    loop {
        let units = usize::from(*options.get(1)?);
        let (option, rest) = options.split_at_checked(8 * units).filter(|_| units > 0)?;
        if option[0] == kind && option.len() == LINK_ADDRESS_LEN {
            return option[2..].first_chunk().copied();
        }
        options = rest;
    }
}
