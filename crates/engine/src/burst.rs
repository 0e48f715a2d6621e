// SPDX-License-Identifier: BSD-3-Clause
//! The packets of one burst and one IP version on their way through the table, and the passes over
//! them.
//!
//! Each pass does one thing for every packet and starts the loads that the next one needs: hash and
//! bucket, candidate record, key and counters. New flows come last, in packet order, and are looked
//! up again, so that two packets of one new flow make one flow.

mod pieces;

use crate::api::{
    CtState, EndReason, FlowEvent, FlowRecord, Irregular, PROTO_SCTP, PROTO_TCP, Reason,
};
use crate::base::{BURST_MAX, Micros, NO_RECORD};
use crate::conn::{Never, When};
use crate::packet::{
    Arrival, Burst, Chunks, Evidence, Gathered, Header, Key, Lane, Lanes, Numbers, Opening,
    SYN_FIN_RST,
};
use crate::table::{FlowTable, Seen};
use std::ops::Range;
use wire::Packet;

/// Who is told what became of packets that were more than one more of their flow.
pub(crate) trait Outcome {
    /// What the packet at this place is to its flow, if anybody asks.
    fn state(&mut self, position: u8, state: impl FnOnce() -> CtState);
    /// Whether a flow with this key may begin by a packet of this sender, and if not, why.
    fn check<const W: usize>(&mut self, key: &Key<W>, swapped: u8) -> Result<(), Reason>;
    /// Whether one may begin by a packet in the place of another one of its ports, and if not, why;
    /// who began that one and who begins this.
    fn check_next<const W: usize>(&mut self, key: &Key<W>, swapped: [u8; 2]) -> Result<(), Reason>;
    /// One did.
    fn created<const W: usize>(&mut self, key: &Key<W>, swapped: u8);
    /// One did, in the place of another, which ended by the same packet.
    fn replaced<const W: usize>(&mut self, key: &Key<W>, swapped: u8);
    /// Whether anybody takes what is left of flows.
    fn keeps(&self) -> bool;
    /// A flow ended by a packet.
    fn ended(&mut self, flow: FlowRecord);
    /// The same where nobody does; who began it.
    fn ended_unkept<const W: usize>(&mut self, key: &Key<W>, swapped: u8, reason: EndReason);
    /// The packet at this place in the burst began no flow in this zone, for want of room.
    fn full(&mut self, position: u8, zone: u16, reason: Reason);
    /// The packet at this place is of no flow, and begins none.
    fn stray(&mut self, position: u8, reason: Irregular);
    /// The fragment at this place has no flow to be counted to.
    fn astray(&mut self, position: u8);
    /// The packet at this place changes nothing. True: it is counted all the same.
    fn irregular(&mut self, position: u8, reason: Irregular) -> bool;
    /// The packet at this place is an ICMP error about a connection that there is, and about a
    /// packet that its sender can have sent; or about another one; or about none. It is a reply if
    /// it goes to the originator.
    fn error(&mut self, position: u8, is_related: Option<bool>, is_reply: bool);
    /// Whether somebody listens to what becomes of flows.
    fn listens(&self) -> bool;
    /// This became of one that has not ended.
    fn changed(&mut self, event: FlowEvent);
}

/// How many packets before its own a record is brought from the second level to the first.
const NEAR: usize = 4;

