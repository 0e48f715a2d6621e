// SPDX-License-Identifier: BSD-3-Clause
//! Owns the rules of one table's connections, from candidate to removal, and decides how far their
//! marks are trusted.

use super::candidates::{CandidateId, CandidateQueue};
use super::effect::RuleKinds;
use super::interval::{EVAL_INTERVAL_MIN, EvalInterval};
use super::payback::PAYBACK_UNKNOWN;
use super::score::{Histogram, Score};
use super::slots::{MarkSlots, NO_SLOT, RuleEntry, RuleLifecycle};
use super::zone_share::Zones;
use super::{slots, zone_share};
use crate::api::{FiveTuple, OffloadConfig, OffloadStats, RuleId, RuleRequest, RuleResult, Side};
use crate::base::{HugeRegion, MemoryUse, Nanos, Tick};
use crate::conn::ConnHot;
use crate::packet::{Key, PacketMeta};
use crate::policy::ZoneTags;
use std::collections::VecDeque;

/// Why a direction has no rule, as far as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRuleCause {
    /// Nothing is known.
    None,
    /// It is a candidate with this score.
    Candidate(Score),
    /// The NIC refuses such a rule.
    Refused,
    /// The NIC took its rule, but no packet was marked.
    Ineffective,
}

/// What offload knows of one record.
#[derive(Clone, Copy)]
pub(super) struct EvalState {
    /// Its slot; [`NO_SLOT`] if it has none.
    pub(super) slot: u32,
    /// When each direction was last evaluated.
    pub(super) evaluated_at: [Tick; 2],
    /// Numbers of the last evaluations.
    pub(super) eval_number: [u8; 2],
    pub(crate) rate: [Score; 2],
    pub(super) no_rule: [NoRuleCause; 2],
    /// Side at which its packets arrived at the last evaluation.
    pub(crate) side: [Side; 2],
    /// True if a bypass was tried, and the NIC refused it or did not forward.
    pub(super) no_bypass: [bool; 2],
}

// Each record has one, with or without rules.
const _: () = assert!(size_of::<EvalState>() == 24);

impl EvalState {
    pub(super) const NONE: EvalState = EvalState {
        slot: NO_SLOT,
        evaluated_at: [Tick::ZERO; 2],
        eval_number: [0; 2],
        rate: [Score::ZERO; 2],
        no_rule: [NoRuleCause::None; 2],
        side: [Side::A; 2],
        no_bypass: [false; 2],
    };

    /// Returns the rate of a direction now, if the next evaluation would have this number. Packets
    /// since the last one can lower the rate but not raise it: a few packets say little.
    pub(super) fn rate_now(&self, direction: usize, number: u8, now: Tick) -> Score {
        let quiet = now.since(self.evaluated_at[direction]);
        let evals = number.wrapping_sub(self.eval_number[direction]);
        let packets = (u64::from(evals) + 1) * u64::from(EVAL_INTERVAL_MIN);
        self.rate[direction].min(Score::of(2 * packets, quiet))
    }
}

/// NIC rules of one table's connections.
pub(crate) struct FlowRules {
    pub(super) offload: OffloadConfig,
    tagging: ZoneTags,
    pub(crate) eval_interval: EvalInterval,
    pub(super) evals: HugeRegion<EvalState>,
    pub(crate) slots: MarkSlots,
    pub(super) candidates: [CandidateQueue; 2],
    /// Scores of live rules, by side.
    pub(super) live: [Histogram; 2],
    pub(super) zones: Zones,
    /// Removals to request; no more than there are rules.
    removes: VecDeque<(RuleId, Side)>,
    pub(super) classes: RuleKinds,
    /// Side and time at which the burst arrived.
    pub(crate) side: Side,
    pub(super) now: Nanos,
    /// True if packets of this burst had the mark of their rule and are processed without it. Then
    /// a packet without a mark says nothing about its rule.
    pub(super) has_unread_marks: bool,
    /// Least score of a candidate, and payback time in nanoseconds, by side.
    pub(super) threshold: [Score; 2],
    pub(super) payback_time: [Nanos; 2],
    /// Packets that pay for a bypass, by side, as measured.
    pub(super) payback_packets: [u32; 2],
    /// The slot that was rechecked last, and the time up to which rechecks are done.
    pub(super) last_rechecked: u32,
    pub(super) rechecked_at: Nanos,
    /// True if rules that set marks may be installed.
    pub(super) allows_marks: bool,
    /// Next slot to withdraw marks from, while they are not allowed.
    pub(super) next_without_marks: u32,
    /// Bypass rules that are not known to be gone.
    pub(crate) bypasses: u32,
    /// Next slot to withdraw bypasses from, while none is allowed.
    pub(super) next_recalled: Option<u32>,
    pub(super) stats: OffloadStats,
}

