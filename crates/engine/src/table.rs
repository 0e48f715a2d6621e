// SPDX-License-Identifier: BSD-3-Clause
//! The flow table of one IP version: index, records, timers, all memory taken at start.
//!
//! Active iff indexed iff armed: a record is in the index and in the wheel from
//! [`FlowTable::admit`] to [`FlowTable::end`], and nowhere before or after.

mod bypass;
mod embryonic;
mod forgotten;
mod further;
mod marking;
mod places;
mod replace;
mod resume;
mod resync;
mod rules;
mod usual;

use crate::api::{
    Checksums, Config, CtState, EndReason, FlowRecord, Irregular, Offload, PickUp, Side, TcpNumbers,
};
use crate::base::{
    BURST_MAX, Columns, CuckooIndex, HugeRegion, KeyDomain, KeyedHasher, LinkStore, Memory, Micros,
    NO_RECORD, Nanos, TimerLink, TimerWheel, derive,
};
use crate::burst::Outcome;
use crate::conn::{Cold, Event, Hot, Phase, When};
use crate::offload::{Looks, Rules};
use crate::packet::{Arrival, Key, Meta, Numbers, Opening};
use crate::policy::{Lifetimes, Tagging, Zones};
use bypass::RECALL_WAIT;
pub(crate) use embryonic::EMBRYONIC_BYTES;
use embryonic::Embryonic;
pub(crate) use forgotten::FORGOTTEN_BYTES;
use forgotten::Forgotten;
use marking::Markings;
pub(crate) use resync::MISFIT_BYTES;
use resync::OutOfSync;
use rules::Due;
use std::ops::Range;
use std::sync::Arc;
pub(crate) use usual::Seen;

/// Flows with keys of `W` words.
pub(crate) struct FlowTable<const W: usize> {
    index: CuckooIndex,
    pub(crate) hot: HugeRegion<Hot<W>>,
    pub(crate) cold: ColdParts,
    markings: Markings,
    wheel: TimerWheel,
    hasher: KeyedHasher,
    pub(crate) lifetimes: Lifetimes,
    /// Checksums are verified before a state changes.
    verifies: bool,
    /// Where the packets of this burst came, if there are two ports.
    side: Option<Side>,
    embryonic: Embryonic,
    forgotten: Forgotten,
    out_of_sync: OutOfSync,
    /// Flows there are.
    pub(crate) live: u32,
    /// Rules of the NIC, if there may be any.
    pub(crate) rules: Option<Box<Rules>>,
    looks: Option<Looks>,
    /// What is to be looked at when the next one is: all that it takes is on its way meanwhile.
    waiting: Option<Due>,
    /// Head of the list of records freed, through their links.
    free: u32,
    /// Records from here on were never used.
    pub(crate) fresh: u32,
}

/// The cold parts; the wheel's links run through them.
pub(crate) struct ColdParts(HugeRegion<Cold>);

impl LinkStore for ColdParts {
    #[inline(always)]
    fn link(&mut self, record: u32) -> &mut TimerLink {
        &mut self.0[record as usize].link
    }
}

impl<const W: usize> FlowTable<W> {
    /// The table that comes at this place among those of its engine.
    pub(crate) fn new(capacity: u32, config: &Config, zones: Arc<Zones>, place: u32) -> Self {
        let (len, huge) = (capacity as usize, config.huge_pages);
        let rules = config.offload.map(|offload| {
            let first_index = offload.first_index + place * offload.slots;
            let offload = Offload { first_index, ..offload };
            Box::new(Rules::new(len, (offload, Tagging::new(config)), huge))
        });
        Self {
            looks: rules.as_ref().map(|rules| rules.looks()),
            rules,
            waiting: None,
            index: CuckooIndex::new(capacity, huge),
            hot: HugeRegion::new(len, Hot::FREE, huge),
            cold: ColdParts(HugeRegion::new(len, Cold::FREE, huge)),
            markings: Markings::new(len, config),
            wheel: TimerWheel::new(),
            hasher: KeyedHasher::new(derive(config.secret, KeyDomain::Table(W as u64))),
            lifetimes: Lifetimes::new(capacity, config, zones),
            verifies: config.checksums == Checksums::Verified,
            side: None,
            embryonic: Embryonic::new(capacity, config),
            forgotten: Forgotten::new(),
            out_of_sync: OutOfSync::new(),
            live: 0,
            free: NO_RECORD,
            fresh: 0,
        }
    }

    pub(crate) fn memory(&self) -> Memory {
        let wheel = Memory { bytes: self.wheel.bytes(), ..Memory::default() };
        let rules = self.rules.as_ref().map_or(Memory::default(), |rules| rules.memory());
        let parts = [self.index.memory(), self.hot.memory(), self.cold.0.memory(), wheel, rules];
        parts.into_iter().chain([self.markings.memory()]).sum()
    }

