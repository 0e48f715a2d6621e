// SPDX-License-Identifier: BSD-3-Clause
//! The parsers for eight packets side by side, with AVX-512: half the instructions of AVX2.
//!
//! As with AVX2, all eight are plain and of one IP version, or none is parsed. Packets with a VLAN
//! tag are left to AVX2.

// build.rs compiles these files only if the compiler has the intrinsics (Rust 1.89). They are
// listed in the fence of unsafe code.
#![allow(clippy::incompatible_msrv, unsafe_code)]

mod counted;
mod keyed;
mod words;

use crate::api::{PROTO_TCP, PROTO_UDP};
use crate::packet::descriptor::ONE_PACKET;
use crate::packet::{
    BYTES_SHIFT, ETHERNET, IPV4_MIN, IPV6, OVERHEAD_MAX, OVERHEAD_SHIFT, TCP_MIN, UDP,
};
use core::arch::x86_64::{
    __mmask8, _mm512_add_epi64, _mm512_and_si512, _mm512_cmplt_epi64_mask, _mm512_mask_blend_epi64,
    _mm512_maskz_and_epi64, _mm512_or_si512, _mm512_setzero_si512, _mm512_slli_epi64,
    _mm512_srli_epi64, _mm512_sub_epi64, _mm512_testn_epi64_mask,
};
pub(super) use counted::counted;
pub(super) use keyed::keyed;
use wire::Packet;
use words::{GROUP, Heads, Words, all, equal, numbers, swapped_u16};

/// Bytes of a frame up to the end of the TCP header.
const IPV4_HEAD: usize = ETHERNET + IPV4_MIN + TCP_MIN;
const IPV6_HEAD: usize = ETHERNET + IPV6 + TCP_MIN;

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

/// Returns the length of TCP headers, by the words with the offset in byte 4.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn tcp_len(tcp: Words) -> Words {
    _mm512_and_si512(_mm512_srli_epi64::<34>(tcp), all(0xf0 >> 2))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn ipv4_headers(heads: Heads<IPV4_HEAD>) -> Headers {
    // EtherType, version, total length; then the next word of the header.
    let [ip, ip_8] = heads.two_words_at::<12>();
    let [transport, tcp] = heads.two_words_at::<34>();
    let ip_len = swapped_u16::<4>(ip);
    Headers {
        is_plain: equal(_mm512_and_si512(ip, all(0xff_ffff)), 0x45_0008)
            & _mm512_testn_epi64_mask(ip_8, all(0xff3f)),
        proto: _mm512_and_si512(_mm512_srli_epi64::<24>(ip_8), all(0xff)),
        ip_len,
        l4_len: _mm512_sub_epi64(ip_len, all(IPV4_MIN as u64)),
        transport,
        tcp,
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn ipv6_headers(heads: Heads<IPV6_HEAD>) -> Headers {
    // EtherType, version, payload length; then the next header.
    let [ip, ip_8] = heads.two_words_at::<12>();
    let [transport, tcp] = heads.two_words_at::<54>();
    let l4_len = swapped_u16::<6>(ip);
    Headers {
        is_plain: equal(_mm512_and_si512(ip, all(0xf0_ffff)), 0x60_dd86),
        proto: _mm512_and_si512(ip_8, all(0xff)),
        ip_len: _mm512_add_epi64(l4_len, all(IPV6 as u64)),
        l4_len,
        transport,
        tcp,
    }
}

/// Returns the counters without the sender, and the bytes of the frames; `None` if a packet is not
/// plain.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn metas<P: Packet>(packets: &[P; GROUP], headers: &Headers) -> Option<(Words, Words)> {
    let Headers { is_plain, proto, ip_len, l4_len, transport, tcp } = *headers;
    let frames = numbers(packets.each_ref().map(P::frame_len));
    let bytes = numbers(packets.each_ref().map(P::wire_len));
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
    Some((_mm512_or_si512(_mm512_or_si512(lengths, flags), all(ONE_PACKET)), frames))
}
