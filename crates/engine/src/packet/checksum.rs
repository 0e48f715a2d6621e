// SPDX-License-Identifier: BSD-3-Clause
//! Verifies the checksums of a packet: of the IPv4 header, and of TCP, UDP, SCTP, ICMP and ICMPv6.
//!
//! A checksum reads every byte of the packet. So it is only verified for packets that begin a
//! connection or change its state.

use super::descriptor::HeaderInfo;
use super::headers::{FRAGMENT, HEADERS_MAX, HOP_BY_HOP, IPV6, ROUTING, extension_len, total_len4};
use crate::api::{PROTO_ICMP, PROTO_ICMPV6, PROTO_SCTP, PROTO_TCP, PROTO_UDP};
use std::ops::Range;
use wire::Packet;
use wire::checksum::{Crc32c, Sum, internet};

/// The parts of a transport checksum: pseudo header, and a range of the frame.
struct ChecksumRange {
    pseudo_header: Sum,
    range: Range<usize>,
}

/// The bytes by which a packet can be verified.
#[derive(Clone, Copy)]
pub(crate) enum ChecksumSource<'a> {
    /// No verification: the NIC has verified the packet, or checksums are ignored.
    Trusted,
    /// All bytes of the frame.
    Whole(&'a [u8]),
    /// The packet; its bytes lie in several segments, or a capture has cut them.
    Parts(&'a dyn Packet),
}

impl<'a> ChecksumSource<'a> {
    /// Returns the source for a packet.
    #[inline(always)]
    pub(crate) fn of<P: Packet>(packet: &'a P) -> Self {
        match packet.head() {
            _ if packet.is_verified() => ChecksumSource::Trusted,
            head if head.len() == packet.frame_len() => ChecksumSource::Whole(head),
            _ => ChecksumSource::Parts(packet),
        }
    }

    /// True if the checksums of a parsed packet are right.
    ///
    /// Checksums that cannot be verified count as right: those of fragments, and of packets that a
    /// capture has cut.
    #[inline(always)]
    pub(crate) fn is_right(self, info: &HeaderInfo, proto: u8, is_v6: bool) -> bool {
        match self {
            ChecksumSource::Trusted => true,
            ChecksumSource::Whole(bytes) => {
                let sum_of = |range| bytes.get(range).map(|bytes| Sum::default().add_bytes(bytes));
                let crc_of = |range| bytes.get(range).map(|bytes| SctpSum::default().plus(bytes));
                are_right((bytes, bytes.len()), info, (proto, is_v6), (sum_of, crc_of))
            }
            ChecksumSource::Parts(packet) => are_right_in_parts(packet, info, (proto, is_v6)),
        }
    }
}

/// True if the checksums of a plain TCP segment are right.
///
/// False also for a packet that is not plain: IPv4 with options, IPv6 with extension headers,
/// fragments.
#[inline(always)]
pub(crate) fn is_plain_tcp_right(bytes: &[u8], info: &HeaderInfo, is_v6: bool) -> bool {
    let (l4, ip_header) = (info.l4(), info.ip_header());
    let Some(ip) = bytes.get(l4 - ip_header..) else { return false };
    let plain = if is_v6 { plain_v6(ip, ip_header) } else { plain_v4(ip, ip_header) };
    let Some((addresses, len)) = plain else { return false };
    let segment = bytes.get(l4..l4 + usize::from(len));
    let Some((header, rest)) = segment.and_then(|segment| segment.split_first_chunk()) else {
        return false;
    };
    let sum = addresses.add_u16(PROTO_TCP.into()).add_u16(len).add_header(header);
    match rest.is_empty() {
        true => sum.is_zero(),
        false => sum.add_bytes(rest).is_zero(),
    }
}

/// Returns the sum of the addresses and the length of the payload, if the IPv4 header is plain and
/// its checksum right.
#[inline(always)]
fn plain_v4(ip: &[u8], ip_header: usize) -> Option<(Sum, u16)> {
    let header: &[u8; 20] = ip.first_chunk()?;
    let u32_at = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
    let len = u16::from_be_bytes([header[2], header[3]]).checked_sub(20)?;
    let is_plain = ip_header == header.len() && fragment == 0;
    let is_right = is_plain && Sum::default().add_header(header).is_zero();
    is_right.then(|| (Sum::default().add_u32(u32_at(12)).add_u32(u32_at(16)), len))
}

/// Returns the sum of the addresses and the length of the payload, if the IPv6 header is plain.
///
/// It has no checksum. A jumbogram, which has no length here, is not plain.
#[inline(always)]
fn plain_v6(ip: &[u8], ip_header: usize) -> Option<(Sum, u16)> {
    let header: &[u8; IPV6] = ip.first_chunk()?;
    let len = u16::from_be_bytes([header[4], header[5]]);
    let is_plain = ip_header == header.len() && len != 0;
    is_plain.then(|| (Sum::default().add_bytes(&header[8..]), len))
}

#[inline(never)]
fn are_right_in_parts(packet: &dyn Packet, info: &HeaderInfo, proto: (u8, bool)) -> bool {
    let mut gathered = [0; HEADERS_MAX];
    let n = packet.copy_to(&mut gathered);
    let (sum_of, crc_of) = (|range| sum_of(packet, range), |range| crc_of(packet, range));
    are_right((&gathered[..n], packet.frame_len()), info, proto, (sum_of, crc_of))
}

/// True if the checksums of a frame of `len` bytes are right. `bytes` holds its headers; `sum_of`
/// and `crc_of` return the sums of ranges.
fn are_right(
    (bytes, len): (&[u8], usize),
    info: &HeaderInfo,
    (proto, is_v6): (u8, bool),
    (sum_of, crc_of): (
        impl Fn(Range<usize>) -> Option<Sum>,
        impl Fn(Range<usize>) -> Option<SctpSum>,
    ),
) -> bool {
    let (l4, ip_header) = (info.l4(), info.ip_header());
    let Some(ip) = bytes.get(l4 - ip_header..l4) else { return true };
    if !is_v6 && !is_ipv4_header_right(ip) {
        return false;
    }
    let covered = if is_v6 { covered_v6(ip, len, l4) } else { covered_v4(ip, len, l4) };
    let Some((addresses, range)) = covered else { return true };
    let transport = bytes.get(l4..).unwrap_or(&[]);
    if proto == PROTO_SCTP {
        let transport = transport.get(..range.len()).unwrap_or(transport);
        return crc_of(range).is_none_or(|sum| sum.agrees_with(transport));
    }
    match transport_sum(addresses, range, (proto, is_v6), transport) {
        Some(covered) => {
            sum_of(covered.range).is_none_or(|sum| (covered.pseudo_header + sum).finish() == 0)
        }
        None => true,
    }
}

/// True if the checksum of an IPv4 header is right. Few headers have options.
#[inline(always)]
fn is_ipv4_header_right(header: &[u8]) -> bool {
    match header.try_into() {
        Ok(header) => Sum::default().add_header(header).is_zero(),
        Err(_) => internet(header) == 0,
    }
}

/// Returns the sum of the addresses and the range of the IPv4 payload; `None` for a fragment.
fn covered_v4(ip: &[u8], frame_len: usize, l4: usize) -> Option<(Sum, Range<usize>)> {
    let header: &[u8; 20] = ip.first_chunk()?;
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
    let len = total_len4(header, frame_len, l4 - ip.len());
    let addresses = Sum::default().add_bytes(&header[12..]);
    (fragment == 0).then_some((addresses, l4..l4 + len.checked_sub(ip.len())?))
}

/// Returns the sum of the addresses and the range of the IPv6 payload.
///
/// `None` for a fragment, and for a packet whose last destination is in a routing header (RFC 8200
/// section 8.1).
fn covered_v6(ip: &[u8], frame_len: usize, l4: usize) -> Option<(Sum, Range<usize>)> {
    let (header, mut extensions): (&[u8; IPV6], _) = ip.split_first_chunk()?;
    let mut next = header[6];
    while let [following, units, _, third, ..] = *extensions {
        let is_fragment = next == FRAGMENT && third & 1 != 0;
        if is_fragment || next == ROUTING && third != 0 {
            return None;
        }
        extensions = extensions.get(extension_len(next, units)..)?;
        next = following;
    }
    let payload = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let end = match payload {
        // RFC 2675.
        0 if header[6] == HOP_BY_HOP => frame_len,
        _ => l4 - (ip.len() - IPV6) + payload,
    };
    Some((Sum::default().add_bytes(&header[8..]), l4..end))
}

/// Returns the parts of the transport checksum; `None` if the packet has none.
fn transport_sum(
    addresses: Sum,
    range: Range<usize>,
    (proto, is_v6): (u8, bool),
    transport: &[u8],
) -> Option<ChecksumRange> {
    let len = range.len();
    let with_pseudo_header = |len: usize| {
        let end = range.start + len;
        let pseudo_header = addresses.add_u16(proto.into()).add_u32(len as u32);
        Some(ChecksumRange { pseudo_header, range: range.start..end })
    };
    match proto {
        PROTO_TCP => with_pseudo_header(len),
        PROTO_UDP => {
            let header: &[u8; 8] = transport.first_chunk()?;
            let udp_len = usize::from(u16::from_be_bytes([header[4], header[5]]));
            // RFC 768. Over IPv6, tunnels need no checksum (RFC 6935), and tunnels are not
            // recognised here.
            let has_none = [header[6], header[7]] == [0; 2];
            // A jumbogram has 0 in place of the UDP length.
            let covered = if udp_len == 0 { len } else { udp_len };
            if has_none { None } else { with_pseudo_header(covered) }
        }
        PROTO_ICMP if !is_v6 => Some(ChecksumRange { pseudo_header: Sum::default(), range }),
        PROTO_ICMPV6 if is_v6 => with_pseudo_header(len),
        _ => None,
    }
}

/// Chunk types that need a checksum even if the association does not (RFC 9653 section 5.2).
///
/// Before the INIT, the ends cannot have agreed on that. ASCONF is the first packet from another
/// address.
const INIT: u8 = 1;

const COOKIE_ECHO: u8 = 10;

const ASCONF: u8 = 0xc1;

/// Maximum number of chunks that are parsed. Before ASCONF there is an AUTH, and little else.
const CHUNKS_MAX: usize = 8;

/// The CRC of an SCTP packet while it is computed (RFC 9260 section 6.8). Its own field counts as
/// zeros.
#[derive(Clone, Copy, Default)]
struct SctpSum {
    crc: Crc32c,
    len: usize,
}

impl SctpSum {
    /// Range of the checksum in the common header.
    const PLACE: Range<usize> = 8..12;

    fn plus(self, piece: &[u8]) -> Self {
        let within = |place: usize| place.saturating_sub(self.len).min(piece.len());
        let (from, to) = (within(Self::PLACE.start), within(Self::PLACE.end));
        let crc = self.crc.add_bytes(&piece[..from]).add_bytes(&[0; 4][..to - from]);
        SctpSum { crc: crc.add_bytes(&piece[to..]), len: self.len + piece.len() }
    }

    /// True if the CRC is the one in the header. 0 in the header means none, which is right where
    /// allowed.
    fn agrees_with(self, packet: &[u8]) -> bool {
        let sum = packet.get(Self::PLACE).and_then(|sum| sum.first_chunk());
        let sum = sum.map_or(0, |sum| u32::from_le_bytes(*sum));
        sum == 0 && !Self::is_needed(packet) || sum == self.crc.finish()
    }

    /// True if the packet has a chunk that needs a checksum.
    fn is_needed(packet: &[u8]) -> bool {
        let mut chunks = packet.get(Self::PLACE.end..).unwrap_or(&[]);
        for _ in 0..CHUNKS_MAX {
            let Some(&[kind, _, hi, lo]) = chunks.first_chunk() else { return false };
            if matches!(kind, INIT | COOKIE_ECHO | ASCONF) {
                return true;
            }
            let len = usize::from(u16::from_be_bytes([hi, lo])).next_multiple_of(4);
            chunks = chunks.get(len.max(4)..).unwrap_or(&[]);
        }
        false
    }
}

/// Returns the sum of a range of the frame; `None` if some bytes are missing.
fn sum_of(packet: &dyn Packet, range: Range<usize>) -> Option<Sum> {
    let mut sum = Sum::default();
    let are_all_there = each_piece(packet, range, &mut |behind, piece| {
        let piece = Sum::default().add_bytes(piece);
        // RFC 1071 section 2 (B): after an odd number of bytes, the halves of each word are
        // swapped.
        sum = sum + if behind % 2 == 1 { piece.swapped() } else { piece };
    });
    are_all_there.then_some(sum)
}

/// Returns the SCTP checksum of a range of the frame; `None` if some bytes are missing.
fn crc_of(packet: &dyn Packet, range: Range<usize>) -> Option<SctpSum> {
    let mut sum = SctpSum::default();
    let are_all_there = each_piece(packet, range, &mut |_, piece| sum = sum.plus(piece));
    are_all_there.then_some(sum)
}

/// Calls `see` with each segment's bytes in a range of the frame, and the number of bytes before
/// them.
///
/// Returns true if all bytes of the range are present.
fn each_piece(packet: &dyn Packet, range: Range<usize>, see: &mut dyn FnMut(usize, &[u8])) -> bool {
    let mut at = 0;
    packet.segments(&mut |segment| {
        let within = |place: usize| place.saturating_sub(at).min(segment.len());
        let (from, to) = (within(range.start), within(range.end));
        let behind = (at + from).saturating_sub(range.start);
        see(behind, segment.get(from..to).unwrap_or(&[]));
        at += segment.len();
    });
    at >= range.end
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{BytesPacket, FrameBuilder};

    /// Valid packets, each with its protocol and the bytes of its IP header.
    fn frames() -> Vec<(FrameBuilder, u8, usize)> {
        let v4 = || FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).payload([7; 31]);
        let v6 = || FrameBuilder::ipv6([0xfd; 16], [0xfe; 16]).payload([7; 31]);
        vec![
            (v4().tcp(1, 2), 6, 20),
            (v4().tcp(1, 2).tcp_options(&[1; 4]), 6, 20),
            (v4().udp(1, 2).pad_to(120), 17, 20),
            (v4().icmp_echo(1, 2), 1, 20),
            (v4().ip_options(&[1; 12]).tcp(1, 2).tcp_options(&[1; 8]), 6, 32),
            (v6().tcp(1, 2), 6, 40),
            (v6().udp(1, 2).pad_to(120), 17, 40),
            (v6().icmp_echo(1, 2), 58, 40),
            (v6().dest_options(&[1; 6]).routing(&[0; 6]).tcp(1, 2), 6, 56),
            (v6().fragment(0, false).udp(1, 2), 17, 48),
            (v4().sctp(1, 2).pad_to(120), 132, 20),
            (v6().dest_options(&[1; 6]).sctp(1, 2), 132, 48),
        ]
    }

    fn is_right_of(packet: &BytesPacket, proto: u8, ip_header: usize) -> bool {
        let info = HeaderInfo::plain(0, ip_header);
        ChecksumSource::of(packet).is_right(&info, proto, ip_header >= IPV6)
    }

    #[test]
    fn a_changed_byte_is_found_wherever_segments_end() {
        for (builder, proto, ip_header) in frames() {
            let (frame, l4) = (builder.build(), 14 + ip_header);
            for cut in 0..=frame.len() {
                let packet = BytesPacket::cut(&frame, cut);
                assert!(is_right_of(&packet, proto, ip_header), "{builder:?} {cut}");
            }
            for at in l4..14 + builder.build_packet().len() {
                let mut bad = frame.clone();
                bad[at] ^= 0x10;
                // The parser refuses such a length.
                let is_length = proto == PROTO_UDP && (4..6).contains(&(at - l4));
                for cut in [0, at, at + 1, frame.len()] {
                    let is_right = is_right_of(&BytesPacket::cut(&bad, cut), proto, ip_header);
                    assert!(is_length || !is_right, "{builder:?} {at} {cut}");
                }
            }
        }
    }

    #[test]
    fn what_is_plain_is_right_in_short_as_well() {
        let mut plain = 0;
        for (builder, proto, ip_header) in frames().into_iter().filter(|(_, proto, _)| *proto == 6)
        {
            let (frame, is_v6) = (builder.build(), ip_header >= IPV6);
            let info = HeaderInfo::plain(0, ip_header);
            let is_plain = ip_header == if is_v6 { IPV6 } else { 20 };
            assert_eq!(is_plain_tcp_right(&frame, &info, is_v6), is_plain, "{builder:?}");
            plain += usize::from(is_plain);
            for (at, bit) in (14..frame.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
                let mut bad = frame.clone();
                bad[at] ^= 1 << bit;
                let is_right = is_right_of(&BytesPacket::new(&bad), proto, ip_header);
                let in_short = is_plain_tcp_right(&bad, &info, is_v6);
                assert!(is_right || !in_short, "{builder:?} {at} {bit}");
            }
            for len in 0..14 + builder.build_packet().len() {
                assert!(!is_plain_tcp_right(&frame[..len], &info, is_v6), "{builder:?} {len}");
            }
        }
        assert_eq!(plain, 3);
        let v4 = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(1, 2);
        assert!(is_plain_tcp_right(&v4.clone().build(), &HeaderInfo::plain(0, 20), false));
        let fragment = v4.fragment(0, true).build();
        assert!(!is_plain_tcp_right(&fragment, &HeaderInfo::plain(0, 20), false));
    }

    #[test]
    fn the_sum_of_a_datagram_is_of_its_own_length() {
        let v4 = || FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]);
        let mut datagram = v4().udp(1, 2).payload([7; 12]).build_packet()[20..].to_vec();
        datagram.extend([9; 5]);
        let frame = v4().protocol(PROTO_UDP).payload(datagram).build();
        assert!(is_right_of(&BytesPacket::new(&frame), PROTO_UDP, 20));
    }

    #[test]
    fn the_sum_of_sctp_is_the_same_in_pieces_of_any_length() {
        let frame = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).sctp(1, 2).payload([7; 9]);
        let packet = frame.build_packet();
        for len in 1..packet.len() - 20 {
            let sum = packet[20..].chunks(len).fold(SctpSum::default(), SctpSum::plus);
            assert!(sum.agrees_with(&packet[20..]) && !sum.agrees_with(&packet), "{len}");
        }
    }

    /// A packet that the NIC has verified.
    struct Verified<'a>(BytesPacket<'a>);

    impl Packet for Verified<'_> {
        fn head(&self) -> &[u8] {
            self.0.head()
        }

        fn frame_len(&self) -> usize {
            self.0.frame_len()
        }

        fn is_verified(&self) -> bool {
            true
        }

        fn copy_to(&self, buf: &mut [u8]) -> usize {
            self.0.copy_to(buf)
        }

        fn segments(&self, see: &mut dyn FnMut(&[u8])) {
            self.0.segments(see);
        }
    }

    #[test]
    fn the_word_of_the_nic_is_taken() {
        let frame = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(1, 2).checksum(1).build();
        let (packet, info) = (BytesPacket::new(&frame), HeaderInfo::plain(0, 20));
        assert!(!ChecksumSource::of(&packet).is_right(&info, PROTO_TCP, false));
        assert!(ChecksumSource::of(&Verified(packet)).is_right(&info, PROTO_TCP, false));
    }

    #[test]
    fn what_nobody_can_know_is_right() {
        let v4 = || FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).payload([7; 30]);
        let v6 = || FrameBuilder::ipv6([0xfd; 16], [0xfe; 16]).payload([7; 30]);
        let unknown = [
            (v4().udp(1, 2).checksum(0), 17, 20),
            (v6().udp(1, 2).checksum(0), 17, 40),
            (v4().tcp(1, 2).fragment(0, true).checksum(1), 6, 20),
            (v6().fragment(0, true).tcp(1, 2).checksum(1), 6, 48),
            (v6().routing(&[0, 1, 0, 0, 0, 0]).tcp(1, 2).checksum(1), 6, 48),
            (v4().sctp(1, 2).checksum(0), 132, 20),
            (v4().sctp(1, 2).init_chunk(2, 7).checksum(0), 132, 20),
            (v4().sctp(1, 2).fragment(0, true).checksum(1), 132, 20),
            (v4().protocol(58).payload([9; 40]), 58, 20),
            (v6().protocol(1).payload([9; 40]), 1, 40),
        ];
        for (builder, proto, ip_header) in unknown {
            let frame = builder.build();
            assert!(is_right_of(&BytesPacket::new(&frame), proto, ip_header), "{builder:?}");
        }
        for chunk in [INIT, COOKIE_ECHO] {
            let sctp = FrameBuilder::ipv6([1; 16], [2; 16]).sctp(1, 2).chunk(chunk, 0, &[0; 16]);
            assert!(is_right_of(&BytesPacket::new(&sctp.build()), 132, 40));
            let frame = sctp.checksum(0).build();
            for packet in [BytesPacket::new(&frame), BytesPacket::cut(&frame, 60)] {
                assert!(!is_right_of(&packet, 132, 40), "{chunk}");
            }
        }
        // RFC 5061 section 4.1.1 has an AUTH before it.
        let sctp = FrameBuilder::ipv4([1; 4], [2; 4]).sctp(1, 2).chunk(15, 0, &[0; 21]);
        let acknowledged = sctp.clone().chunk(0x80, 0, &[0; 4]).checksum(0).build();
        assert!(is_right_of(&BytesPacket::new(&acknowledged), 132, 20));
        let asconf = sctp.chunk(ASCONF, 0, &[0; 4]).checksum(0).build();
        assert!(!is_right_of(&BytesPacket::new(&asconf), 132, 20));
        let frame = v4().tcp(1, 2).checksum(1).build();
        let cut = BytesPacket::captured(&frame[..60], frame.len(), frame.len());
        assert!(is_right_of(&cut, 6, 20));
        assert!(!is_right_of(&BytesPacket::new(&frame), 6, 20));
        // The IPv4 header has a checksum of its own, for any protocol.
        let frame = v4().sctp(1, 2).ip_checksum(1).build();
        assert!(!is_right_of(&BytesPacket::new(&frame), 132, 20));
    }
}
