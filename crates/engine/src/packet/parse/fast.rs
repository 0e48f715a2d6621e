// SPDX-License-Identifier: BSD-3-Clause
//! The fast parser, for TCP and UDP packets that are plain.
//!
//! Plain are packets with at most one VLAN tag, IPv4 without options or IPv6 without extension
//! headers. They are not fragments, have no fault, and have all headers in the first segment.
//!
//! It decides nothing about other packets: the general parser handles them. It reads whole words
//! and keeps the key in network order. Its branches go one way for nearly every packet.

use super::lengths::{ETHERTYPE_VLAN, Lengths, TRANSPORTS, Transport};
use super::plain::{plain_ipv4, plain_ipv6};
use crate::api::{VlanTags, ZoneSource};
use crate::packet::{
    BYTES_MAX, Batches, ETHERNET, ETHERTYPE_IPV4, ETHERTYPE_IPV6, HeaderInfo, IPV4_MIN, IPV6, L4Id,
    OVERHEAD_MAX, PacketMeta, TCP_MIN, VLAN_TAG, key4, key6, zone_of, zone_proto,
};

/// The parsed link layer: offset of the IP header, zone and descriptor.
struct Link {
    l3: usize,
    zone: u16,
    info: HeaderInfo,
}

impl Link {
    #[inline(always)]
    fn untagged(position: u8, zone: ZoneSource, ip_header: usize) -> Self {
        let info = HeaderInfo::plain(position, ip_header);
        Link { l3: ETHERNET, zone: zone.untagged(), info }
    }
}

/// Appends the packet to its batch. False: the packet is not plain, and nothing has changed.
#[inline(always)]
pub(super) fn parse(
    head: &[u8],
    lengths: Lengths,
    position: u8,
    zone: ZoneSource,
    batches: &mut Batches,
) -> bool {
    let taken = match u16_at(head, ETHERNET - 2) {
        Some(ETHERTYPE_IPV4) => {
            ipv4(head, lengths, Link::untagged(position, zone, IPV4_MIN), batches)
        }
        // Not inlined, to leave the registers to IPv4.
        Some(ETHERTYPE_IPV6) => untagged_ipv6(head, lengths, position, zone, batches),
        Some(ETHERTYPE_VLAN) => tagged(head, lengths, position, zone, batches),
        _ => None,
    };
    taken.is_some()
}

#[inline(never)]
fn untagged_ipv6(
    head: &[u8],
    lengths: Lengths,
    position: u8,
    zone: ZoneSource,
    batches: &mut Batches,
) -> Option<()> {
    ipv6(head, lengths, Link::untagged(position, zone, IPV6), batches)
}

#[inline(never)]
fn tagged(
    head: &[u8],
    lengths: Lengths,
    position: u8,
    zone: ZoneSource,
    batches: &mut Batches,
) -> Option<()> {
    let mut vlan = VlanTags::NONE;
    vlan.ids[0] = u16_at(head, ETHERNET)? & 0x0fff;
    let link = |ip_header: usize| Link {
        l3: ETHERNET + VLAN_TAG,
        zone: zone_of(&vlan, zone),
        info: HeaderInfo { vlan, ..HeaderInfo::plain(position, ip_header) },
    };
    match u16_at(head, ETHERNET + VLAN_TAG - 2)? {
        ETHERTYPE_IPV4 => ipv4(head, lengths, link(IPV4_MIN), batches),
        ETHERTYPE_IPV6 => ipv6(head, lengths, link(IPV6), batches),
        _ => None,
    }
}

#[inline(always)]
fn ipv4(head: &[u8], lengths: Lengths, link: Link, batches: &mut Batches) -> Option<()> {
    let (header, meta) = ipv4_meta(head, lengths, link.l3)?;
    let (ip, transport) = header.split_first_chunk::<IPV4_MIN>()?;
    let ports = L4Id::Pair(*transport.first_chunk()?);
    let (key, swapped) = key4(*ip.last_chunk()?, ports, zone_proto(link.zone, ip[9]));
    batches.v4.push(key, meta.sent_by(swapped.into()), link.info);
    Some(())
}

