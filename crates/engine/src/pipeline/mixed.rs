// SPDX-License-Identifier: BSD-3-Clause
//! Processes bursts in which packets have marks, usually some of them.
//!
//! The packets without a mark are parsed, and their buckets are being loaded, while the others are
//! counted by their marks. A marked packet that turns out to change more than counters is processed
//! with the unmarked ones, in its order among them. That is rare, so all of them are parsed again
//! then.

use super::marked::{BurstContext, BurstMask};
use super::subset::Subset;
use super::verdicts::{NoCtStates, Verdicts};
use super::{Context, Pipeline, track_parsed};
use crate::api::{Stage, Verdict};
use crate::base::BURST_MAX;
use crate::packet::parse::PART;
use crate::tracker::Trackers;
use wire::Packet;

impl Pipeline {
    /// Tracks a burst in which packets have a mark.
    #[inline(always)]
    pub(super) fn process_marked<P: Packet>(
        &mut self,
        context: Context,
        packets: &[P],
        verdicts: &mut [Verdict],
        done: &mut impl FnMut(Stage),
    ) {
        let Context { trackers, accounts, now } = context;
        let (Some(marked), Trackers { v4, v6 }) = (&mut self.marked, &mut *trackers) else {
            return;
        };
        marked.set_tight(v4.table.may_evict() || v6.table.may_evict());
        let unusual_before = marked.stats.unusual;
        let rest = marked.resolve_marks(packets, (v4, v6));
        if marked.stats.unusual != unusual_before {
            v4.set_unread_marks();
            v6.set_unread_marks();
        }
        let mut context = Context { trackers, accounts, now };
        if rest != 0 {
            return self.process_mixed(context, (packets, rest, false), verdicts, done);
        }
        let rest = self.count_marked(&mut context, packets);
        done(Stage::Mark);
        if rest != 0 {
            self.process_mixed(context, (packets, rest, true), verdicts, done);
        }
    }

    /// Counts the packets whose marks name records, unless `is_counted`, and tracks the packets of
    /// the set `rest` without their marks.
    #[inline(never)]
    fn process_mixed<P: Packet>(
        &mut self,
        mut context: Context,
        (packets, rest, is_counted): (&[P], BurstMask, bool),
        verdicts: &mut [Verdict],
        done: &mut impl FnMut(Stage),
    ) {
        let mut unmarked = Subset::of(packets, rest);
        let mut out = [Verdict::Forward; BURST_MAX];
        done(Stage::Mark);
        self.parse_ahead(&mut context, (unmarked.packets(), 0), &mut out, done);
        let others = if is_counted { 0 } else { self.count_marked(&mut context, packets) };
        done(Stage::Mark);
        if others != 0 {
            unmarked.copy_verdicts(&out, verdicts);
            unmarked = Subset::of(packets, rest | others);
            out = [Verdict::Forward; BURST_MAX];
            let counted = unmarked.in_set(rest);
            self.parse_ahead(&mut context, (unmarked.packets(), counted), &mut out, done);
        }
        self.track_ahead(context, unmarked.packets(), &mut out, done);
        unmarked.copy_verdicts(&out, verdicts);
        self.move_positions(&unmarked);
    }

    /// Parses packets, and starts to load their buckets. Fragments and ICMP errors wait for
    /// [`track_ahead`](Self::track_ahead). Packets of the set `counted` without a key have been
    /// counted before.
    #[inline(always)]
    fn parse_ahead<P: Packet>(
        &mut self,
        Context { trackers, accounts, now }: &mut Context,
        (packets, counted): (&[P], BurstMask),
        out: &mut [Verdict],
        done: &mut impl FnMut(Stage),
    ) {
        let Self { intake, lookups, steering, zones, access, .. } = self;
        let (ct_states, now) = (NoCtStates, *now);
        let access = access.as_deref();
        let mut verdicts = Verdicts { out, ct_states, accounts, steering, zones, access, now };
        intake.batches.clear();
        lookups.clear();
        for (part, first) in packets.chunks(PART).zip((0..).step_by(PART)) {
            intake.parse(part, (first, counted), &mut verdicts);
            done(Stage::Parse);
            if !intake.batches.have_detached() {
                lookups.advance(&intake.batches, trackers);
                done(Stage::Lookup);
            }
        }
    }

    /// Tracks the packets that were [parsed ahead](Self::parse_ahead).
    #[inline(always)]
    fn track_ahead<P: Packet>(
        &mut self,
        Context { trackers, accounts, now }: Context,
        packets: &[P],
        out: &mut [Verdict],
        done: &mut impl FnMut(Stage),
    ) {
        let Self { intake, lookups, steering, zones, access, .. } = self;
        let ct_states = NoCtStates;
        let access = access.as_deref();
        let mut verdicts = Verdicts { out, ct_states, accounts, steering, zones, access, now };
        if intake.batches.have_detached() {
            intake.resolve_detached(&mut verdicts);
            lookups.advance(&intake.batches, trackers);
        }
        track_parsed((intake, lookups, trackers), (packets, now), &mut verdicts, done);
    }

    /// Counts packets by their marks; returns those that must be processed without mark.
    #[inline(always)]
    fn count_marked<P: Packet>(
        &mut self,
        Context { trackers, accounts, now }: &mut Context,
        packets: &[P],
    ) -> BurstMask {
        let (Some(marked), Trackers { v4, v6 }) = (&mut self.marked, &mut **trackers) else {
            return 0;
        };
        let moment = BurstContext { now: *now, zoning: &self.intake.zone_rules };
        let (counted_before, unusual_before) = (marked.stats.counted, marked.stats.unusual);
        let (others, bytes) = marked.count(packets, (v4, v6), moment);
        if marked.stats.unusual != unusual_before {
            v4.set_unread_marks();
            v6.set_unread_marks();
        }
        accounts.stats.bytes += bytes;
        accounts.stats.tracked += marked.stats.counted - counted_before;
        others
    }
}