impl FlowRules {
    /// Takes the memory for `capacity` records. `offload.first_index` is the index of the table's
    /// first slot.
    pub(crate) fn new(
        capacity: usize,
        (offload, tagging): (OffloadConfig, ZoneTags),
        huge_pages: bool,
    ) -> Self {
        let OffloadConfig { layout, first_index, slots, .. } = offload;
        Self {
            offload,
            tagging,
            eval_interval: offload.admission.eval_interval(),
            evals: HugeRegion::new(capacity, EvalState::NONE, huge_pages),
            slots: MarkSlots::new((slots, capacity as u32), layout, first_index, huge_pages),
            candidates: [CandidateQueue::new(), CandidateQueue::new()],
            live: [Histogram::EMPTY; 2],
            zones: Zones::new(offload.zone_rules_max, huge_pages),
            removes: VecDeque::with_capacity(2 * (slots as usize).min(capacity)),
            classes: RuleKinds::new(),
            side: Side::A,
            now: 0,
            has_unread_marks: false,
            threshold: [Score::ZERO; 2],
            payback_time: [0; 2],
            payback_packets: [PAYBACK_UNKNOWN; 2],
            last_rechecked: 0,
            rechecked_at: 0,
            allows_marks: true,
            next_without_marks: 0,
            bypasses: 0,
            next_recalled: None,
            stats: OffloadStats::default(),
        }
    }

    pub(crate) fn memory(&self) -> MemoryUse {
        let removes = self.removes.capacity() * size_of::<(RuleId, Side)>();
        let removes = MemoryUse { bytes: removes, ..MemoryUse::default() };
        let zones = self.zones.memory();
        [self.evals.memory(), self.slots.memory(), zones, removes].into_iter().sum()
    }

    pub(crate) fn eval_interval(&self) -> EvalInterval {
        self.eval_interval
    }

    #[inline(always)]
    pub(crate) fn slots(&self) -> &MarkSlots {
        &self.slots
    }

    /// Notes the side, the time and the number of packets of a burst.
    #[inline(always)]
    pub(crate) fn arrive(&mut self, side: Side, now: Nanos, packets: usize) {
        self.side = side;
        self.now = now;
        self.has_unread_marks = false;
        self.slots.received(side, packets);
    }

    /// Notes that packets of this burst had the mark of their rule and are processed without it.
    pub(crate) fn set_unread_marks(&mut self) {
        self.has_unread_marks = true;
    }

    pub(crate) fn queue_drained(&mut self, side: Side) {
        self.slots.queue_drained(side);
    }

    /// Sets the least score of a side's candidates, and its payback time in nanoseconds.
    pub(crate) fn set_threshold(&mut self, side: Side, threshold: Score, payback_time: Nanos) {
        self.threshold[side as usize] = threshold;
        self.payback_time[side as usize] = payback_time;
    }

    /// Sets the number of packets that pay for a bypass.
    pub(crate) fn set_payback_packets(&mut self, side: Side, packets: u32) {
        self.payback_packets[side as usize] = packets;
    }

    pub(crate) fn threshold(&self, side: Side) -> Score {
        self.threshold[side as usize]
    }

    pub(crate) fn stats(&self) -> OffloadStats {
        self.stats
    }

    /// Returns how many kinds of mark rules of a side are set aside.
    pub(crate) fn suspended(&self, side: Side, now: Nanos) -> u32 {
        self.classes.suspended(side, now)
    }

