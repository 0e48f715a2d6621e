// SPDX-License-Identifier: BSD-3-Clause
//! The general parser, which handles every packet.
//!
//! It handles VLAN tags, IPv4 options, IPv6 with extension headers, fragments, SCTP, ICMP and other
//! protocols. It also handles headers in several segments, cut captures, and malformed packets.

use super::fragment::{Fragment, datagram6, fragment4};
use super::frame::{Frame, FrameBytes, Transport, extensions, gre_key};
use super::icmp_error;
use crate::api::{
    PROTO_ESP, PROTO_GRE, PROTO_ICMP, PROTO_ICMPV6, PROTO_SCTP, PROTO_TCP, PROTO_UDP,
    UntrackedReason, VlanTags, ZoneSource,
};
use crate::packet::{
    BYTES_MAX, Batches, ETHERNET, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_MIN, ETHERTYPE_TAGS,
    FIN, FragmentHeader, HEADERS_MAX, HOP_BY_HOP, HeaderInfo, IPV4_MIN, IPV6, Key, L4Id,
    OVERHEAD_MAX, PacketMeta, SCTP, SYN, TCP_MIN, TcpHead, UDP, VLAN_TAG, has_identifier,
    icmp_ports, is_error, key4, key6, total_len4, zone_of, zone_proto,
};
use std::ops::Range;
use wire::Packet;

/// Length of type, code and checksum, which every ICMP message has.
const ICMP_MIN: usize = 4;

const ICMP_ECHO: usize = 8;

/// Length of flags and protocol, which every GRE header has.
const GRE: usize = 4;

/// Length of SPI and sequence number.
const ESP: usize = 8;

/// A packet with its key. The key of a later fragment is meaningless.
struct Parsed<const W: usize> {
    key: Key<W>,
    swapped: bool,
    ip_len: usize,
    ends: Ends,
    fragment_header: Option<FragmentHeader<W>>,
}

impl<const W: usize> Parsed<W> {
    /// Returns a later fragment, which has no ports.
    fn of_later_fragment(fragment_header: FragmentHeader<W>, ip_len: usize, l3: usize) -> Self {
        let key = fragment_header.datagram_key;
        Parsed {
            key,
            swapped: false,
            ip_len,
            ends: Ends::none(l3),
            fragment_header: Some(fragment_header),
        }
    }
}

/// The parsed transport header.
struct Ends {
    /// Offset of the transport header in the frame.
    pub(super) at: usize,
    ports: L4Id,
    tcp_flags: u8,
    icmp: u16,
    /// For an ICMP error, range of the quoted packet in the frame.
    quote: Option<Range<usize>>,
}

impl Ends {
    /// Header of a protocol with ports.
    fn of_pair(at: usize, ports: [u8; 4], tcp_flags: u8) -> Self {
        Ends { at, ports: L4Id::Pair(ports), tcp_flags, icmp: 0, quote: None }
    }

    /// Header of a protocol with one number for both ends.
    fn of_number(at: usize, number: [u8; 4]) -> Self {
        Ends { at, ports: L4Id::Common(number), tcp_flags: 0, icmp: 0, quote: None }
    }
}

impl Ends {
    /// Header of a later fragment. Its flags make it need full processing.
    fn none(l3: usize) -> Self {
        Self::of_pair(l3, [0; 4], u8::MAX)
    }
}

