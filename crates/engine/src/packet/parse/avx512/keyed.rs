// SPDX-License-Identifier: BSD-3-Clause
//! Parses the keys and counters of packets whose connection is looked up, eight at a time.

use super::words::{GROUP, Heads, Words, all, pick};
use super::{Headers, IPV4_HEAD, IPV6_HEAD, ipv4_headers, ipv6_headers, metas};
use crate::packet::descriptor::SWAPPED_SHIFT;
use crate::packet::parse::sub_burst::{SubBurst, SubBurstOrder};
use crate::packet::{Batches, HeaderInfo, IPV4_MIN, IPV6, PacketMeta, zone_proto};
use core::arch::x86_64::{
    __mmask8, _mm512_and_si512, _mm512_cmpeq_epi64_mask, _mm512_cmpgt_epi64_mask,
    _mm512_cmpgt_epu64_mask, _mm512_mask_blend_epi64, _mm512_mask_or_epi64, _mm512_or_si512,
    _mm512_rol_epi64, _mm512_slli_epi64, _mm512_storeu_si512,
};
use wire::Packet;

/// Appends packets to their batches, eight adjacent ones at a time, up to a group that is not
/// untagged, plain and of this IP version. Returns the others.
///
/// # Safety
/// The processor must have AVX-512F and AVX-512BW.
#[target_feature(enable = "avx512f,avx512bw")]
pub(in super::super) unsafe fn keyed<const V6: bool, P: Packet>(
    part: SubBurst<P>,
    mut places: SubBurstOrder,
    batches: &mut Batches,
) -> SubBurstOrder {
    let zone = all(zone_proto(part.zone.untagged(), 0));
    loop {
        let at = places.trailing_zeros();
        let is_adjacent = places.checked_shr(at).is_some_and(|places| places as u8 == u8::MAX);
        let eight = part.packets.get(at as usize..).and_then(<[P]>::first_chunk);
        let Some(eight) = eight.filter(|_| is_adjacent) else { return places };
        let ip_header = if V6 { IPV6 } else { IPV4_MIN };
        let infos = std::array::from_fn(|i| {
            HeaderInfo::plain(part.first + (at as usize + i) as u8, ip_header)
        });
        let is_parsed = match V6 {
            false => ipv4(eight, zone).map(|(keys, metas)| {
                batches.v4.push_group(keys.map(|key| to_words(key)), to_metas(metas), infos);
            }),
            true => ipv6(eight, zone).map(|(keys, metas)| {
                batches.v6.push_group(keys.map(|key| to_words(key)), to_metas(metas), infos);
            }),
        };
        if is_parsed.is_none() {
            return places;
        }
        places &= !(0xff << at);
    }
}

/// Returns the keys of IPv4 packets, column by column, and their counters.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn ipv4<P: Packet>(packets: &[P; GROUP], zone: Words) -> Option<([Words; 2], Words)> {
    let heads = Heads::<IPV4_HEAD>::of(packets)?;
    let headers = ipv4_headers(heads);
    let (metas, _) = metas(packets, &headers)?;
    let forth = heads.words_at::<26>();
    let back = _mm512_rol_epi64::<32>(forth);
    let [last_forth, last_back] = last_words(&headers, zone);
    let by_ports = _mm512_cmpgt_epi64_mask(last_forth, last_back);
    let swapped =
        _mm512_cmpgt_epu64_mask(forth, back) | by_ports & _mm512_cmpeq_epi64_mask(forth, back);
    let keys = [(forth, back), (last_forth, last_back)];
    let keys = keys.map(|(forth, back)| _mm512_mask_blend_epi64(swapped, forth, back));
    Some((keys, with_direction(metas, swapped)))
}

/// Returns the keys of IPv6 packets, column by column, and their counters.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn ipv6<P: Packet>(packets: &[P; GROUP], zone: Words) -> Option<([Words; 5], Words)> {
    let heads = Heads::<IPV6_HEAD>::of(packets)?;
    let headers = ipv6_headers(heads);
    let (metas, _) = metas(packets, &headers)?;
    let (src, dst) = (heads.two_words_at::<22>(), heads.two_words_at::<38>());
    let [last_forth, last_back] = last_words(&headers, zone);
    let by_ports = _mm512_cmpgt_epi64_mask(last_forth, last_back);
    let by_low = _mm512_cmpgt_epu64_mask(src[1], dst[1])
        | by_ports & _mm512_cmpeq_epi64_mask(src[1], dst[1]);
    let swapped =
        _mm512_cmpgt_epu64_mask(src[0], dst[0]) | by_low & _mm512_cmpeq_epi64_mask(src[0], dst[0]);
    let keys = [
        (src[0], dst[0]),
        (src[1], dst[1]),
        (dst[0], src[0]),
        (dst[1], src[1]),
        (last_forth, last_back),
    ];
    let keys = keys.map(|(forth, back)| _mm512_mask_blend_epi64(swapped, forth, back));
    Some((keys, with_direction(metas, swapped)))
}

/// Returns the last word of the keys as seen from the source, and as seen from the destination.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn last_words(headers: &Headers, zone: Words) -> [Words; 2] {
    let above_ports = _mm512_or_si512(zone, _mm512_slli_epi64::<48>(headers.proto));
    let forth = _mm512_and_si512(headers.transport, all(u32::MAX.into()));
    let back = pick(headers.transport, 0x8080_8080_0100_0302);
    [_mm512_or_si512(forth, above_ports), _mm512_or_si512(back, above_ports)]
}

/// Returns the counters with the sender: the second end of the key where `swapped` is set.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn with_direction(metas: Words, swapped: __mmask8) -> Words {
    _mm512_mask_or_epi64(metas, swapped, metas, all(1 << SWAPPED_SHIFT))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn to_metas(metas: Words) -> [PacketMeta; GROUP] {
    // SAFETY: a `PacketMeta` is a word.
    unsafe { std::mem::transmute::<[u64; GROUP], [PacketMeta; GROUP]>(to_words(metas)) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn to_words(words: Words) -> [u64; GROUP] {
    let mut numbers = [0; GROUP];
    // SAFETY: the store is unaligned, of eight words.
    unsafe { _mm512_storeu_si512(numbers.as_mut_ptr().cast(), words) };
    numbers
}
