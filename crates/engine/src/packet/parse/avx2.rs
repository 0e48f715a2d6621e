// SPDX-License-Identifier: BSD-3-Clause
//! The fast parser for four packets side by side, with AVX2: a third of the instructions.
//!
//! It parses four plain packets without a fault, or none of them. All must be TCP or UDP over IPv4
//! without options, or all over IPv6 without extension headers. All must be untagged, or all have
//! one VLAN tag; none may be a fragment. A vector holds one word of each packet, so each operation
//! serves all four.

#![allow(unused_unsafe, unsafe_code)]
// Vector code is listed in the fence of unsafe code. `unused_unsafe` is for Rust up to 1.86, where
// these intrinsics are unsafe even with the feature enabled. Newer versions report the blocks as
// unnecessary.

mod counted;
mod words;

#[cfg(avx512)]
use super::avx512;
use super::lengths::ETHERTYPE_VLAN;
use super::sub_burst::{SubBurst, SubBurstOrder, next};
use crate::api::{PROTO_TCP, PROTO_UDP, VlanTags};
use crate::base::SimdLevel;
use crate::packet::descriptor::{ONE_PACKET, SWAPPED_SHIFT};
use crate::packet::{
    BYTES_SHIFT, Batches, ETHERNET, ETHERTYPE_IPV4, ETHERTYPE_IPV6, HeaderInfo, IPV4_MIN, IPV6,
    OVERHEAD_MAX, OVERHEAD_SHIFT, PacketMeta, TCP_MIN, UDP, VLAN_TAG, zone_of,
};
use core::arch::x86_64::{
    _mm256_add_epi64, _mm256_and_si256, _mm256_andnot_si256, _mm256_blendv_epi8,
    _mm256_cmpeq_epi64, _mm256_cmpgt_epi64, _mm256_or_si256, _mm256_shuffle_epi8,
    _mm256_shuffle_epi32, _mm256_slli_epi64, _mm256_srli_epi64, _mm256_sub_epi64,
};
pub(super) use counted::counted;
use wire::Packet;
use words::{
    Heads, Words, above, all, byte, equal, holds_for_all, or_all, pick, swapped_u16, to_array,
    words,
};

/// Appends packets to their batches, four at a time, up to a group with a packet that is not plain.
///
/// Returns the packets that were not parsed: all of them without AVX2.
#[inline(always)]
pub(super) fn parse<P: Packet>(
    part: SubBurst<P>,
    places: SubBurstOrder,
    batches: &mut Batches,
) -> SubBurstOrder {
    let first = part.packets.get(places.trailing_zeros() as usize);
    let Some(start) = first.and_then(|first| first.head().first_chunk()) else { return places };
    let [.., a, b, _, _, c, d]: &[u8; ETHERNET + VLAN_TAG] = start;
    if part.simd == SimdLevel::None {
        return places;
    }
    // SAFETY: `detect` has found AVX2.
    unsafe {
        match [[*a, *b], [*c, *d]].map(u16::from_be_bytes) {
            [ETHERTYPE_IPV4, _] => run::<false, 0, P>(part, places, batches),
            [ETHERTYPE_IPV6, _] => run::<true, 0, P>(part, places, batches),
            [ETHERTYPE_VLAN, ETHERTYPE_IPV4] => run::<false, VLAN_TAG, P>(part, places, batches),
            [ETHERTYPE_VLAN, ETHERTYPE_IPV6] => run::<true, VLAN_TAG, P>(part, places, batches),
            _ => places,
        }
    }
}

/// # Safety
/// The processor must have AVX2.
#[target_feature(enable = "avx2")]
unsafe fn run<const V6: bool, const TAG: usize, P: Packet>(
    part: SubBurst<P>,
    mut places: SubBurstOrder,
    batches: &mut Batches,
) -> SubBurstOrder {
    #[cfg(avx512)]
    if part.simd == SimdLevel::Avx512 && TAG == 0 {
        // SAFETY: `detect` has found AVX-512.
        places = unsafe { avx512::keyed::<V6, P>(part, places, batches) };
    }
    while let Some((group, rest)) = SimdGroup::next(part.packets, places) {
        // SAFETY: the caller guarantees AVX2.
        if unsafe { group.parse::<V6, TAG>(part, batches) }.is_none() {
            break;
        }
        places = rest;
    }
    places
}

/// Four packets that are parsed side by side.
struct SimdGroup<'a, P> {
    packets: [&'a P; 4],
    /// Their places in the part.
    places: [usize; 4],
}

