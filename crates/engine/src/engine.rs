// SPDX-License-Identifier: BSD-3-Clause
//! The engine of one worker: packets and `now` in, verdicts out, in one call per burst.

mod explain;
mod fragments;
mod handoff;
mod memory;

use crate::account::Accounts;
use crate::api::{
    Config, CtState, FlowRecord, MAX_CAPACITY, MarkUse, STALL_CYCLES, Side, Stage, Stats, Verdict,
};
use crate::base::{BURST_MAX, Nanos, whole_micros};
use crate::offload::{BurstCounts, BurstRole, MarkChoice, PacketCost, RuleBudget};
use crate::pipeline::{Context, Pipeline};
use crate::policy::ZonePolicies;
use crate::tracker::Trackers;
use std::sync::Arc;
use wire::Packet;

/// Flow table, tracking and timers of one worker.
///
/// # Model
/// A *connection* is what two endpoints exchange under one key: protocol, two addresses, two ports,
/// zone. Its first packet makes its record and names the originator. Every later packet of either
/// direction finds the record by the sorted key and is counted to its direction. The record stays
/// until the connection has been silent for the timeout of its state. What is left of it then is a
/// [`FlowRecord`].
///
/// # Invariants
/// - Every packet given to [`process`](Engine::process) is in exactly one counter of [`Stats`].
/// - A record is indexed iff its timer is armed iff its connection is alive (`table`).
/// - Only `expire`, `flush`, `sweep` and packets end connections. Packets do so by the reuse of a
///   closed TCP connection's ports, and by eviction.
/// - The result does not depend on how packets are cut into bursts or frames into segments.
pub struct Engine {
    pub(crate) trackers: Trackers,
    pub(crate) pipeline: Pipeline,
    pub(crate) accounts: Accounts,
    pub(crate) budget: Option<RuleBudget>,
    /// Whether marks are used; `None` if they always are.
    pub(crate) mark_choice: Option<Box<MarkChoice>>,
    pub(crate) cycle_counter: fn() -> u64,
    /// What packets cost the worker.
    pub(crate) packet_cost: PacketCost,
    pub(crate) now: Nanos,
    bursts: u32,
    /// Next record to flush, by IP version.
    pub(crate) flushed: (u32, u32),
    limits_bytes: usize,
}

/// One burst in this many is measured by stage, because reading the counter costs as much as a
/// stage. The number is odd: a worker takes bursts from two ports in turn, and an even number would
/// measure only one port.
pub const SAMPLE_EVERY: u32 = 63;