impl<const W: usize> Lane<W> {
    /// Packet `i` of those in the lane, which is in `packets` by its position.
    #[inline(always)]
    fn arrival<'a, P: Packet>(
        &'a self,
        i: usize,
        (packets, now): Burst<'a, P>,
        table: &FlowTable<W>,
        gathered: &'a mut Option<Gathered>,
    ) -> Arrival<'a> {
        let (meta, opening) = (self.metas[i], &self.openings[i]);
        let key = Key::from_words(&self.keys, i);
        let is_judged = key.proto() == PROTO_TCP && table.judges(key.zone());
        let packet = packets.get(usize::from(opening.position));
        let judged = packet.filter(|_| is_judged);
        let header = judged.and_then(|packet| Header::of(packet, opening, gathered));
        let evidence = packet.filter(|_| table.verifies()).map_or(Evidence::Trusted, Evidence::of);
        let is_sctp = key.proto() == PROTO_SCTP;
        let chunks = packet
            .filter(|_| is_sctp)
            .and_then(|packet| Chunks::of(packet, meta, opening, table.judges(key.zone())));
        Arrival { meta, opening, now, side: table.side(), header, chunks, evidence }
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
        table.candidates(&self.hashes[waiting.clone()], &mut self.candidates[waiting.clone()]);
        self.prefetch_changes(table, waiting);
        self.looked_up = self.hashed;
        self.hashed = len;
    }

    /// Starts to load the timers of flows that are about to begin or to end.
    #[inline(always)]
    fn prefetch_changes(&self, table: &FlowTable<W>, range: Range<usize>) {
        let flags = self.metas[range.clone()].iter().fold(0, |all, meta| all | meta.tcp_flags());
        if flags & SYN_FIN_RST == 0 {
            return;
        }
        // Without a branch, as which packet is one of them is anyone's guess: of the others
        // that of record 0 is loaded, which costs nothing more once it is there.
        for (meta, &record) in self.metas[range.clone()].iter().zip(&self.candidates[range]) {
            let changes = u32::from(meta.tcp_flags() & SYN_FIN_RST != 0);
            table.prefetch_cold(record & changes.wrapping_neg());
        }
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
            Some(_) if self.fragments != 0 => self.track_pieces(table, burst, outcome),
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
        let len = self.len.min(BURST_MAX);
        for i in 0..len {
            // It is in the second level by now, or on its way there.
            table.prefetch(self.candidates[(i + NEAR) % BURST_MAX]);
            self.track_one(table, (i, looks), (packets, now), outcome);
        }
    }

    #[inline(always)]
    fn track_one<P: Packet>(
        &mut self,
        table: &mut FlowTable<W>,
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
        if !table.count(candidate, (meta, numbers), Micros::of(now), looks) {
            self.track_rare(table, i, (packets, now), outcome);
        } else {
            outcome.state(opening.position, || table.state(candidate.0, meta));
        }
    }

    /// What is more than to count packet `i`: it opens, changes or ends a flow, or the candidate is
    /// another flow with the same tag (1 in some thousand lookups).
    #[inline(never)]
    fn track_rare<P: Packet>(
        &mut self,
        table: &mut FlowTable<W>,
        i: usize,
        (packets, now): Burst<P>,
        outcome: &mut impl Outcome,
    ) {
        let i = i % BURST_MAX;
        let key = Key::from_words(&self.keys, i);
        let record = match self.candidates[i] {
            NO_RECORD => None,
            candidate if table.holds(candidate, &key) => Some(candidate),
            _ => table.find(self.hashes[i], &key),
        };
        let Some(record) = record else {
            self.misses[self.missed % BURST_MAX] = i as u8;
            self.missed += 1;
            return;
        };
        let (meta, opening) = (self.metas[i], &self.openings[i]);
        let is_usual = packets.get(usize::from(opening.position)).is_some_and(|packet| {
            let seen = Seen { packet, meta, opening, now };
            table.track_usual(record, &seen, outcome)
        });
        if !is_usual {
            self.track_found(table, (i, record), (packets, now), outcome);
        }
    }

    /// What packet `i` does to the flow in this record, which is its own.
    fn track_found<P: Packet>(
        &self,
        table: &mut FlowTable<W>,
        (i, record): (usize, u32),
        burst: Burst<P>,
        outcome: &mut impl Outcome,
    ) {
        if self.openings[i].quoted().is_some() {
            self.relate(table, i, Some(record), outcome);
        } else if let Some(fragment) = self.further(i) {
            table.track_further(record, fragment, burst.1, outcome);
        } else {
            let mut gathered = None;
            let packet = self.arrival(i, burst, table, &mut gathered);
            table.track(record, &packet, outcome);
        }
    }

    /// The same of the first packet that waits to begin a flow.
    fn waits_at(&self, miss: usize) -> usize {
        let i = self.misses.get(miss).filter(|_| miss < self.missed);
        i.map_or(usize::MAX, |&i| self.position(i.into()))
    }

    /// Begins a flow with the packet of this miss, if none of those before it did.
    fn admit<P: Packet>(
        &mut self,
        table: &mut FlowTable<W>,
        miss: usize,
        burst: Burst<P>,
        outcome: &mut impl Outcome,
    ) {
        let i = usize::from(self.misses[miss % BURST_MAX]) % BURST_MAX;
        let key = Key::from_words(&self.keys, i);
        let (mut gathered, hash) = (None, self.hashes[i]);
        if let Some(record) = table.find(hash, &key) {
            return self.track_found(table, (i, record), burst, outcome);
        }
        let Opening { position, .. } = self.openings[i];
        if self.openings[i].quoted().is_some() {
            return self.relate(table, i, None, outcome);
        }
        if self.openings[i].is_further() {
            return outcome.astray(position);
        }
        let packet = self.arrival(i, burst, table, &mut gathered);
        let (swapped, zone) = (packet.meta.swapped(), key.zone());
        if let Some(reason) = packet.unasked(&key).filter(|_| !table.picks_up(zone)) {
            return outcome.stray(position, reason);
        }
        if !packet.is_intact(&key) {
            return outcome.stray(position, Irregular::Checksum);
        }
        // Begins no connection; if nobody minds, what is seen of it is written down.
        if packet.unsound(&key).is_some_and(|reason| !outcome.irregular(position, reason)) {
            return;
        }
        if let Err(reason) = outcome.check(&key, swapped) {
            return outcome.full(position, zone, reason);
        }
        if let Some(evicted) = table.make_room() {
            outcome.ended(evicted);
        }
        match table.admit(hash, key, &packet) {
            true => {
                outcome.created(&key, swapped);
                table.tell_new(hash, &key, outcome);
                let is_none = packet.begins_nothing(&key);
                outcome.state(position, || if is_none { CtState::INVALID } else { CtState::NEW });
            }
            false => outcome.full(position, zone, Reason::TableFull),
        }
    }
}