/// The parsed link layer of four packets: zones and descriptors.
struct Links {
    zones: [u16; 4],
    infos: [HeaderInfo; 4],
}

/// Header fields of four packets whose lengths are not checked yet.
struct Headers {
    /// All ones for a packet without options, extension headers or fragments.
    is_plain: Words,
    proto: Words,
    /// Bytes of the IP packet, and of its payload.
    ip_len: Words,
    l4_len: Words,
    /// Ports and UDP length; then the next word, with TCP offset and flags in bytes 4 and 5.
    transport: Words,
    tcp: Words,
}

impl<'a, P: Packet> SimdGroup<'a, P> {
    /// Returns the first four packets of a set, and the others.
    #[inline(always)]
    fn next(packets: &'a [P], mut rest: SubBurstOrder) -> Option<(Self, SubBurstOrder)> {
        let first = rest.trailing_zeros();
        // If they are adjacent in memory, one bounds check suffices.
        if rest.wrapping_shr(first) & 0b1111 == 0b1111 {
            let at = first as usize;
            let packets: &[P; 4] = packets.get(at..)?.first_chunk()?;
            let places = [at, at + 1, at + 2, at + 3];
            return Some((Self { packets: packets.each_ref(), places }, rest & !(0b1111 << first)));
        }
        let places = [(); 4].map(|()| next(&mut rest));
        let [a, b, c, d] = places;
        let packets = [packets.get(a)?, packets.get(b)?, packets.get(c)?, packets.get(d)?];
        Some((Self { packets, places }, rest))
    }

