// SPDX-License-Identifier: BSD-3-Clause
//! The long way: VLAN tags, IPv4 options, IPv6 with extension headers, fragments, SCTP, ICMP, other
//! protocols, headers in several segments, cut captures, and all that can be wrong with a packet.

use super::fragment::{Fragment, datagram6, fragment4, fragment6};
use super::icmp::{has_identifier, is_error};
use super::{
    BYTES_MAX, ETHERNET, ETHERTYPE_IPV4, Front, IPV4_MIN, Lanes, Meta, OVERHEAD_MAX, Opening,
    TCP_MIN, UDP, VLAN_TAG, icmp, quoted,
};
use crate::api::{
    PROTO_ESP, PROTO_GRE, PROTO_ICMP, PROTO_ICMPV6, PROTO_SCTP, PROTO_TCP, PROTO_UDP, Reason,
    VlanTags, ZoneFrom,
};
use crate::fragments::Piece;
use crate::key::{Key, Ports, key4, key6, zone_proto};
use crate::tcp::{FIN, SYN};
use std::ops::Range;
use wire::Packet;

pub(super) const ETHERTYPE_IPV6: u16 = 0x86dd;

/// 802.1Q, 802.1ad, and the value that switches used before 802.1ad.
const ETHERTYPE_TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];

/// Below this the field is the length of an 802.3 frame.
const ETHERTYPE_MIN: u16 = 0x0600;

const VLAN_TAGS_MAX: usize = 2;

pub(crate) const IPV6: usize = 40;

const EXTENSIONS_MAX: usize = 8;

const EXTENSION_BYTES_MAX: usize = 256;

pub(crate) const HOP_BY_HOP: u8 = 0;

pub(crate) const ROUTING: u8 = 43;

pub(crate) const FRAGMENT: u8 = 44;

const AUTHENTICATION: u8 = 51;

const DESTINATION: u8 = 60;

const SCTP: usize = 12;

/// Type, code, checksum: what every ICMP message has.
const ICMP_MIN: usize = 4;

const ICMP_ECHO: usize = 8;

/// Flags and protocol: what every GRE header has.
const GRE: usize = 4;

/// RFC 2784 section 2.1 and RFC 1701: either of checksum and routing adds a word before the key.
const GRE_CHECKSUM_OR_ROUTING: u16 = 0xc000;

/// RFC 2890 section 2.1.
const GRE_KEY: u16 = 0x2000;

const GRE_VERSION: u16 = 0x0007;

/// SPI and sequence number.
const ESP: usize = 8;

/// Enough for the longest chain of headers that is followed: two tags, IPv6 with 256 bytes of
/// extensions and what is read of TCP.
pub(crate) const HEADERS_MAX: usize =
    ETHERNET + VLAN_TAGS_MAX * VLAN_TAG + IPV6 + EXTENSION_BYTES_MAX + TCP_MIN;

/// The headers at hand, and what is known of the packet beyond them.
pub(super) struct Frame<'a> {
    pub(super) bytes: &'a [u8],
    /// Frame length on the wire.
    pub(super) len: usize,
}

impl<'a> Frame<'a> {
    /// The frame without what is behind `end`, such as padding.
    pub(super) fn up_to(&self, end: usize) -> Frame<'a> {
        Frame { bytes: &self.bytes[..self.bytes.len().min(end)], len: end }
    }

    /// `N` bytes at `at`. `fault` if the frame ends before them; if only the capture does, that.
    pub(super) fn read<const N: usize>(&self, at: usize, fault: Reason) -> Result<[u8; N], Reason> {
        match self.bytes.get(at..).and_then(|rest| rest.first_chunk()) {
            Some(chunk) => Ok(*chunk),
            None if at + N > self.len => Err(fault),
            None => Err(Reason::CaptureCut),
        }
    }

    fn u16(&self, at: usize, fault: Reason) -> Result<u16, Reason> {
        Ok(u16::from_be_bytes(self.read(at, fault)?))
    }
}

/// The transport header's place and its end as IP says.
#[derive(Clone, Copy)]
pub(super) struct Transport {
    pub(super) proto: u8,
    pub(super) at: usize,
    /// End of the IP packet in the frame.
    end: usize,
    /// If it is one of several fragments: lengths inside may point beyond the first.
    fragment: Option<Fragment>,
    /// RFC 2675 section 4: the length of a UDP datagram inside is 0.
    is_jumbogram: bool,
}

