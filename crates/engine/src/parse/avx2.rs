// SPDX-License-Identifier: BSD-3-Clause
//! The short way for four packets side by side, with AVX2: 62 instructions a packet fewer.
//!
//! Takes four packets that are all untagged IPv4 without options, not fragments, TCP or UDP, with
//! nothing wrong; or none of them. A word of each packet makes a vector; what is compared, sorted
//! and put together then is done once for the four.

// Vectors are inside the fence of unsafe code. `unused_unsafe` is for Rust up to 1.86, where these
// intrinsics are unsafe even with the feature enabled: newer ones find the blocks superfluous.
#![allow(unused_unsafe, unsafe_code)]

use super::{
    BYTES_MAX, ETHERNET, IPV4_MIN, Lane, Meta, OVERHEAD_MAX, Opening, PROTO_TCP, PROTO_UDP, Packet,
    TCP_MIN, UDP, Vectors,
};
use core::arch::x86_64::{
    __m256i, _mm_loadl_epi64, _mm_unpacklo_epi64, _mm256_add_epi64, _mm256_and_si256,
    _mm256_andnot_si256, _mm256_blendv_epi8, _mm256_castsi256_pd, _mm256_cmpeq_epi64,
    _mm256_cmpgt_epi64, _mm256_movemask_pd, _mm256_or_si256, _mm256_set_epi64x, _mm256_set_m128i,
    _mm256_set1_epi64x, _mm256_setr_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8,
    _mm256_shuffle_epi32, _mm256_slli_epi64, _mm256_srli_epi64, _mm256_storeu_si256,
    _mm256_sub_epi64, _mm256_xor_si256,
};

/// Puts packets into `lane` four by four, the first with position `first`, up to a group of which
/// it does not take all. Returns how many packets it took; none where there is no AVX2.
#[inline(always)]
pub(super) fn parse<P: Packet>(
    packets: &[P],
    first: u8,
    vectors: Vectors,
    lane: &mut Lane<2>,
) -> usize {
    match vectors {
        Vectors::None => 0,
        // SAFETY: `detect` has found AVX2.
        _ => unsafe { parse_groups(packets, first, lane) },
    }
}

/// # Safety
/// The processor must have AVX2.
#[target_feature(enable = "avx2")]
unsafe fn parse_groups<P: Packet>(packets: &[P], first: u8, lane: &mut Lane<2>) -> usize {
    let mut taken = 0;
    while let Some(group) = packets[taken..].first_chunk() {
        // SAFETY: AVX2 is there by the caller's promise.
        let Some((words, metas)) = (unsafe { parse_group(group) }) else { break };
        // SAFETY: a `Meta` is a word of integers, and x86 has the first of them in the low bits.
        let metas = unsafe { std::mem::transmute::<[u64; 4], [Meta; 4]>(metas) };
        let position = first + taken as u8;
        let openings = [0, 1, 2, 3].map(|i| Opening::plain(position + i));
        lane.push_four(words, metas, openings);
        taken += 4;
    }
    taken
}

/// What is read of a frame.
type Head = [u8; ETHERNET + IPV4_MIN + TCP_MIN];

/// Keys, word by word, and metadata as words.
///
/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn parse_group<P: Packet>([a, b, c, d]: &[P; 4]) -> Option<([[u64; 4]; 2], [u64; 4])> {
    let heads: [&Head; 4] = [
        a.head().first_chunk()?,
        b.head().first_chunk()?,
        c.head().first_chunk()?,
        d.head().first_chunk()?,
    ];
    // SAFETY: AVX2 is there by the caller's promise.
    unsafe {
        let frames = words([a.frame_len(), b.frame_len(), c.frame_len(), d.frame_len()]);
        let bytes = words([a.wire_len(), b.wire_len(), c.wire_len(), d.wire_len()]);
        // EtherType, version, total length; what follows of the header.
        let (ip, ip_8) = (words_at::<12>(heads), words_at::<20>(heads));
        // Ports and UDP length; TCP offset and flags.
        let (transport, tcp) = (words_at::<34>(heads), words_at::<46>(heads));
        let proto = byte(ip_8, 3);
        let total_len = swapped_u16(ip, 4);
        let overhead = _mm256_sub_epi64(bytes, total_len);

        let is_tcp = equal(proto, PROTO_TCP.into());
        let tcp_len = _mm256_srli_epi64::<2>(_mm256_and_si256(tcp, all(0xf0)));
        let said = _mm256_blendv_epi8(swapped_u16(transport, 4), tcp_len, is_tcp);
        let least = _mm256_blendv_epi8(all(UDP as u64), all(TCP_MIN as u64), is_tcp);
        let l4_len = _mm256_sub_epi64(total_len, all(IPV4_MIN as u64));
        let frame_end = _mm256_add_epi64(total_len, all(ETHERNET as u64));
        let is_plain = and4([
            equal(_mm256_and_si256(ip, all(0xff_ffff)), 0x45_0008),
            equal(_mm256_and_si256(ip_8, all(0xff3f)), 0),
            _mm256_or_si256(is_tcp, equal(proto, PROTO_UDP.into())),
            equal(_mm256_andnot_si256(all(OVERHEAD_MAX as u64), overhead), 0),
        ]);
        let is_wrong = or4([
            _mm256_cmpgt_epi64(frame_end, frames),
            _mm256_cmpgt_epi64(least, said),
            _mm256_cmpgt_epi64(said, l4_len),
            _mm256_cmpgt_epi64(bytes, all(BYTES_MAX as u64)),
        ]);
        let taken = _mm256_castsi256_pd(_mm256_andnot_si256(is_wrong, is_plain));
        if _mm256_movemask_pd(taken) != 0b1111 {
            return None;
        }

        let ([first, last], swapped) = key(words_at::<26>(heads), transport, proto);
        let meta = or4([
            bytes,
            _mm256_slli_epi64::<32>(overhead),
            _mm256_slli_epi64::<48>(_mm256_and_si256(byte(tcp, 1), is_tcp)),
            _mm256_slli_epi64::<56>(_mm256_and_si256(swapped, all(1))),
        ]);
        Some(([to_array(first), to_array(last)], to_array(meta)))
    }
}

