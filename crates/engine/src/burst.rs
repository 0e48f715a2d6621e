// SPDX-License-Identifier: BSD-3-Clause
//! The packets of one burst and one IP version on their way through the table, and the passes over
//! them.
//!
//! Each pass does one thing for every packet and starts the loads that the next one needs: hash and
//! bucket, candidate record, key and counters. New flows come last, in packet order, and are looked
//! up again, so that two packets of one new flow make one flow.

use crate::key::{Key, KeyWords};
use crate::parse::Meta;
use crate::table::{FlowTable, NO_RECORD};
use crate::{BURST_MAX, FlowRecord, Nanos};

/// The parsed packets of one burst with keys of `W` words, in packet order.
pub(crate) struct Lane<const W: usize> {
    len: usize,
    keys: KeyWords<W>,
    metas: [Meta; BURST_MAX],
    hashes: [u64; BURST_MAX],
    /// [`NO_RECORD`]: not in the table.
    candidates: [u32; BURST_MAX],
    misses: [u8; BURST_MAX],
    missed: usize,
}

/// Who is told what became of the packets of new flows.
pub(crate) trait Outcome {
    /// A new flow began.
    fn created(&mut self);
    /// A flow ended by a packet.
    fn ended(&mut self, flow: FlowRecord);
    /// The packet at this place in the burst began no flow for want of room.
    fn full(&mut self, position: u8);
}

impl<const W: usize> Lane<W> {
    pub(crate) fn new() -> Self {
        Self {
            len: 0,
            keys: [[0; BURST_MAX]; W],
            metas: [Meta::EMPTY; BURST_MAX],
            hashes: [0; BURST_MAX],
            candidates: [NO_RECORD; BURST_MAX],
            misses: [0; BURST_MAX],
            missed: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.missed = 0;
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, key: Key<W>, meta: Meta) {
        let at = self.len % BURST_MAX;
        key.to_words(&mut self.keys, at);
        self.metas[at] = meta;
        self.len += 1;
    }

    /// Packets in the burst.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Hash, bucket, candidate.
    #[inline(always)]
    pub(crate) fn look_up(&mut self, table: &FlowTable<W>) {
        let len = self.len.min(BURST_MAX);
        table.prepare(&self.keys, len, &mut self.hashes);
        table.candidates(&self.hashes[..len], &mut self.candidates[..len]);
    }

    /// Counts packets of known flows; flows that ended by them go to `ended`.
    #[inline(always)]
    pub(crate) fn track(
        &mut self,
        table: &mut FlowTable<W>,
        now: Nanos,
        mut ended: impl FnMut(FlowRecord),
    ) {
        for i in 0..self.len.min(BURST_MAX) {
            let key = Key::from_words(&self.keys, i);
            let packet = (&self.metas[i], now);
            if table.track(self.candidates[i], &key, packet, &mut ended) {
                continue;
            }
            if self.candidates[i] != NO_RECORD {
                // Another flow with the same tag: 1 in some thousand lookups.
                if let Some(record) = table.find(self.hashes[i], &key) {
                    table.track(record, &key, packet, &mut ended);
                    continue;
                }
            }
            self.misses[self.missed % BURST_MAX] = i as u8;
            self.missed += 1;
        }
    }

    /// Begins new flows in packet order. Positions of packets that found no room go to `full`.
    pub(crate) fn admit(
        &mut self,
        table: &mut FlowTable<W>,
        now: Nanos,
        outcome: &mut impl Outcome,
    ) {
        for miss in &self.misses[..self.missed.min(BURST_MAX)] {
            let i = usize::from(*miss) % BURST_MAX;
            let key = Key::from_words(&self.keys, i);
            let (meta, hash) = (&self.metas[i], self.hashes[i]);
            if let Some(record) = table.find(hash, &key) {
                table.track(record, &key, (meta, now), &mut |flow| outcome.ended(flow));
            } else if table.admit(hash, key, (meta, now)) {
                outcome.created();
            } else {
                outcome.full(meta.position);
            }
        }
    }
}