    /// Returns the number of live rules of a side: those that the NIC has or is to have.
    pub(crate) fn live_count(&self, side: Side) -> u32 {
        self.live[side as usize].total()
    }

    /// Returns the lowest score of a side's live rules.
    pub(crate) fn lowest(&self, side: Side) -> Option<Score> {
        self.live[side as usize].lowest()
    }

    /// Requests the removal of a live rule.
    pub(super) fn withdraw(&mut self, slot: u32, direction: usize) {
        let rule_id = self.slots.rule(slot, direction as u8);
        let now = Tick::of(self.now);
        let Some(state) = self.slots.get_mut(slot) else { return };
        let zone = state.zone;
        let rule = &mut state.rules[direction];
        let side = rule.side;
        self.live[side as usize].remove(rule.score);
        self.zones.remove(side, zone);
        rule.lifecycle = match rule.lifecycle {
            RuleLifecycle::Requested => RuleLifecycle::Withdrawn,
            _ => RuleLifecycle::Removing,
        };
        rule.since = now;
        self.removes.push_back((rule_id, side));
    }

    /// Requests the removal of all live rules of a connection.
    pub(crate) fn withdraw_rules(&mut self, record: u32) {
        let slot = self.evals[record as usize].slot;
        for direction in 0..2 {
            let rule = self.slots.get(slot).map(|slot| slot.rules[direction]);
            if rule.is_some_and(|rule| rule.lifecycle.is_live()) {
                self.withdraw(slot, direction);
            }
        }
    }

    /// True if a NIC rule can distinguish packets of a zone from others.
    pub(super) fn has_tag(&self, zone: u16) -> bool {
        self.tagging.tag(zone).is_some()
    }

    /// Returns the score of the best candidate of a side.
    pub(crate) fn best(&mut self, side: Side) -> Option<Score> {
        let evals = &self.evals;
        self.candidates[side as usize].best(|score, candidate| {
            let no_rule =
                evals[candidate.record as usize].no_rule[usize::from(candidate.direction)];
            no_rule == NoRuleCause::Candidate(score)
        })
    }

    /// Takes the first candidate of a side with this score, which is the best.
    pub(crate) fn take_candidate(&mut self, side: Side, score: Score) -> Option<CandidateId> {
        let candidate = self.candidates[side as usize].pop(score)?;
        self.evals[candidate.record as usize].no_rule[usize::from(candidate.direction)] =
            NoRuleCause::None;
        Some(candidate)
    }

    /// True if a candidate's zone may have one more rule. The zone may have filled since the
    /// direction became a candidate.
    pub(crate) fn has_zone_room(&mut self, zone: u16, (side, score): (Side, Score)) -> bool {
        let is_full = self.zones.is_full(side, zone);
        if is_full {
            self.zones.miss(side, zone, score);
            self.stats.zone_full += 1;
        }
        !is_full
    }

    /// Returns the five-tuple of a direction's packets.
    pub(super) fn tuple<const W: usize>(&self, key: &Key<W>, direction: u8) -> FiveTuple {
        let tuple = key.tuple(direction == 1);
        // No rule is requested in a zone that no tag distinguishes.
        FiveTuple { zone: self.tagging.tag(tuple.zone).unwrap_or(0), ..tuple }
    }

    /// Takes the next removal to request.
    pub(crate) fn next_remove(&mut self) -> Option<RuleRequest> {
        self.removes.pop_front().map(|(rule, side)| RuleRequest::Remove { rule, side })
    }

    /// Returns the side at which the burst arrived.
    pub(crate) fn side(&self) -> Side {
        self.side
    }

    /// Sets the mark that is enough for packets of this record from now on; 0 if keys must be
    /// compared.
    pub(super) fn update_expected_mark<const W: usize>(&self, slot: u32, hot: &mut ConnHot<W>) {
        let Some(state) = self.slots.get(slot) else { return };
        let is_unverified = |rule: &RuleEntry| rule.lifecycle.is_live() && rule.checks > 0;
        let is_verified = !state.rules.iter().any(is_unverified);
        let is_plain =
            self.tagging.is_untagged(hot.key.zone()) && hot.is_steady() && !hot.has_paused_window();
        let expected = self.slots.mark(slot) | u32::from(hot.originator());
        hot.expected = if is_verified && is_plain { expected } else { 0 };
    }

