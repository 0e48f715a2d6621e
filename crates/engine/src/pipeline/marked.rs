// SPDX-License-Identifier: BSD-3-Clause
//! Counts packets whose mark names their record, without key, hash and lookup.
//!
//! A mark is trusted if its generation is that of the record. For the first packets of a rule, and
//! for a sample of the rest, the key is compared too. A packet that changes more than counters is
//! processed with the unmarked packets, in its order among them. So is a packet with a wrong mark:
//! it costs a lookup, and is counted in [`MarkStats`].

mod conflicts;
mod verification;

use crate::api::{MarkLayout, MarkStats, MarkVerification, OffloadConfig};
use crate::base::{BURST_MAX, Micros, Nanos, SimdLevel};
use crate::conn::{EIGHT, MarkedEight};
use crate::offload::MarkCheck;
use crate::packet::parse::{Lengths, plain_all, uncounted};
use crate::packet::{
    Batches, ETHERNET, FamilyBatch, PacketMeta, PlainBatch, SeqNumbers, prefetch_head,
    prefetch_heads,
};
use crate::policy::ZoneClassifier;
use crate::tracker::Tracker;
use conflicts::ConflictSet;
use std::ops::Range;
use wire::Packet;

/// Fewest packets that cost less side by side than one by one.
const SIDE_BY_SIDE_MIN: usize = 3;

/// A set of packets of a burst: bit `i` for packet `i`.
pub(crate) type BurstMask = u64;

const _: () = assert!(BURST_MAX as u32 <= BurstMask::BITS);

/// The packets of a burst whose marks name records, in their order.
pub(crate) struct MarkedBatch {
    layout: MarkLayout,
    /// Index of the first slot of IPv4. The first slot of IPv6 is `v6_slot_offset` behind it.
    first_index: u32,
    v6_slot_offset: u32,
    check: MarkVerification,
    /// True if no packet may be counted before one that came earlier.
    is_in_order: bool,
    /// Packets until the next sample. Only packets whose mark names a record count.
    until_check: u32,
    /// Number of the burst, which selects the packet that [`verify_one`](Self::verify_one) takes.
    turn: u32,
    simd: SimdLevel,
    /// Columns of the packets whose marks name a record: first all of IPv4, then all of IPv6, each
    /// in their order. They hold the place in the burst, the mark, the record, and what is counted.
    places: [u8; BURST_MAX],
    marks: [u32; BURST_MAX],
    records: [u32; BURST_MAX],
    plain: PlainBatch,
    /// Number of packets of each IP version.
    of_v4: usize,
    of_v6: usize,
    /// Connections that one of the packets may end.
    conflicts: ConflictSet,
    /// Scratch memory for keys that are compared.
    batches: Box<Batches>,
    pub(crate) stats: MarkStats,
}

/// The time of a burst, and the rules that give its packets their zones.
#[derive(Clone, Copy)]
pub(crate) struct BurstContext<'a> {
    pub(crate) now: Nanos,
    pub(crate) zoning: &'a ZoneClassifier,
}

impl MarkedBatch {
    pub(crate) fn new(offload: &OffloadConfig) -> Self {
        let OffloadConfig { layout, first_index, slots, check, .. } = *offload;
        Self {
            layout,
            first_index,
            v6_slot_offset: slots,
            check,
            is_in_order: check == MarkVerification::Always,
            until_check: 0,
            turn: 0,
            simd: SimdLevel::detect(),
            places: IN_ORDER,
            marks: [0; BURST_MAX],
            records: [0; BURST_MAX],
            plain: PlainBatch::EMPTY,
            of_v4: 0,
            of_v6: 0,
            conflicts: ConflictSet::NONE,
            batches: Batches::new(),
            stats: MarkStats::default(),
        }
    }

    /// True if the slot with this index, if it is one of this engine, is of IPv6.
    pub(crate) fn is_of_v6(&self, index: u32) -> bool {
        index.wrapping_sub(self.first_index) >= self.v6_slot_offset
    }

    /// Sets whether connections with marks may be evicted in the next burst. Then packets are
    /// counted in order.
    pub(crate) fn set_tight(&mut self, may_evict: bool) {
        self.is_in_order = may_evict || self.check == MarkVerification::Always;
    }

