// SPDX-License-Identifier: BSD-3-Clause
//! Parses the packet that an ICMP error quotes (RFC 792, RFC 4443 section 3).
//!
//! Returns the key of its connection, its sender, and its sequence number.

use super::frame::{Frame, FrameBytes, extensions, gre_key};
use crate::api::{
    PROTO_ESP, PROTO_GRE, PROTO_ICMP, PROTO_ICMPV6, PROTO_SCTP, PROTO_TCP, PROTO_UDP,
    UntrackedReason,
};
use crate::packet::{
    HEADERS_MAX, IPV4_MIN, IPV6, Key4, Key6, L4Id, icmp_ports, is_error, key4, key6, zone_proto,
};
use std::ops::Range;
use wire::Packet;

/// Minimum number of bytes of the transport header in a quote (RFC 792).
const TRANSPORT: usize = 8;

/// Offset of the destination address in an IP header.
const DESTINATION_V4: usize = 16;

const DESTINATION_V6: usize = 24;

/// Length of the longest chains of headers that are parsed, of the error and of its quote.
const QUOTE_HEADERS_MAX: usize = HEADERS_MAX + 8 + IPV6 + 256 + TRANSPORT;

/// A quoted packet: the key of its connection, whether its source is the second end, and the
/// sequence number.
///
/// The number is that of TCP, the tag of SCTP, else without meaning.
pub(super) type Quoted<K> = (K, bool, u32);

/// Parses the packet that an ICMP error of IPv4 quotes.
///
/// `quote` is the range in the frame behind the ICMP header, up to the end of the error. The IP
/// header of the error begins at `l3`.
///
/// # Errors
/// [`UntrackedReason::Unrelated`] if the error does not quote a packet of its receiver.
#[inline(never)]
pub(super) fn v4<P: Packet>(
    packet: &P,
    l3: usize,
    quote: Range<usize>,
    zone: u16,
) -> Result<Quoted<Key4>, UntrackedReason> {
    let mut gathered = [0; QUOTE_HEADERS_MAX];
    let frame = gather(packet, &mut gathered, quote.end);
    let header: [u8; IPV4_MIN] = frame.read(quote.start, UntrackedReason::Unrelated)?;
    let header_len = usize::from(header[0] & 0x0f) * 4;
    let offset = u16::from_be_bytes([header[6], header[7]]) & 0x1fff;
    // RFC 1122 section 3.2.2: there is no error about a later fragment.
    if header[0] >> 4 != 4 || header_len < IPV4_MIN || offset != 0 {
        return Err(UntrackedReason::Unrelated);
    }
    let addresses: [u8; 8] = *header.last_chunk().expect("8 bytes of 20");
    check_receiver::<4>(&frame, l3 + DESTINATION_V4, &addresses)?;
    let proto = header[9];
    let (ports, seq) = ends(&frame, proto, quote.start + header_len, PROTO_ICMP)?;
    let (key, swapped) = key4(addresses, ports, zone_proto(zone, proto));
    Ok((key, swapped, seq))
}

/// Parses the packet that an ICMP error of IPv6 quotes.
///
/// `quote` is the range in the frame behind the ICMP header, up to the end of the error. The IP
/// header of the error begins at `l3`.
///
/// # Errors
/// [`UntrackedReason`] if the error does not quote a packet of its receiver, or one that cannot be
/// parsed.
#[inline(never)]
pub(super) fn v6<P: Packet>(
    packet: &P,
    l3: usize,
    quote: Range<usize>,
    zone: u16,
) -> Result<Quoted<Key6>, UntrackedReason> {
    let mut gathered = [0; QUOTE_HEADERS_MAX];
    let frame = gather(packet, &mut gathered, quote.end);
    let header: [u8; IPV6] = frame.read(quote.start, UntrackedReason::Unrelated)?;
    if header[0] >> 4 != 6 {
        return Err(UntrackedReason::Unrelated);
    }
    let addresses: &[u8; 32] = header.last_chunk().expect("32 bytes of 40");
    check_receiver::<16>(&frame, l3 + DESTINATION_V6, addresses)?;
    let transport = extensions(&frame, header[6], quote.start + IPV6, quote.end, FrameBytes::Quote);
    let transport = transport.map_err(|reason| match reason {
        UntrackedReason::ExtensionTruncated => UntrackedReason::Unrelated,
        // A router may report any fragment that is too big, and packets with too many headers. A
        // connection may exist, but it cannot be determined.
        reason => reason,
    })?;
    let (ports, seq) = ends(&frame, transport.proto, transport.at, PROTO_ICMPV6)?;
    let (key, swapped) = key6(addresses, ports, zone_proto(zone, transport.proto));
    Ok((key, swapped, seq))
}

/// Returns the frame up to `end`, with all bytes that may have to be parsed.
fn gather<'a, P: Packet>(
    packet: &'a P,
    gathered: &'a mut [u8; QUOTE_HEADERS_MAX],
    end: usize,
) -> Frame<'a> {
    let head = packet.head();
    let bytes = if head.len() >= packet.frame_len().min(QUOTE_HEADERS_MAX) {
        head
    } else {
        let n = packet.copy_to(gathered);
        &gathered[..n]
    };
    Frame { bytes, len: packet.frame_len() }.up_to(end)
}

/// Checks that the error is sent to the source of the quoted packet (RFC 1122 section 3.2.2, RFC
/// 4443 section 2.2).
fn check_receiver<const N: usize>(
    frame: &Frame,
    destination: usize,
    addresses: &[u8],
) -> Result<(), UntrackedReason> {
    let receiver: [u8; N] = frame.read(destination, UntrackedReason::Unrelated)?;
    if addresses.starts_with(&receiver) { Ok(()) } else { Err(UntrackedReason::Unrelated) }
}

/// Returns what takes the place of ports in the key, and the sequence number.
fn ends(frame: &Frame, proto: u8, at: usize, icmp: u8) -> Result<(L4Id, u32), UntrackedReason> {
    let is_icmp = proto == icmp;
    match proto {
        PROTO_TCP | PROTO_UDP | PROTO_SCTP => {}
        // Most quotes have more than the 8 bytes that are required.
        PROTO_GRE => return Ok((L4Id::Common(gre_key(frame, at, UntrackedReason::Unrelated)?), 0)),
        PROTO_ESP => return Ok((L4Id::Common(frame.read(at, UntrackedReason::Unrelated)?), 0)),
        _ if !is_icmp => return Ok((L4Id::Common([0; 4]), 0)),
        _ => {}
    }
    let [a, b, c, d, e, f, g, h]: [u8; TRANSPORT] = frame.read(at, UntrackedReason::Unrelated)?;
    if !is_icmp {
        return Ok((L4Id::Pair([a, b, c, d]), u32::from_be_bytes([e, f, g, h])));
    }
    // RFC 1122 section 3.2.2: there is no error about another error.
    if is_error(proto, a) {
        return Err(UntrackedReason::Unrelated);
    }
    Ok((icmp_ports(proto, [a, b], [e, f]), 0))
}