    /// Appends the packets to their batch, if all are plain, of this IP version, and behind `TAG`
    /// bytes of VLAN tag.
    ///
    /// # Safety
    /// The processor must have AVX2.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn parse<const V6: bool, const TAG: usize>(
        &self,
        part: SubBurst<P>,
        batches: &mut Batches,
    ) -> Option<()> {
        // SAFETY: the caller guarantees AVX2.
        unsafe {
            let Links { zones, infos } = self.links::<V6, TAG>(part)?;
            let zones = words(zones.map(|zone| u64::from(zone) << 32));
            if V6 {
                let (words, metas) = self.ipv6::<TAG>(zones)?;
                batches.v6.push_group(words, metas, infos);
            } else {
                let (words, metas) = self.ipv4::<TAG>(zones)?;
                batches.v4.push_group(words, metas, infos);
            }
        }
        Some(())
    }

    /// Returns the parsed bytes of each frame, from byte `from` on.
    #[inline(always)]
    fn heads<const N: usize>(&self, from: usize) -> Option<Heads<'a, N>> {
        let [a, b, c, d] = self.packets.map(|packet| packet.head().get(from..)?.first_chunk());
        Some(Heads([a?, b?, c?, d?]))
    }

    /// # Safety
    /// The processor must have AVX2.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn links<const V6: bool, const TAG: usize>(&self, part: SubBurst<P>) -> Option<Links> {
        let ip_header = if V6 { IPV6 } else { IPV4_MIN };
        let info = |place: usize| HeaderInfo::plain(part.first + place as u8, ip_header);
        let infos = self.places.map(info);
        if TAG == 0 {
            return Some(Links { zones: [part.zone.untagged(); 4], infos });
        }
        // SAFETY: the caller guarantees AVX2.
        let ids = unsafe {
            let tags = self.heads::<20>(0)?.words_at::<12>();
            let types = _mm256_and_si256(tags, all(0xffff));
            if !holds_for_all(equal(types, ETHERTYPE_VLAN.to_be().into())) {
                return None;
            }
            to_array(_mm256_and_si256(swapped_u16(tags, 2), all(0x0fff)))
        };
        let vlans = ids.map(|id| VlanTags { ids: [id as u16, VlanTags::NONE.ids[1]] });
        let [a, b, c, d] = vlans;
        let [e, f, g, h] = infos;
        let infos = [(a, e), (b, f), (c, g), (d, h)];
        let infos = infos.map(|(vlan, info)| HeaderInfo { vlan, ..info });
        Some(Links { zones: vlans.map(|vlan| zone_of(&vlan, part.zone)), infos })
    }

    /// Returns the keys of IPv4 packets, column by column, and their counters. `TAG` is the length
    /// of the VLAN tag.
    ///
    /// # Safety
    /// The processor must have AVX2.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn ipv4<const TAG: usize>(
        &self,
        zones: Words,
    ) -> Option<([[u64; 4]; 2], [PacketMeta; 4])> {
        let heads = self.heads::<IPV4_HEADS>(TAG)?;
        // SAFETY: the caller guarantees AVX2.
        unsafe {
            let headers = ipv4_headers(heads);
            let (metas, _) = self.metas(&headers, TAG)?;
            let (keys, swapped) = key4(heads.words_at::<26>(), &headers, zones);
            Some((keys.map(|word| to_array(word)), with_direction(metas, swapped)))
        }
    }

    /// Returns the keys of IPv6 packets, column by column, and their counters. `TAG` is the length
    /// of the VLAN tag.
    ///
    /// # Safety
    /// The processor must have AVX2.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn ipv6<const TAG: usize>(
        &self,
        zones: Words,
    ) -> Option<([[u64; 4]; 5], [PacketMeta; 4])> {
        let heads = self.heads::<IPV6_HEADS>(TAG)?;
        // SAFETY: the caller guarantees AVX2.
        unsafe {
            let headers = ipv6_headers(heads);
            let (metas, _) = self.metas(&headers, TAG)?;
            let (source, destination) = (heads.two_words_at::<22>(), heads.two_words_at::<38>());
            let (keys, swapped) = key6(source, destination, &headers, zones);
            Some((keys.map(|word| to_array(word)), with_direction(metas, swapped)))
        }
    }

    /// Returns the counters without the sender, and the bytes of the frames; `None` if a packet is
    /// not plain. `tag` is the length of the VLAN tag.
    ///
    /// # Safety
    /// The processor must have AVX2.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn metas(&self, headers: &Headers, tag: usize) -> Option<(Words, Words)> {
        let Headers { is_plain, proto, ip_len, l4_len, transport, tcp } = *headers;
        // SAFETY: the caller guarantees AVX2.
        unsafe {
            let frames = words(self.packets.map(|packet| packet.frame_len() as u64));
            let bytes = words(self.packets.map(|packet| packet.wire_len() as u64));
            let overhead = _mm256_sub_epi64(bytes, ip_len);
            let frame_end = _mm256_add_epi64(ip_len, all((ETHERNET + tag) as u64));
            let is_tcp = equal(proto, PROTO_TCP.into());
            let length_field = _mm256_blendv_epi8(swapped_u16(transport, 4), tcp_len(tcp), is_tcp);
            let more = _mm256_and_si256(is_tcp, all((TCP_MIN - UDP) as u64));
            let is_known = _mm256_or_si256(is_tcp, equal(proto, PROTO_UDP.into()));
            // All are far below 2^63, so the sign of a difference tells which one is less.
            let is_wrong = or_all([
                _mm256_sub_epi64(frames, frame_end),
                _mm256_sub_epi64(length_field, _mm256_add_epi64(more, all(UDP as u64))),
                _mm256_sub_epi64(l4_len, length_field),
                overhead,
                _mm256_sub_epi64(all(OVERHEAD_MAX as u64), overhead),
            ]);
            let is_right = _mm256_andnot_si256(is_wrong, _mm256_and_si256(is_plain, is_known));
            holds_for_all(is_right).then(|| {
                let flags = _mm256_and_si256(byte(tcp, 5), is_tcp);
                let overhead = _mm256_slli_epi64::<{ OVERHEAD_SHIFT as i32 }>(overhead);
                let bytes = _mm256_slli_epi64::<{ BYTES_SHIFT as i32 }>(bytes);
                let flags = _mm256_or_si256(flags, all(ONE_PACKET));
                (_mm256_or_si256(_mm256_or_si256(bytes, overhead), flags), frames)
            })
        }
    }
}

const IPV4_HEADS: usize = ETHERNET + IPV4_MIN + TCP_MIN;

const IPV6_HEADS: usize = ETHERNET + IPV6 + TCP_MIN;

/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn ipv4_headers(heads: Heads<IPV4_HEADS>) -> Headers {
    // SAFETY: the caller guarantees AVX2.
    unsafe {
        // EtherType, version, total length; then the next word of the header.
        let [ip, ip_8] = heads.two_words_at::<12>();
        let [transport, tcp] = heads.two_words_at::<34>();
        let ip_len = swapped_u16(ip, 4);
        Headers {
            is_plain: _mm256_and_si256(
                equal(_mm256_and_si256(ip, all(0xff_ffff)), 0x45_0008),
                equal(_mm256_and_si256(ip_8, all(0xff3f)), 0),
            ),
            proto: byte(ip_8, 3),
            ip_len,
            l4_len: _mm256_sub_epi64(ip_len, all(IPV4_MIN as u64)),
            transport,
            tcp,
        }
    }
}