/// The words of the keys as in `key4`, and all ones where the source is the second end.
///
/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn key(forth: __m256i, ports: __m256i, proto: __m256i) -> ([__m256i; 2], __m256i) {
    // SAFETY: AVX2 is there by the caller's promise.
    unsafe {
        let back = _mm256_shuffle_epi32::<0b10_11_00_01>(forth);
        let ports_forth = _mm256_and_si256(ports, all(u32::MAX.into()));
        let ports_back = _mm256_shuffle_epi8(ports, pick([2, 3, 0, 1, -1, -1, -1, -1]));
        // There is only a signed comparison.
        let sign = all(1 << 63);
        let is_above =
            _mm256_cmpgt_epi64(_mm256_xor_si256(forth, sign), _mm256_xor_si256(back, sign));
        let is_above_by_port = _mm256_cmpgt_epi64(ports_forth, ports_back);
        let swapped =
            _mm256_blendv_epi8(is_above, is_above_by_port, _mm256_cmpeq_epi64(forth, back));
        let pair = _mm256_blendv_epi8(ports_forth, ports_back, swapped);
        let words = [
            _mm256_blendv_epi8(forth, back, swapped),
            _mm256_or_si256(pair, _mm256_slli_epi64::<48>(proto)),
        ];
        (words, swapped)
    }
}

/// The word at byte `AT` of each head.
///
/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn words_at<const AT: usize>([a, b, c, d]: [&Head; 4]) -> __m256i {
    const { assert!(AT + 8 <= size_of::<Head>()) };
    // SAFETY: AVX2 is there by the caller's promise; the loads are unaligned, and each is of 8
    // bytes inside the head.
    unsafe {
        let [a, b, c, d] = [a, b, c, d].map(|head| _mm_loadl_epi64(head.as_ptr().add(AT).cast()));
        _mm256_set_m128i(_mm_unpacklo_epi64(c, d), _mm_unpacklo_epi64(a, b))
    }
}

/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn words([a, b, c, d]: [usize; 4]) -> __m256i {
    // SAFETY: AVX2 is there by the caller's promise.
    unsafe { _mm256_set_epi64x(d as i64, c as i64, b as i64, a as i64) }
}

/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn and4([a, b, c, d]: [__m256i; 4]) -> __m256i {
    // SAFETY: AVX2 is there by the caller's promise.
    unsafe { _mm256_and_si256(_mm256_and_si256(a, b), _mm256_and_si256(c, d)) }
}

/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn or4([a, b, c, d]: [__m256i; 4]) -> __m256i {
    // SAFETY: AVX2 is there by the caller's promise.
    unsafe { _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d)) }
}

/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn all(word: u64) -> __m256i {
    // SAFETY: AVX2 is there by the caller's promise.
    unsafe { _mm256_set1_epi64x(word as i64) }
}

/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn equal(a: __m256i, b: u64) -> __m256i {
    // SAFETY: AVX2 is there by the caller's promise.
    unsafe {
        match b {
            0 => _mm256_cmpeq_epi64(a, _mm256_setzero_si256()),
            b => _mm256_cmpeq_epi64(a, all(b)),
        }
    }
}

/// Byte `at` of each word.
///
/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn byte(words: __m256i, at: i8) -> __m256i {
    // SAFETY: AVX2 is there by the caller's promise.
    unsafe { _mm256_shuffle_epi8(words, pick([at, -1, -1, -1, -1, -1, -1, -1])) }
}

/// The number in network order at byte `at` of each word.
///
/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn swapped_u16(words: __m256i, at: i8) -> __m256i {
    // SAFETY: AVX2 is there by the caller's promise.
    unsafe { _mm256_shuffle_epi8(words, pick([at + 1, at, -1, -1, -1, -1, -1, -1])) }
}

/// Control of a shuffle that does the same to each word: which byte comes where, negative for 0.
///
/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn pick(bytes: [i8; 8]) -> __m256i {
    // The upper word of a pair is 8 bytes on; a negative one stays negative.
    let upper = bytes.map(|byte| if byte < 0 { byte } else { byte + 8 });
    let [a, b, c, d, e, f, g, h] = bytes;
    let [i, j, k, l, m, n, o, p] = upper;
    // SAFETY: AVX2 is there by the caller's promise.
    unsafe {
        _mm256_setr_epi8(
            a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, //
            a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p,
        )
    }
}

/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn to_array(words: __m256i) -> [u64; 4] {
    let mut array = [0; 4];
    // SAFETY: AVX2 is there by the caller's promise; the store is unaligned, of 32 bytes.
    unsafe { _mm256_storeu_si256(array.as_mut_ptr().cast(), words) };
    array
}