    /// Starts to load a record.
    #[inline(always)]
    pub(crate) fn prefetch(&self, record: u32) {
        self.hot.prefetch(record as usize, 0);
        if W > 2 {
            self.hot.prefetch(record as usize, 64);
        }
    }

    /// The same of its cold part, which most packets do without.
    #[inline(always)]
    pub(crate) fn prefetch_cold(&self, record: u32) {
        self.cold.0.prefetch(record as usize, 0);
        self.cold.0.prefetch(record as usize, size_of::<Cold>() - 1);
    }

    /// The same where many are loaded at once, and none is needed soon.
    #[inline(always)]
    pub(crate) fn prefetch_many(&self, record: u32) {
        self.hot.prefetch_many(record as usize, 0);
        if W > 2 {
            self.hot.prefetch_many(record as usize, 64);
        }
    }

    /// Hashes these keys of a burst and starts to load their buckets.
    #[inline(always)]
    pub(crate) fn prepare(
        &self,
        keys: &Columns<W>,
        range: Range<usize>,
        hashes: &mut [u64; BURST_MAX],
    ) {
        self.hasher.hash_burst(keys, range.clone(), hashes);
        for &hash in &hashes[range] {
            self.index.prefetch(hash);
        }
    }

    /// For each hash the record that may be its flow's, on the way to the second level, or
    /// [`NO_RECORD`].
    #[inline(always)]
    pub(crate) fn candidates(&self, hashes: &[u64], candidates: &mut [u32]) {
        for (&hash, candidate) in hashes.iter().zip(candidates) {
            let record = self.index.candidate(hash);
            *candidate = record;
            self.prefetch_many(record);
        }
    }

    /// The record of the flow with this key.
    pub(crate) fn find(&self, hash: u64, key: &Key<W>) -> Option<u32> {
        self.index.find(hash, |record| self.hot[record as usize].key == *key)
    }

    /// True if `record` is the flow with this key.
    pub(crate) fn holds(&self, record: u32, key: &Key<W>) -> bool {
        self.hot.get(record as usize).is_some_and(|hot| hot.key == *key)
    }

    /// Whether the sender of this packet can have sent this sequence number.
    pub(crate) fn has_sent(&self, record: u32, meta: Meta, seq: u32) -> bool {
        self.hot[record as usize].has_sent(meta, seq)
    }

    /// Whether a packet of a flow is one of the responder.
    pub(crate) fn is_reply(&self, record: u32, meta: Meta) -> bool {
        self.hot[record as usize].is_reply(meta)
    }

    /// What a packet, which was tracked, is to the flow in `record`.
    pub(crate) fn state(&self, record: u32, meta: Meta) -> CtState {
        self.hot[record as usize].state(meta)
    }

    /// Whether TCP of this zone is judged by its numbers.
    pub(crate) fn judges(&self, zone: u16) -> bool {
        self.lifetimes.zones().of(zone).tcp == TcpNumbers::Judged
    }

    /// Whether checksums are verified before a state changes.
    pub(crate) fn verifies(&self) -> bool {
        self.verifies
    }

    /// The port by which the packets of this burst came, if there are two.
    pub(crate) fn side(&self) -> Option<Side> {
        self.side
    }

    /// Whether TCP of this zone may begin without a SYN.
    pub(crate) fn picks_up(&self, zone: u16) -> bool {
        self.lifetimes.zones().of(zone).pick_up == PickUp::Loose
    }

    /// If `record` is the flow with this key and the packet no more than one more of it, counts it.
    /// False, and nothing has changed: `record` is another flow, or none, or the packet does more.
    #[inline(always)]
    #[must_use]
    pub(crate) fn count(
        &mut self,
        (record, key): (u32, &Key<W>),
        (meta, numbers): (Meta, impl FnOnce() -> Option<Numbers>),
        now: Micros,
        looks: impl When,
    ) -> bool {
        // No record is as many as `NO_RECORD`: the bounds check is the test for a candidate.
        let Some(hot) = self.hot.get_mut(record as usize) else { return false };
        if hot.key != *key || !hot.is_one_more(meta) {
            return false;
        }
        if hot.is_judged() && !hot.takes_of_sender(meta, numbers()) {
            return false;
        }
        if hot.count(meta, now, looks.of(record)) {
            self.counted(record, meta.swapped(), false);
        }
        true
    }

