// SPDX-License-Identifier: BSD-3-Clause
//! Decides about packets by the rule of an access list that their mark names, where no zone is
//! tracked: without key, lookup and search.
//!
//! Only untagged plain TCP and UDP packets are decided so. NICs differ in which headers of other
//! packets they find, and a rule that comes earlier in the list may have missed one.

use super::marked::BurstMask;
use super::subset::Subset;
use super::{Context, Pipeline};
use crate::account::{Accounts, ListMarks};
use crate::api::{AccessLists, RuleDecision, Side, Stage, UntrackedReason, Verdict};
use crate::base::{BURST_MAX, Nanos};
use crate::packet::parse::{is_ipv6, plain_all};
use crate::packet::{PlainBatch, prefetch_head};
use crate::policy::NO_RULE;
use crate::tracker::{Tracker, Trackers};
use std::mem::take;
use wire::Packet;

/// The lists, the side at which a burst arrived, and its time.
type Moment<'a> = (&'a AccessLists, Side, Nanos);

/// Packets of one IP version whose marks name rules that decide alone.
struct Named<'a, P> {
    packets: [&'a P; BURST_MAX],
    places: [u8; BURST_MAX],
    rules: [u32; BURST_MAX],
    len: usize,
}

impl<'a, P: Packet> Named<'a, P> {
    fn new(any: &'a P) -> Self {
        Self { packets: [any; BURST_MAX], places: [0; BURST_MAX], rules: [0; BURST_MAX], len: 0 }
    }

    #[inline(always)]
    fn push(&mut self, packet: &'a P, place: usize, rule: u32) {
        let at = self.len % BURST_MAX;
        self.packets[at] = packet;
        self.places[at] = place as u8;
        self.rules[at] = rule;
        self.len += 1;
    }
}

impl Pipeline {
    /// Processes a burst in which packets are marked, where no zone is tracked.
    #[inline(never)]
    pub(super) fn process_listed<P: Packet>(
        &mut self,
        mut context: Context,
        packets: &[P],
        verdicts: &mut [Verdict],
        done: &mut impl FnMut(Stage),
    ) {
        let rest = self.decide_by_marks(&mut context, packets, verdicts);
        done(Stage::Mark);
        if rest == 0 {
            return;
        }
        let accounts = &mut *context.accounts;
        accounts.set_list_marks_checked(true);
        let again = Context { trackers: &mut *context.trackers, accounts, now: context.now };
        let subset = Subset::of(packets, rest);
        self.process_subset(again, &subset, verdicts, done);
        context.accounts.set_list_marks_checked(false);
    }

    /// Processes some packets of a burst without the connections' marks.
    fn process_subset<P: Packet>(
        &mut self,
        context: Context,
        subset: &Subset<P>,
        verdicts: &mut [Verdict],
        done: &mut impl FnMut(Stage),
    ) {
        let mut out = [Verdict::Forward; BURST_MAX];
        let unwritten = super::verdicts::NoCtStates;
        self.process_unmarked(context, subset.packets(), (&mut out, unwritten), done);
        subset.copy_verdicts(&out, verdicts);
        self.move_positions(subset);
    }

    /// Gives the packets that wait or go elsewhere their positions in the whole burst.
    pub(super) fn move_positions<P>(&mut self, subset: &Subset<P>) {
        for held in self.intake.fragments.iter_mut().flat_map(|fragments| fragments.held_mut()) {
            held.position = subset.place(held.position);
        }
        for handed in self.steering.handed_mut() {
            handed.position = subset.place(handed.position);
        }
    }

    /// Decides about the packets whose marks suffice. Returns the set of the others.
    fn decide_by_marks<P: Packet>(
        &mut self,
        context: &mut Context,
        packets: &[P],
        verdicts: &mut [Verdict],
    ) -> BurstMask {
        let all = super::marked::first(packets.len());
        let Context { trackers: Trackers { v4, v6 }, accounts, now } = context;
        let (Some(lists), Some(side)) = (self.access.as_deref(), v4.side()) else { return all };
        // Taken out while the other accounts change.
        let Some(mut marks) = take(&mut accounts.list_marks) else { return all };
        let [of_v4, of_v6] = named(packets, &mut marks, (lists, side));
        let moment = (lists, side, *now);
        let mut decided = 0;
        for (named, is_v6) in [(&of_v4, false), (&of_v6, true)].iter().filter(|(n, _)| n.len > 0) {
            let columns = self.plain.rows_mut(0..named.len);
            plain_all(&named.packets[..named.len], *is_v6, self.intake.simd, columns);
            decided |= match is_v6 {
                false => decide(named, &self.plain, (&mut *v4, accounts), moment, verdicts),
                true => decide(named, &self.plain, (&mut *v6, accounts), moment, verdicts),
            };
        }
        marks.stats.decided += u64::from(decided.count_ones());
        accounts.list_marks = Some(marks);
        all & !decided
    }
}

/// Returns the packets of IPv4 and IPv6 whose marks name rules that decide alone.
#[inline(always)]
fn named<'a, P: Packet>(
    packets: &'a [P],
    marks: &mut ListMarks,
    (lists, side): (&AccessLists, Side),
) -> [Named<'a, P>; 2] {
    let mut named = [Named::new(&packets[0]), Named::new(&packets[0])];
    packets.iter().for_each(prefetch_head);
    let epoch = lists.epoch();
    for (place, packet) in packets.iter().enumerate().take(BURST_MAX) {
        let Some(rule) = marks.rule_of(packet.mark_or_zero(), epoch) else { continue };
        let decides = lists.decision_of(side, rule.rule) != RuleDecision::Open;
        if decides && !rule.is_checked {
            named[usize::from(is_ipv6(packet.head()))].push(packet, place, rule.rule);
        }
    }
    named
}

/// Decides about the packets that are plain; returns the set of those.
#[inline(always)]
fn decide<P: Packet, const W: usize>(
    named: &Named<P>,
    plain: &PlainBatch,
    (tracker, accounts): (&mut Tracker<W>, &mut Accounts),
    (lists, side, now): Moment,
    verdicts: &mut [Verdict],
) -> BurstMask {
    let (mut decided, mut denied, mut bytes) = (0 as BurstMask, 0, 0);
    let columns = named.packets.iter().zip(&named.places).zip(named.rules.iter().zip(&plain.metas));
    for ((packet, &place), (&rule, &meta)) in columns.take(named.len) {
        if !meta.is_usual() {
            continue;
        }
        let is_denied = lists.decision_of(side, rule) == RuleDecision::Deny;
        if is_denied {
            verdicts[usize::from(place)] = Verdict::Drop;
        }
        denied += u64::from(is_denied);
        bytes += packet.frame_len() as u64;
        decided |= 1 << place;
        tracker.count_hit([rule, NO_RULE], meta, now);
    }
    let stats = &mut accounts.stats;
    stats.bytes += bytes;
    stats.dropped[UntrackedReason::Denied as usize] += denied;
    let passed = u64::from(decided.count_ones()) - denied;
    stats.passed[UntrackedReason::TrackingOff as usize] += passed;
    decided
}