/// A packet with its key, or, of a fragment that is not the first, anything in its place.
struct Parsed<const W: usize> {
    key: Key<W>,
    swapped: bool,
    ip_len: usize,
    ends: Ends,
    piece: Option<Piece<W>>,
}

impl<const W: usize> Parsed<W> {
    /// A fragment without ports.
    fn further(piece: Piece<W>, ip_len: usize, l3: usize) -> Self {
        let key = piece.name;
        Parsed { key, swapped: false, ip_len, ends: Ends::none(l3), piece: Some(piece) }
    }
}

/// What the transport header says.
struct Ends {
    /// Where the transport header is.
    at: usize,
    ports: Ports,
    tcp_flags: u8,
    icmp: u16,
    /// Of an ICMP error: where the packet is that it quotes.
    quote: Option<Range<usize>>,
}

impl Ends {
    /// Those of anything but ICMP.
    fn of_pair(at: usize, ports: [u8; 4], tcp_flags: u8) -> Self {
        Ends { at, ports: Ports::Pair(ports), tcp_flags, icmp: 0, quote: None }
    }

    /// Those of a protocol with a number for both.
    fn of_number(at: usize, number: [u8; 4]) -> Self {
        Ends { at, ports: Ports::Common(number), tcp_flags: 0, icmp: 0, quote: None }
    }
}

impl Ends {
    /// Of a packet without one, which is never just one more of its flow.
    fn none(l3: usize) -> Self {
        Self::of_pair(l3, [0; 4], u8::MAX)
    }
}

/// Puts key and metadata of any packet into its lane, or says why it has none.
#[inline(never)]
pub(super) fn parse<P: Packet>(
    packet: &P,
    position: u8,
    zone: ZoneFrom,
    lanes: &mut Lanes,
) -> Result<(), Reason> {
    let (head, len) = (packet.head(), packet.frame_len());
    let mut gathered = [0; HEADERS_MAX];
    let bytes = if head.len() >= len.min(HEADERS_MAX) {
        head
    } else {
        let n = packet.copy_to(&mut gathered);
        &gathered[..n]
    };
    let frame = Frame { bytes, len };
    let (ethertype, vlan, l3) = link_layer(&frame)?;
    let zone = zone_of(&vlan, zone);
    let bytes = packet.wire_len().min(BYTES_MAX);
    let meta = |ip_len: usize, tcp_flags: u8, swapped: bool| {
        let overhead = bytes.saturating_sub(ip_len).min(OVERHEAD_MAX);
        Meta::new(bytes as u32, overhead as u16, tcp_flags).sent_by(swapped.into())
    };
    let quoting = |swapped: bool| Meta::UNUSUAL.sent_by(swapped.into());
    let opening =
        |ends: &Ends| Opening { vlan, icmp: ends.icmp, ..Opening::plain(position, ends.at - l3) };
    match ethertype {
        ETHERTYPE_IPV4 => {
            let Parsed { key, swapped, ip_len, ends, piece } = ipv4(&frame, l3, zone)?;
            if let Some(quote) = ends.quote {
                let (key, swapped, seq) = quoted::v4(packet, l3, quote, zone)?;
                lanes.v4.push_error(key, quoting(swapped), Opening::quoting(position, seq));
                return Ok(());
            }
            let meta = meta(ip_len, ends.tcp_flags, swapped);
            lanes.v4.push_any(key, meta, opening(&ends), piece);
        }
        ETHERTYPE_IPV6 => {
            let Parsed { key, swapped, ip_len, ends, piece } = ipv6(&frame, l3, zone)?;
            if let Some(quote) = ends.quote {
                let (key, swapped, seq) = quoted::v6(packet, l3, quote, zone)?;
                lanes.v6.push_error(key, quoting(swapped), Opening::quoting(position, seq));
                return Ok(());
            }
            let meta = meta(ip_len, ends.tcp_flags, swapped);
            lanes.v6.push_any(key, meta, opening(&ends), piece);
        }
        ..ETHERTYPE_MIN => return Err(Reason::Llc),
        _ => return Err(Reason::NonIp),
    }
    Ok(())
}