    /// Finds the records that the marks of a burst name. Returns the packets that cannot be counted
    /// by their mark: those whose mark names no record. If packets are counted in order, also all
    /// packets behind the leading ones that [`keep_in_order`](Self::keep_in_order) keeps.
    #[inline(never)]
    pub(crate) fn resolve_marks<P: Packet>(
        &mut self,
        packets: &[P],
        (v4, v6): (&Tracker<2>, &Tracker<5>),
    ) -> BurstMask {
        let (slot, of_v4) = (self.slot_of(), v4.slot_index());
        let mut claimed = 0;
        if !of_v4.is_far() {
            for (packet, (to_mark, to_record)) in
                packets.iter().zip(self.marks.iter_mut().zip(&mut self.records))
            {
                prefetch_head(packet);
                // 0 names no slot.
                let mark = packet.mark_or_zero();
                let Some(record) = of_v4.by(slot(mark)) else { break };
                // The record is loaded while lengths and flags are read.
                v4.table.prefetch_many(record);
                (*to_mark, *to_record) = (mark, record);
                claimed += 1;
            }
        }
        (self.places, self.of_v4, self.of_v6) = (IN_ORDER, claimed, 0);
        if claimed == packets.len() {
            return 0;
        }
        first(packets.len()) & !self.resolve_other_marks(packets, (v4, v6))
    }

    /// Returns the function that computes the IPv4 slot of a mark.
    fn slot_of(&self) -> impl Fn(u32) -> usize + use<> {
        // The index in a mark is the slot plus one, plus all slots before this engine's.
        let (shift, before) = (self.layout.shift(), self.first_index + 1);
        move |mark| (mark >> shift).wrapping_sub(before) as usize
    }

    /// Finds the records that marks name, from the first packet on whose mark names no IPv4 slot.
    /// Returns all packets of the burst that can be counted by their mark: those whose mark names a
    /// record, or only the leading ones if packets are counted in order.
    #[inline(never)]
    fn resolve_other_marks<P: Packet>(
        &mut self,
        packets: &[P],
        (v4, v6): (&Tracker<2>, &Tracker<5>),
    ) -> BurstMask {
        let (slot, of_v4, of_v6) = (self.slot_of(), v4.slot_index(), v6.slot_index());
        let from = self.of_v4;
        let (mut claimed, mut others, mut until) = (first(from), 0, from);
        // Where the slots name their records starts to be loaded here.
        for (place, packet) in (from..BURST_MAX).zip(&packets[from..]) {
            prefetch_head(packet);
            if !packet.is_marked() {
                break;
            }
            let mark = packet.mark_or_zero();
            of_v4.prefetch(slot(mark));
            self.resolve_mark(until, (place, mark, 0));
            until += 1;
        }
        // From the first packet without a mark on, a branch on whether there is one could not be
        // predicted. So the loop visits only packets with a mark.
        let mut left = prefetch_heads(packets, until);
        while left != 0 {
            let place = left.trailing_zeros() as usize % BURST_MAX;
            left &= left - 1;
            let mark = packets[place].mark_or_zero();
            of_v4.prefetch(slot(mark));
            self.resolve_mark(until, (place, mark, 0));
            until += 1;
        }
        for at in from..until.min(BURST_MAX) {
            let (place, mark) = (usize::from(self.places[at]), self.marks[at]);
            let (record, is_named) = of_v4.by_or_any(slot(mark));
            v4.table.prefetch_many(record);
            self.resolve_mark(self.of_v4, (place, mark, record));
            self.of_v4 += usize::from(is_named);
            claimed |= BurstMask::from(is_named) << (place % BURST_MAX);
            others |= BurstMask::from(mark != 0 && !is_named) << (place % BURST_MAX);
        }
        let v6_offset = self.v6_slot_offset as usize;
        let mut left = others;
        while left != 0 {
            let i = left.trailing_zeros() as usize % BURST_MAX;
            left &= left - 1;
            let mark = packets[i].mark_or_zero();
            let Some(record) = of_v6.by(slot(mark).wrapping_sub(v6_offset)) else {
                self.stats.foreign += u64::from(!self.layout.is_of_list(mark));
                continue;
            };
            v6.table.prefetch_many(record);
            self.resolve_mark(self.of_v4 + self.of_v6, (i, mark, record));
            self.of_v6 += 1;
            claimed |= 1 << i;
        }
        if self.is_in_order { self.keep_in_order() } else { claimed }
    }

    #[inline(always)]
    fn resolve_mark(&mut self, at: usize, (place, mark, record): (usize, u32, u32)) {
        let at = at % BURST_MAX;
        self.places[at] = place as u8;
        self.marks[at] = mark;
        self.records[at] = record;
    }

    /// Keeps only the leading packets of the burst, up to the first without a record or of the
    /// other IP version.
    fn keep_in_order(&mut self) -> BurstMask {
        let claimed = self.of_v4 + self.of_v6;
        let in_front =
            |places: &[u8]| places.iter().zip(IN_ORDER).take_while(|(a, b)| *a == b).count();
        let v6 = self.of_v4..claimed;
        let of_v4 = in_front(&self.places[..self.of_v4]);
        let of_v6 = in_front(&self.places[v6.clone()]);
        // One of them is 0: only one can have the first place in the burst.
        if of_v6 > 0 {
            self.marks.copy_within(v6.clone(), 0);
            self.records.copy_within(v6, 0);
        }
        (self.places, self.of_v4, self.of_v6) = (IN_ORDER, of_v4, of_v6);
        self.stats.unusual += (claimed - of_v4 - of_v6) as u64;
        first(of_v4 + of_v6)
    }