/// Appends any packet to its batch.
///
/// # Errors
/// [`UntrackedReason`] of a packet that has no key.
#[inline(never)]
pub(super) fn parse<P: Packet>(
    packet: &P,
    position: u8,
    zone: ZoneSource,
    batches: &mut Batches,
) -> Result<(), UntrackedReason> {
    let mut gathered = [0; HEADERS_MAX];
    let frame = headers(packet, &mut gathered);
    let (ethertype, vlan, l3) = link_layer(&frame)?;
    let zone = zone_of(&vlan, zone);
    let bytes = packet.wire_len().min(BYTES_MAX);
    let meta = |ip_len: usize, tcp_flags: u8, swapped: bool| {
        let overhead = bytes.saturating_sub(ip_len).min(OVERHEAD_MAX);
        PacketMeta::new(bytes as u32, overhead as u16, tcp_flags).sent_by(swapped.into())
    };
    let quoting = |swapped: bool| PacketMeta::UNUSUAL.sent_by(swapped.into());
    let info = |ends: &Ends| HeaderInfo {
        vlan,
        icmp: ends.icmp,
        ..HeaderInfo::plain(position, ends.at - l3)
    };
    match ethertype {
        ETHERTYPE_IPV4 => {
            let Parsed { key, swapped, ip_len, ends, fragment_header } = ipv4(&frame, l3, zone)?;
            if let Some(quote) = ends.quote {
                let (key, swapped, seq) = icmp_error::v4(packet, l3, quote, zone)?;
                batches.v4.push_error(key, quoting(swapped), HeaderInfo::quoting(position, seq));
                return Ok(());
            }
            let meta = meta(ip_len, ends.tcp_flags, swapped);
            batches.v4.push_maybe_fragment(key, meta, info(&ends), fragment_header);
        }
        ETHERTYPE_IPV6 => {
            let Parsed { key, swapped, ip_len, ends, fragment_header } = ipv6(&frame, l3, zone)?;
            if let Some(quote) = ends.quote {
                let (key, swapped, seq) = icmp_error::v6(packet, l3, quote, zone)?;
                batches.v6.push_error(key, quoting(swapped), HeaderInfo::quoting(position, seq));
                return Ok(());
            }
            let meta = meta(ip_len, ends.tcp_flags, swapped);
            batches.v6.push_maybe_fragment(key, meta, info(&ends), fragment_header);
        }
        ..ETHERTYPE_MIN => return Err(UntrackedReason::Llc),
        _ => return Err(UntrackedReason::NonIp),
    }
    Ok(())
}

/// Returns the headers of a packet; gathers them if they lie in several segments.
fn headers<'a>(packet: &'a impl Packet, gathered: &'a mut [u8; HEADERS_MAX]) -> Frame<'a> {
    let (head, len) = (packet.head(), packet.frame_len());
    let bytes = if head.len() >= len.min(HEADERS_MAX) {
        head
    } else {
        let n = packet.copy_to(gathered);
        &gathered[..n]
    };
    Frame { bytes, len }
}

/// Returns what rules for frames that are not IP are compared with; `None` for an IP packet, or if
/// the EtherType cannot be read.
pub(crate) fn ethernet_fields(packet: &impl Packet, zone: ZoneSource) -> Option<acl::Frame> {
    let mut gathered = [0; HEADERS_MAX];
    let frame = headers(packet, &mut gathered);
    let (ether_type, vlan, _) = link_layer(&frame).ok()?;
    if matches!(ether_type, ETHERTYPE_IPV4 | ETHERTYPE_IPV6) {
        return None;
    }
    let mac = |at| {
        let bytes: [u8; 6] = frame.read(at, UntrackedReason::EthernetTruncated).ok()?;
        Some(bytes.into_iter().fold(0, |mac, byte| mac << 8 | u64::from(byte)))
    };
    Some(acl::Frame { ether_type, dst_mac: mac(0)?, src_mac: mac(6)?, zone: zone_of(&vlan, zone) })
}

/// Returns the EtherType, the tags, and the offset of the next header.
fn link_layer(frame: &Frame) -> Result<(u16, VlanTags, usize), UntrackedReason> {
    let mut vlan = VlanTags::NONE;
    let mut at = ETHERNET;
    let mut ethertype = frame.u16(ETHERNET - 2, UntrackedReason::EthernetTruncated)?;
    for id in &mut vlan.ids {
        if !ETHERTYPE_TAGS.contains(&ethertype) {
            return Ok((ethertype, vlan, at));
        }
        *id = frame.u16(at, UntrackedReason::EthernetTruncated)? & 0x0fff;
        ethertype = frame.u16(at + 2, UntrackedReason::EthernetTruncated)?;
        at += VLAN_TAG;
    }
    match ETHERTYPE_TAGS.contains(&ethertype) {
        true => Err(UntrackedReason::VlanDepth),
        false => Ok((ethertype, vlan, at)),
    }
}