    /// Returns how far to trust a packet with the mark of this rule. `record` is the record that
    /// the rule's slot named; `zone` is the zone of the packet.
    pub(crate) fn check_mark<const W: usize>(
        &self,
        (record, rule): (u32, RuleId),
        hot: &ConnHot<W>,
        (meta, zone): (PacketMeta, u16),
    ) -> MarkCheck {
        let of_rule = self.slots.of_rule(rule).and_then(|slot| self.slots.get(slot));
        let Some(slot) = of_rule.filter(|slot| slot.record() == Some(record)) else {
            return MarkCheck::Stale;
        };
        let rule = &slot.rules[usize::from(rule.direction & 1)];
        if !rule.lifecycle.is_live() {
            MarkCheck::Stale
        } else if !hot.is_steady() || hot.has_paused_window() || !hot.is_plain_of_steady(meta) {
            // Such a packet must be tracked in its order in the burst. If the connection is
            // closing, a SYN before it may have begun another connection.
            MarkCheck::NotPlain
        } else if rule.checks > 0 || hot.key.zone() != zone {
            MarkCheck::VerifyKey
        } else {
            MarkCheck::Trusted
        }
    }

    /// Notes that the rule of a direction marks packets from here on; `packets` came before.
    pub(crate) fn begin_hits(&mut self, record: u32, direction: u8, packets: u64) {
        let slot = self.evals[record as usize].slot;
        if let Some(slot) = self.slots.get_mut(slot) {
            slot.rules[usize::from(direction & 1)].marked_from = packets;
        }
    }

    /// Updates the expected mark of a record whose connection changed its state.
    pub(crate) fn sync_mark<const W: usize>(&self, record: u32, hot: &mut ConnHot<W>) {
        if hot.was_evaluated() && hot.is_steady() {
            self.update_expected_mark(self.evals[record as usize].slot, hot);
        }
    }

    /// Withdraws the rules of a connection that has ended.
    #[inline(always)]
    pub(crate) fn end<const W: usize>(&mut self, record: u32, hot: &ConnHot<W>) {
        if hot.was_evaluated() {
            self.release_rules(record);
        }
    }

    #[inline(never)]
    pub(super) fn release_rules(&mut self, record: u32) {
        let EvalState { slot, .. } =
            std::mem::replace(&mut self.evals[record as usize], EvalState::NONE);
        let Some(state) = self.slots.get(slot) else { return };
        let is_live = state.rules.map(|rule| rule.lifecycle.is_live());
        let unsettled = state.rules.iter().filter(|rule| rule.is_forwarding()).count();
        self.stats.unsettled += unsettled as u64;
        for direction in (0..2).filter(|&direction| is_live[direction]) {
            self.withdraw(slot, direction);
        }
        self.slots.detach(slot);
    }

