// SPDX-License-Identifier: BSD-3-Clause
//! Parses the counters and numbers of packets whose connection is known by a mark, eight at a time
//! with AVX-512.
//!
//! It takes half the instructions of AVX2.

// build.rs compiles this file only if the compiler has these intrinsics (Rust 1.89). They are
// listed in the fence of unsafe code.
#![allow(clippy::incompatible_msrv, unsafe_code)]

use crate::api::{PROTO_TCP, PROTO_UDP};
use crate::packet::descriptor::ONE_PACKET;
use crate::packet::{
    BYTES_SHIFT, ETHERNET, IPV4_MIN, IPV6, OVERHEAD_MAX, OVERHEAD_SHIFT, PlainColumns, TCP_MIN, UDP,
};
use core::arch::x86_64::{
    __m512i, __mmask8, _mm_loadu_si128, _mm512_add_epi64, _mm512_and_si512, _mm512_castsi128_si512,
    _mm512_cmpeq_epi64_mask, _mm512_cmplt_epi64_mask, _mm512_inserti32x4, _mm512_mask_blend_epi32,
    _mm512_mask_blend_epi64, _mm512_maskz_and_epi64, _mm512_or_si512, _mm512_reduce_add_epi64,
    _mm512_set1_epi64, _mm512_setr_epi64, _mm512_setzero_si512, _mm512_shuffle_epi8,
    _mm512_slli_epi64, _mm512_srli_epi64, _mm512_storeu_si512, _mm512_sub_epi64,
    _mm512_testn_epi64_mask, _mm512_unpackhi_epi64, _mm512_unpacklo_epi64,
};
use wire::Packet;

/// Number of packets that are parsed side by side.
const GROUP: usize = 8;

/// One word of each packet.
type Words = __m512i;

/// Header fields of eight packets whose lengths are not checked yet.
struct Headers {
    /// Bit per packet, set if it has no options, extension headers or fragments.
    is_plain: __mmask8,
    proto: Words,
    /// Bytes of the IP packet, and of its payload.
    ip_len: Words,
    l4_len: Words,
    /// Ports and UDP length; then the next word, with TCP offset and flags in bytes 4 and 5.
    transport: Words,
    tcp: Words,
}

/// Writes the counters and numbers of packets, eight at a time, up to a group that is not untagged,
/// plain and of this IP version.
///
/// Returns the number of packets, and the bytes of their frames.
///
/// # Safety
/// The processor must have AVX-512F and AVX-512BW.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn counted<const V6: bool, P: Packet>(
    packets: &[P],
    PlainColumns { metas, seqs, sizes }: PlainColumns,
) -> (usize, u64) {
    let mut read = 0;
    let mut bytes = _mm512_setzero_si512();
    let columns = metas.chunks_exact_mut(GROUP).zip(seqs.chunks_exact_mut(GROUP));
    let columns = columns.zip(sizes.chunks_exact_mut(GROUP));
    for (eight, ((metas, seqs), sizes)) in packets.chunks_exact(GROUP).zip(columns) {
        let Some(eight) = eight.first_chunk() else { break };
        let Some(headers) = (if V6 { ipv6(eight) } else { ipv4(eight) }) else { break };
        let frames = numbers(eight.each_ref().map(P::frame_len));
        let wire = numbers(eight.each_ref().map(P::wire_len));
        let Some(words) = metas_of(&headers, frames, wire) else { break };
        let [of_seqs, of_sizes] = seq_numbers(&headers);
        // SAFETY: the stores are unaligned, each of eight words; a `PacketMeta` is a word.
        unsafe {
            _mm512_storeu_si512(metas.as_mut_ptr().cast(), words);
            _mm512_storeu_si512(seqs.as_mut_ptr().cast(), of_seqs);
            _mm512_storeu_si512(sizes.as_mut_ptr().cast(), of_sizes);
        }
        bytes = _mm512_add_epi64(bytes, frames);
        read += GROUP;
    }
    (read, _mm512_reduce_add_epi64(bytes) as u64)
}

/// Returns sequence numbers with acknowledgments, and windows with lengths of data, as
/// [`PlainColumns`] has them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn seq_numbers(headers: &Headers) -> [Words; 2] {
    let Headers { l4_len, transport, tcp, .. } = *headers;
    let numbers = _mm512_mask_blend_epi32(0b1010_1010_1010_1010, tcp, transport);
    let len = _mm512_slli_epi64::<32>(_mm512_sub_epi64(l4_len, tcp_len(tcp)));
    let seqs = pick(numbers, 0x0001_0203_0405_0607);
    [seqs, _mm512_or_si512(swapped_u16::<6>(tcp), len)]
}

