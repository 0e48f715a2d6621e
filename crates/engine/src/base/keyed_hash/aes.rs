// SPDX-License-Identifier: BSD-3-Clause
//! Hashes keys of two words with AES-128 (FIPS 197): half of the encrypted block is the hash.
//!
//! A key of two words is one block. With AVX-512 and VAES, four blocks take one instruction per
//! round, half the time of SipHash.

// build.rs compiles this file only where the compiler has these intrinsics (Rust 1.89).
#![allow(clippy::incompatible_msrv)]

use super::block::LANES;
use crate::base::columns::BURST_MAX;
use core::arch::x86_64::{
    __m128i, __m512i, _mm_aesenc_si128, _mm_aesenclast_si128, _mm_aeskeygenassist_si128,
    _mm_cvtsi128_si64, _mm_set_epi64x, _mm_shuffle_epi32, _mm_slli_si128, _mm_xor_si128,
    _mm512_aesenc_epi128, _mm512_aesenclast_epi128, _mm512_broadcast_i32x4, _mm512_loadu_si512,
    _mm512_storeu_si512, _mm512_unpackhi_epi64, _mm512_unpacklo_epi64, _mm512_xor_si512,
};

/// Rounds of AES-128.
const ROUNDS: usize = 10;

/// Number of keys in one vector of words.
const WORDS: usize = 8;

/// The expanded key of AES-128. It exists only where the processor has VAES and AVX-512.
#[derive(Clone)]
pub(super) struct AesKey([__m128i; ROUNDS + 1]);

impl AesKey {
    /// Expands a secret; `None` if the processor lacks the instructions.
    pub(super) fn new(secret: [u64; 2]) -> Option<Self> {
        let is_able = !cfg!(miri)
            && std::is_x86_feature_detected!("aes")
            && std::is_x86_feature_detected!("vaes")
            && std::is_x86_feature_detected!("avx512f");
        // SAFETY: the processor has AES instructions.
        is_able.then(|| unsafe { Self(expand(secret)) })
    }

    /// Returns the hash of one key.
    pub(super) fn hash_one(&self, key: [u64; 2]) -> u64 {
        // SAFETY: `new` has found AES instructions.
        unsafe { encrypt(&self.0, block(key)) }
    }

    /// Writes the hashes of the [`LANES`] keys from `start` on.
    pub(super) fn hash_many(
        &self,
        columns: [&[u64; BURST_MAX]; 2],
        start: usize,
        hashes: &mut [u64; BURST_MAX],
    ) {
        let columns = columns.map(|column| &column[start..start + LANES]);
        let hashes = &mut hashes[start..start + LANES];
        // SAFETY: `new` has found AVX-512 and VAES.
        unsafe { encrypt_many(&self.0, columns, hashes) }
    }
}

#[inline]
#[target_feature(enable = "sse2")]
fn block([low, high]: [u64; 2]) -> __m128i {
    _mm_set_epi64x(high as i64, low as i64)
}

/// Expands a key (FIPS 197, section 5.2).
#[target_feature(enable = "aes,sse2")]
fn expand(secret: [u64; 2]) -> [__m128i; ROUNDS + 1] {
    let k0 = block(secret);
    let k1 = next_round_key::<0x01>(k0);
    let k2 = next_round_key::<0x02>(k1);
    let k3 = next_round_key::<0x04>(k2);
    let k4 = next_round_key::<0x08>(k3);
    let k5 = next_round_key::<0x10>(k4);
    let k6 = next_round_key::<0x20>(k5);
    let k7 = next_round_key::<0x40>(k6);
    let k8 = next_round_key::<0x80>(k7);
    let k9 = next_round_key::<0x1b>(k8);
    [k0, k1, k2, k3, k4, k5, k6, k7, k8, k9, next_round_key::<0x36>(k9)]
}

#[inline]
#[target_feature(enable = "aes,sse2")]
fn next_round_key<const RCON: i32>(mut key: __m128i) -> __m128i {
    let word = _mm_shuffle_epi32::<0xff>(_mm_aeskeygenassist_si128::<RCON>(key));
    for _ in 0..3 {
        key = _mm_xor_si128(key, _mm_slli_si128::<4>(key));
    }
    _mm_xor_si128(key, word)
}

#[target_feature(enable = "aes,sse2")]
fn encrypt(round_keys: &[__m128i; ROUNDS + 1], block: __m128i) -> u64 {
    let [first, middle @ .., last] = round_keys;
    let whitened = _mm_xor_si128(block, *first);
    let block = middle.iter().fold(whitened, |block, &key| _mm_aesenc_si128(block, key));
    _mm_cvtsi128_si64(_mm_aesenclast_si128(block, *last)) as u64
}

/// # Safety
/// The slices must have [`LANES`] words.
#[target_feature(enable = "avx512f,vaes")]
unsafe fn encrypt_many(
    round_keys: &[__m128i; ROUNDS + 1],
    columns: [&[u64]; 2],
    hashes: &mut [u64],
) {
    let [first, middle @ .., last] = round_keys;
    let first = _mm512_broadcast_i32x4(*first);
    let mut blocks: [__m512i; LANES / 4] = std::array::from_fn(|i| {
        let at = i / 2 * WORDS;
        // SAFETY: the loads are unaligned, each of eight of the words.
        let [low, high] =
            unsafe { columns.map(|column| _mm512_loadu_si512(column.as_ptr().add(at).cast())) };
        let block = match i % 2 {
            0 => _mm512_unpacklo_epi64(low, high),
            _ => _mm512_unpackhi_epi64(low, high),
        };
        _mm512_xor_si512(block, first)
    });
    for key in middle {
        let key = _mm512_broadcast_i32x4(*key);
        blocks = blocks.map(|block| _mm512_aesenc_epi128(block, key));
    }
    let last = _mm512_broadcast_i32x4(*last);
    let [a, b, c, d] = blocks.map(|block| _mm512_aesenclast_epi128(block, last));
    for (at, (even, odd)) in [(0, (a, b)), (WORDS, (c, d))] {
        let low = _mm512_unpacklo_epi64(even, odd);
        // SAFETY: the store is unaligned, of eight of the words.
        unsafe { _mm512_storeu_si512(hashes.as_mut_ptr().add(at).cast(), low) };
    }
}