/// Returns the headers and counters of an IPv4 packet, without its sender.
#[inline(always)]
fn ipv4_meta(
    head: &[u8],
    lengths: Lengths,
    l3: usize,
) -> Option<(&[u8; IPV4_MIN + TCP_MIN], PacketMeta)> {
    let header: &[u8; IPV4_MIN + TCP_MIN] = head.get(l3..)?.first_chunk()?;
    let is_fragment = u16::from_ne_bytes([header[6], header[7]]) & 0x3fff_u16.to_be() != 0;
    let total_len = usize::from(u16_at(header, 2)?);
    if header[0] != 0x45 || is_fragment || l3 + total_len > lengths.frame {
        return None;
    }
    let transport = header.last_chunk()?;
    let tcp_flags = tcp_flags(header[9], transport, total_len.checked_sub(IPV4_MIN)?)?;
    Some((header, meta(lengths.bytes, total_len, tcp_flags)?))
}

#[inline(always)]
fn ipv6(head: &[u8], lengths: Lengths, link: Link, batches: &mut Batches) -> Option<()> {
    let (header, meta) = ipv6_meta(head, lengths, link.l3)?;
    let (ip, transport) = header.split_first_chunk::<IPV6>()?;
    let ports = L4Id::Pair(*transport.first_chunk()?);
    let (key, swapped) = key6(ip.last_chunk()?, ports, zone_proto(link.zone, ip[6]));
    batches.v6.push(key, meta.sent_by(swapped.into()), link.info);
    Some(())
}

/// Returns the headers and counters of an IPv6 packet, without its sender.
#[inline(always)]
fn ipv6_meta(
    head: &[u8],
    lengths: Lengths,
    l3: usize,
) -> Option<(&[u8; IPV6 + TCP_MIN], PacketMeta)> {
    let header: &[u8; IPV6 + TCP_MIN] = head.get(l3..)?.first_chunk()?;
    let payload_len = usize::from(u16_at(header, 4)?);
    if header[0] >> 4 != 6 || l3 + IPV6 + payload_len > lengths.frame {
        return None;
    }
    let tcp_flags = tcp_flags(header[6], header.last_chunk()?, payload_len)?;
    Some((header, meta(lengths.bytes, IPV6 + payload_len, tcp_flags)?))
}

#[inline(always)]
fn meta(bytes: usize, ip_len: usize, tcp_flags: u8) -> Option<PacketMeta> {
    // If the IP packet is longer than the frame, the difference wraps and is too large as well.
    let overhead = bytes.wrapping_sub(ip_len);
    let fits = overhead <= OVERHEAD_MAX && bytes <= BYTES_MAX;
    fits.then_some(PacketMeta::new(bytes as u32, overhead as u16, tcp_flags))
}

/// Returns the counters of a packet whose connection is known by its mark, its zone, and the offset
/// of its IP header.
///
/// `None`: the packet is not plain or has the other IP version, and needs full parsing.
pub(crate) fn uncounted(
    head: &[u8],
    lengths: Lengths,
    zone: ZoneSource,
    is_v6: bool,
) -> Option<(PacketMeta, u16, usize)> {
    let untagged = if is_v6 { plain_ipv6(head, lengths) } else { plain_ipv4(head, lengths) };
    if let Some(meta) = untagged {
        return Some((meta, zone.untagged(), ETHERNET));
    }
    if u16_at(head, ETHERNET - 2)? != ETHERTYPE_VLAN {
        return None;
    }
    let mut vlan = VlanTags::NONE;
    vlan.ids[0] = u16_at(head, ETHERNET)? & 0x0fff;
    let l3 = ETHERNET + VLAN_TAG;
    let meta = match u16_at(head, l3 - 2)? {
        ETHERTYPE_IPV4 if !is_v6 => ipv4_meta(head, lengths, l3)?.1,
        ETHERTYPE_IPV6 if is_v6 => ipv6_meta(head, lengths, l3)?.1,
        _ => return None,
    };
    Some((meta, zone_of(&vlan, zone), l3))
}

/// Returns the TCP flags, 0 for UDP. `None`: another protocol, or a wrong length.
///
/// `header` is the TCP header, or the bytes in its place; `len` is the length of the IP payload.
#[inline(always)]
fn tcp_flags(proto: u8, header: &[u8; TCP_MIN], len: usize) -> Option<u8> {
    let Transport { least, tcp } = TRANSPORTS[usize::from(proto)];
    let (tcp_len, udp_len) = (u16::from(header[12] >> 4) * 4, u16_at(header, 4)?);
    let length_field = tcp_len & tcp | udp_len & !tcp;
    let is_sound = least > 0 && length_field >= least && usize::from(length_field) <= len;
    is_sound.then_some(header[13] & tcp as u8)
}

#[inline(always)]
fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}