/// Returns the length of TCP headers, by the words with the offset in byte 4.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn tcp_len(tcp: Words) -> Words {
    _mm512_and_si512(_mm512_srli_epi64::<34>(tcp), all(0xf0 >> 2))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn ipv4<P: Packet>(packets: &[P; GROUP]) -> Option<Headers> {
    let heads = heads::<{ ETHERNET + IPV4_MIN + TCP_MIN }, P>(packets)?;
    // EtherType, version, total length; then the next word of the header. SAFETY: all bytes lie in
    // the checked head, which ends with the TCP header.
    let ([ip, ip_8], [transport, tcp]) =
        unsafe { (two_words_at::<12>(heads), two_words_at::<34>(heads)) };
    let ip_len = swapped_u16::<4>(ip);
    Some(Headers {
        is_plain: equal(_mm512_and_si512(ip, all(0xff_ffff)), 0x45_0008)
            & _mm512_testn_epi64_mask(ip_8, all(0xff3f)),
        proto: _mm512_and_si512(_mm512_srli_epi64::<24>(ip_8), all(0xff)),
        ip_len,
        l4_len: _mm512_sub_epi64(ip_len, all(IPV4_MIN as u64)),
        transport,
        tcp,
    })
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn ipv6<P: Packet>(packets: &[P; GROUP]) -> Option<Headers> {
    let heads = heads::<{ ETHERNET + IPV6 + TCP_MIN }, P>(packets)?;
    // EtherType, version, payload length; then the next header. SAFETY: all bytes lie in the
    // checked head, which ends with the TCP header.
    let ([ip, ip_8], [transport, tcp]) =
        unsafe { (two_words_at::<12>(heads), two_words_at::<54>(heads)) };
    let l4_len = swapped_u16::<6>(ip);
    Some(Headers {
        is_plain: equal(_mm512_and_si512(ip, all(0xf0_ffff)), 0x60_dd86),
        proto: _mm512_and_si512(ip_8, all(0xff)),
        ip_len: _mm512_add_epi64(l4_len, all(IPV6 as u64)),
        l4_len,
        transport,
        tcp,
    })
}

/// Returns the counters without the sender; `None` if a packet is not plain.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn metas_of(headers: &Headers, frames: Words, bytes: Words) -> Option<Words> {
    let Headers { is_plain, proto, ip_len, l4_len, transport, tcp } = *headers;
    let overhead = _mm512_sub_epi64(bytes, ip_len);
    let frame_end = _mm512_add_epi64(ip_len, all(ETHERNET as u64));
    let (is_tcp, is_udp) = (equal(proto, PROTO_TCP.into()), equal(proto, PROTO_UDP.into()));
    let length_field = _mm512_mask_blend_epi64(is_tcp, swapped_u16::<4>(transport), tcp_len(tcp));
    let least = _mm512_mask_blend_epi64(is_tcp, all(UDP as u64), all(TCP_MIN as u64));
    // All are far below 2^63, so the sign of a difference tells which one is less.
    let differences = [
        _mm512_sub_epi64(frames, frame_end),
        _mm512_sub_epi64(length_field, least),
        _mm512_sub_epi64(l4_len, length_field),
        overhead,
        _mm512_sub_epi64(all(OVERHEAD_MAX as u64), overhead),
    ];
    let mut any = _mm512_setzero_si512();
    for difference in differences {
        any = _mm512_or_si512(any, difference);
    }
    let is_wrong = _mm512_cmplt_epi64_mask(any, _mm512_setzero_si512());
    if is_plain & (is_tcp | is_udp) & !is_wrong != __mmask8::MAX {
        return None;
    }
    let flags = _mm512_maskz_and_epi64(is_tcp, _mm512_srli_epi64::<40>(tcp), all(0xff));
    let lengths = _mm512_or_si512(
        _mm512_slli_epi64::<OVERHEAD_SHIFT>(overhead),
        _mm512_slli_epi64::<BYTES_SHIFT>(bytes),
    );
    Some(_mm512_or_si512(_mm512_or_si512(lengths, flags), all(ONE_PACKET)))
}

/// Returns the heads of the packets, if each has at least `N` bytes.
#[inline(always)]
fn heads<const N: usize, P: Packet>(packets: &[P; GROUP]) -> Option<[*const u8; GROUP]> {
    let heads = packets.each_ref().map(P::head);
    // One comparison per packet; options would need another one for each address.
    if heads.iter().any(|head| head.len() < N) {
        return None;
    }
    Some(heads.map(<[u8]>::as_ptr))
}

/// Returns the words at byte `AT` of each head, and the next words.
///
/// # Safety
/// Each head must have `AT` + 16 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn two_words_at<const AT: usize>(heads: [*const u8; GROUP]) -> [Words; 2] {
    // SAFETY: the loads are unaligned, and inside the head, as the caller guarantees.
    let [a, b, c, d, e, f, g, h] =
        heads.map(|head| unsafe { _mm_loadu_si128(head.add(AT).cast()) });
    let (odd, even) = (_mm512_castsi128_si512(a), _mm512_castsi128_si512(b));
    let (odd, even) = (_mm512_inserti32x4::<1>(odd, c), _mm512_inserti32x4::<1>(even, d));
    let (odd, even) = (_mm512_inserti32x4::<2>(odd, e), _mm512_inserti32x4::<2>(even, f));
    let (odd, even) = (_mm512_inserti32x4::<3>(odd, g), _mm512_inserti32x4::<3>(even, h));
    [_mm512_unpacklo_epi64(odd, even), _mm512_unpackhi_epi64(odd, even)]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn numbers(numbers: [usize; GROUP]) -> Words {
    let [a, b, c, d, e, f, g, h] = numbers.map(|number| number as i64);
    _mm512_setr_epi64(a, b, c, d, e, f, g, h)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn all(word: u64) -> Words {
    _mm512_set1_epi64(word as i64)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn equal(words: Words, word: u64) -> __mmask8 {
    _mm512_cmpeq_epi64_mask(words, all(word))
}

/// Returns the big-endian number at byte `AT` of each word.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn swapped_u16<const AT: u64>(words: Words) -> Words {
    pick(words, 0x8080_8080_8080_0000 | AT << 8 | (AT + 1))
}

/// Returns words of these bytes of each word: the source of each byte, 0x80 for 0.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn pick(words: Words, bytes: u64) -> Words {
    // The upper word of a pair is 8 bytes further; 0x80 stays above 0x7f.
    let [lower, upper] = [bytes as i64, (bytes | 0x0808_0808_0808_0808) as i64];
    let pick = _mm512_setr_epi64(lower, upper, lower, upper, lower, upper, lower, upper);
    _mm512_shuffle_epi8(words, pick)
}