impl Engine {
    /// Allocates all memory that `config` asks for and touches it once, so that the packet path has
    /// no page faults.
    ///
    /// # Panics
    /// If a capacity is 0 or above [`MAX_CAPACITY`]. The caller's plan has checked them.
    pub fn new(config: &Config) -> Self {
        for capacity in [config.capacity_ipv4, config.capacity_ipv6] {
            assert!((1..=MAX_CAPACITY).contains(&capacity), "capacity {capacity} out of range");
        }
        let zones = Arc::new(ZonePolicies::new(config));
        Self {
            trackers: Trackers::new(config, zones.clone()),
            pipeline: Pipeline::new(config, zones),
            accounts: Accounts::new(config),
            budget: config
                .offload
                .map(|offload| RuleBudget::new(offload.rules_max, offload.admission)),
            mark_choice: config
                .offload
                .filter(|offload| offload.chooses_marks)
                .map(|_| Box::new(MarkChoice::new())),
            cycle_counter: config.cycle_counter,
            packet_cost: PacketCost::UNKNOWN,
            now: 0,
            bursts: 0,
            flushed: (0, 0),
            limits_bytes: config.limits_bytes(),
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

    /// Tracks one burst, as [`process`](Self::process) does, and writes the connection state of
    /// each packet. It ignores marks of the NIC, so that packets with marks take longer.
    ///
    /// # Panics
    /// As [`process`](Self::process) does, or if there are fewer states than packets.
    pub fn process_with_states<P: wire::Packet>(
        &mut self,
        now: Nanos,
        packets: &[P],
        verdicts: &mut [Verdict],
        states: &mut [CtState],
    ) {
        assert!(packets.len() <= states.len());
        let verdicts = self.arrive(None, now, packets.len(), verdicts);
        let (pipeline, context) = self.parts();
        pipeline.process_unmarked(context, packets, (verdicts, states), &mut |_| ());
    }

    /// Tracks one burst of packets that arrived at this side. [`process`](Self::process) is for
    /// callers with one side only.
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
        // Bursts of trials count too: the caller measures the same sample of all its bursts.
        self.bursts = self.bursts.wrapping_add(1);
        if self.mark_choice.as_mut().is_some_and(|choice| choice.is_due(self.now)) {
            return self.process_trial(packets, verdicts);
        }
        if self.bursts % SAMPLE_EVERY == 0 {
            return self.process_sampled(packets, verdicts);
        }
        let (pipeline, context) = self.parts();
        pipeline.process(context, packets, verdicts, &mut |_| ());
    }

    /// Tracks one burst that may be part of a trial of marks.
    #[inline(never)]
    fn process_trial<P: Packet>(&mut self, packets: &[P], verdicts: &mut [Verdict]) {
        let (counter, now) = (self.cycle_counter, self.now);
        let Some(choice) = &mut self.mark_choice else { return };
        let marked = packets.iter().filter(|packet| packet.is_marked()).count();
        let role = choice.role(now, BurstCounts { marked, packets: packets.len() });
        if let BurstRole::WarmUp(way) | BurstRole::Measured(way) = role {
            self.pipeline.mark_use = way;
        }
        if role == BurstRole::Measured(MarkUse::Ignored) {
            // It is measured as if there were no rules: that is what marks have to beat.
            self.pipeline.ignore_marks(&mut self.trackers, marked as u64);
            self.pipeline.mark_use = MarkUse::NoRules;
        }
        let before = counter();
        let (pipeline, context) = self.parts();
        pipeline.process(context, packets, verdicts, &mut |_| ());
        let spent = counter().wrapping_sub(before);
        let Some(choice) = &mut self.mark_choice else { return };
        if let BurstRole::Measured(way) = role {
            choice.note(way, (spent, packets.len()), now);
        }
        self.pipeline.mark_use = choice.way();
    }

    /// Tracks one burst and measures the cycles that each stage of it takes.
    #[inline(never)]
    fn process_sampled<P: Packet>(&mut self, packets: &[P], verdicts: &mut [Verdict]) {
        let (mut cycles, mut readings) = ([0; Stage::ALL.len()], [0; Stage::ALL.len()]);
        let counter = self.cycle_counter;
        let mut last = counter();
        let (pipeline, context) = self.parts();
        pipeline.process(context, packets, verdicts, &mut |stage| {
            let now = counter();
            let spent = now.wrapping_sub(last);
            if spent < STALL_CYCLES {
                cycles[stage as usize] += spent;
                readings[stage as usize] += 1;
            }
            last = now;
        });
        let stats = &mut self.accounts.stats;
        for stage in 0..Stage::ALL.len() {
            stats.stage_cycles[stage] += cycles[stage];
            stats.stage_readings[stage] += readings[stage];
        }
        stats.sampled_packets += packets.len() as u64;
        self.pipeline.check_steering();
    }

    /// Begins a burst of `len` packets. Returns their verdicts, set to [`Verdict::Forward`].
    #[inline(always)]
    fn arrive<'a>(
        &mut self,
        side: Option<Side>,
        now: Nanos,
        len: usize,
        verdicts: &'a mut [Verdict],
    ) -> &'a mut [Verdict] {
        assert!(len <= BURST_MAX && len <= verdicts.len());
        let verdicts = &mut verdicts[..len];
        match verdicts.first_chunk_mut::<BURST_MAX>() {
            // A full burst takes a few stores; any other length is a call.
            Some(all) => *all = [Verdict::Forward; BURST_MAX],
            None => forward_few(verdicts),
        }
        self.advance(now);
        let (pipeline, mut context) = self.parts();
        pipeline.arrive(side, len, &mut context);
        verdicts
    }

    #[inline(always)]
    fn parts(&mut self) -> (&mut Pipeline, Context<'_>) {
        let Self { trackers, pipeline, accounts, now, .. } = self;
        (pipeline, Context { trackers, accounts, now: *now })
    }

    /// Sets the time, which never goes back.
    #[inline(always)]
    pub(crate) fn advance(&mut self, now: Nanos) {
        self.now = self.now.max(whole_micros(now));
    }

    /// Ends connections whose timeout has passed, and processes at most `budget` timers. Returns
    /// the number of timers processed. If it is below `budget`, nothing more is due at `now`, or
    /// flow records wait to be taken.
    pub fn expire(&mut self, now: Nanos, budget: usize) -> usize {
        self.advance(now);
        if let Some(fragments) = self.pipeline.fragments_mut() {
            fragments.expire_overdue(self.now, &mut self.accounts);
        }
        let mut processed = 0;
        while processed < budget && self.accounts.has_room() {
            // The IP versions take turns, so that neither waits for the other's backlog.
            let accounts = &mut self.accounts;
            let mut end = |flow| accounts.end(flow);
            let left = budget - processed;
            let v4 = self.trackers.v4.expire(self.now, left.div_ceil(2), &mut end);
            let v6 = self.trackers.v6.expire(self.now, left - v4, &mut end);
            processed += v4 + v6;
            if v4 + v6 == 0 {
                break;
            }
        }
        processed
    }

    /// Takes the oldest flow record. The queue is bounded: while it is half full, `expire` and
    /// `flush` end nothing. Only the reuse of ports cannot wait. A caller that takes no record over
    /// many bursts loses the oldest, which [`Stats::records_lost`] counts.
    pub fn next_record(&mut self) -> Option<FlowRecord> {
        self.accounts.records.pop_front()
    }

    /// Returns the counters so far.
    pub fn stats(&self) -> &Stats {
        &self.accounts.stats
    }
}

#[inline(never)]
fn forward_few(verdicts: &mut [Verdict]) {
    verdicts.fill(Verdict::Forward);
}
