// SPDX-License-Identifier: BSD-3-Clause
//! Runs the passes over one burst of packets, and writes the verdict of each packet.
//!
//! Packets with a mark are counted before the others are. The passes parse, look up, count or track
//! packets with a connection, and admit those without one, in packet order. Each pass is a loop
//! over the burst that starts the loads that the next one needs.

mod admission;
mod ethernet;
mod explain;
mod fragments;
mod handoff;
mod in_order;
mod intake;
mod list_marks;
mod lookup;
mod marked;
mod misses;
mod mixed;
mod pass;
mod steering;
mod subset;
mod track;
mod verdicts;

use crate::account::{Accounts, ListMarks};
use crate::api::{AccessLimits, AccessLists, Config, MarkUse, Side, Stage, Tracking, Verdict};
use crate::base::{MemoryUse, Nanos};
use crate::fragments::FragmentStore;
use crate::packet::parse::PART;
use crate::packet::{Burst, HandedOff, Handoff, Key, PlainBatch, prefetch_head, prefetch_heads};
use crate::policy::{ZoneClassifier, ZonePolicies};
use crate::tracker::Trackers;
pub(crate) use admission::explain::explain;
pub(crate) use admission::rejudge::foretell;
pub(crate) use explain::rule_numbers;
use in_order::track_in_order;
use intake::Intake;
use lookup::Lookups;
use marked::{BurstMask, MarkedBatch};
use pass::Passes;
use std::sync::Arc;
use steering::Steering;
use verdicts::Verdicts;
pub(crate) use verdicts::{CtStates, NoCtStates};
use wire::Packet;

/// State of the passes over a burst.
pub(crate) struct Pipeline {
    intake: Intake,
    lookups: Box<Lookups>,
    marked: Option<Box<MarkedBatch>>,
    steering: Steering,
    zones: Arc<ZonePolicies>,
    /// Access lists; `None` without any.
    access: Option<Arc<AccessLists>>,
    /// Deepest tracking in any zone.
    deepest: Tracking,
    /// Counters of packets that marks of access lists decide about; scratch memory.
    plain: Box<PlainBatch>,
    /// What to do with marks in the next burst.
    pub(crate) mark_use: MarkUse,
}

/// The parts of an engine that tracking a burst changes, and the time of the burst.
pub(crate) struct Context<'a> {
    pub(crate) trackers: &'a mut Trackers,
    pub(crate) accounts: &'a mut Accounts,
    pub(crate) now: Nanos,
}

impl Pipeline {
    pub(crate) fn new(config: &Config, zones: Arc<ZonePolicies>) -> Self {
        Self {
            intake: Intake::new(config),
            lookups: Lookups::new(),
            marked: config.offload.map(|offload| Box::new(MarkedBatch::new(&offload))),
            steering: Steering::new(config),
            zones,
            access: config.access.clone(),
            deepest: config.deepest,
            plain: Box::new(PlainBatch::EMPTY),
            mark_use: MarkUse::Used,
        }
    }

    /// Begins a burst of `packets` packets that arrived at this side.
    #[inline(always)]
    pub(crate) fn arrive(&mut self, side: Option<Side>, packets: usize, context: &mut Context) {
        context.trackers.arrive(side, context.now, packets);
        if let Some(fragments) = &mut self.intake.fragments {
            fragments.clear();
        }
        self.steering.clear();
        let drops = &mut context.accounts.drops;
        drops.has_all_packets = self.steering.has_all_connections();
        if let Some(lists) = &self.access {
            let judges = side.filter(|side| lists.is_bound(*side));
            let of_frames = side.filter(|side| lists.judges_frames(*side));
            drops.judges = judges.is_some() || of_frames.is_some();
            drops.judges_invalid = judges.is_some_and(|side| lists.mentions_invalid(side));
            drops.denies_unjudged = judges.is_some_and(|side| lists.denies_unjudged(side));
            drops.denies_unread_frames =
                of_frames.is_some_and(|side| lists.denies_unread_frames(side));
            context.accounts.frames.side = of_frames;
        }
    }

