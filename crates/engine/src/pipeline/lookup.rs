// SPDX-License-Identifier: BSD-3-Clause
//! The packets of one burst and one IP version on their way through the tracker, and the passes over
//! them.
//!
//! Each pass does one thing for every packet and starts the loads that the next one needs: hash and
//! bucket, candidate record, key and counters. New flows come last, in packet order, and are looked
//! up again, so that two packets of one new flow make one flow.

use crate::base::BURST_MAX;
use crate::packet::{Lane, SYN_FIN_RST};
use crate::tracker::Tracker;
use std::ops::Range;

impl<const W: usize> Lane<W> {
    /// Hashes the packets that were added since the last call and starts to load their buckets;
    /// then finds the candidates of those before, whose buckets have had the time to come. A last
    /// call with nothing added completes the burst.
    ///
    /// Each pass is a function of its own, never inlined: the loops then have the registers to
    /// themselves.
    #[inline(never)]
    pub(crate) fn look_up(&mut self, tracker: &Tracker<W>) {
        let len = self.len.min(BURST_MAX);
        tracker.table.prepare(&self.keys, self.hashed..len, &mut self.hashes);
        let waiting = self.looked_up..self.hashed;
        tracker
            .table
            .candidates(&self.hashes[waiting.clone()], &mut self.candidates[waiting.clone()]);
        self.prefetch_changes(tracker, waiting);
        self.looked_up = self.hashed;
        self.hashed = len;
    }

    /// Starts to load the timers of flows that are about to begin or to end.
    #[inline(always)]
    fn prefetch_changes(&self, tracker: &Tracker<W>, range: Range<usize>) {
        let flags = self.metas[range.clone()].iter().fold(0, |all, meta| all | meta.tcp_flags());
        if flags & SYN_FIN_RST == 0 {
            return;
        }
        // Without a branch, as which packet is one of them is anyone's guess: of the others
        // that of record 0 is loaded, which costs nothing more once it is there.
        for (meta, &record) in self.metas[range.clone()].iter().zip(&self.candidates[range]) {
            let changes = u32::from(meta.tcp_flags() & SYN_FIN_RST != 0);
            tracker.table.prefetch_cold(record & changes.wrapping_neg());
        }
    }
}
