// SPDX-License-Identifier: BSD-3-Clause
//! Parses the counters of packets whose connection is known by a mark: untagged plain TCP or UDP.
//!
//! It uses as few instructions and branches as possible. Words are read in the processor's byte
//! order. All differences that must not be negative are combined in one word, whose sign bit is
//! tested.

#[cfg(target_arch = "x86_64")]
use super::avx2;
use super::lengths::{Lengths, TRANSPORTS, Transport};
use crate::base::SimdLevel;
use crate::packet::{
    ETHERNET, IPV4_MIN, IPV6, OVERHEAD_MAX, PacketMeta, PlainColumns, SeqNumbers, TCP_MIN,
};
use wire::Packet;

/// EtherType, version and header length: bytes 12 to 14, in a word in network order.
const IPV4_MASK: u64 = u64::from_ne_bytes([0xff, 0xff, 0xff, 0, 0, 0, 0, 0]);

const IPV4_VALUE: u64 = u64::from_ne_bytes([0x08, 0x00, 0x45, 0, 0, 0, 0, 0]);

/// Flag for more fragments, and the offset: bytes 20 and 21.
const FRAGMENT_MASK: u64 = u64::from_ne_bytes([0x3f, 0xff, 0, 0, 0, 0, 0, 0]);

/// EtherType and version of IPv6.
const IPV6_MASK: u64 = u64::from_ne_bytes([0xff, 0xff, 0xf0, 0, 0, 0, 0, 0]);

const IPV6_VALUE: u64 = u64::from_ne_bytes([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0]);

/// Returns the counters of a plain IPv4 packet. `None`: it is not plain, or malformed.
#[inline(always)]
pub(super) fn plain_ipv4(head: &[u8], lengths: Lengths) -> Option<PacketMeta> {
    let mut room = [0; ETHERNET + IPV4_MIN + TCP_MIN];
    let head = start(head, lengths.frame, &mut room)?;
    let is_other = (word(head, 12) & IPV4_MASK ^ IPV4_VALUE) | word(head, 20) & FRAGMENT_MASK;
    if is_other != 0 {
        return None;
    }
    let total_len = i64::from(u16_at(head, 16));
    meta(head[23], &head[ETHERNET + IPV4_MIN..], (total_len, IPV4_MIN), lengths)
}

/// Returns the counters of a plain IPv6 packet. `None`: it is not plain, or malformed.
#[inline(always)]
pub(super) fn plain_ipv6(head: &[u8], lengths: Lengths) -> Option<PacketMeta> {
    let mut room = [0; ETHERNET + IPV6 + TCP_MIN];
    let head = start(head, lengths.frame, &mut room)?;
    if word(head, 12) & IPV6_MASK != IPV6_VALUE {
        return None;
    }
    let total_len = i64::from(u16_at(head, 18)) + IPV6 as i64;
    meta(head[20], &head[ETHERNET + IPV6..], (total_len, IPV6), lengths)
}

/// True if an untagged frame says that it is of IPv6.
#[inline(always)]
pub(crate) fn is_ipv6(head: &[u8]) -> bool {
    head.get(12..14) == Some(&[0x86, 0xdd])
}

/// Returns the first bytes of a frame; a shorter frame is extended with zeros.
///
/// `None`: they lie in several segments, or the capture has cut them.
#[inline(always)]
fn start<'a, const N: usize>(
    head: &'a [u8],
    frame: usize,
    room: &'a mut [u8; N],
) -> Option<&'a [u8; N]> {
    match head.first_chunk() {
        None if head.len() == frame => {
            room[..frame].copy_from_slice(head);
            Some(room)
        }
        start => start,
    }
}

/// Writes the counters and numbers of packets of one IP version, and returns the bytes of their
/// frames.
///
/// Packets are parsed side by side where possible. A packet that is not plain, or has the other IP
/// version, gets [`PacketMeta::UNUSUAL`].
#[inline(always)]
pub(crate) fn plain_all<P: Packet>(
    packets: &[P],
    is_v6: bool,
    vectors: SimdLevel,
    mut columns: PlainColumns,
) -> u64 {
    let (mut read, mut bytes) = (0, 0);
    while read < packets.len() {
        #[cfg(target_arch = "x86_64")]
        let (side_by_side, their_bytes) = {
            let (packets, columns) = (&packets[read..], columns.skip(read));
            match is_v6 {
                false => avx2::counted::<false, P>(packets, vectors, columns),
                true => avx2::counted::<true, P>(packets, vectors, columns),
            }
        };
        #[cfg(not(target_arch = "x86_64"))]
        let (side_by_side, their_bytes) = {
            let _ = (vectors, columns.skip(read));
            (0, 0)
        };
        read += side_by_side;
        bytes += their_bytes;
        // A group in which one packet is not plain, or the last packets.
        for packet in packets[read..].iter().take(4) {
            let (meta, numbers) = plain(packet, is_v6);
            columns.set(read, meta, numbers);
            bytes += packet.frame_len() as u64;
            read += 1;
        }
    }
    bytes
}

/// Returns the counters and numbers of one packet.
#[inline(never)]
fn plain<P: Packet>(packet: &P, is_v6: bool) -> (PacketMeta, SeqNumbers) {
    let lengths = Lengths { frame: packet.frame_len(), bytes: packet.wire_len() };
    let head = packet.head();
    let meta = if is_v6 { plain_ipv6(head, lengths) } else { plain_ipv4(head, lengths) };
    let meta = meta.unwrap_or(PacketMeta::UNUSUAL);
    // UDP may end before the numbers, which it does not have.
    let numbers = SeqNumbers::of_plain(packet, meta, is_v6, ETHERNET);
    (meta, numbers.unwrap_or_default())
}

#[inline(always)]
fn meta(
    proto: u8,
    transport: &[u8],
    (total_len, header_len): (i64, usize),
    lengths: Lengths,
) -> Option<PacketMeta> {
    let Transport { least, tcp } = TRANSPORTS[usize::from(proto)];
    let (tcp_len, udp_len) = (u16::from(transport[12] >> 4) * 4, u16_at(transport, 4));
    let length_field = i64::from(tcp_len & tcp | udp_len & !tcp);
    let (frame, bytes) = (lengths.frame as i64, lengths.bytes as i64);
    let overhead = bytes - total_len;
    let negative_if_bad = (i64::from(least) - 1)
        | (length_field - i64::from(least))
        | (total_len - header_len as i64 - length_field)
        | (frame - ETHERNET as i64 - total_len)
        | (OVERHEAD_MAX as i64 - overhead)
        | overhead;
    let tcp_flags = transport[13] & tcp as u8;
    (negative_if_bad >= 0).then_some(PacketMeta::new(bytes as u32, overhead as u16, tcp_flags))
}

#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| bytes[at + i]))
}

#[inline(always)]
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}