/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn ipv6_headers(heads: Heads<IPV6_HEADS>) -> Headers {
    // SAFETY: the caller guarantees AVX2.
    unsafe {
        // EtherType, version, payload length; then the next header.
        let [ip, ip_8] = heads.two_words_at::<12>();
        let [transport, tcp] = heads.two_words_at::<54>();
        let l4_len = swapped_u16(ip, 6);
        Headers {
            is_plain: equal(_mm256_and_si256(ip, all(0xf0_ffff)), 0x60_dd86),
            proto: byte(ip_8, 0),
            ip_len: _mm256_add_epi64(l4_len, all(IPV6 as u64)),
            l4_len,
            transport,
            tcp,
        }
    }
}

/// Returns the length of TCP headers, by the words with the offset in byte 4.
///
/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn tcp_len(tcp: Words) -> Words {
    // SAFETY: the caller guarantees AVX2.
    unsafe { _mm256_and_si256(_mm256_srli_epi64::<34>(tcp), all(0xf0 >> 2)) }
}

/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn to_metas(metas: Words) -> [PacketMeta; 4] {
    // SAFETY: the caller guarantees AVX2. A `PacketMeta` is a word.
    unsafe { std::mem::transmute::<[u64; 4], [PacketMeta; 4]>(to_array(metas)) }
}

/// Returns the counters with the sender: the second end of the key where `swapped` is all ones.
///
/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn with_direction(metas: Words, swapped: Words) -> [PacketMeta; 4] {
    // SAFETY: the caller guarantees AVX2.
    unsafe {
        let direction = _mm256_and_si256(swapped, all(1 << SWAPPED_SHIFT));
        to_metas(_mm256_or_si256(metas, direction))
    }
}

/// Returns the last word of the keys as seen from the source, and as seen from the destination.
///
/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn last_words(headers: &Headers, zones: Words) -> [Words; 2] {
    let Headers { transport, proto, .. } = *headers;
    // SAFETY: the caller guarantees AVX2.
    unsafe {
        let above_ports = _mm256_or_si256(zones, _mm256_slli_epi64::<48>(proto));
        let forth = _mm256_and_si256(transport, all(u32::MAX.into()));
        let back = _mm256_shuffle_epi8(transport, pick([2, 3, 0, 1, -1, -1, -1, -1]));
        [_mm256_or_si256(forth, above_ports), _mm256_or_si256(back, above_ports)]
    }
}

/// Returns the words of the keys like `key::key4`, and all ones where the source is the second end.
///
/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn key4(forth: Words, headers: &Headers, zones: Words) -> ([Words; 2], Words) {
    // SAFETY: the caller guarantees AVX2.
    unsafe {
        let back = _mm256_shuffle_epi32::<0b10_11_00_01>(forth);
        let [last_forth, last_back] = last_words(headers, zones);
        let by_ports = _mm256_cmpgt_epi64(last_forth, last_back);
        let swapped =
            _mm256_blendv_epi8(above(forth, back), by_ports, _mm256_cmpeq_epi64(forth, back));
        let words = [
            _mm256_blendv_epi8(forth, back, swapped),
            _mm256_blendv_epi8(last_forth, last_back, swapped),
        ];
        (words, swapped)
    }
}

/// Returns the words of the keys like `key::key6`, and all ones where the source is the second end.
///
/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn key6(
    src: [Words; 2],
    dst: [Words; 2],
    headers: &Headers,
    zones: Words,
) -> ([Words; 5], Words) {
    // SAFETY: the caller guarantees AVX2.
    unsafe {
        let [last_forth, last_back] = last_words(headers, zones);
        let by_ports = _mm256_cmpgt_epi64(last_forth, last_back);
        let by_low =
            _mm256_blendv_epi8(above(src[1], dst[1]), by_ports, _mm256_cmpeq_epi64(src[1], dst[1]));
        let swapped =
            _mm256_blendv_epi8(above(src[0], dst[0]), by_low, _mm256_cmpeq_epi64(src[0], dst[0]));
        let words = [
            _mm256_blendv_epi8(src[0], dst[0], swapped),
            _mm256_blendv_epi8(src[1], dst[1], swapped),
            _mm256_blendv_epi8(dst[0], src[0], swapped),
            _mm256_blendv_epi8(dst[1], src[1], swapped),
            _mm256_blendv_epi8(last_forth, last_back, swapped),
        ];
        (words, swapped)
    }
}
