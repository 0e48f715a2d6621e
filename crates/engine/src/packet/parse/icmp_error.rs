// SPDX-License-Identifier: BSD-3-Clause
//! The packet that an ICMP error quotes (RFC 792, RFC 4443 section 3): the key of its connection,
//! who sent it, and its sequence number.

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

/// RFC 792: so much of a transport header is in every quote.
const TRANSPORT: usize = 8;

/// Where an error is sent to, behind the start of its IP header.
const DESTINATION_V4: usize = 16;

const DESTINATION_V6: usize = 24;

/// Of the longest chains of headers that are followed, one in the other.
const QUOTE_HEADERS_MAX: usize = HEADERS_MAX + 8 + IPV6 + 256 + TRANSPORT;

/// What is known of a quoted packet: the key of its connection, whether its source is the second
/// end of it, and, of TCP, the sequence number.
pub(super) type Quoted<K> = (K, bool, u32);

/// `quote` is where in the frame there is what follows the ICMP header, and ends with the error,
/// whose own IP header begins at `l3`.
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
    // RFC 1122 section 3.2.2: there is no error about a fragment other than the first.
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

/// The same of IPv6.
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
        // A router may tell about any fragment that is too big, and of packets that are followed no
        // further: there may be a connection, which nobody can name.
        reason => reason,
    })?;
    let (ports, seq) = ends(&frame, transport.proto, transport.at, PROTO_ICMPV6)?;
    let (key, swapped) = key6(addresses, ports, zone_proto(zone, transport.proto));
    Ok((key, swapped, seq))
}

/// The frame up to this end, of which there is at least what may have to be read.
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

/// RFC 1122 section 3.2.2, RFC 4443 section 2.2: an error is sent to the source of what it quotes.
fn check_receiver<const N: usize>(
    frame: &Frame,
    destination: usize,
    addresses: &[u8],
) -> Result<(), UntrackedReason> {
    let receiver: [u8; N] = frame.read(destination, UntrackedReason::Unrelated)?;
    if addresses.starts_with(&receiver) { Ok(()) } else { Err(UntrackedReason::Unrelated) }
}

/// Ports, or what stands in for them, as in the key of the connection, and the sequence number.
fn ends(frame: &Frame, proto: u8, at: usize, icmp: u8) -> Result<(L4Id, u32), UntrackedReason> {
    let is_icmp = proto == icmp;
    match proto {
        PROTO_TCP | PROTO_UDP | PROTO_SCTP => {}
        // What is behind the 8 bytes that have to be there is in most quotes all the same.
        PROTO_GRE => return Ok((L4Id::Common(gre_key(frame, at, UntrackedReason::Unrelated)?), 0)),
        PROTO_ESP => return Ok((L4Id::Common(frame.read(at, UntrackedReason::Unrelated)?), 0)),
        _ if !is_icmp => return Ok((L4Id::Common([0; 4]), 0)),
        _ => {}
    }
    let [a, b, c, d, e, f, g, h]: [u8; TRANSPORT] = frame.read(at, UntrackedReason::Unrelated)?;
    if !is_icmp {
        return Ok((L4Id::Pair([a, b, c, d]), u32::from_be_bytes([e, f, g, h])));
    }
    // RFC 1122 section 3.2.2: nor about another error.
    if is_error(proto, a) {
        return Err(UntrackedReason::Unrelated);
    }
    Ok((icmp_ports(proto, [a, b], [e, f]), 0))
}