/// EtherType, tags, and where the next header is.
fn link_layer(frame: &Frame) -> Result<(u16, VlanTags, usize), Reason> {
    let mut vlan = VlanTags::NONE;
    let mut at = ETHERNET;
    let mut ethertype = frame.u16(ETHERNET - 2, Reason::EthernetTruncated)?;
    for id in &mut vlan.ids {
        if !ETHERTYPE_TAGS.contains(&ethertype) {
            return Ok((ethertype, vlan, at));
        }
        *id = frame.u16(at, Reason::EthernetTruncated)? & 0x0fff;
        ethertype = frame.u16(at + 2, Reason::EthernetTruncated)?;
        at += VLAN_TAG;
    }
    match ETHERTYPE_TAGS.contains(&ethertype) {
        true => Err(Reason::VlanDepth),
        false => Ok((ethertype, vlan, at)),
    }
}

/// The zone of packets with these tags.
pub(crate) fn zone_of(vlan: &VlanTags, from: ZoneFrom) -> u16 {
    let id = match from {
        ZoneFrom::None | ZoneFrom::Fixed(_) => None,
        ZoneFrom::OuterVlan => vlan.ids().first(),
        ZoneFrom::InnerVlan => vlan.ids().last(),
    };
    id.copied().unwrap_or(from.untagged())
}

fn ipv4(frame: &Frame, l3: usize, zone: u16) -> Result<Parsed<2>, Reason> {
    let header: [u8; IPV4_MIN] = frame.read(l3, Reason::IpTruncated)?;
    let total_len = total_len4(&header, frame.len, l3);
    let header_len = usize::from(header[0] & 0x0f) * 4;
    if header[0] >> 4 != 4 {
        return Err(Reason::IpVersion);
    }
    if header_len < IPV4_MIN {
        return Err(Reason::IpHeaderLength);
    }
    if total_len < IPV4_MIN || l3 + total_len > frame.len {
        return Err(Reason::IpLength);
    }
    if header_len > total_len {
        return Err(Reason::IpHeaderLength);
    }
    let (at, end, proto) = (l3 + header_len, l3 + total_len, header[9]);
    let fragment = fragment4(&header, (at, end), header_len)?;
    let addresses: [u8; 8] = *header.last_chunk().expect("8 bytes of 20");
    let zone_proto = zone_proto(zone, proto);
    let piece = fragment.map(|Fragment { span, id }| {
        let name = Key([u64::from_ne_bytes(addresses), u64::from(id) | zone_proto]);
        Piece { name, span, front: Front::NONE }
    });
    if let Some(piece) = piece.filter(|piece| !piece.is_first()) {
        return Ok(Parsed::further(piece, total_len, l3));
    }
    let transport = Transport { proto, at, end, fragment, is_jumbogram: false };
    let ends = ends(frame, transport, PROTO_ICMP)?;
    let piece = piece.map(|piece| Piece { front: front(frame, transport, &ends), ..piece });
    let (key, swapped) = key4(addresses, ends.ports, zone_proto);
    Ok(Parsed { key, swapped, ip_len: total_len, ends, piece })
}

/// Returns the length of an IPv4 packet whose header begins at `l3` of a frame of so many bytes.
///
/// A host that leaves segmentation to its NIC leaves the length to it as well: a capture on that
/// host has 0 there. The packet is then as long as the frame, unless it is a fragment: no NIC
/// segments those.
pub(crate) fn total_len4(header: &[u8; IPV4_MIN], frame_len: usize, l3: usize) -> usize {
    let [_, _, len @ .., _, _, a, b] = *header.first_chunk::<8>().expect("8 bytes of 20");
    let is_fragment = u16::from_be_bytes([a, b]) & 0x3fff != 0;
    match u16::from_be_bytes(len) {
        0 if !is_fragment => frame_len.saturating_sub(l3),
        len => usize::from(len),
    }
}

