// SPDX-License-Identifier: BSD-3-Clause
//! The pass over packets of known connections: counts most of them, tracks the others.

use super::verdicts::Outcome;
use crate::api::{PROTO_SCTP, PROTO_TCP};
use crate::base::{BURST_MAX, Micros, NO_RECORD};
use crate::conn::{Never, When};
use crate::packet::{Arrival, Burst, Chunks, Evidence, Gathered, Header, Key, Lane, Numbers};
use crate::tracker::{Seen, Tracker};
use wire::Packet;

impl<const W: usize> Lane<W> {
    /// Tells what becomes of packet `i`, an ICMP error, by the record of what it quotes. It comes
    /// in its turn among the packets of that connection: those before it are known, those behind
    /// not.
    pub(super) fn relate(
        &self,
        tracker: &Tracker<W>,
        i: usize,
        record: Option<u32>,
        outcome: &mut impl Outcome,
    ) {
        let opening = &self.openings[i];
        let seq = opening.quoted().unwrap_or(0);
        let is_related = record.map(|record| tracker.has_sent(record, self.metas[i], seq));
        // Who has sent what is quoted is told about it.
        let is_reply = record.is_some_and(|record| !tracker.is_reply(record, self.metas[i]));
        outcome.error(opening.position, is_related, is_reply);
    }

    /// Counts packets of known flows, some of which are fragments.
    #[cold]
    pub(super) fn track_pieces<P: Packet>(
        &mut self,
        tracker: &mut Tracker<W>,
        burst: Burst<P>,
        outcome: &mut impl Outcome,
    ) {
        for i in 0..self.len.min(BURST_MAX) {
            self.track_any(tracker, i, burst, outcome);
        }
    }

    /// Counts one that may be a fragment. Rules are for packets that are whole: nobody looks at
    /// others, whether they have a mark, or are worth one.
    pub(super) fn track_any<P: Packet>(
        &mut self,
        tracker: &mut Tracker<W>,
        i: usize,
        burst: Burst<P>,
        outcome: &mut impl Outcome,
    ) {
        let is_fragment = self.fragments >> (i % BURST_MAX) & 1 == 1;
        match tracker.looks().filter(|_| !is_fragment) {
            Some(looks) => self.track_one(tracker, (i, looks), burst, outcome),
            None => self.track_one(tracker, (i, Never), burst, outcome),
        }
    }

    /// Packet `i` of those in the lane, which is in `packets` by its position.
    #[inline(always)]
    pub(super) fn arrival<'a, P: Packet>(
        &'a self,
        i: usize,
        (packets, now): Burst<'a, P>,
        tracker: &Tracker<W>,
        gathered: &'a mut Option<Gathered>,
    ) -> Arrival<'a> {
        let (meta, opening) = (self.metas[i], &self.openings[i]);
        let key = Key::from_words(&self.keys, i);
        let is_judged = key.proto() == PROTO_TCP && tracker.judges(key.zone());
        let packet = packets.get(usize::from(opening.position));
        let judged = packet.filter(|_| is_judged);
        let header = judged.and_then(|packet| Header::of(packet, opening, gathered));
        let evidence =
            packet.filter(|_| tracker.verifies()).map_or(Evidence::Trusted, Evidence::of);
        let is_sctp = key.proto() == PROTO_SCTP;
        let chunks = packet
            .filter(|_| is_sctp)
            .and_then(|packet| Chunks::of(packet, meta, opening, tracker.judges(key.zone())));
        Arrival { meta, opening, now, side: tracker.side(), header, chunks, evidence }
    }

    /// Counts packets of known flows.
    #[inline(always)]
    pub(crate) fn track<P: Packet>(
        &mut self,
        tracker: &mut Tracker<W>,
        burst: Burst<P>,
        outcome: &mut impl Outcome,
    ) {
        match tracker.looks() {
            Some(_) if self.fragments != 0 => self.track_pieces(tracker, burst, outcome),
            Some(looks) => self.track_and_look(tracker, burst, looks, outcome),
            None => self.track_and_look(tracker, burst, Never, outcome),
        }
    }

    #[inline(never)]
    fn track_and_look<P: Packet>(
        &mut self,
        tracker: &mut Tracker<W>,
        (packets, now): Burst<P>,
        looks: impl When,
        outcome: &mut impl Outcome,
    ) {
        let len = self.len.min(BURST_MAX);
        for i in 0..len {
            // It is in the second level by now, or on its way there.
            tracker.table.prefetch(self.candidates[(i + NEAR) % BURST_MAX]);
            self.track_one(tracker, (i, looks), (packets, now), outcome);
        }
    }

    #[inline(always)]
    fn track_one<P: Packet>(
        &mut self,
        tracker: &mut Tracker<W>,
        (i, looks): (usize, impl When),
        (packets, now): Burst<P>,
        outcome: &mut impl Outcome,
    ) {
        let key = Key::from_words(&self.keys, i);
        let (meta, opening) = (self.metas[i], &self.openings[i]);
        let numbers = || {
            let packet = packets.get(usize::from(opening.position))?;
            Numbers::of(packet, meta, opening)
        };
        let candidate = (self.candidates[i], &key);
        if !tracker.count(candidate, (meta, numbers), Micros::of(now), looks) {
            self.track_rare(tracker, i, (packets, now), outcome);
        } else {
            outcome.state(opening.position, || tracker.state(candidate.0, meta));
        }
    }

    /// What is more than to count packet `i`: it opens, changes or ends a flow, or the candidate is
    /// another flow with the same tag (1 in some thousand lookups).
    #[inline(never)]
    fn track_rare<P: Packet>(
        &mut self,
        tracker: &mut Tracker<W>,
        i: usize,
        (packets, now): Burst<P>,
        outcome: &mut impl Outcome,
    ) {
        let i = i % BURST_MAX;
        let key = Key::from_words(&self.keys, i);
        let record = match self.candidates[i] {
            NO_RECORD => None,
            candidate if tracker.table.holds(candidate, &key) => Some(candidate),
            _ => tracker.table.find(self.hashes[i], &key),
        };
        let Some(record) = record else {
            self.misses[self.missed % BURST_MAX] = i as u8;
            self.missed += 1;
            return;
        };
        let (meta, opening) = (self.metas[i], &self.openings[i]);
        let is_usual = packets.get(usize::from(opening.position)).is_some_and(|packet| {
            let seen = Seen { packet, meta, opening, now };
            tracker.track_usual(record, &seen, outcome)
        });
        if !is_usual {
            self.track_found(tracker, (i, record), (packets, now), outcome);
        }
    }

    /// What packet `i` does to the flow in this record, which is its own.
    pub(super) fn track_found<P: Packet>(
        &self,
        tracker: &mut Tracker<W>,
        (i, record): (usize, u32),
        burst: Burst<P>,
        outcome: &mut impl Outcome,
    ) {
        if self.openings[i].quoted().is_some() {
            self.relate(tracker, i, Some(record), outcome);
        } else if let Some(fragment) = self.further(i) {
            tracker.track_further(record, fragment, burst.1, outcome);
        } else {
            let mut gathered = None;
            let packet = self.arrival(i, burst, tracker, &mut gathered);
            tracker.track(record, &packet, outcome);
        }
    }
}

/// How many packets before its own a record is brought from the second level to the first.
const NEAR: usize = 4;