    /// Counts packets by their marks. Returns the packets that must be processed without mark, and
    /// the bytes of those counted.
    #[inline(never)]
    pub(crate) fn count<P: Packet>(
        &mut self,
        packets: &[P],
        (v4, v6): (&mut Tracker<2>, &mut Tracker<5>),
        moment: BurstContext,
    ) -> (BurstMask, u64) {
        let (of_v4, all) = (self.of_v4, self.of_v4 + self.of_v6);
        let run = Run { run: 0..of_v4, sampled: self.sample(all), moment };
        let mut sum = MarkedTotals { counted: 0, bytes: 0, rest: 0 };
        if all == packets.len() && of_v4 == all {
            self.count_run(packets, run, v4, &mut sum);
        } else if let Some(any) = packets.first() {
            let mut gathered = [any; BURST_MAX];
            for (packet, &place) in gathered.iter_mut().zip(&self.places).take(all) {
                *packet = packets.get(usize::from(place)).unwrap_or(any);
            }
            let others = Run { run: of_v4..all, ..run.clone() };
            self.count_run(&gathered[..all], run, v4, &mut sum);
            self.count_run(&gathered[..all], others, v6, &mut sum);
        }
        self.stats.counted += sum.counted;
        (sum.rest, sum.bytes)
    }

    /// Counts the packets of one tracker by their marks.
    #[inline(always)]
    fn count_run<P: Packet, const W: usize>(
        &mut self,
        packets: &[P],
        Run { run, sampled, moment }: Run,
        tracker: &mut Tracker<W>,
        sum: &mut MarkedTotals,
    ) where
        Batches: FamilyBatch<W>,
    {
        let columns = self.plain.rows_mut(run.clone());
        sum.bytes += plain_all(&packets[run.clone()], W > 2, self.simd, columns);
        // One by one is as fast without the window check; most packets of a burst are alike.
        let is_by_eight = self.simd > SimdLevel::None
            && !self.is_in_order
            && self.records[run.clone()].first().is_some_and(|&of| tracker.checks_window_of(of));
        let mut at = run.start;
        while at < run.end {
            let until = if is_by_eight { run.end.min(at + EIGHT) } else { run.end };
            let some = Run { run: at..until, sampled, moment };
            match self.count_eight(&some, tracker) {
                None => self.count_in_turn(packets, some, tracker, sum),
                Some(counted) => {
                    sum.counted += u64::from(counted.count_ones());
                    let mut left = first(until - at) & !BurstMask::from(counted);
                    while left != 0 {
                        let at = at + left.trailing_zeros() as usize;
                        left &= left - 1;
                        let one = Run { run: at..at + 1, ..some.clone() };
                        self.count_in_turn(packets, one, tracker, sum);
                    }
                }
            }
            at = until;
        }
        self.conflicts.settle(tracker);
    }

    /// Counts up to eight packets side by side, as far as they change only counters and no keys are
    /// compared; returns the set of those. `None` if they are few.
    #[inline(always)]
    fn count_eight<const W: usize>(
        &self,
        Run { run, sampled, moment }: &Run,
        tracker: &mut Tracker<W>,
    ) -> Option<u8> {
        if run.len() < SIDE_BY_SIDE_MIN || run.len() > EIGHT {
            return None;
        }
        let packets = MarkedEight {
            records: self.records.get(run.start..)?.first_chunk()?,
            marks: self.marks.get(run.start..)?.first_chunk()?,
            plain: self.plain.eight(run.start)?,
            now: Micros::of(moment.now),
            wanted: (first(run.len()) & !(sampled >> run.start)) as u8,
        };
        Some(tracker.count_eight(self.simd, packets))
    }

