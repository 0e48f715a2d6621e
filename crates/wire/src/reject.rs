// SPDX-License-Identifier: BSD-3-Clause
//! Builds the frame that tells the sender of a packet that it was rejected: a TCP reset, or an ICMP
//! error "administratively prohibited".
//!
//! The answer has the addresses of the packet in reverse, on both layers: it seems to come from the
//! receiver of the packet, as the answer of a closed port would. VLAN tags are kept. There is no
//! answer where the RFCs forbid one (RFC 9293 3.10.7.1, RFC 1812 4.3.2.7, RFC 4443 2.4).

use crate::checksum::{internet, pseudo_v4, pseudo_v6};
use crate::ethernet::{Ethernet, MIN_FRAME, ether_type};
use crate::icmp::{Icmp, v4, v6};
use crate::ipv4::Ipv4;
use crate::ipv6::{Ipv6, is_extension};
use crate::tcp::{ACK, FIN, RST, SYN, Tcp};
use crate::vlan::{Vlan, is_tag};
use crate::{be16, proto};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Most VLAN tags that an answer keeps.
const TAGS_MAX: usize = 2;
/// Longest IPv4 answer in bytes (RFC 1812 4.3.2.3).
const IPV4_MAX: usize = 576;
/// Longest IPv6 answer in bytes: the minimum MTU (RFC 4443 2.4(c)).
const IPV6_MAX: usize = 1280;
/// Time to live of an answer.
const TTL: u8 = 64;
/// ICMP code "communication administratively prohibited" (RFC 1812 5.2.7.1).
const PROHIBITED_V4: u8 = 13;
/// ICMPv6 code "communication with destination administratively prohibited" (RFC 4443 3.1).
const PROHIBITED_V6: u8 = 1;
/// Largest ICMP type that is known to be an error or a query. An unknown one may be an error.
const LAST_KNOWN_V4: u8 = 18;
/// ICMP source quench, an error.
const SOURCE_QUENCH: u8 = 4;
/// ICMPv6 redirect, which gets no error although it is none (RFC 4443 2.4(e.2)).
const REDIRECT_V6: u8 = 137;

/// Room for the longest answer.
pub const ANSWER_MAX: usize = Ethernet::LEN + TAGS_MAX * Vlan::LEN + IPV6_MAX;

/// Writes the answer to the rejected packet `frame` into `out`. Returns its length; `None` if the
/// packet may get no answer. `frame` may be cut off behind its headers: then the answer quotes
/// less.
pub fn answer(frame: &[u8], out: &mut [u8; ANSWER_MAX]) -> Option<usize> {
    let (link, kind, packet) = link_layer(frame)?;
    let (head, body) = out.split_at_mut(link.len());
    head.copy_from_slice(link);
    head[..6].copy_from_slice(&link[6..12]);
    head[6..12].copy_from_slice(&link[..6]);
    let len = match kind {
        ether_type::IPV4 => answer_v4(packet, body),
        ether_type::IPV6 => answer_v6(packet, body),
        _ => None,
    }?;
    let end = link.len() + len;
    let padded = end.max(MIN_FRAME);
    out[end..padded].fill(0);
    Some(padded)
}

/// Returns the link-layer header with its tags, the EtherType, and the packet. `None` for frames to
/// or from a group address: they get no answer (RFC 1812 4.3.2.7, RFC 4443 2.4(e.4), (e.5)).
fn link_layer(frame: &[u8]) -> Option<(&[u8], u16, &[u8])> {
    let ethernet = Ethernet::new(frame)?;
    let is_group = |address: [u8; 6]| address[0] & 1 != 0;
    if is_group(ethernet.dst()) || is_group(ethernet.src()) {
        return None;
    }
    let (mut kind, mut packet) = (ethernet.ether_type(), ethernet.payload());
    for _ in 0..TAGS_MAX {
        if is_tag(kind) {
            let tag = Vlan::new(packet)?;
            (kind, packet) = (tag.ether_type(), tag.payload());
        }
    }
    Some((&frame[..frame.len() - packet.len()], kind, packet))
}

