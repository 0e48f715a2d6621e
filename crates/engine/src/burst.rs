// SPDX-License-Identifier: BSD-3-Clause
//! The packets of one burst and one IP version on their way through the table, and the passes over
//! them.
//!
//! Each pass does one thing for every packet and starts the loads that the next one needs: hash and
//! bucket, candidate record, key and counters. New flows come last, in packet order, and are looked
//! up again, so that two packets of one new flow make one flow.

use crate::key::{Key, KeyWords};
use crate::offload::{Never, When};
use crate::parse::{Meta, Opening};
use crate::table::{FlowTable, NO_RECORD};
use crate::{BURST_MAX, FlowRecord, Nanos};

/// The parsed packets of one burst with keys of `W` words, in packet order.
pub(crate) struct Lane<const W: usize> {
    len: usize,
    keys: KeyWords<W>,
    metas: [Meta; BURST_MAX],
    openings: [Opening; BURST_MAX],
    hashes: [u64; BURST_MAX],
    /// Packets whose hash is known and whose bucket is on its way to the cache.
    hashed: usize,
    /// [`NO_RECORD`]: not in the table.
    candidates: [u32; BURST_MAX],
    /// Packets whose candidate is known.
    looked_up: usize,
    misses: [u8; BURST_MAX],
    missed: usize,
}

/// What a flow learns from one of its packets.
#[derive(Clone, Copy)]
pub(crate) struct Arrival<'a> {
    pub(crate) meta: Meta,
    pub(crate) opening: &'a Opening,
    pub(crate) now: Nanos,
}

/// Who is told what became of the packets of new flows.
pub(crate) trait Outcome {
    /// A new flow began.
    fn created(&mut self);
    /// A flow ended by a packet.
    fn ended(&mut self, flow: FlowRecord);
    /// The packet at this place in the burst began no flow for want of room.
    fn full(&mut self, position: u16);
}

impl<const W: usize> Lane<W> {
    pub(crate) fn new() -> Self {
        Self {
            len: 0,
            keys: [[0; BURST_MAX]; W],
            metas: [Meta::EMPTY; BURST_MAX],
            openings: [Opening::plain(0); BURST_MAX],
            hashes: [0; BURST_MAX],
            hashed: 0,
            candidates: [NO_RECORD; BURST_MAX],
            looked_up: 0,
            misses: [0; BURST_MAX],
            missed: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.hashed = 0;
        self.looked_up = 0;
        self.missed = 0;
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, key: Key<W>, meta: Meta, opening: Opening) {
        let at = self.len % BURST_MAX;
        key.to_words(&mut self.keys, at);
        self.metas[at] = meta;
        self.openings[at] = opening;
        self.len += 1;
    }

    /// Four at once; the words of their keys one after the other.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(crate) fn push_four(
        &mut self,
        words: [[u64; 4]; W],
        metas: [Meta; 4],
        openings: [Opening; 4],
    ) {
        let at = self.len.min(BURST_MAX - 4);
        for (column, words) in self.keys.iter_mut().zip(words) {
            column[at..at + 4].copy_from_slice(&words);
        }
        self.metas[at..at + 4].copy_from_slice(&metas);
        self.openings[at..at + 4].copy_from_slice(&openings);
        self.len += 4;
    }

    #[inline(always)]
    fn arrival(&self, i: usize, now: Nanos) -> Arrival<'_> {
        Arrival { meta: self.metas[i], opening: &self.openings[i], now }
    }

    /// Key of the first packet, and what its flow needs of it.
    pub(crate) fn first(&self) -> Option<(Key<W>, Meta)> {
        (self.len > 0).then(|| (Key::from_words(&self.keys, 0), self.metas[0]))
    }

    /// Packets in the burst.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Hashes the packets that were added since the last call and starts to load their buckets;
    /// then finds the candidates of those before, whose buckets have had the time to come. A last
    /// call with nothing added completes the burst.
    ///
    /// Each pass is a function of its own, never inlined: the loops then have the registers to
    /// themselves.
    #[inline(never)]
    pub(crate) fn look_up(&mut self, table: &FlowTable<W>) {
        let len = self.len.min(BURST_MAX);
        table.prepare(&self.keys, self.hashed..len, &mut self.hashes);
        let waiting = self.looked_up..self.hashed;
        table.candidates(&self.hashes[waiting.clone()], &mut self.candidates[waiting]);
        self.looked_up = self.hashed;
        self.hashed = len;
    }

    /// Counts packets of known flows; flows that ended by them go to `ended`.
    #[inline(always)]
    pub(crate) fn track(
        &mut self,
        table: &mut FlowTable<W>,
        now: Nanos,
        ended: impl FnMut(FlowRecord),
    ) {
        match table.looks() {
            Some(looks) => self.track_and_look(table, now, looks, ended),
            None => self.track_and_look(table, now, Never, ended),
        }
    }

    #[inline(never)]
    fn track_and_look(
        &mut self,
        table: &mut FlowTable<W>,
        now: Nanos,
        looks: impl When,
        mut ended: impl FnMut(FlowRecord),
    ) {
        for i in 0..self.len.min(BURST_MAX) {
            let key = Key::from_words(&self.keys, i);
            if !table.count((self.candidates[i], &key), self.metas[i], now, looks) {
                self.track_rare(table, i, now, &mut ended);
            }
        }
    }

    /// What is more than to count packet `i`: it opens, changes or ends a flow, or the candidate is
    /// another flow with the same tag (1 in some thousand lookups).
    #[inline(never)]
    fn track_rare(
        &mut self,
        table: &mut FlowTable<W>,
        i: usize,
        now: Nanos,
        ended: &mut impl FnMut(FlowRecord),
    ) {
        let i = i % BURST_MAX;
        let key = Key::from_words(&self.keys, i);
        let record = match self.candidates[i] {
            NO_RECORD => None,
            candidate if table.holds(candidate, &key) => Some(candidate),
            _ => table.find(self.hashes[i], &key),
        };
        match record {
            Some(record) => table.track(record, self.arrival(i, now), ended),
            None => {
                self.misses[self.missed % BURST_MAX] = i as u8;
                self.missed += 1;
            }
        }
    }

    /// Begins new flows in packet order. Positions of packets that found no room go to `full`.
    #[inline(never)]
    pub(crate) fn admit(
        &mut self,
        table: &mut FlowTable<W>,
        now: Nanos,
        outcome: &mut impl Outcome,
    ) {
        for miss in &self.misses[..self.missed.min(BURST_MAX)] {
            let i = usize::from(*miss) % BURST_MAX;
            let key = Key::from_words(&self.keys, i);
            let (packet, hash) = (self.arrival(i, now), self.hashes[i]);
            if let Some(record) = table.find(hash, &key) {
                table.track(record, packet, &mut |flow| outcome.ended(flow));
            } else if table.admit(hash, key, packet) {
                outcome.created();
            } else {
                outcome.full(packet.opening.position);
            }
        }
    }
}
