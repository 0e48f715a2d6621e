// SPDX-License-Identifier: BSD-3-Clause
//! Computes SipHash-1-3 of sixteen keys side by side with AVX2, in four vectors.
//!
//! Four vectors hide the latency of a round (about 15 cycles) behind its 20 instructions per
//! vector. AVX2 has no rotate, so the compiler does not vectorise these loops by itself.

// Needed up to Rust 1.86, where these intrinsics are unsafe even with the feature enabled.
#![allow(unused_unsafe)]

use super::block::{LANES, length_block};
use crate::base::columns::{BURST_MAX, Columns};
use core::arch::x86_64::{
    __m256i, _mm256_add_epi64, _mm256_loadu_si256, _mm256_or_si256, _mm256_set1_epi64x,
    _mm256_setr_epi8, _mm256_shuffle_epi8, _mm256_shuffle_epi32, _mm256_slli_epi64,
    _mm256_srli_epi64, _mm256_storeu_si256, _mm256_xor_si256,
};

const VECTORS: usize = LANES / 4;

type SimdWord = [__m256i; VECTORS];

/// Writes the hashes of the [`LANES`] keys from `start` on.
///
/// # Safety
/// The processor must have AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn sip13<const W: usize>(
    init: [u64; 4],
    words: &Columns<W>,
    start: usize,
    hashes: &mut [u64; BURST_MAX],
) {
    let out = &mut hashes[start..start + LANES];
    // SAFETY: the caller guarantees AVX2; loads and stores are unaligned, and each is of
    // a slice of four words.
    unsafe {
        let mut v: [SimdWord; 4] = init.map(|word| [_mm256_set1_epi64x(word as i64); VECTORS]);
        for word in words {
            let lanes = &word[start..start + LANES];
            compress(
                &mut v,
                std::array::from_fn(|i| {
                    _mm256_loadu_si256(lanes[4 * i..4 * i + 4].as_ptr().cast())
                }),
            );
        }
        compress(&mut v, [_mm256_set1_epi64x(length_block::<W>() as i64); VECTORS]);
        v[2] = v[2].map(|x| _mm256_xor_si256(x, _mm256_set1_epi64x(0xff)));
        for _ in 0..3 {
            round(&mut v);
        }
        for (i, out) in out.chunks_exact_mut(4).enumerate() {
            let (a, b) = (_mm256_xor_si256(v[0][i], v[1][i]), _mm256_xor_si256(v[2][i], v[3][i]));
            _mm256_storeu_si256(out.as_mut_ptr().cast(), _mm256_xor_si256(a, b));
        }
    }
}

/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn compress(v: &mut [SimdWord; 4], message: SimdWord) {
    // SAFETY: the caller guarantees AVX2.
    unsafe {
        v[3].iter_mut().zip(message).for_each(|(v3, word)| *v3 = _mm256_xor_si256(*v3, word));
        round(v);
        v[0].iter_mut().zip(message).for_each(|(v0, word)| *v0 = _mm256_xor_si256(*v0, word));
    }
}

/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn round([a, b, c, d]: &mut [SimdWord; 4]) {
    // SAFETY: the caller guarantees AVX2.
    unsafe {
        for (((v0, v1), v2), v3) in a.iter_mut().zip(b).zip(c).zip(d) {
            *v0 = _mm256_add_epi64(*v0, *v1);
            *v2 = _mm256_add_epi64(*v2, *v3);
            *v1 = _mm256_xor_si256(rotate::<13, 51>(*v1), *v0);
            *v3 = _mm256_xor_si256(rotate_16(*v3), *v2);
            *v0 = _mm256_add_epi64(rotate_32(*v0), *v3);
            *v2 = _mm256_add_epi64(*v2, *v1);
            *v1 = _mm256_xor_si256(rotate::<17, 47>(*v1), *v2);
            *v3 = _mm256_xor_si256(rotate::<21, 43>(*v3), *v0);
            *v2 = rotate_32(*v2);
        }
    }
}

/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn rotate<const LEFT: i32, const RIGHT: i32>(x: __m256i) -> __m256i {
    const { assert!(LEFT + RIGHT == 64) };
    // SAFETY: the caller guarantees AVX2.
    unsafe { _mm256_or_si256(_mm256_slli_epi64::<LEFT>(x), _mm256_srli_epi64::<RIGHT>(x)) }
}

/// Rotates each word left by 16 bits. These are whole bytes, so one shuffle does the work of three
/// instructions.
///
/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn rotate_16(x: __m256i) -> __m256i {
    // SAFETY: the caller guarantees AVX2.
    unsafe {
        let left_by_two_bytes = _mm256_setr_epi8(
            6, 7, 0, 1, 2, 3, 4, 5, 14, 15, 8, 9, 10, 11, 12, 13, 6, 7, 0, 1, 2, 3, 4, 5, 14, 15,
            8, 9, 10, 11, 12, 13,
        );
        _mm256_shuffle_epi8(x, left_by_two_bytes)
    }
}

/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn rotate_32(x: __m256i) -> __m256i {
    // SAFETY: the caller guarantees AVX2.
    unsafe { _mm256_shuffle_epi32::<0b10_11_00_01>(x) }
}