fn answer_v4(packet: &[u8], out: &mut [u8]) -> Option<usize> {
    let ip = Ipv4::new(packet)?;
    let header = &packet[..ip.header_len()];
    let is_valid = ip.version() == 4
        && usize::from(ip.total_len()) >= header.len()
        && internet(header) == 0
        && ip.fragment_offset() == 0;
    // The receiver of the packet is the sender of the answer.
    if !is_valid || !can_send_v4(ip.src()) || !can_send_v4(ip.dst()) {
        return None;
    }
    let data_len = usize::from(ip.total_len()) - header.len();
    let (protocol, len) = match ip.protocol() {
        proto::TCP => {
            let data_len = (!ip.more_fragments()).then_some(data_len);
            (proto::TCP, write_reset(ip.payload(), data_len, &mut out[Ipv4::LEN..])?)
        }
        proto::ICMP if !is_query_v4(ip.payload()) => return None,
        _ => {
            let quote = &packet[..(header.len() + ip.payload().len()).min(IPV4_MAX - 28)];
            let icmp = [v4::UNREACHABLE, PROHIBITED_V4];
            (proto::ICMP, write_error(icmp, quote, &mut out[Ipv4::LEN..]))
        }
    };
    let total = Ipv4::LEN + len;
    let (header, body) = out[..total].split_at_mut(Ipv4::LEN);
    header.fill(0);
    header[0] = 0x45;
    header[2..4].copy_from_slice(&(total as u16).to_be_bytes());
    header[6] = 0x40;
    (header[8], header[9]) = (TTL, protocol);
    header[12..16].copy_from_slice(&ip.dst().octets());
    header[16..20].copy_from_slice(&ip.src().octets());
    let sum = internet(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    match protocol {
        proto::TCP => {
            let pseudo = pseudo_v4(ip.dst(), ip.src(), proto::TCP, len as u16);
            put16(body, 16, pseudo.add_bytes(body).finish());
        }
        _ => put16(body, 2, internet(body)),
    }
    Some(total)
}

fn answer_v6(packet: &[u8], out: &mut [u8]) -> Option<usize> {
    let ip = Ipv6::new(packet)?;
    if ip.version() != 6 || !can_send_v6(ip.src()) || !can_send_v6(ip.dst()) {
        return None;
    }
    let mut walk = ip.extensions();
    let (mut extensions, mut is_cut) = (0, false);
    for extension in walk.by_ref() {
        extensions += extension.bytes().len();
        if let Some((offset, more)) = extension.fragment() {
            if offset > 0 {
                return None;
            }
            is_cut = more;
        }
    }
    // Of a header chain that is cut off, the end might be an ICMP error.
    if is_extension(walk.next_header()) {
        return None;
    }
    let data_len = usize::from(ip.payload_len()).checked_sub(extensions)?;
    let (protocol, len) = match walk.next_header() {
        proto::TCP => {
            let data_len = (!is_cut).then_some(data_len);
            (proto::TCP, write_reset(walk.payload(), data_len, &mut out[Ipv6::LEN..])?)
        }
        proto::ICMPV6 if !is_query_v6(walk.payload()) => return None,
        _ => {
            let quote = &packet[..(Ipv6::LEN + ip.payload().len()).min(IPV6_MAX - 48)];
            let icmp = [v6::UNREACHABLE, PROHIBITED_V6];
            (proto::ICMPV6, write_error(icmp, quote, &mut out[Ipv6::LEN..]))
        }
    };
    let (header, body) = out[..Ipv6::LEN + len].split_at_mut(Ipv6::LEN);
    header[..4].copy_from_slice(&[0x60, 0, 0, 0]);
    header[4..6].copy_from_slice(&(len as u16).to_be_bytes());
    (header[6], header[7]) = (protocol, TTL);
    header[8..24].copy_from_slice(&ip.dst().octets());
    header[24..40].copy_from_slice(&ip.src().octets());
    let at = if protocol == proto::TCP { 16 } else { 2 };
    let pseudo = pseudo_v6(ip.dst(), ip.src(), protocol, len as u32);
    put16(body, at, pseudo.add_bytes(body).finish());
    Some(Ipv6::LEN + len)
}

/// Writes the reset that a closed port would send for `segment`, without checksum. Returns its
/// length; `None` for a reset, and for a segment that is cut off. `data_len` is the length of
/// header and data, if the packet has all of it.
fn write_reset(segment: &[u8], data_len: Option<usize>, out: &mut [u8]) -> Option<usize> {
    let tcp = Tcp::new(segment)?;
    if tcp.flags() & RST != 0 {
        return None;
    }
    // RFC 9293 3.10.7.1: a reset that an acknowledgement fits has its number, any other
    // acknowledges the segment.
    let (seq, ack, flags) = match tcp.flags() & ACK != 0 {
        true => (tcp.ack(), 0, RST),
        false => {
            let data = data_len?.checked_sub(tcp.header_len())?;
            let controls = (tcp.flags() & (SYN | FIN)).count_ones();
            let ack = tcp.seq().wrapping_add(data as u32).wrapping_add(controls);
            (0, ack, RST | ACK)
        }
    };
    let out = &mut out[..Tcp::LEN];
    out.fill(0);
    out[..2].copy_from_slice(&tcp.dport().to_be_bytes());
    out[2..4].copy_from_slice(&tcp.sport().to_be_bytes());
    out[4..8].copy_from_slice(&seq.to_be_bytes());
    out[8..12].copy_from_slice(&ack.to_be_bytes());
    out[12] = (Tcp::LEN as u8 / 4) << 4;
    out[13] = flags;
    Some(Tcp::LEN)
}

/// Writes an ICMP error that quotes a packet, without checksum. Returns its length.
fn write_error(icmp: [u8; 2], quote: &[u8], out: &mut [u8]) -> usize {
    out[..Icmp::LEN].fill(0);
    out[..2].copy_from_slice(&icmp);
    out[Icmp::LEN..Icmp::LEN + quote.len()].copy_from_slice(quote);
    Icmp::LEN + quote.len()
}

fn put16(bytes: &mut [u8], at: usize, value: u16) {
    debug_assert_eq!(be16(bytes, at), 0);
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// True if the message is known to be no ICMP error.
fn is_query_v4(message: &[u8]) -> bool {
    Icmp::new(message).is_some_and(|icmp| match icmp.kind() {
        v4::UNREACHABLE | SOURCE_QUENCH | v4::REDIRECT => false,
        v4::TIME_EXCEEDED | v4::PARAMETER_PROBLEM => false,
        kind => kind <= LAST_KNOWN_V4,
    })
}

/// True if the message is neither an ICMPv6 error nor a redirect.
fn is_query_v6(message: &[u8]) -> bool {
    Icmp::new(message).is_some_and(|icmp| icmp.kind() >= 128 && icmp.kind() != REDIRECT_V6)
}

/// True if the address can be that of one sender (RFC 1812 4.3.2.7 and 5.3.7).
fn can_send_v4(address: Ipv4Addr) -> bool {
    let [first, ..] = address.octets();
    first != 0 && !address.is_loopback() && first < 224
}

/// True if the address can be that of one sender (RFC 4443 2.4(e.6)).
fn can_send_v6(address: Ipv6Addr) -> bool {
    !address.is_unspecified() && !address.is_loopback() && !address.is_multicast()
}

#[cfg(test)]
mod tests;