    /// Tracks a burst. Counts packets with a mark first; the others, and those whose mark is not
    /// enough, follow in their order. Calls `done` after each stage.
    #[inline(always)]
    pub(crate) fn process<P: Packet>(
        &mut self,
        mut context: Context,
        packets: &[P],
        verdicts: &mut [Verdict],
        done: &mut impl FnMut(Stage),
    ) {
        let is_tracked = self.zones.tracks_any() && self.deepest != Tracking::Off;
        if !is_tracked && !context.accounts.drops.judges {
            return context.accounts.pass_untracked(packets);
        }
        let is_used = self.mark_use == MarkUse::Used && self.marked.is_some();
        let list_marks = context.accounts.list_marks.as_deref();
        match list_marks {
            Some(_) if !is_tracked && packets.iter().any(P::is_marked) => {
                return self.process_listed(context, packets, verdicts, done);
            }
            Some(_) if !is_tracked => {}
            _ if is_used && has_connection_marks(packets, list_marks) => {
                return self.process_marked(context, packets, verdicts, done);
            }
            _ => {}
        }
        match self.mark_use {
            MarkUse::Ignored if is_tracked => {
                let all = prefetch_heads(packets, 0);
                let marked = all & !of_lists(packets, list_marks);
                self.ignore_marks(context.trackers, marked.count_ones().into());
                self.verify_rules(&mut context, (packets, marked));
            }
            MarkUse::Ignored | MarkUse::Used | MarkUse::NoRules => {
                packets.iter().for_each(prefetch_head)
            }
        }
        self.process_unmarked(context, packets, (verdicts, NoCtStates), done);
    }

    /// Counts packets of this burst whose marks are not used. Their rules lose no credit for that.
    pub(crate) fn ignore_marks(&mut self, trackers: &mut Trackers, packets: u64) {
        let Some(marked) = self.marked.as_mut().filter(|_| packets > 0) else { return };
        marked.stats.ignored += packets;
        trackers.v4.set_unread_marks();
        trackers.v6.set_unread_marks();
    }

    /// Verifies a new rule by one of the marked packets, now and then.
    fn verify_rules<P: Packet>(&mut self, context: &mut Context, marked: (&[P], BurstMask)) {
        let Context { trackers: Trackers { v4, v6 }, .. } = context;
        if let Some(batch) = &mut self.marked {
            batch.verify_one(marked, (v4, v6), &self.intake.zone_rules);
        }
    }

    /// Tracks packets without reading marks, and writes their connection states if they are
    /// requested.
    #[inline(always)]
    pub(crate) fn process_unmarked<P: Packet, S: CtStates>(
        &mut self,
        Context { trackers, accounts, now }: Context,
        packets: &[P],
        (out, ct_states): (&mut [Verdict], S),
        done: &mut impl FnMut(Stage),
    ) {
        let Self { intake, lookups, steering, zones, access, .. } = self;
        let access = access.as_deref();
        let mut verdicts = Verdicts { out, ct_states, accounts, steering, zones, access, now };
        intake.batches.clear();
        lookups.clear();
        // Each part is parsed while the buckets of the part before it are being loaded.
        for (part, first) in packets.chunks(PART).zip((0..).step_by(PART)) {
            intake.parse(part, (first, 0), &mut verdicts);
            if intake.batches.have_detached() {
                intake.resolve_detached(&mut verdicts);
            }
            done(Stage::Parse);
            lookups.advance(&intake.batches, trackers);
            done(Stage::Lookup);
        }
        track_parsed((intake, lookups, trackers), (packets, now), &mut verdicts, done);
    }

    /// Tracks packets that arrived at other workers and were parsed there, packet by packet.
    pub(crate) fn process_handoffs<P: Packet>(
        &mut self,
        Context { trackers, accounts, now }: Context,
        (packets, handoffs): (&[P], &[Handoff]),
        out: &mut [Verdict],
    ) {
        let Self { intake: Intake { batches, .. }, lookups, steering, zones, access, .. } = self;
        batches.clear();
        lookups.clear();
        for (position, handoff) in (0..).zip(handoffs) {
            let mut info = handoff.info;
            info.position = position;
            let [a, b, ..] = handoff.words;
            match handoff.is_v6 {
                true => {
                    let key = Key(handoff.words);
                    batches.v6.push_parsed(key, handoff.meta, info, handoff.reach);
                }
                false => {
                    let key = Key([a, b]);
                    batches.v4.push_parsed(key, handoff.meta, info, handoff.reach);
                }
            }
        }
        batches.v4.mark_all_as_fragments();
        batches.v6.mark_all_as_fragments();
        lookups.advance(batches, trackers);
        lookups.advance(batches, trackers);
        accounts.stats.taken += packets.len() as u64;
        accounts.stats.tracked += packets.len() as u64;
        let (ct_states, access) = (NoCtStates, access.as_deref());
        let mut verdicts = Verdicts { out, ct_states, accounts, steering, zones, access, now };
        let passes = Passes::new(batches, lookups, trackers);
        track_in_order(passes, (packets, now), &mut verdicts, &mut |_, _, _, _| ());
    }

    /// Checks with one packet of the last burst whether the port distributes packets by its RSS
    /// configuration.
    #[inline(never)]
    pub(crate) fn check_steering(&mut self) {
        if let Some((key, _)) = self.intake.batches.v4.first() {
            self.steering.check(&key);
        } else if let Some((key, _)) = self.intake.batches.v6.first() {
            self.steering.check(&key);
        }
    }

