// SPDX-License-Identifier: BSD-3-Clause
//! The engine of one worker: packets and `now` in, verdicts out; one call per burst.

mod fragments;
mod handoff;

use crate::account::Books;
use crate::api::{
    Config, CtState, FlowRecord, MAX_CAPACITY, STALL_CYCLES, Side, Stage, Stats, Verdict, ZONES,
};
use crate::base::{BURST_MAX, Memory, Nanos, SimdLevel, whole_micros};
use crate::fragments::Fragments;
use crate::offload::Governor;
use crate::packet::parse::{PART, Part};
use crate::packet::{Burst, Lanes, prefetch_head};
use crate::pipeline::{
    Marked, Moment, Places, States, Told, Unasked, admit, refuse_further, send_all_errors_away,
    track_in_order,
};
use crate::policy::{Limits, Pace, Sources, Zones, Zoning};
use crate::table::EMBRYONIC_BYTES;
use crate::tracker::{FORGOTTEN_BYTES, MISFIT_BYTES, Tracker};
use std::sync::Arc;
use wire::Packet;

impl Engine {
    /// Holds one packet of the last burst against what the port says of its queues.
    #[inline(never)]
    pub(crate) fn check_steering(&mut self) {
        if let Some((key, _)) = self.lanes.v4.first() {
            self.books.others.check(&key);
        } else if let Some((key, _)) = self.lanes.v6.first() {
            self.books.others.check(&key);
        }
    }

    /// Finds the connections of the fragments in the lanes, and takes out what belongs to those of
    /// other workers.
    #[inline(never)]
    pub(crate) fn settle_wanderers(&mut self, verdicts: &mut [Verdict], states: &mut impl States) {
        let mut told = Told { books: &mut self.books, verdicts, states, now: self.now };
        send_all_errors_away(&mut self.lanes, &mut told);
        match &mut self.fragments {
            Some(fragments) => fragments.settle(&mut self.lanes, self.now, &mut told),
            None => refuse_further(&mut self.lanes, &mut told),
        }
    }

    /// Counts fragments that have waited, and what comes before them.
    #[inline(never)]
    pub(crate) fn count_due<P: Packet>(
        &mut self,
        burst: Burst<P>,
        verdicts: &mut [Verdict],
        states: &mut impl States,
    ) {
        let Some(fragments) = &mut self.fragments else { return };
        let mut told = Told { books: &mut self.books, verdicts, states, now: self.now };
        fragments.count_due(&mut self.lanes, (&mut self.v4, &mut self.v6), burst, &mut told);
    }
}

/// Flow table, tracking and timers of one worker.
///
/// # Model
/// A *connection* is what two endpoints exchange under one key: protocol, two addresses, two ports,
/// zone. Its first packet makes its record and names the originator. Every further packet of either
/// direction finds the record by the sorted key and is counted to its direction. The record stays
/// until the connection has been silent for the timeout of its phase; what is left of it then is a
/// [`FlowRecord`].
///
/// # Invariants
/// - Every packet given to [`process`](Engine::process) is in exactly one counter of [`Stats`].
/// - A record is indexed iff its timer is armed iff its flow is alive (`table.rs`).
/// - Nothing is removed but by `expire`, `flush`, `sweep` and packets: by the reuse of a closed TCP
///   connection's ports, and by eviction.
/// - The result does not depend on how packets are cut into bursts or frames into segments.
pub struct Engine {
    pub(crate) v4: Tracker<2>,
    pub(crate) v6: Tracker<5>,
    pub(crate) lanes: Box<Lanes>,
    pub(crate) marked: Option<Box<Marked>>,
    pub(crate) fragments: Option<Box<Fragments>>,
    pub(crate) governor: Option<Governor>,
    pub(crate) books: Books,
    pub(crate) zoning: Zoning,
    pub(crate) vectors: SimdLevel,
    pub(crate) cycle_counter: fn() -> u64,
    pub(crate) now: Nanos,
    bursts: u32,
    /// Next record to flush, of IPv4 and of IPv6.
    pub(crate) flushed: (u32, u32),
}

/// One burst in this many is measured by stage: the counter itself costs as much as a stage. An odd
/// number: a worker takes bursts from two ports in turn, and an even one would measure the bursts
/// of one port only.
pub const SAMPLE_EVERY: u32 = 63;