    /// Applies the result of a rule request; returns what follows from it. A result that fits no
    /// request is ignored.
    pub(crate) fn apply_result(&mut self, rule: RuleId, result: RuleResult) -> ResultEffect {
        let mut effect = ResultEffect::default();
        let Some(slot) = self.slots.of_rule(rule) else { return effect };
        let direction = usize::from(rule.direction & 1);
        let now = Tick::of(self.now);
        let Some(state) = self.slots.get_mut(slot) else { return effect };
        let (record, zone) = (state.record(), state.zone);
        let of_direction = &mut state.rules[direction];
        let RuleEntry { lifecycle: before, side, score, is_bypass, .. } = *of_direction;
        let is_refusal =
            matches!(result, RuleResult::Full | RuleResult::Postponed | RuleResult::Refused);
        let lifecycle = match (before, result) {
            (RuleLifecycle::Requested, RuleResult::Installed { .. }) if of_direction.is_seen => {
                RuleLifecycle::Effective
            }
            (RuleLifecycle::Requested, RuleResult::Installed { .. }) => RuleLifecycle::Installed,
            (RuleLifecycle::Withdrawn, RuleResult::Installed { .. }) => RuleLifecycle::Removing,
            // A rule that is refused after its removal was requested is gone as well.
            (RuleLifecycle::Requested | RuleLifecycle::Withdrawn, _) if is_refusal => {
                RuleLifecycle::None
            }
            (RuleLifecycle::Withdrawn | RuleLifecycle::Removing, RuleResult::Removed) => {
                RuleLifecycle::None
            }
            _ => return effect,
        };
        (of_direction.lifecycle, of_direction.since) = (lifecycle, now);
        effect.answered =
            matches!(before, RuleLifecycle::Requested | RuleLifecycle::Withdrawn).then_some(side);
        if before == RuleLifecycle::Requested && is_refusal {
            self.live[side as usize].remove(score);
            self.zones.remove(side, zone);
            if let Some(record) = record.filter(|_| result == RuleResult::Refused) {
                let eval = &mut self.evals[record as usize];
                match is_bypass {
                    true => eval.no_bypass[direction] = true,
                    false => eval.no_rule[direction] = NoRuleCause::Refused,
                }
            }
        }
        self.stats.count(result, before);
        if is_bypass {
            self.bypasses -= u32::from(lifecycle == RuleLifecycle::None);
            self.stats.bypasses += u64::from(matches!(result, RuleResult::Installed { .. }));
        }
        let state = self.slots.get(slot);
        let is_idle = state.is_some_and(|slot| !slot.has_rules());
        effect.without_rule = record.filter(|_| is_idle);
        let is_left = state.is_some_and(|slot| slot.rules.iter().any(RuleEntry::is_forwarding));
        effect.without_bypass = record.filter(|_| is_bypass && !is_left);
        if lifecycle == RuleLifecycle::None && record.is_none() {
            self.slots.settle(slot);
        }
        effect
    }

    /// Gives back the slot of the connection in `record`, which has no rule.
    pub(crate) fn release<const W: usize>(&mut self, record: u32, hot: &mut ConnHot<W>) {
        let slot = std::mem::replace(&mut self.evals[record as usize].slot, NO_SLOT);
        hot.expected = 0;
        if slot != NO_SLOT {
            self.slots.detach(slot);
        }
    }
}

/// What follows from a result, beside the new state of the rule.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResultEffect {
    /// Side of an install request that has its result now.
    pub(crate) answered: Option<Side>,
    /// Record whose connection has a slot and no rule: [`FlowRules::release`] must follow.
    pub(crate) without_rule: Option<u32>,
    /// Record of whose connection the NIC forwards no packets any more.
    pub(crate) without_bypass: Option<u32>,
}

/// How far the mark of a packet is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkCheck {
    /// The packet is counted without comparing keys.
    Trusted,
    /// The packet is counted if its key is the record's.
    VerifyKey,
    /// The packet must be tracked in its order, not only counted.
    NotPlain,
    /// The mark is not of a live rule of this record.
    Stale,
}

impl OffloadConfig {
    /// Returns about how many bytes an engine takes for this many records and slots, and for zones
    /// if they have shares.
    pub const fn bytes(records: u64, slots: u64, has_shares: bool) -> u64 {
        let zones = if has_shares { 2 * zone_share::BYTES } else { 0 };
        records * size_of::<EvalState>() as u64 + 2 * slots * slots::SLOT_BYTES + zones
    }
}

impl OffloadStats {
    pub(super) fn count(&mut self, result: RuleResult, before: RuleLifecycle) {
        match result {
            RuleResult::Installed { .. } => self.installed += 1,
            RuleResult::Full => self.full += 1,
            RuleResult::Postponed => self.postponed += 1,
            RuleResult::Refused => self.refused += 1,
            RuleResult::Removed => self.removed += u64::from(before == RuleLifecycle::Removing),
            RuleResult::Passed(_) => {}
        }
    }
}