fn ipv4(frame: &Frame, l3: usize, zone: u16) -> Result<Parsed<2>, UntrackedReason> {
    let header: [u8; IPV4_MIN] = frame.read(l3, UntrackedReason::IpTruncated)?;
    let total_len = total_len4(&header, frame.len, l3);
    let header_len = usize::from(header[0] & 0x0f) * 4;
    if header[0] >> 4 != 4 {
        return Err(UntrackedReason::IpVersion);
    }
    if header_len < IPV4_MIN {
        return Err(UntrackedReason::IpHeaderLength);
    }
    if total_len < IPV4_MIN || l3 + total_len > frame.len {
        return Err(UntrackedReason::IpLength);
    }
    if header_len > total_len {
        return Err(UntrackedReason::IpHeaderLength);
    }
    let (at, end, proto) = (l3 + header_len, l3 + total_len, header[9]);
    let fragment = fragment4(&header, (at, end), header_len)?;
    let addresses: [u8; 8] = *header.last_chunk().expect("8 bytes of 20");
    let zone_proto = zone_proto(zone, proto);
    let fragment_header = fragment.map(|Fragment { span, id }| {
        let datagram_key = Key([u64::from_ne_bytes(addresses), u64::from(id) | zone_proto]);
        FragmentHeader { datagram_key, span, front: TcpHead::NONE }
    });
    if let Some(fragment_header) =
        fragment_header.filter(|fragment_header| !fragment_header.is_first())
    {
        return Ok(Parsed::of_later_fragment(fragment_header, total_len, l3));
    }
    let transport = Transport { proto, at, end, fragment, is_jumbogram: false };
    let ends = ends(frame, transport, PROTO_ICMP)?;
    let fragment_header = fragment_header.map(|fragment_header| FragmentHeader {
        front: front(frame, transport, &ends),
        ..fragment_header
    });
    let (key, swapped) = key4(addresses, ends.ports, zone_proto);
    Ok(Parsed { key, swapped, ip_len: total_len, ends, fragment_header })
}

fn ipv6(frame: &Frame, l3: usize, zone: u16) -> Result<Parsed<5>, UntrackedReason> {
    let header: [u8; IPV6] = frame.read(l3, UntrackedReason::IpTruncated)?;
    if header[0] >> 4 != 6 {
        return Err(UntrackedReason::IpVersion);
    }
    let payload_len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    // A jumbogram (RFC 2675) has its length in the hop-by-hop header: use the frame's length.
    let is_jumbogram = payload_len == 0 && header[6] == HOP_BY_HOP;
    let ip_len = if is_jumbogram { frame.len.saturating_sub(l3) } else { IPV6 + payload_len };
    if l3 + ip_len > frame.len {
        return Err(UntrackedReason::IpLength);
    }
    let transport = extensions(frame, header[6], l3 + IPV6, l3 + ip_len, FrameBytes::Packet)?;
    let transport = Transport { is_jumbogram, ..transport };
    let addresses: &[u8; 32] = header.last_chunk().expect("32 bytes of 40");
    let fragment_header = transport.fragment.map(|Fragment { span, id }| {
        let datagram_key = datagram6(addresses, id, zone);
        FragmentHeader { datagram_key, span, front: TcpHead::NONE }
    });
    // RFC 2675 section 4: a jumbogram is never fragmented.
    if is_jumbogram && fragment_header.is_some() {
        return Err(UntrackedReason::FragmentLength);
    }
    if let Some(fragment_header) =
        fragment_header.filter(|fragment_header| !fragment_header.is_first())
    {
        return Ok(Parsed::of_later_fragment(fragment_header, ip_len, l3));
    }
    let ends = ends(frame, transport, PROTO_ICMPV6)?;
    let fragment_header = fragment_header.map(|fragment_header| FragmentHeader {
        front: front(frame, transport, &ends),
        ..fragment_header
    });
    let (key, swapped) = key6(addresses, ends.ports, zone_proto(zone, transport.proto));
    Ok(Parsed { key, swapped, ip_len, ends, fragment_header })
}

