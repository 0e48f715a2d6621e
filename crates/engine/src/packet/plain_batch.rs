// SPDX-License-Identifier: BSD-3-Clause
//! Owns the columns of packets whose connection is known by a mark: counters, and numbers of TCP
//! segments.

use super::{PacketMeta, SeqNumbers};
use crate::base::BURST_MAX;
use std::ops::Range;

/// Columns of up to a burst of plain packets.
pub(crate) struct PlainBatch {
    pub(crate) metas: [PacketMeta; BURST_MAX],
    seqs: [u64; BURST_MAX],
    sizes: [u64; BURST_MAX],
}

/// Adjacent rows of a [`PlainBatch`], in a slice of each column.
///
/// Only rows of TCP segments without SYN and FIN have numbers. Other rows have any.
pub(crate) struct PlainColumns<'a> {
    pub(crate) metas: &'a mut [PacketMeta],
    /// Sequence number in the lower half, acknowledgment in the upper.
    pub(crate) seqs: &'a mut [u64],
    /// Unscaled window in the lower half, length of data in the upper.
    pub(crate) sizes: &'a mut [u64],
}

/// The rows of eight packets that are counted side by side.
#[derive(Clone, Copy)]
pub(crate) struct PlainRows<'a> {
    pub(crate) metas: &'a [PacketMeta; 8],
    /// Sequence number in the lower half, acknowledgment in the upper.
    pub(crate) seqs: &'a [u64; 8],
    /// Unscaled window in the lower half, length of data in the upper.
    pub(crate) sizes: &'a [u64; 8],
}

impl PlainBatch {
    pub(crate) const EMPTY: PlainBatch = PlainBatch {
        metas: [PacketMeta::EMPTY; BURST_MAX],
        seqs: [0; BURST_MAX],
        sizes: [0; BURST_MAX],
    };

    /// Returns these rows of all columns, to write them.
    #[inline(always)]
    pub(crate) fn rows_mut(&mut self, rows: Range<usize>) -> PlainColumns<'_> {
        PlainColumns {
            metas: &mut self.metas[rows.clone()],
            seqs: &mut self.seqs[rows.clone()],
            sizes: &mut self.sizes[rows],
        }
    }

    /// Returns the eight rows from `at` on; `None` if there are fewer.
    #[inline(always)]
    pub(crate) fn eight(&self, at: usize) -> Option<PlainRows<'_>> {
        Some(PlainRows {
            metas: self.metas.get(at..)?.first_chunk()?,
            seqs: self.seqs.get(at..)?.first_chunk()?,
            sizes: self.sizes.get(at..)?.first_chunk()?,
        })
    }

    /// Returns the numbers of a TCP segment without SYN and FIN.
    #[inline(always)]
    pub(crate) fn numbers(&self, at: usize) -> SeqNumbers {
        let (seqs, sizes) = (self.seqs[at], self.sizes[at]);
        SeqNumbers {
            seq: seqs as u32,
            ack: (seqs >> 32) as u32,
            window: sizes as u16,
            len: (sizes >> 32) as u32,
        }
    }
}

impl PlainColumns<'_> {
    /// Returns the rows from `at` on.
    #[inline(always)]
    pub(crate) fn skip(&mut self, at: usize) -> PlainColumns<'_> {
        PlainColumns {
            metas: &mut self.metas[at..],
            seqs: &mut self.seqs[at..],
            sizes: &mut self.sizes[at..],
        }
    }

    /// Writes one row.
    #[inline(always)]
    pub(crate) fn set(&mut self, at: usize, meta: PacketMeta, numbers: SeqNumbers) {
        self.metas[at] = meta;
        self.seqs[at] = u64::from(numbers.ack) << 32 | u64::from(numbers.seq);
        self.sizes[at] = u64::from(numbers.len) << 32 | u64::from(numbers.window);
    }
}
