// SPDX-License-Identifier: BSD-3-Clause
//! Finds candidate records for keys: hash and bucket first, then the record that the bucket names.
//!
//! Each pass starts the loads that the next one needs.

use crate::base::{BURST_MAX, NO_RECORD};
use crate::packet::{Batch, Batches, SYN_FIN_RST};
use crate::table::Table;
use crate::tracker::Trackers;
use std::ops::Range;

/// The lookups of both IP versions.
pub(super) struct Lookups {
    pub(super) v4: Lookup,
    pub(super) v6: Lookup,
}

impl Lookups {
    pub(super) fn new() -> Box<Self> {
        Box::new(Self { v4: Lookup::new(), v6: Lookup::new() })
    }

    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.v4.clear();
        self.v6.clear();
    }

    /// Advances the lookup of both batches by one step: [`Lookup::advance`].
    #[inline(always)]
    pub(super) fn advance(&mut self, batches: &Batches, trackers: &Trackers) {
        self.v4.advance(&batches.v4, &trackers.v4.table);
        self.v6.advance(&batches.v6, &trackers.v6.table);
    }
}

/// Hashes and candidate records of the packets of one batch, and which of them have no record.
pub(super) struct Lookup {
    pub(super) hashes: [u64; BURST_MAX],
    /// Number of packets whose hash is known and whose bucket is being loaded.
    hashed: usize,
    /// Candidate record of each packet; [`NO_RECORD`] if it is not in the table.
    pub(super) candidates: [u32; BURST_MAX],
    /// Number of packets whose candidate is known.
    looked_up: usize,
    /// Indices of packets without a record, in packet order.
    misses: [u8; BURST_MAX],
    pub(super) missed: usize,
}

impl Lookup {
    pub(super) fn new() -> Self {
        Self {
            hashes: [0; BURST_MAX],
            hashed: 0,
            candidates: [NO_RECORD; BURST_MAX],
            looked_up: 0,
            misses: [0; BURST_MAX],
            missed: 0,
        }
    }

    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.hashed = 0;
        self.looked_up = 0;
        self.missed = 0;
    }

    /// Hashes the packets added since the last call and starts to load their buckets. Then finds
    /// the candidates of the packets before them, whose buckets have been loaded meanwhile. A last
    /// call with nothing added completes the burst.
    ///
    /// Each pass is a function of its own, never inlined, so that its loops have all registers.
    #[inline(never)]
    pub(super) fn advance<const W: usize>(&mut self, batch: &Batch<W>, table: &Table<W>) {
        let len = batch.len.min(BURST_MAX);
        table.prepare(&batch.keys, self.hashed..len, &mut self.hashes);
        let waiting = self.looked_up..self.hashed;
        table.candidates(&self.hashes[waiting.clone()], &mut self.candidates[waiting.clone()]);
        self.prefetch_changes(batch, table, waiting);
        self.looked_up = self.hashed;
        self.hashed = len;
    }

    /// Prefetches the cold records of connections for which a packet has SYN, FIN or RST: such a
    /// packet often changes the timer or the embryonic list.
    #[inline(always)]
    fn prefetch_changes<const W: usize>(
        &self,
        batch: &Batch<W>,
        table: &Table<W>,
        range: Range<usize>,
    ) {
        let flags = batch.metas[range.clone()].iter().fold(0, |all, meta| all | meta.tcp_flags());
        if flags & SYN_FIN_RST == 0 {
            return;
        }
        // No branch, because the processor could not predict it. For the other packets, record 0 is
        // loaded, which costs nothing once it is in the cache.
        for (meta, &record) in batch.metas[range.clone()].iter().zip(&self.candidates[range]) {
            let changes = u32::from(meta.tcp_flags() & SYN_FIN_RST != 0);
            table.prefetch_cold(record & changes.wrapping_neg());
        }
    }

    /// Notes that packet `i` has no record.
    pub(super) fn miss(&mut self, i: usize) {
        self.misses[self.missed % BURST_MAX] = i as u8;
        self.missed += 1;
    }

    /// Returns the index of the packet of this miss.
    pub(super) fn missing(&self, miss: usize) -> usize {
        usize::from(self.misses[miss % BURST_MAX]) % BURST_MAX
    }
}
