// SPDX-License-Identifier: BSD-3-Clause
//! Owns the vector of one word of each of eight packets, and its operations.

use core::arch::x86_64::{
    __m512i, __mmask8, _mm_loadl_epi64, _mm_loadu_si128, _mm_unpacklo_epi64,
    _mm512_castsi128_si512, _mm512_cmpeq_epi64_mask, _mm512_inserti32x4, _mm512_set1_epi64,
    _mm512_setr_epi64, _mm512_shuffle_epi8, _mm512_unpackhi_epi64, _mm512_unpacklo_epi64,
};
use wire::Packet;

/// Number of packets that are parsed side by side.
pub(super) const GROUP: usize = 8;

/// One word of each packet.
pub(super) type Words = __m512i;

/// The first bytes of eight packets.
#[derive(Clone, Copy)]
pub(super) struct Heads<'a, const N: usize>([&'a [u8; N]; GROUP]);

impl<'a, const N: usize> Heads<'a, N> {
    /// Returns the heads of the packets, if each has at least `N` bytes.
    #[inline(always)]
    pub(super) fn of<P: Packet>(packets: &'a [P; GROUP]) -> Option<Self> {
        let heads = packets.each_ref().map(P::head);
        // One comparison per packet; options would need another one for each address.
        if heads.iter().any(|head| head.len() < N) {
            return None;
        }
        // SAFETY: each head has at least `N` bytes.
        Some(Self(heads.map(|head| unsafe { &*head.as_ptr().cast() })))
    }

    /// Returns the word at byte `AT` of each head.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn words_at<const AT: usize>(self) -> Words {
        const { assert!(AT + 8 <= N) };
        // SAFETY: the loads are unaligned, and each is of 8 bytes inside the head.
        let [a, b, c, d, e, f, g, h] =
            self.0.map(|head| unsafe { _mm_loadl_epi64(head.as_ptr().add(AT).cast()) });
        let words = _mm512_castsi128_si512(_mm_unpacklo_epi64(a, b));
        let words = _mm512_inserti32x4::<1>(words, _mm_unpacklo_epi64(c, d));
        let words = _mm512_inserti32x4::<2>(words, _mm_unpacklo_epi64(e, f));
        _mm512_inserti32x4::<3>(words, _mm_unpacklo_epi64(g, h))
    }

    /// Returns the word at byte `AT` of each head, and the next words.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn two_words_at<const AT: usize>(self) -> [Words; 2] {
        const { assert!(AT + 16 <= N) };
        // SAFETY: the loads are unaligned, and each is of 16 bytes inside the head.
        let [a, b, c, d, e, f, g, h] =
            self.0.map(|head| unsafe { _mm_loadu_si128(head.as_ptr().add(AT).cast()) });
        let (odd, even) = (_mm512_castsi128_si512(a), _mm512_castsi128_si512(b));
        let (odd, even) = (_mm512_inserti32x4::<1>(odd, c), _mm512_inserti32x4::<1>(even, d));
        let (odd, even) = (_mm512_inserti32x4::<2>(odd, e), _mm512_inserti32x4::<2>(even, f));
        let (odd, even) = (_mm512_inserti32x4::<3>(odd, g), _mm512_inserti32x4::<3>(even, h));
        [_mm512_unpacklo_epi64(odd, even), _mm512_unpackhi_epi64(odd, even)]
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn numbers(numbers: [usize; GROUP]) -> Words {
    let [a, b, c, d, e, f, g, h] = numbers.map(|number| number as i64);
    _mm512_setr_epi64(a, b, c, d, e, f, g, h)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn all(word: u64) -> Words {
    _mm512_set1_epi64(word as i64)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn equal(words: Words, word: u64) -> __mmask8 {
    _mm512_cmpeq_epi64_mask(words, all(word))
}

/// Returns the big-endian number at byte `AT` of each word.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn swapped_u16<const AT: u64>(words: Words) -> Words {
    pick(words, 0x8080_8080_8080_0000 | AT << 8 | (AT + 1))
}

/// Returns words of these bytes of each word: the source of each byte, 0x80 for 0.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn pick(words: Words, bytes: u64) -> Words {
    // The upper word of a pair is 8 bytes further; 0x80 stays above 0x7f.
    let [lower, upper] = [bytes as i64, (bytes | 0x0808_0808_0808_0808) as i64];
    let pick = _mm512_setr_epi64(lower, upper, lower, upper, lower, upper, lower, upper);
    _mm512_shuffle_epi8(words, pick)
}