    /// Returns the store of fragments, unless the configuration has none.
    pub(crate) fn fragments(&self) -> Option<&FragmentStore> {
        self.intake.fragments.as_deref()
    }

    /// Returns the store of fragments, to change it.
    pub(crate) fn fragments_mut(&mut self) -> Option<&mut FragmentStore> {
        self.intake.fragments.as_deref_mut()
    }

    /// Returns the batch of marked packets; `None` without NIC rules.
    pub(crate) fn marked(&self) -> Option<&MarkedBatch> {
        self.marked.as_deref()
    }

    /// Returns the rules that put packets into zones.
    pub(crate) fn zone_rules(&self) -> &ZoneClassifier {
        &self.intake.zone_rules
    }

    /// Returns the packets of the last burst that go to other workers.
    pub(crate) fn handed(&self) -> &[HandedOff] {
        &self.steering.handed
    }

    /// Replaces the policy of zones; returns the old one.
    pub(crate) fn set_zones(&mut self, zones: Arc<ZonePolicies>) -> Arc<ZonePolicies> {
        std::mem::replace(&mut self.zones, zones)
    }

    /// Returns the limits of the access lists; the defaults without any.
    pub(crate) fn access_limits(&self) -> AccessLimits {
        self.access.as_ref().map_or(AccessLimits::default(), |lists| lists.limits())
    }

    /// Returns the access lists; `None` without any.
    pub(crate) fn access(&self) -> Option<&AccessLists> {
        self.access.as_deref()
    }

    /// Replaces the access lists; returns the old ones. Does nothing without any.
    pub(crate) fn set_access(&mut self, lists: Arc<AccessLists>) -> Arc<AccessLists> {
        match &mut self.access {
            Some(access) => std::mem::replace(access, lists),
            None => lists,
        }
    }

    /// Makes the parser use these SIMD instructions.
    #[cfg(test)]
    pub(crate) fn set_simd(&mut self, level: crate::base::SimdLevel) {
        self.intake.simd = level;
    }

    pub(crate) fn memory(&self) -> MemoryUse {
        self.fragments().map_or(MemoryUse::default(), |fragments| fragments.memory())
    }
}

/// True if a packet has a mark that may name a connection.
#[inline(always)]
fn has_connection_marks<P: Packet>(packets: &[P], list_marks: Option<&ListMarks>) -> bool {
    match list_marks {
        None => packets.iter().any(P::is_marked),
        Some(lists) => packets.iter().any(|packet| {
            let mark = packet.mark_or_zero();
            mark != 0 && !lists.is_of_list(mark)
        }),
    }
}

/// Returns the packets whose mark names a rule of access lists.
#[inline(always)]
fn of_lists<P: Packet>(packets: &[P], list_marks: Option<&ListMarks>) -> BurstMask {
    let Some(lists) = list_marks else { return 0 };
    let bits = packets.iter().zip(0..BurstMask::BITS);
    bits.fold(0, |all, (packet, bit)| {
        all | BurstMask::from(lists.is_of_list(packet.mark_or_zero())) << bit
    })
}

/// Tracks the packets that are in the batches, whose lookups lack only the last step.
#[inline(always)]
fn track_parsed<P: Packet>(
    (intake, lookups, trackers): (&mut Intake, &mut Lookups, &mut Trackers),
    burst: Burst<P>,
    verdicts: &mut Verdicts<impl CtStates>,
    done: &mut impl FnMut(Stage),
) {
    lookups.advance(&intake.batches, trackers);
    // Packets that then turn out to belong to another counter are subtracted again.
    let tracked = intake.batches.v4.len() + intake.batches.v6.len();
    verdicts.accounts.stats.tracked += tracked as u64;
    done(Stage::Lookup);
    let Intake { batches, fragments, .. } = intake;
    if let Some(fragments) = fragments.as_mut().filter(|fragments| fragments.is_ready()) {
        let passes = Passes::new(batches, lookups, trackers);
        fragments.count_ready(passes, burst, verdicts);
        return done(Stage::Track);
    }
    let mut passes = Passes::new(batches, lookups, trackers);
    if passes.are_near_a_limit() || verdicts.accounts.limits.is_near_limit(burst.1) {
        track_in_order(passes, burst, verdicts, &mut |_, _, _, _| ());
        return done(Stage::Track);
    }
    passes.v4.track(burst, verdicts);
    passes.v6.track(burst, verdicts);
    done(Stage::Track);
    misses::admit(passes, burst, verdicts);
    done(Stage::Miss);
}