/// Returns the start of a TCP segment from its first fragment. SYN and FIN count as data.
fn front(frame: &Frame, transport: Transport, ends: &Ends) -> TcpHead {
    let Transport { proto, at, end, .. } = transport;
    let words = |at| frame.read(at, UntrackedReason::TransportTruncated).map(u32::from_be_bytes);
    let (PROTO_TCP, Ok(seq), Ok(ack)) = (proto, words(at + 4), words(at + 8)) else {
        return TcpHead::NONE;
    };
    let Ok([offset]) = frame.read(at + 12, UntrackedReason::TransportTruncated) else {
        return TcpHead::NONE;
    };
    let flags = ends.tcp_flags;
    let marks = usize::from(flags & SYN != 0) + usize::from(flags & FIN != 0);
    let data = end.saturating_sub(at + usize::from(offset >> 4) * 4);
    TcpHead { seq, ack, flags, len: (data + marks) as u16 }
}

const TRUNCATED: UntrackedReason = UntrackedReason::TransportTruncated;

/// Returns the value, or `None` if the capture has cut it.
///
/// A packet whose ports are captured is counted even if nothing else is known. Its TCP flags are 0.
fn captured<T>(read: Result<T, UntrackedReason>) -> Result<Option<T>, UntrackedReason> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(UntrackedReason::CaptureCut) => Ok(None),
        Err(reason) => Err(reason),
    }
}

/// Parses the transport header: ports, or what takes their place.
///
/// # Errors
/// [`UntrackedReason`] if the header is cut or inconsistent.
fn ends(frame: &Frame, transport: Transport, icmp_proto: u8) -> Result<Ends, UntrackedReason> {
    let Transport { proto, at, end, fragment, is_jumbogram } = transport;
    let is_fragment = fragment.is_some();
    let need = |len: usize| match at + len > end {
        // RFC 1858 section 3.
        true if is_fragment => Err(UntrackedReason::FragmentTiny),
        true => Err(UntrackedReason::TransportTruncated),
        false => Ok(()),
    };
    let ports = || frame.read(at, UntrackedReason::TransportTruncated);
    match proto {
        PROTO_TCP => {
            need(TCP_MIN)?;
            let Some([offset, tcp_flags]) = captured(frame.read(at + 12, TRUNCATED))? else {
                return Ok(Ends::of_pair(at, ports()?, 0));
            };
            let header_len = usize::from(offset >> 4) * 4;
            if header_len < TCP_MIN || (at + header_len > end && !is_fragment) {
                return Err(UntrackedReason::TcpOffset);
            }
            need(header_len)?;
            Ok(Ends::of_pair(at, ports()?, tcp_flags))
        }
        PROTO_UDP => {
            need(UDP)?;
            let Some(len) = captured(frame.u16(at + 4, TRUNCATED))? else {
                return Ok(Ends::of_pair(at, ports()?, 0));
            };
            let len = usize::from(len);
            let is_short = len < UDP && !(len == 0 && is_jumbogram);
            if is_short || (at + len > end && !is_fragment) {
                return Err(UntrackedReason::UdpLength);
            }
            Ok(Ends::of_pair(at, ports()?, 0))
        }
        PROTO_SCTP => {
            need(SCTP)?;
            Ok(Ends::of_pair(at, ports()?, 0))
        }
        proto if proto == icmp_proto => {
            need(ICMP_MIN)?;
            let [kind, code] = frame.read(at, UntrackedReason::TransportTruncated)?;
            let quote = if is_error(proto, kind) {
                need(ICMP_ECHO)?;
                Some(at + ICMP_ECHO..end)
            } else {
                None
            };
            let identifier = if has_identifier(proto, kind) {
                need(ICMP_ECHO)?;
                frame.read(at + 4, UntrackedReason::TransportTruncated)?
            } else {
                [0; 2]
            };
            let ports = icmp_ports(proto, [kind, code], identifier);
            let icmp = u16::from_be_bytes([kind, code]);
            Ok(Ends { at, ports, tcp_flags: 0, icmp, quote })
        }
        PROTO_GRE => {
            need(GRE)?;
            let key = gre_key(&frame.up_to(end), at, UntrackedReason::TransportTruncated)?;
            Ok(Ends::of_number(at, key))
        }
        PROTO_ESP => {
            need(ESP)?;
            Ok(Ends::of_number(at, frame.read(at, UntrackedReason::TransportTruncated)?))
        }
        _ => Ok(Ends::of_number(at, [0; 4])),
    }
}
