// SPDX-License-Identifier: BSD-3-Clause
//! Computes SipHash-1-3 of sixteen keys side by side with AVX-512, in two vectors.
//!
//! AVX-512 has the rotate that AVX2 lacks, so it needs a third of the instructions.

// build.rs compiles this file only where the compiler has these intrinsics (Rust 1.89).
#![allow(clippy::incompatible_msrv)]

use super::block::{LANES, length_block};
use crate::base::columns::{BURST_MAX, Columns};
use core::arch::x86_64::{
    __m512i, _mm512_add_epi64, _mm512_loadu_si512, _mm512_rol_epi64, _mm512_set1_epi64,
    _mm512_storeu_si512, _mm512_xor_si512,
};

const VECTORS: usize = LANES / 8;

type SimdWord = [__m512i; VECTORS];

/// Writes the hashes of the [`LANES`] keys from `start` on.
///
/// # Safety
/// The processor must have AVX-512F.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn sip13<const W: usize>(
    init: [u64; 4],
    words: &Columns<W>,
    start: usize,
    hashes: &mut [u64; BURST_MAX],
) {
    let out = &mut hashes[start..start + LANES];
    // SAFETY: the caller guarantees AVX-512F; loads and stores are unaligned, and each
    // is of a slice of eight words.
    unsafe {
        let mut v: [SimdWord; 4] = init.map(|word| [_mm512_set1_epi64(word as i64); VECTORS]);
        for word in words {
            let lanes = &word[start..start + LANES];
            compress(
                &mut v,
                std::array::from_fn(|i| {
                    _mm512_loadu_si512(lanes[8 * i..8 * i + 8].as_ptr().cast())
                }),
            );
        }
        compress(&mut v, [_mm512_set1_epi64(length_block::<W>() as i64); VECTORS]);
        v[2] = v[2].map(|x| _mm512_xor_si512(x, _mm512_set1_epi64(0xff)));
        for _ in 0..3 {
            round(&mut v);
        }
        for (i, out) in out.chunks_exact_mut(8).enumerate() {
            let (a, b) = (_mm512_xor_si512(v[0][i], v[1][i]), _mm512_xor_si512(v[2][i], v[3][i]));
            _mm512_storeu_si512(out.as_mut_ptr().cast(), _mm512_xor_si512(a, b));
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn compress(v: &mut [SimdWord; 4], message: SimdWord) {
    v[3].iter_mut().zip(message).for_each(|(v3, word)| *v3 = _mm512_xor_si512(*v3, word));
    round(v);
    v[0].iter_mut().zip(message).for_each(|(v0, word)| *v0 = _mm512_xor_si512(*v0, word));
}

#[inline]
#[target_feature(enable = "avx512f")]
fn round([a, b, c, d]: &mut [SimdWord; 4]) {
    for (((v0, v1), v2), v3) in a.iter_mut().zip(b).zip(c).zip(d) {
        *v0 = _mm512_add_epi64(*v0, *v1);
        *v2 = _mm512_add_epi64(*v2, *v3);
        *v1 = _mm512_xor_si512(_mm512_rol_epi64::<13>(*v1), *v0);
        *v3 = _mm512_xor_si512(_mm512_rol_epi64::<16>(*v3), *v2);
        *v0 = _mm512_add_epi64(_mm512_rol_epi64::<32>(*v0), *v3);
        *v2 = _mm512_add_epi64(*v2, *v1);
        *v1 = _mm512_xor_si512(_mm512_rol_epi64::<17>(*v1), *v2);
        *v3 = _mm512_xor_si512(_mm512_rol_epi64::<21>(*v3), *v0);
        *v2 = _mm512_rol_epi64::<32>(*v2);
    }
}