/// Begins new flows of both IP versions in the order of their packets.
#[inline(never)]
pub(crate) fn admit<P: Packet>(
    lanes: &mut Lanes,
    (v4, v6): (&mut FlowTable<2>, &mut FlowTable<5>),
    burst: Burst<P>,
    outcome: &mut impl Outcome,
) {
    let (mut of_v4, mut of_v6) = (0, 0);
    while of_v4 < lanes.v4.missed || of_v6 < lanes.v6.missed {
        if lanes.v4.waits_at(of_v4) < lanes.v6.waits_at(of_v6) {
            lanes.v4.admit(v4, of_v4, burst, outcome);
            of_v4 += 1;
        } else {
            lanes.v6.admit(v6, of_v6, burst, outcome);
            of_v6 += 1;
        }
    }
}

/// Tracks packets of both IP versions one after the other, and begins flows on the way: where there
/// is little room, or something waits for a packet, who is first matters. `then` comes behind each
/// packet and learns its place in the burst.
#[inline(never)]
pub(crate) fn track_in_order<P: Packet, O: Outcome>(
    lanes: &mut Lanes,
    tables: (&mut FlowTable<2>, &mut FlowTable<5>),
    burst: Burst<P>,
    outcome: &mut O,
    then: &mut impl FnMut(usize, &mut FlowTable<2>, &mut FlowTable<5>, &mut O),
) {
    let ((v4, v6), (mut of_v4, mut of_v6)) = (tables, (0, 0));
    while of_v4 < lanes.v4.len || of_v6 < lanes.v6.len {
        let positions = (lanes.v4.position(of_v4), lanes.v6.position(of_v6));
        if positions.0 < positions.1 {
            lanes.v4.track_now(v4, of_v4, burst, outcome);
            of_v4 += 1;
        } else {
            lanes.v6.track_now(v6, of_v6, burst, outcome);
            of_v6 += 1;
        }
        then(positions.0.min(positions.1), v4, v6, outcome);
    }
}

impl<const W: usize> Lane<W> {
    fn track_now<P: Packet>(
        &mut self,
        table: &mut FlowTable<W>,
        i: usize,
        burst: Burst<P>,
        outcome: &mut impl Outcome,
    ) {
        self.track_any(table, i, burst, outcome);
        if self.missed > 0 {
            self.admit(table, 0, burst, outcome);
            self.missed = 0;
        }
    }
}