    /// Counts packets one after the other.
    #[inline(never)]
    fn count_in_turn<P: Packet, const W: usize>(
        &mut self,
        packets: &[P],
        Run { run, sampled, moment }: Run,
        tracker: &mut Tracker<W>,
        sum: &mut MarkedTotals,
    ) where
        Batches: FamilyBatch<W>,
    {
        let (mut at, until) = (run.start, run.end);
        while at < until {
            let to_sample = ((sampled >> at).trailing_zeros() as usize).min(until - at);
            let some = at..at + to_sample;
            let named = (&self.records[some.clone()], &self.marks[some.clone()]);
            let (first, plain) = (some.start, &self.plain);
            let numbers = |at: usize| Some(plain.numbers(first + at));
            let counted =
                tracker.count_marked(named, &plain.metas[some], Micros::of(moment.now), numbers);
            sum.counted += counted as u64;
            at += counted;
            if at == until {
                break;
            }
            let named = (self.records[at], self.marks[at], self.plain.metas[at]);
            let is_sampled = sampled >> at & 1 != 0;
            if !is_sampled && tracker.is_more_by_flags(named) {
                self.defer(named.0, tracker);
            } else if self.check_one(&packets[at], named, is_sampled, (&mut *tracker, moment)) {
                sum.counted += 1;
                at += 1;
                continue;
            }
            let left = at..if self.is_in_order { until } else { at + 1 };
            self.stats.unusual += left.len() as u64 - 1;
            at = left.end;
            for (packet, place) in packets[left.clone()].iter().zip(&self.places[left]) {
                sum.bytes -= packet.frame_len() as u64;
                sum.rest |= 1 << place;
            }
        }
    }

    /// Checks one packet that was not counted at once. True if it was counted after all.
    #[inline(never)]
    fn check_one<P: Packet, const W: usize>(
        &mut self,
        packet: &P,
        (record, mark, plain): (u32, u32, PacketMeta),
        is_sampled: bool,
        (tracker, BurstContext { now, zoning }): (&mut Tracker<W>, BurstContext),
    ) -> bool
    where
        Batches: FamilyBatch<W>,
    {
        let (meta, of_zone, l3) = match plain {
            PacketMeta::UNUSUAL => {
                let lengths = Lengths { frame: packet.frame_len(), bytes: packet.wire_len() };
                let read = uncounted(packet.head(), lengths, zoning.from, W > 2);
                read.unwrap_or((PacketMeta::UNUSUAL, 0, ETHERNET))
            }
            plain => (plain, zoning.from.untagged(), ETHERNET),
        };
        // If zones do not come from tags, a packet of the record is in the record's zone.
        let of_zone = if zoning.from.is_by_tag() { of_zone } else { tracker.zone(record) };
        let rule = self.layout.decode(mark);
        let meta = meta.sent_by(rule.direction);
        let check = match tracker.check_mark(record, (mark, rule), (meta, of_zone)) {
            MarkCheck::Trusted | MarkCheck::VerifyKey if self.conflicts.has(record) => {
                MarkCheck::NotPlain
            }
            check => check,
        };
        let is_one_more = match check {
            MarkCheck::Stale => {
                self.stats.stale += 1;
                return false;
            }
            MarkCheck::NotPlain => false,
            MarkCheck::Trusted if !is_sampled => true,
            MarkCheck::Trusted | MarkCheck::VerifyKey => {
                self.stats.checked += 1;
                if !self.has_key(packet, zoning, (record, rule.direction), tracker) {
                    self.stats.mismatched += 1;
                    return false;
                }
                // The first marked packet of a rule is not counted here: earlier packets of this
                // burst may have no mark.
                check == MarkCheck::Trusted || !tracker.confirm_mark(record, rule.direction)
            }
        };
        if is_one_more
            && tracker.accepts(record, meta, || SeqNumbers::of_plain(packet, meta, W > 2, l3))
        {
            tracker.count_one(record, meta, Micros::of(now));
            return true;
        }
        self.defer(record, tracker);
        false
    }

    /// Notes a packet that changes more than counters. It may end its connection, so packets behind
    /// it in this burst may belong to another one.
    #[inline(always)]
    fn defer<const W: usize>(&mut self, record: u32, tracker: &mut Tracker<W>) {
        self.stats.unusual += 1;
        self.conflicts.add(record, tracker);
    }
}

/// Adjacent packets of one IP version, and what is needed to count them.
#[derive(Clone)]
struct Run<'a> {
    run: Range<usize>,
    /// Packets whose keys are compared for the sample, a bit for each index in the columns.
    sampled: BurstMask,
    moment: BurstContext<'a>,
}

/// Totals of the marked packets of a burst.
struct MarkedTotals {
    pub(crate) counted: u64,
    bytes: u64,
    /// Places of packets that must be processed without mark.
    rest: BurstMask,
}

/// All places, in order.
const IN_ORDER: [u8; BURST_MAX] = {
    let mut places = [0; BURST_MAX];
    let mut i = 0;
    while i < BURST_MAX {
        places[i] = i as u8;
        i += 1;
    }
    places
};

/// Returns the set of the first `count` places.
#[inline(always)]
pub(crate) fn first(count: usize) -> BurstMask {
    if count >= BURST_MAX { BurstMask::MAX } else { (1 << count) - 1 }
}

#[cfg(test)]
mod tests;