fn ipv6(frame: &Frame, l3: usize, zone: u16) -> Result<Parsed<5>, Reason> {
    let header: [u8; IPV6] = frame.read(l3, Reason::IpTruncated)?;
    if header[0] >> 4 != 6 {
        return Err(Reason::IpVersion);
    }
    let payload_len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    // A jumbogram (RFC 2675) has its length in the hop-by-hop header: take the frame's.
    let is_jumbogram = payload_len == 0 && header[6] == HOP_BY_HOP;
    let ip_len = if is_jumbogram { frame.len.saturating_sub(l3) } else { IPV6 + payload_len };
    if l3 + ip_len > frame.len {
        return Err(Reason::IpLength);
    }
    let transport = extensions(frame, header[6], l3 + IPV6, l3 + ip_len, Whole::Packet)?;
    let transport = Transport { is_jumbogram, ..transport };
    let addresses: &[u8; 32] = header.last_chunk().expect("32 bytes of 40");
    let piece = transport.fragment.map(|Fragment { span, id }| {
        let name = datagram6(addresses, id, zone);
        Piece { name, span, front: Front::NONE }
    });
    // RFC 2675 section 4: no jumbogram is cut.
    if is_jumbogram && piece.is_some() {
        return Err(Reason::FragmentLength);
    }
    if let Some(piece) = piece.filter(|piece| !piece.is_first()) {
        return Ok(Parsed::further(piece, ip_len, l3));
    }
    let ends = ends(frame, transport, PROTO_ICMPV6)?;
    let piece = piece.map(|piece| Piece { front: front(frame, transport, &ends), ..piece });
    let (key, swapped) = key6(addresses, ends.ports, zone_proto(zone, transport.proto));
    Ok(Parsed { key, swapped, ip_len, ends, piece })
}

/// What is followed. Of a quote there is as much as there was room for: its length says nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Whole {
    Packet,
    Quote,
}

/// Follows the extension headers (RFC 8200 section 4) to the transport header.
pub(super) fn extensions(
    frame: &Frame,
    next: u8,
    start: usize,
    end: usize,
    whole: Whole,
) -> Result<Transport, Reason> {
    let mut transport =
        Transport { proto: next, at: start, end, fragment: None, is_jumbogram: false };
    for count in 0.. {
        let Transport { proto, at, .. } = transport;
        if !matches!(proto, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION) {
            break;
        }
        if count == EXTENSIONS_MAX {
            return Err(Reason::ExtensionLimit);
        }
        // RFC 7112 section 5: all headers are in the first fragment.
        let truncated = match transport.fragment {
            None => Reason::ExtensionTruncated,
            Some(_) => Reason::FragmentTiny,
        };
        if at + 8 > end {
            return Err(truncated);
        }
        let header: [u8; 8] = frame.read(at, Reason::ExtensionTruncated)?;
        let len = extension_len(proto, header[1]);
        if proto == FRAGMENT {
            // A fragment of a fragment: no ports are in it.
            if transport.fragment.is_some() {
                return Err(Reason::FragmentTiny);
            }
            transport.fragment = match whole {
                Whole::Packet => fragment6(header, (at + len, end), at - start)?,
                // Bytes of a datagram before this one, in units of 8.
                Whole::Quote if [header[2], header[3] & !7] != [0; 2] => {
                    return Err(Reason::Fragment);
                }
                Whole::Quote => None,
            };
        }
        transport.proto = header[0];
        transport.at = at + len;
        if transport.at > end {
            return Err(truncated);
        }
        if transport.fragment.is_some_and(|fragment| !fragment.is_first()) {
            break;
        }
        if transport.at - start > EXTENSION_BYTES_MAX {
            return Err(Reason::ExtensionLimit);
        }
    }
    Ok(transport)
}

/// Bytes of an extension header that says it is so many units long.
pub(crate) fn extension_len(proto: u8, units: u8) -> usize {
    match proto {
        FRAGMENT => 8,
        // RFC 4302 section 2.2: in 4-byte units, minus 2.
        AUTHENTICATION => (usize::from(units) + 2) * 4,
        _ => (usize::from(units) + 1) * 8,
    }
}