impl Engine {
    /// Takes all the memory `config` asks for, touched once so that no page fault is left for the
    /// packet path.
    ///
    /// # Panics
    /// If a capacity is 0 or above [`MAX_CAPACITY`]: the caller's plan has checked them.
    pub fn new(config: &Config) -> Self {
        for capacity in [config.capacity_ipv4, config.capacity_ipv6] {
            assert!((1..=MAX_CAPACITY).contains(&capacity), "capacity {capacity} out of range");
        }
        let zones = Arc::new(Zones::new(config));
        Self {
            v4: Tracker::new(config.capacity_ipv4, config, zones.clone(), 0),
            v6: Tracker::new(config.capacity_ipv6, config, zones.clone(), 1),
            lanes: Lanes::new(),
            marked: config.offload.map(|offload| Box::new(Marked::new(&offload))),
            fragments: Fragments::new(config),
            governor: config
                .offload
                .map(|offload| Governor::new(offload.rules_max, offload.admission)),
            books: Books::new(config, zones),
            zoning: Zoning::new(config),
            vectors: SimdLevel::detect(),
            cycle_counter: config.cycle_counter,
            now: 0,
            bursts: 0,
            flushed: (0, 0),
        }
    }

    /// Tracks one burst of at most [`BURST_MAX`] packets that arrived at `now` and writes one
    /// verdict per packet. `now` never runs backwards (a smaller value counts as the last one).
    ///
    /// # Panics
    /// If there are more than [`BURST_MAX`] packets or fewer verdicts than packets.
    pub fn process<P: wire::Packet>(
        &mut self,
        now: Nanos,
        packets: &[P],
        verdicts: &mut [Verdict],
    ) {
        self.process_by(None, now, packets, verdicts);
    }

    /// The same, and writes what each packet is to its connection. Marks of the NIC are not looked
    /// at, so that this takes longer where packets have some.
    ///
    /// # Panics
    /// As [`process`](Self::process) does, or if there are fewer states than packets.
    pub fn process_with_states<P: wire::Packet>(
        &mut self,
        now: Nanos,
        packets: &[P],
        verdicts: &mut [Verdict],
        mut states: &mut [CtState],
    ) {
        assert!(packets.len() <= states.len());
        let verdicts = self.arrive(None, now, packets.len(), verdicts);
        self.process_in_stages(packets, verdicts, &mut states, &mut |_, _| ());
    }

    /// The same of packets that arrived at this side; [`process`](Self::process) is for whoever has
    /// but one.
    ///
    /// # Panics
    /// As [`process`](Self::process) does.
    pub fn process_from<P: wire::Packet>(
        &mut self,
        side: Side,
        now: Nanos,
        packets: &[P],
        verdicts: &mut [Verdict],
    ) {
        self.process_by(Some(side), now, packets, verdicts);
    }

    #[inline(always)]
    fn process_by<P: wire::Packet>(
        &mut self,
        side: Option<Side>,
        now: Nanos,
        packets: &[P],
        verdicts: &mut [Verdict],
    ) {
        let verdicts = self.arrive(side, now, packets.len(), verdicts);
        self.bursts = self.bursts.wrapping_add(1);
        if self.bursts % SAMPLE_EVERY == 0 {
            let mut last = (self.cycle_counter)();
            self.process_burst(packets, verdicts, &mut |engine, stage| {
                let cycles = (engine.cycle_counter)();
                let spent = cycles.wrapping_sub(last);
                if spent < STALL_CYCLES {
                    engine.books.stats.stage_cycles[stage as usize] += spent;
                    engine.books.stats.stage_readings[stage as usize] += 1;
                }
                last = cycles;
            });
            self.books.stats.sampled_packets += packets.len() as u64;
            self.check_steering();
        } else {
            self.process_burst(packets, verdicts, &mut |_, _| ());
        }
    }