    /// Counts any packet of the flow in `record` and moves it through its life. `outcome` learns of
    /// a flow that ends by the packet, and of a packet that changes nothing.
    pub(crate) fn track(&mut self, record: u32, packet: &Arrival, outcome: &mut impl Outcome) {
        let Arrival { meta, opening, now, .. } = *packet;
        let hot = &mut self.hot[record as usize];
        let before = hot.phase();
        let event = hot.event(packet);
        let event = event.or_else(|reason| self.agree(record, packet, reason));
        let event = match event.or_else(|reason| self.resync(record, packet, reason)) {
            Ok(event) => event,
            Err(reason) => return self.ignore(record, packet, reason, outcome),
        };
        match event {
            Event::None => {}
            Event::Enter(phase) => {
                self.hot[record as usize].enter(phase);
                self.entered(record);
            }
            Event::Reuse | Event::Agree(_) => {
                if let Err(reason) = self.replace(record, packet, event, outcome) {
                    let zone = self.hot[record as usize].key.zone();
                    return outcome.full(opening.position, zone, reason);
                }
            }
        }
        let before = Some(before).filter(|_| event != Event::None);
        let is_new = matches!(event, Event::Reuse | Event::Agree(_));
        self.settle(record, (meta, opening, now), (before, is_new), outcome);
    }

    /// The flow in `record` has come from one phase to another.
    #[inline(always)]
    fn entered(&mut self, record: u32) {
        let hot = &mut self.hot[record as usize];
        let phase = hot.phase();
        if let Some(rules) = &mut self.rules {
            rules.steady(record, hot);
        }
        if phase.is_assured() {
            self.leave_embryonic(record);
        }
    }

    /// Counts a packet that has done to the flow in `record` what it does: which phase that was in
    /// before, if anything has changed, and whether it is another flow now.
    #[inline(always)]
    fn settle(
        &mut self,
        record: u32,
        (meta, opening, now): (Meta, &Opening, Nanos),
        (before, is_new): (Option<Phase>, bool),
        outcome: &mut impl Outcome,
    ) {
        let looks = self.looks.filter(|_| !opening.is_further()).of(record);
        let hot = &mut self.hot[record as usize];
        let is_rare = hot.count(meta, Micros::of(now), looks);
        if let Some(before) = before {
            let timeout = self.lifetimes.of(hot);
            // A timer may come up early but never late.
            if timeout < self.lifetimes.of_phase(hot, before) {
                self.hasten(record, now.saturating_add(timeout));
            }
        }
        if is_rare {
            self.counted(record, meta.swapped(), false);
        }
        outcome.state(opening.position, || self.state(record, meta));
        if outcome.listens() {
            self.tell_change(record, (before, is_new), outcome);
        }
    }

    /// A packet of the flow in `record` changes nothing.
    fn ignore(
        &mut self,
        record: u32,
        packet: &Arrival,
        reason: Irregular,
        outcome: &mut impl Outcome,
    ) {
        let Arrival { meta, opening, .. } = *packet;
        if outcome.irregular(opening.position, reason) {
            if matches!(reason, Irregular::TcpSyn | Irregular::TcpSynOfOther) {
                self.keep_asked(record, packet);
            }
            let looks = self.looks.of(record);
            if self.hot[record as usize].count_irregular(meta, looks) {
                self.counted(record, meta.swapped(), false);
            }
        }
        outcome.state(opening.position, || match reason.is_invalid() {
            true => CtState::INVALID,
            false => self.state(record, meta),
        });
    }

    /// Has the timer of a flow come up by a deadline that may be earlier than the one before.
    /// False: it does so as it is.
    pub(crate) fn hasten(&mut self, record: u32, deadline: Nanos) -> bool {
        let is_late = !self.wheel.comes_by(*self.cold.link(record), deadline);
        if is_late {
            self.wheel.disarm(&mut self.cold, record);
            self.wheel.arm(&mut self.cold, record, deadline);
        }
        is_late
    }

    /// Makes a record for a new flow and counts its first packet. False: the table is full.
    #[must_use]
    pub(crate) fn admit(&mut self, hash: u64, key: Key<W>, packet: &Arrival) -> bool {
        let Arrival { meta, opening, now, .. } = *packet;
        if !self.may_begin() {
            return false;
        }
        let Some(record) = self.take_indexed(hash) else { return false };
        let hot = &mut self.hot[record as usize];
        hot.begin(key, packet);
        let is_rare = hot.count(meta, Micros::of(now), self.looks.of(record));
        let cold = &mut self.cold.0[record as usize];
        *cold = Cold::begin(opening, now, TimerLink::UNLINKED);
        let deadline = now.saturating_add(self.lifetimes.of(hot));
        self.wheel.catch_up(now);
        self.wheel.arm(&mut self.cold, record, deadline);
        self.join_embryonic(record);
        self.mark_new(record);
        self.live += 1;
        if is_rare {
            self.counted(record, meta.swapped(), false);
        }
        true
    }

