// SPDX-License-Identifier: BSD-3-Clause
//! The packets of one burst and one IP version on their way through the table, and the passes over
//! them.
//!
//! Each pass does one thing for every packet and starts the loads that the next one needs: hash and
//! bucket, candidate record, key and counters. New flows come last, in packet order, and are looked
//! up again, so that two packets of one new flow make one flow.

use crate::flow::{Micros, PROTO_TCP};
use crate::key::{Key, KeyWords};
use crate::offload::{Never, When};
use crate::parse::{Meta, Opening};
use crate::table::{FlowTable, NO_RECORD};
use crate::tcp::{Numbers, Segment, is_sound};
use crate::{BURST_MAX, FlowRecord, Irregular, Nanos};
use wire::Packet;

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
    /// Of TCP that is judged by its numbers, if it is not cut.
    pub(crate) segment: Option<Segment>,
}

impl Arrival<'_> {
    /// Whether a flow can begin with it: nothing is judged, or its flags may come together.
    fn is_sound(&self) -> bool {
        self.segment.is_none() || is_sound(self.meta.tcp_flags())
    }
}

/// The packets of a burst, by their positions, and when they came.
type Burst<'a, P> = (&'a [P], Nanos);

/// Who is told what became of packets that were more than one more of their flow.
pub(crate) trait Outcome {
    /// A new flow began.
    fn created(&mut self);
    /// A flow ended by a packet.
    fn ended(&mut self, flow: FlowRecord);
    /// The packet at this place in the burst began no flow for want of room.
    fn full(&mut self, position: u8);
    /// The packet at this place changes nothing. True: it is counted all the same.
    fn irregular(&mut self, position: u8, reason: Irregular) -> bool;
}

impl<const W: usize> Lane<W> {
    pub(crate) fn new() -> Self {
        Self {
            len: 0,
            keys: [[0; BURST_MAX]; W],
            metas: [Meta::EMPTY; BURST_MAX],
            openings: [Opening::plain(0, 0); BURST_MAX],
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

    /// Packet `i` of those in the lane, which is in `packets` by its position.
    fn arrival<P: Packet>(&self, i: usize, (packets, now): Burst<P>, strict: bool) -> Arrival<'_> {
        let (meta, opening) = (self.metas[i], &self.openings[i]);
        let is_judged = strict && Key::from_words(&self.keys, i).proto() == PROTO_TCP;
        let packet = packets.get(usize::from(opening.position)).filter(|_| is_judged);
        let segment = packet.and_then(|packet| Segment::of(packet, meta, opening));
        Arrival { meta, opening, now, segment }
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

    /// Counts packets of known flows.
    #[inline(always)]
    pub(crate) fn track<P: Packet>(
        &mut self,
        table: &mut FlowTable<W>,
        burst: Burst<P>,
        outcome: &mut impl Outcome,
    ) {
        match table.looks() {
            Some(looks) => self.track_and_look(table, burst, looks, outcome),
            None => self.track_and_look(table, burst, Never, outcome),
        }
    }

    #[inline(never)]
    fn track_and_look<P: Packet>(
        &mut self,
        table: &mut FlowTable<W>,
        (packets, now): Burst<P>,
        looks: impl When,
        outcome: &mut impl Outcome,
    ) {
        let micros = Micros::of(now);
        for i in 0..self.len.min(BURST_MAX) {
            let key = Key::from_words(&self.keys, i);
            let (meta, opening) = (self.metas[i], &self.openings[i]);
            let numbers = || {
                let packet = packets.get(usize::from(opening.position))?;
                Numbers::of(packet, meta, opening)
            };
            if !table.count((self.candidates[i], &key), (meta, numbers), micros, looks) {
                self.track_rare(table, i, (packets, now), outcome);
            }
        }
    }

    /// What is more than to count packet `i`: it opens, changes or ends a flow, or the candidate is
    /// another flow with the same tag (1 in some thousand lookups).
    #[inline(never)]
    fn track_rare<P: Packet>(
        &mut self,
        table: &mut FlowTable<W>,
        i: usize,
        burst: Burst<P>,
        outcome: &mut impl Outcome,
    ) {
        let i = i % BURST_MAX;
        let key = Key::from_words(&self.keys, i);
        let record = match self.candidates[i] {
            NO_RECORD => None,
            candidate if table.holds(candidate, &key) => Some(candidate),
            _ => table.find(self.hashes[i], &key),
        };
        match record {
            Some(record) => {
                table.track(record, self.arrival(i, burst, table.is_strict()), outcome);
            }
            None => {
                self.misses[self.missed % BURST_MAX] = i as u8;
                self.missed += 1;
            }
        }
    }

    /// Begins new flows in packet order. Positions of packets that found no room go to `full`.
    #[inline(never)]
    pub(crate) fn admit<P: Packet>(
        &mut self,
        table: &mut FlowTable<W>,
        burst: Burst<P>,
        outcome: &mut impl Outcome,
    ) {
        for miss in &self.misses[..self.missed.min(BURST_MAX)] {
            let i = usize::from(*miss) % BURST_MAX;
            let key = Key::from_words(&self.keys, i);
            let (packet, hash) = (self.arrival(i, burst, table.is_strict()), self.hashes[i]);
            if let Some(record) = table.find(hash, &key) {
                table.track(record, packet, outcome);
                continue;
            }
            let position = packet.opening.position;
            // Begins no connection; if nobody minds, what is seen of it is written down.
            if !packet.is_sound() && !outcome.irregular(position, Irregular::TcpFlags) {
                continue;
            }
            match table.admit(hash, key, packet) {
                true => outcome.created(),
                false => outcome.full(position),
            }
        }
    }
}