/// What a first fragment says of a segment, if it is one of TCP. SYN and FIN count, as they do
/// before and behind the data.
fn front(frame: &Frame, transport: Transport, ends: &Ends) -> Front {
    let Transport { proto, at, end, .. } = transport;
    let words = |at| frame.read(at, Reason::TransportTruncated).map(u32::from_be_bytes);
    let (PROTO_TCP, Ok(seq), Ok(ack)) = (proto, words(at + 4), words(at + 8)) else {
        return Front::NONE;
    };
    let Ok([offset]) = frame.read(at + 12, Reason::TransportTruncated) else { return Front::NONE };
    let flags = ends.tcp_flags;
    let marks = usize::from(flags & SYN != 0) + usize::from(flags & FIN != 0);
    let data = end.saturating_sub(at + usize::from(offset >> 4) * 4);
    Front { seq, ack, flags, len: (data + marks) as u16 }
}

const TRUNCATED: Reason = Reason::TransportTruncated;

/// What is read of a packet; `None` if the capture has cut it before that. Where its ports are
/// there it is counted all the same, as one of which no more is known: TCP has no flags then.
fn captured<T>(read: Result<T, Reason>) -> Result<Option<T>, Reason> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(Reason::CaptureCut) => Ok(None),
        Err(reason) => Err(reason),
    }
}

/// Ports, or what stands in for them.
fn ends(frame: &Frame, transport: Transport, icmp_proto: u8) -> Result<Ends, Reason> {
    let Transport { proto, at, end, fragment, is_jumbogram } = transport;
    let is_fragment = fragment.is_some();
    let need = |len: usize| match at + len > end {
        // RFC 1858 section 3.
        true if is_fragment => Err(Reason::FragmentTiny),
        true => Err(Reason::TransportTruncated),
        false => Ok(()),
    };
    let ports = || frame.read(at, Reason::TransportTruncated);
    match proto {
        PROTO_TCP => {
            need(TCP_MIN)?;
            let Some([offset, tcp_flags]) = captured(frame.read(at + 12, TRUNCATED))? else {
                return Ok(Ends::of_pair(at, ports()?, 0));
            };
            let header_len = usize::from(offset >> 4) * 4;
            if header_len < TCP_MIN || (at + header_len > end && !is_fragment) {
                return Err(Reason::TcpOffset);
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
                return Err(Reason::UdpLength);
            }
            Ok(Ends::of_pair(at, ports()?, 0))
        }
        PROTO_SCTP => {
            need(SCTP)?;
            Ok(Ends::of_pair(at, ports()?, 0))
        }
        proto if proto == icmp_proto => {
            need(ICMP_MIN)?;
            let [kind, code] = frame.read(at, Reason::TransportTruncated)?;
            let quote = if is_error(proto, kind) {
                need(ICMP_ECHO)?;
                Some(at + ICMP_ECHO..end)
            } else {
                None
            };
            let identifier = if has_identifier(proto, kind) {
                need(ICMP_ECHO)?;
                frame.read(at + 4, Reason::TransportTruncated)?
            } else {
                [0; 2]
            };
            let ports = icmp::icmp_ports(proto, [kind, code], identifier);
            let icmp = u16::from_be_bytes([kind, code]);
            Ok(Ends { at, ports, tcp_flags: 0, icmp, quote })
        }
        PROTO_GRE => {
            need(GRE)?;
            let key = gre_key(&frame.up_to(end), at, Reason::TransportTruncated)?;
            Ok(Ends::of_number(at, key))
        }
        PROTO_ESP => {
            need(ESP)?;
            Ok(Ends::of_number(at, frame.read(at, Reason::TransportTruncated)?))
        }
        _ => Ok(Ends::of_number(at, [0; 4])),
    }
}

/// The key of a GRE header (RFC 2890) that tells tunnels apart, or 0. Of version 1 (RFC 2637) it is
/// a length and the call of the receiver: there are two to a tunnel, and nothing here tells which
/// belong together.
pub(super) fn gre_key(frame: &Frame, at: usize, fault: Reason) -> Result<[u8; 4], Reason> {
    let flags = frame.u16(at, fault)?;
    match flags & (GRE_KEY | GRE_VERSION) {
        GRE_KEY if flags & GRE_CHECKSUM_OR_ROUTING == 0 => frame.read(at + 4, fault),
        GRE_KEY => frame.read(at + 8, fault),
        _ => Ok([0; 4]),
    }
}