    /// Looks at up to `budget` timers, at most [`BURST_MAX`], that are due by `now`; the flows they
    /// end go to `ended`. Returns how many it looked at.
    ///
    /// In passes like those over a burst of packets, because every record and bucket is most likely
    /// out of the cache by now.
    pub(crate) fn expire(
        &mut self,
        now: Nanos,
        budget: usize,
        ended: &mut impl FnMut(FlowRecord),
    ) -> usize {
        self.adapt(now);
        let mut popped = [0; BURST_MAX];
        let mut looked_at = 0;
        for place in popped.iter_mut().take(budget) {
            let Some(record) = self.wheel.pop(&mut self.cold, now) else { break };
            self.hot.prefetch(record as usize, 0);
            *place = record;
            looked_at += 1;
        }
        if looked_at > 0 {
            self.end_silent(&mut popped[..looked_at], now, ended);
        }
        looked_at
    }

    /// Ends those of some flows that were silent for too long; arms the timers of the others.
    #[inline(never)]
    fn end_silent(&mut self, popped: &mut [u32], now: Nanos, ended: &mut impl FnMut(FlowRecord)) {
        let (mut words, mut hashes) = ([[0; BURST_MAX]; W], [0; BURST_MAX]);
        let mut over = 0;
        for i in 0..popped.len() {
            let record = popped[i];
            let hot = &self.hot[record as usize];
            let last_seen = hot.last_seen(&self.cold.0[record as usize]);
            let deadline = last_seen.saturating_add(self.lifetimes.of(hot));
            if deadline > now {
                self.wheel.arm(&mut self.cold, record, deadline);
                continue;
            }
            if hot.is_ruled() && self.is_awaited(record, now) {
                self.wheel.arm(&mut self.cold, record, now.saturating_add(RECALL_WAIT));
                continue;
            }
            let hot = &self.hot[record as usize];
            hot.key.to_words(&mut words, over);
            popped[over] = record;
            over += 1;
        }
        self.prepare(&words, 0..over, &mut hashes);
        for (&record, hash) in popped.iter().zip(&hashes).take(over) {
            let reason = self.hot[record as usize].end_reason();
            ended(self.end(record, *hash, reason));
        }
    }

    /// Ends the live flow in `record`, if there is one.
    pub(crate) fn flush_one(&mut self, record: u32, reason: EndReason) -> Option<FlowRecord> {
        if self.hot[record as usize].is_free() {
            return None;
        }
        self.wheel.disarm(&mut self.cold, record);
        let hash = self.hasher.hash_one(&self.hot[record as usize].key.0);
        Some(self.end(record, hash, reason))
    }

    /// The record with this number, in use or not.
    pub(crate) fn parts(&self, record: u32) -> (&Hot<W>, &Cold) {
        (&self.hot[record as usize], &self.cold.0[record as usize])
    }

    /// Record numbers below this may be in use.
    pub(crate) fn used(&self) -> u32 {
        self.fresh
    }

    /// Takes a flow, its timer already disarmed, out of the table.
    pub(crate) fn end(&mut self, record: u32, hash: u64, reason: EndReason) -> FlowRecord {
        let flow = self.record(record, reason);
        self.forgotten.end(record);
        self.out_of_sync.end(record);
        self.leave_embryonic(record);
        self.live -= 1;
        let hot = &mut self.hot[record as usize];
        if let Some(rules) = &mut self.rules {
            rules.end(record, hot);
        }
        self.waiting = self.waiting.filter(|due| !due.is_of(record));
        self.index.remove(hash, record);
        *hot = Hot::FREE;
        self.give_back(record);
        flow
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Hashes of the same keys in a table with this secret.
    fn hashes<const W: usize>(secret: [u64; 2]) -> [u64; BURST_MAX] {
        let config = Config { secret, ..Config::default() };
        let zones = Arc::new(Zones::new(&config));
        let table = FlowTable::<W>::new(8, &config, zones, 0);
        let keys = [std::array::from_fn(|i| i as u64); W];
        let mut hashes = [0; BURST_MAX];
        table.prepare(&keys, 0..BURST_MAX, &mut hashes);
        hashes
    }

    fn the_secret_decides<const W: usize>() {
        let secrets = [[0, 0], [1, 0], [0, 1], [1, 1], [u64::MAX, 0], [0, u64::MAX]];
        let all: BTreeSet<u64> = secrets.into_iter().flat_map(hashes::<W>).collect();
        assert_eq!(all.len(), secrets.len() * BURST_MAX);
    }

    #[test]
    fn the_secret_decides_where_every_key_goes() {
        the_secret_decides::<2>();
        the_secret_decides::<5>();
    }
}
