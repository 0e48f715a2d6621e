// SPDX-License-Identifier: BSD-3-Clause
//! Owns the vector of one word of each of four packets, and its operations.

use core::arch::x86_64::{
    __m256i, _mm_loadl_epi64, _mm_loadu_si128, _mm_unpacklo_epi64, _mm256_castsi256_pd,
    _mm256_cmpeq_epi64, _mm256_cmpgt_epi64, _mm256_movemask_pd, _mm256_or_si256, _mm256_set_epi64x,
    _mm256_set_m128i, _mm256_set1_epi64x, _mm256_setr_epi8, _mm256_setzero_si256,
    _mm256_shuffle_epi8, _mm256_storeu_si256, _mm256_unpackhi_epi64, _mm256_unpacklo_epi64,
    _mm256_xor_si256,
};

/// One word of each of four packets.
pub(super) type Words = __m256i;

/// The first bytes of four packets.
#[derive(Clone, Copy)]
pub(super) struct Heads<'a, const N: usize>(pub(super) [&'a [u8; N]; 4]);

impl<const N: usize> Heads<'_, N> {
    /// Returns the word at byte `AT` of each head.
    ///
    /// # Safety
    /// The processor must have AVX2.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn words_at<const AT: usize>(self) -> Words {
        const { assert!(AT + 8 <= N) };
        // SAFETY: the caller guarantees AVX2; the loads are unaligned, and each is of
        // 8 bytes inside the head.
        unsafe {
            let [a, b, c, d] = self.0.map(|head| _mm_loadl_epi64(head.as_ptr().add(AT).cast()));
            _mm256_set_m128i(_mm_unpacklo_epi64(c, d), _mm_unpacklo_epi64(a, b))
        }
    }

    /// Returns the words at byte `AT` of each head, and the next words.
    ///
    /// It takes half the loads and a third of the shuffles of two calls of
    /// [`words_at`](Self::words_at).
    ///
    /// # Safety
    /// The processor must have AVX2.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn two_words_at<const AT: usize>(self) -> [Words; 2] {
        const { assert!(AT + 16 <= N) };
        // SAFETY: the caller guarantees AVX2; the loads are unaligned, and each is of
        // 16 bytes inside the head.
        unsafe {
            let [a, b, c, d] = self.0.map(|head| _mm_loadu_si128(head.as_ptr().add(AT).cast()));
            let (odd, even) = (_mm256_set_m128i(c, a), _mm256_set_m128i(d, b));
            [_mm256_unpacklo_epi64(odd, even), _mm256_unpackhi_epi64(odd, even)]
        }
    }
}

/// Returns a vector of these numbers.
///
/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn words([a, b, c, d]: [u64; 4]) -> Words {
    // SAFETY: the caller guarantees AVX2.
    unsafe { _mm256_set_epi64x(d as i64, c as i64, b as i64, a as i64) }
}

/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn or_all([a, b, c, d, e]: [Words; 5]) -> Words {
    // SAFETY: the caller guarantees AVX2.
    unsafe {
        let (ab, cd) = (_mm256_or_si256(a, b), _mm256_or_si256(c, d));
        _mm256_or_si256(_mm256_or_si256(ab, cd), e)
    }
}

/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn all(word: u64) -> Words {
    // SAFETY: the caller guarantees AVX2.
    unsafe { _mm256_set1_epi64x(word as i64) }
}

/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn equal(a: Words, b: u64) -> Words {
    // SAFETY: the caller guarantees AVX2.
    unsafe {
        match b {
            0 => _mm256_cmpeq_epi64(a, _mm256_setzero_si256()),
            b => _mm256_cmpeq_epi64(a, all(b)),
        }
    }
}

/// Returns all ones where `a` is above `b`, as unsigned numbers.
///
/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn above(a: Words, b: Words) -> Words {
    // SAFETY: the caller guarantees AVX2.
    unsafe {
        // There is only a signed comparison.
        let sign = all(1 << 63);
        _mm256_cmpgt_epi64(_mm256_xor_si256(a, sign), _mm256_xor_si256(b, sign))
    }
}

/// True if all four have their top bit set.
///
/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn holds_for_all(masks: Words) -> bool {
    // SAFETY: the caller guarantees AVX2.
    unsafe { _mm256_movemask_pd(_mm256_castsi256_pd(masks)) == 0b1111 }
}

/// Returns byte `at` of each word.
///
/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn byte(words: Words, at: i8) -> Words {
    // SAFETY: the caller guarantees AVX2.
    unsafe { _mm256_shuffle_epi8(words, pick([at, -1, -1, -1, -1, -1, -1, -1])) }
}

/// Returns the big-endian number at byte `at` of each word.
///
/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn swapped_u16(words: Words, at: i8) -> Words {
    // SAFETY: the caller guarantees AVX2.
    unsafe { _mm256_shuffle_epi8(words, pick([at + 1, at, -1, -1, -1, -1, -1, -1])) }
}

/// Returns the control of a shuffle that is the same for each word: the source of each byte,
/// negative for 0.
///
/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn pick(bytes: [i8; 8]) -> Words {
    // The upper word of a pair is 8 bytes further; a negative source stays negative.
    let upper = bytes.map(|byte| if byte < 0 { byte } else { byte + 8 });
    let [a, b, c, d, e, f, g, h] = bytes;
    let [i, j, k, l, m, n, o, p] = upper;
    // SAFETY: the caller guarantees AVX2.
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
pub(super) unsafe fn to_array(words: Words) -> [u64; 4] {
    let mut array = [0; 4];
    // SAFETY: the caller guarantees AVX2; the store is unaligned, of 32 bytes.
    unsafe { _mm256_storeu_si256(array.as_mut_ptr().cast(), words) };
    array
}
