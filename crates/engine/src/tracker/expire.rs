// SPDX-License-Identifier: BSD-3-Clause
//! Ends connections: after their timeout, to make room, or at the end of the run.

use super::Tracker;
use super::offload::RECALL_WAIT;
use crate::api::{EndReason, FlowRecord, Tracking};
use crate::base::{BURST_MAX, NO_RECORD, Nanos};
use crate::conn::ConnHot;
use crate::table::EmbryonicList;

impl<const W: usize> Tracker<W> {
    /// Processes up to `budget` timers, at most [`BURST_MAX`], that are due by `now`. Connections
    /// that end go to `ended`. Returns the number of timers processed.
    ///
    /// Works in passes like those over a burst of packets, because each record and bucket is most
    /// likely no longer in the cache.
    pub(crate) fn expire(
        &mut self,
        now: Nanos,
        budget: usize,
        ended: &mut impl FnMut(FlowRecord),
    ) -> usize {
        self.adapt(now);
        let mut popped = [0; BURST_MAX];
        let mut processed = 0;
        for place in popped.iter_mut().take(budget) {
            let Some(record) = self.table.wheel.pop(&mut self.table.cold, now) else { break };
            self.table.hot.prefetch(record as usize, 0);
            *place = record;
            processed += 1;
        }
        if processed > 0 {
            self.end_silent(&mut popped[..processed], now, ended);
        }
        processed
    }

    /// Ends the connections whose timeout has passed; arms the timers of the others again.
    #[inline(never)]
    fn end_silent(&mut self, popped: &mut [u32], now: Nanos, ended: &mut impl FnMut(FlowRecord)) {
        let (mut words, mut hashes) = ([[0; BURST_MAX]; W], [0; BURST_MAX]);
        let mut over = 0;
        for i in 0..popped.len() {
            let record = popped[i];
            let hot = &self.table.hot[record as usize];
            let last_seen = hot.last_seen(&self.table.cold.0[record as usize]);
            let deadline = last_seen.saturating_add(self.timeouts.of(hot));
            if deadline > now {
                self.table.wheel.arm(&mut self.table.cold, record, deadline);
                continue;
            }
            if hot.was_evaluated() && self.bypass_pending(record, now) {
                self.table.wheel.arm(&mut self.table.cold, record, now.saturating_add(RECALL_WAIT));
                continue;
            }
            let hot = &self.table.hot[record as usize];
            hot.key.to_words(&mut words, over);
            popped[over] = record;
            over += 1;
        }
        self.table.prepare(&words, 0..over, &mut hashes);
        for (&record, hash) in popped.iter().zip(&hashes).take(over) {
            let hot = &self.table.hot[record as usize];
            let reason = match self.tracking(hot.key.zone()) {
                Tracking::Off => EndReason::Flushed,
                Tracking::Flows | Tracking::Connections => hot.end_reason(),
            };
            ended(self.end(record, *hash, reason));
        }
    }

    /// Ends the connection in `record`, if there is one.
    pub(crate) fn flush_one(&mut self, record: u32, reason: EndReason) -> Option<FlowRecord> {
        if self.table.hot[record as usize].is_free() {
            return None;
        }
        self.table.wheel.disarm(&mut self.table.cold, record);
        let hash = self.table.hasher.hash_one(&self.table.hot[record as usize].key.0);
        Some(self.end(record, hash, reason))
    }

    /// Removes a connection, whose timer is already disarmed, from the table.
    pub(crate) fn end(&mut self, record: u32, hash: u64, reason: EndReason) -> FlowRecord {
        let flow = self.record(record, reason);
        self.end_access(record);
        self.pending_syns.end(record);
        self.misfits.end(record);
        self.table.unlink_embryonic(record);
        self.table.live -= 1;
        let hot = &mut self.table.hot[record as usize];
        if let Some(rules) = &mut self.rules {
            rules.end(record, hot);
        }
        self.pending_eval = self.pending_eval.filter(|due| !due.is_of(record));
        self.table.index.remove(hash, record);
        *hot = ConnHot::FREE;
        self.table.free_record(record);
        flow
    }

    /// Makes room for a connection that is about to begin, if there is none. Ends the oldest
    /// embryonic connection and returns its flow record.
    pub(crate) fn make_room(&mut self) -> Option<FlowRecord> {
        let is_full = !self.table.can_start() || self.table.live == self.table.hot.len() as u32;
        if is_full { self.evict() } else { None }
    }

    fn evict(&mut self) -> Option<FlowRecord> {
        let EmbryonicList { oldest, evicts, .. } = self.table.embryonic;
        if !evicts || oldest == NO_RECORD {
            return None;
        }
        self.table.wheel.disarm(&mut self.table.cold, oldest);
        let hash = self.table.hasher.hash_one(&self.table.hot[oldest as usize].key.0);
        Some(self.end(oldest, hash, EndReason::Evicted))
    }

    /// Makes room in the embryonic list for a connection that replaces the one in `record`. If the
    /// list is full and that one is not in it, ends the oldest embryonic connection.
    pub(super) fn make_room_for_reuse(&mut self, record: u32) -> Option<FlowRecord> {
        let is_one_more = !self.table.hot[record as usize].is_embryonic();
        if is_one_more && !self.table.can_start() { self.evict() } else { None }
    }
}
