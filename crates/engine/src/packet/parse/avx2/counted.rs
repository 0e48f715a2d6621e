// SPDX-License-Identifier: BSD-3-Clause
//! Parses the counters and numbers of packets whose connection is known by a mark, four at a time.

use super::words::{Words, all, pick, swapped_u16, to_array};
use super::{
    Headers, IPV4_HEADS, IPV6_HEADS, SimdGroup, ipv4_headers, ipv6_headers, tcp_len, to_metas,
};
use crate::base::SimdLevel;
use crate::packet::PlainColumns;
#[cfg(avx512)]
use crate::packet::parse::{avx512, sub_burst};
use core::arch::x86_64::{
    _mm256_add_epi64, _mm256_blend_epi32, _mm256_or_si256, _mm256_shuffle_epi8, _mm256_slli_epi64,
    _mm256_sub_epi64,
};
use wire::Packet;

/// Writes the counters and numbers of packets whose connection is known by a mark, side by side.
///
/// It stops at a group that is not untagged, plain and of this IP version. Returns the number of
/// packets, which is 0 without AVX2, and the bytes of their frames.
#[inline(always)]
pub(in super::super) fn counted<const V6: bool, P: Packet>(
    packets: &[P],
    vectors: SimdLevel,
    mut columns: PlainColumns,
) -> (usize, u64) {
    // SAFETY: `detect` has found the vector extensions; AVX2 comes with AVX-512.
    unsafe {
        match vectors {
            SimdLevel::None => (0, 0),
            SimdLevel::Avx2 => counted_by_four::<V6, P>(packets, columns),
            #[cfg(avx512)]
            SimdLevel::Avx512 => {
                let (read, bytes) = avx512::counted::<V6, P>(packets, columns.skip(0));
                let packets = &packets[read..];
                // Half a group may be left. A call without packets costs some ten cycles.
                if packets.len() < sub_burst::GROUP {
                    return (read, bytes);
                }
                let (more, their_bytes) = counted_by_four::<V6, P>(packets, columns.skip(read));
                (read + more, bytes + their_bytes)
            }
        }
    }
}

/// # Safety
/// The processor must have AVX2.
#[target_feature(enable = "avx2")]
unsafe fn counted_by_four<const V6: bool, P: Packet>(
    packets: &[P],
    PlainColumns { metas, seqs, sizes }: PlainColumns,
) -> (usize, u64) {
    let mut read = 0;
    // SAFETY: the caller guarantees AVX2.
    let mut bytes = unsafe { all(0) };
    let columns = metas.chunks_exact_mut(4).zip(seqs.chunks_exact_mut(4));
    let columns = columns.zip(sizes.chunks_exact_mut(4));
    for (four, ((metas, seqs), sizes)) in packets.chunks_exact(4).zip(columns) {
        let Some(four) = four.first_chunk::<4>() else { break };
        let group = SimdGroup { packets: four.each_ref(), places: [0; 4] };
        // SAFETY: the caller guarantees AVX2.
        let Some(headers) = (unsafe { group.headers::<V6>() }) else { break };
        // SAFETY: as above.
        let Some((words, frames)) = (unsafe { group.metas(&headers, 0) }) else { break };
        // SAFETY: as above.
        unsafe {
            metas.copy_from_slice(&to_metas(words));
            let [of_seqs, of_sizes] = numbers(&headers);
            seqs.copy_from_slice(&to_array(of_seqs));
            sizes.copy_from_slice(&to_array(of_sizes));
            bytes = _mm256_add_epi64(bytes, frames);
        }
        read += 4;
    }
    // SAFETY: as above.
    (read, unsafe { to_array(bytes) }.into_iter().sum())
}

impl<P: Packet> SimdGroup<'_, P> {
    /// Returns the header fields of untagged packets.
    ///
    /// # Safety
    /// The processor must have AVX2.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn headers<const V6: bool>(&self) -> Option<Headers> {
        // SAFETY: the caller guarantees AVX2.
        unsafe {
            Some(match V6 {
                false => ipv4_headers(self.heads::<IPV4_HEADS>(0)?),
                true => ipv6_headers(self.heads::<IPV6_HEADS>(0)?),
            })
        }
    }
}

/// Returns sequence numbers with acknowledgments, and windows with lengths of data, as
/// [`PlainColumns`] has them.
///
/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn numbers(headers: &Headers) -> [Words; 2] {
    let Headers { l4_len, transport, tcp, .. } = *headers;
    // SAFETY: the caller guarantees AVX2.
    unsafe {
        let numbers = _mm256_blend_epi32::<0b1010_1010>(tcp, transport);
        let seqs = _mm256_shuffle_epi8(numbers, pick([7, 6, 5, 4, 3, 2, 1, 0]));
        let len = _mm256_slli_epi64::<32>(_mm256_sub_epi64(l4_len, tcp_len(tcp)));
        [seqs, _mm256_or_si256(swapped_u16(tcp, 6), len)]
    }
}
