// SPDX-License-Identifier: BSD-3-Clause
//! Parses the counters and numbers of packets whose connection is known by a mark, eight at a time.

use super::words::{GROUP, Heads, Words, pick, swapped_u16};
use super::{Headers, ipv4_headers, ipv6_headers, tcp_len};
use crate::packet::PlainColumns;
use core::arch::x86_64::{
    _mm512_add_epi64, _mm512_mask_blend_epi32, _mm512_or_si512, _mm512_reduce_add_epi64,
    _mm512_setzero_si512, _mm512_slli_epi64, _mm512_storeu_si512, _mm512_sub_epi64,
};
use wire::Packet;

/// Writes the counters and numbers of packets, eight at a time, up to a group that is not untagged,
/// plain and of this IP version.
///
/// Returns the number of packets, and the bytes of their frames.
///
/// # Safety
/// The processor must have AVX-512F and AVX-512BW.
#[target_feature(enable = "avx512f,avx512bw")]
pub(in super::super) unsafe fn counted<const V6: bool, P: Packet>(
    packets: &[P],
    PlainColumns { metas, seqs, sizes }: PlainColumns,
) -> (usize, u64) {
    let mut read = 0;
    let mut bytes = _mm512_setzero_si512();
    let columns = metas.chunks_exact_mut(GROUP).zip(seqs.chunks_exact_mut(GROUP));
    let columns = columns.zip(sizes.chunks_exact_mut(GROUP));
    for (eight, ((metas, seqs), sizes)) in packets.chunks_exact(GROUP).zip(columns) {
        let Some(eight) = eight.first_chunk() else { break };
        let headers = match V6 {
            false => Heads::of(eight).map(|heads| ipv4_headers(heads)),
            true => Heads::of(eight).map(|heads| ipv6_headers(heads)),
        };
        let Some(headers) = headers else { break };
        let Some((words, frames)) = super::metas(eight, &headers) else { break };
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