    /// So many packets have come. Returns their verdicts as they are if nothing else is found.
    #[inline(always)]
    pub(crate) fn arrive<'a>(
        &mut self,
        side: Option<Side>,
        now: Nanos,
        len: usize,
        verdicts: &'a mut [Verdict],
    ) -> &'a mut [Verdict] {
        assert!(len <= BURST_MAX && len <= verdicts.len());
        let verdicts = &mut verdicts[..len];
        match verdicts.first_chunk_mut::<BURST_MAX>() {
            // A few stores, where any other length is a call.
            Some(all) => *all = [Verdict::Forward; BURST_MAX],
            None => forward_few(verdicts),
        }
        self.advance(now);
        self.v4.arrive(side, self.now, len);
        self.v6.arrive(side, self.now, len);
        if let Some(fragments) = &mut self.fragments {
            fragments.clear();
        }
        self.books.others.clear();
        verdicts
    }

    /// Packets with a mark first; the others, and those whose mark does not do, in their order.
    #[inline(always)]
    fn process_burst<P: wire::Packet>(
        &mut self,
        packets: &[P],
        verdicts: &mut [Verdict],
        done: &mut impl FnMut(&mut Self, Stage),
    ) {
        let is_any_marked = || packets.iter().any(|packet| packet.mark_or_zero() != 0);
        if self.marked.is_none() || !is_any_marked() {
            packets.iter().for_each(prefetch_head);
            return self.process_in_stages(packets, verdicts, &mut Unasked, done);
        }
        let rest = self.count_marked(packets);
        done(self, Stage::Mark);
        if rest != 0 {
            self.process_rest(packets, rest, verdicts, done);
        }
    }

    /// Counts packets by their marks; the others are in what it returns.
    pub(crate) fn count_marked<P: wire::Packet>(&mut self, packets: &[P]) -> Places {
        let Some(marked) = &mut self.marked else { return Places::MAX };
        marked.set_tight(self.v4.table.may_evict() || self.v6.table.may_evict());
        let (v4, v6, zoning) = (&mut self.v4, &mut self.v6, &self.zoning);
        let counted_before = marked.stats.counted;
        let rest = marked.claim(packets, (v4, v6));
        let moment = Moment { now: self.now, zoning };
        let (others, bytes) = marked.count(packets, (v4, v6), moment);
        self.books.stats.bytes += bytes;
        self.books.stats.tracked += marked.stats.counted - counted_before;
        rest | others
    }

    #[inline(never)]
    fn process_rest<P: wire::Packet>(
        &mut self,
        packets: &[P],
        rest: Places,
        verdicts: &mut [Verdict],
        done: &mut impl FnMut(&mut Self, Stage),
    ) {
        let mut gathered = [&packets[0]; BURST_MAX];
        let mut positions = [0_u8; BURST_MAX];
        let mut len = 0;
        for (packet, position) in packets.iter().zip(0..) {
            gathered[len % BURST_MAX] = packet;
            positions[len % BURST_MAX] = position;
            len += (rest >> position & 1) as usize;
        }
        let mut judged = [Verdict::Forward; BURST_MAX];
        self.process_in_stages(&gathered[..len], &mut judged[..len], &mut Unasked, done);
        for (verdict, position) in judged.into_iter().zip(positions).take(len) {
            verdicts[usize::from(position)] = verdict;
        }
        for held in self.fragments.iter_mut().flat_map(|fragments| fragments.held_mut()) {
            held.position = positions[usize::from(held.position) % BURST_MAX];
        }
        for handed in self.books.others.handed_mut() {
            handed.position = positions[usize::from(handed.position) % BURST_MAX];
        }
    }

    #[inline(always)]
    fn process_in_stages<P: wire::Packet>(
        &mut self,
        packets: &[P],
        verdicts: &mut [Verdict],
        states: &mut impl States,
        done: &mut impl FnMut(&mut Self, Stage),
    ) {
        self.lanes.clear();
        // Each part is parsed while the buckets of the one before are on their way.
        for (part, first) in packets.chunks(PART).zip((0..).step_by(PART)) {
            self.parse(part, first, verdicts, states);
            done(self, Stage::Parse);
            self.look_up();
            done(self, Stage::Lookup);
        }
        self.look_up();
        // Those that find the table full are taken off again.
        self.books.stats.tracked += (self.lanes.v4.len() + self.lanes.v6.len()) as u64;
        done(self, Stage::Lookup);
        let burst = (packets, self.now);
        if self.fragments.as_ref().is_some_and(|fragments| fragments.is_due()) {
            self.count_due(burst, verdicts, states);
            return done(self, Stage::Track);
        }
        if self.is_tight() {
            let mut outcome = Told { books: &mut self.books, verdicts, states, now: self.now };
            let tables = (&mut self.v4, &mut self.v6);
            track_in_order(&mut self.lanes, tables, burst, &mut outcome, &mut |_, _, _, _| ());
            return done(self, Stage::Track);
        }
        let mut outcome = Told {
            books: &mut self.books,
            verdicts: &mut *verdicts,
            states: &mut *states,
            now: self.now,
        };
        self.lanes.v4.track(&mut self.v4, burst, &mut outcome);
        self.lanes.v6.track(&mut self.v6, burst, &mut outcome);
        done(self, Stage::Track);
        let mut outcome = Told { books: &mut self.books, verdicts, states, now: self.now };
        admit(&mut self.lanes, (&mut self.v4, &mut self.v6), burst, &mut outcome);
        done(self, Stage::Miss);
    }

    /// It is this late, or was later before: time never goes back.
    #[inline(always)]
    pub(crate) fn advance(&mut self, now: Nanos) {
        self.now = self.now.max(whole_micros(now));
    }

    /// Whether so little room is left that it matters who of the burst is first.
    #[inline(always)]
    pub(crate) fn is_tight(&mut self) -> bool {
        let Lanes { v4, v6 } = &*self.lanes;
        v4.len() > 0 && self.v4.table.is_tight()
            || v6.len() > 0 && self.v6.table.is_tight()
            || self.books.limits.are_near(self.now)
    }

    /// Sorts packets, of which the first has position `first`, into lanes; those without a key get
    /// their verdict here.
    #[inline(never)]
    pub(crate) fn parse<P: wire::Packet>(
        &mut self,
        packets: &[P],
        first: usize,
        verdicts: &mut [Verdict],
        states: &mut impl States,
    ) {
        let (zone, vectors) = (self.zoning.from, self.vectors);
        let part = Part { packets, first: first as u8, zone, vectors };
        let before = (self.lanes.v4.len(), self.lanes.v6.len());
        let books = &mut self.books;
        part.parse(&mut self.lanes, &mut |position, reason| {
            verdicts[position] = books.without_key(reason);
            states.tell(position as u8, || CtState::of_reason(reason));
        });
        self.zoning.apply(&mut self.lanes, before);
        if self.lanes.have_wanderers() {
            self.settle_wanderers(verdicts, states);
        }
        let bytes: usize = packets.iter().map(P::frame_len).sum();
        self.books.stats.bytes += bytes as u64;
    }

    #[inline(always)]
    pub(crate) fn look_up(&mut self) {
        self.lanes.v4.look_up(&self.v4);
        self.lanes.v6.look_up(&self.v6);
    }

    /// Ends flows whose time is over, looking at no more than `budget` timers. Returns the timers
    /// looked at: fewer than `budget` means that nothing more is due at `now`, or that flow records
    /// wait to be taken.
    pub fn expire(&mut self, now: Nanos, budget: usize) -> usize {
        self.advance(now);
        if let Some(fragments) = &mut self.fragments {
            fragments.give_up_overdue(self.now, &mut self.books);
        }
        let mut looked_at = 0;
        while looked_at < budget && self.books.has_room() {
            // In turns, so that neither IP version waits for the other's backlog.
            let books = &mut self.books;
            let mut end = |flow| books.end(flow);
            let left = budget - looked_at;
            let v4 = self.v4.expire(self.now, left.div_ceil(2), &mut end);
            let v6 = self.v6.expire(self.now, left - v4, &mut end);
            looked_at += v4 + v6;
            if v4 + v6 == 0 {
                break;
            }
        }
        looked_at
    }

    /// The oldest flow record not yet taken. The queue is bounded: while it is half full, `expire`
    /// and `flush` end nothing. Only the reuse of ports cannot wait: a caller that takes no record
    /// over many bursts loses the oldest, counted in [`Stats::records_lost`].
    pub fn next_record(&mut self) -> Option<FlowRecord> {
        self.books.records.pop_front()
    }

    /// Counters so far.
    pub fn stats(&self) -> &Stats {
        &self.books.stats
    }

    /// Bytes of memory taken at start: table, records, timers.
    pub fn memory_bytes(&self) -> usize {
        self.memory().bytes
    }

    /// The same by where it lies.
    pub fn memory(&self) -> Memory {
        let limits = Memory { bytes: self.books.limits_bytes, ..Memory::default() };
        let fragments = self.fragments.as_ref().map(|fragments| fragments.memory());
        [self.v4.memory(), self.v6.memory(), limits].into_iter().chain(fragments).sum()
    }
}

#[inline(never)]
fn forward_few(verdicts: &mut [Verdict]) {
    verdicts.fill(Verdict::Forward);
}

impl Config {
    /// Bytes that an engine takes beside its tables: counts of zones and of sources.
    pub fn limits_bytes(&self) -> usize {
        Limits::bytes(self)
    }
}

impl Limits {
    /// Bytes that the counts of an engine take, and what both tables have beside their flows.
    pub(crate) fn bytes(config: &Config) -> usize {
        let sources = config.source_max.map_or(0, |_| 2 * Sources::counts(config));
        let of_zones = size_of::<u32>() + size_of::<Pace>() + 2 * EMBRYONIC_BYTES;
        ZONES * of_zones + sources * size_of::<u32>() + 2 * (FORGOTTEN_BYTES + MISFIT_BYTES)
    }
}
