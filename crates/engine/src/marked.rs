// SPDX-License-Identifier: BSD-3-Clause
//! The short cut: packets whose mark names their record are counted to it without key, hash and
//! lookup.
//!
//! A mark is believed as far as its generation is the record's; with the first packets of a rule,
//! and a sample of the rest, the key is compared too. Whatever is more than one packet more of a
//! flow goes the way of unmarked packets, in its place among them, and so does what a wrong mark is
//! on: that costs one lookup, and a counter.

use crate::key::Key;
use crate::mark::MarkLayout;
use crate::offload::Offload;
use crate::parse::{Lanes, Lengths, Meta, Of, parse, plain, plain_four, uncounted};
use crate::table::FlowTable;
use crate::vectors::Vectors;
use crate::{BURST_MAX, Nanos, ZoneFrom};
use std::array;
use wire::Packet;

/// Claims that are looked at side by side.
const GROUP: usize = 4;

/// Which packets of a burst: bit `i` for packet `i`.
pub(crate) type Places = u64;

const _: () = assert!(BURST_MAX as u32 <= Places::BITS);

/// How often the key of a marked packet is compared with that of the record its mark names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyCheck {
    /// With every packet.
    Always,
    /// With the first packets of each rule, and one of so many of the rest.
    Sampled {
        /// Of each rule.
        first: u8,
        /// At least 1.
        one_in: u32,
    },
}

/// What became of packets with a mark. Every one of them is in one of these; all but the first are
/// counted to their flow as if they had none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkStats {
    /// Counted by the mark.
    pub counted: u64,
    /// Not plain, or more than one more packet of its flow: TCP's SYN, FIN and RST, first answers.
    pub unusual: u64,
    /// Names no record of this worker.
    pub foreign: u64,
    /// Of another generation than the record.
    pub stale: u64,
    /// The packet has another key than the record.
    pub mismatched: u64,
    /// Packets whose key was compared; not a part of the sum.
    pub checked: u64,
}

/// The packets of a burst that name a record, in their order.
pub(crate) struct Marked {
    layout: MarkLayout,
    /// Index of the first record of IPv4; those of IPv6 come behind.
    first_index: u32,
    check: KeyCheck,
    /// Marked packets until the next sample.
    until_check: u32,
    vectors: Vectors,
    /// Marks of the packets of a burst, and the records that they name: of IPv4, then of IPv6.
    marks: [u32; BURST_MAX],
    records: [u32; BURST_MAX],
    /// Packets whose mark names a record; and one of IPv6.
    named: Places,
    of_v6: Places,
    /// Records of flows that a packet of this burst may end, and how many.
    unsettled: [u32; BURST_MAX],
    unsettled_len: usize,
    /// Where keys are made to be compared.
    lanes: Box<Lanes>,
    pub(crate) stats: MarkStats,
}

/// A mark, and the record of its table that it names.
#[derive(Clone, Copy)]
struct Claim {
    record: u32,
    mark: u32,
}

/// What the record says of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is one more packet.
    Good,
    /// It is, if the key is the record's.
    Doubted,
    /// It is more than that.
    Unusual,
    /// The record is another generation's.
    Stale,
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Counted,
    /// The packet goes the way of others.
    Left,
    /// And so do those behind it in this burst that are of the same flow: it may end by this one,
    /// and another may begin.
    Unsettles,
}

/// What all packets of a call have in common.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) now: Nanos,
    pub(crate) zone: ZoneFrom,
}

impl Marked {
    pub(crate) fn new(offload: &Offload) -> Self {
        let Offload { layout, first_index, check, .. } = *offload;
        Self {
            layout,
            first_index,
            check,
            until_check: 0,
            vectors: Vectors::detect(),
            marks: [0; BURST_MAX],
            records: [0; BURST_MAX],
            named: 0,
            of_v6: 0,
            unsettled: [0; BURST_MAX],
            unsettled_len: 0,
            lanes: Box::new(Lanes::new()),
            stats: MarkStats::default(),
        }
    }

    pub(crate) fn first_index(&self) -> u32 {
        self.first_index
    }

    /// Packets that have a mark which names a record; starts to load those. The others are in what
    /// it returns.
    #[inline(never)]
    pub(crate) fn claim<P: Packet>(
        &mut self,
        packets: &[P],
        (v4, v6): (&FlowTable<2>, &FlowTable<5>),
    ) -> Places {
        // The index of a mark is the record plus one, and all before it.
        let (shift, before) = (self.layout.shift(), self.first_index + 1);
        let (of_v4, len) = (v4.capacity(), packets.len().min(BURST_MAX));
        let all = of_v4 + v6.capacity();
        for (mark, packet) in self.marks.iter_mut().zip(packets) {
            // 0 names no record.
            *mark = packet.mark().unwrap_or(0);
        }
        for (record, mark) in self.records.iter_mut().zip(self.marks) {
            *record = (mark >> shift).wrapping_sub(before);
        }
        (self.named, self.of_v6) = (0, 0);
        for (i, &record) in self.records.iter().enumerate().take(len) {
            // Those of IPv6, and none at all, load nothing of use.
            v4.prefetch(record);
            self.named |= Places::from(record < all) << i;
            self.of_v6 |= Places::from(record >= of_v4) << i;
        }
        self.of_v6 &= self.named;
        let rest = !self.named & first(len);
        self.claim_rarely(rest, (v6, of_v4));
        rest
    }

    /// What packets without a mark that names a record of IPv4 need more.
    #[inline(always)]
    fn claim_rarely(&mut self, rest: Places, (v6, of_v4): (&FlowTable<5>, u32)) {
        for i in places(self.of_v6) {
            v6.prefetch(self.records[i] - of_v4);
        }
        for i in places(rest) {
            self.stats.foreign += u64::from(self.marks[i] != 0);
        }
    }

    /// Counts what is true of them; what is not, or needs more, is in what it returns. `bytes` are
    /// those of the packets counted.
    #[inline(never)]
    pub(crate) fn count<P: Packet>(
        &mut self,
        packets: &[P],
        (v4, v6): (&mut FlowTable<2>, &mut FlowTable<5>),
        moment: Moment,
    ) -> (Places, u64) {
        let of_v4 = v4.capacity();
        let sampled = self.sample(packets.len());
        self.unsettled_len = 0;
        let mut sum = Sum { counted: 0, bytes: 0, rest: 0 };
        let mut left = self.named;
        while left != 0 {
            let at = left.trailing_zeros() as usize;
            let is_v6 = self.of_v6 >> at & 1 != 0;
            let run = Run { at, left, sampled, moment };
            let done = match is_v6 {
                false => self.count_some(packets, run, (v4, 0), &mut sum),
                true => self.count_some(packets, run, (v6, of_v4), &mut sum),
            };
            left &= !(first(done) << at);
        }
        self.stats.counted += sum.counted;
        for &record in &self.unsettled[..self.unsettled_len.min(BURST_MAX)] {
            match record.checked_sub(of_v4) {
                None => v4.unsettle(record, false),
                Some(record) => v6.unsettle(record, false),
            }
        }
        (sum.rest, sum.bytes)
    }

    /// Settles one or more packets of one table, whose first record is `offset`, from a place on.
    /// Returns how many.
    #[inline(always)]
    fn count_some<P: Packet, const W: usize>(
        &mut self,
        packets: &[P],
        Run { at, left, sampled, moment }: Run,
        (table, offset): (&mut FlowTable<W>, u32),
        sum: &mut Sum,
    ) -> usize
    where
        Lanes: Of<W>,
    {
        let is_v6 = W > 2;
        let others = if is_v6 { !self.of_v6 } else { self.of_v6 };
        let is_in_row = (!left | sampled | others) >> at & 0b1111 == 0;
        let mut counted = 0;
        let four = packets.get(at..).and_then(|packets| packets.first_chunk::<GROUP>());
        if let (Some(four), true) = (four, is_in_row) {
            let metas = plain_four(four.each_ref(), is_v6, self.vectors);
            let named = array::from_fn(|i| self.named(at + i, offset));
            counted = sum.count(four, table.count_marked(named, metas, moment.now));
            if counted == GROUP {
                return GROUP;
            }
        } else if sampled >> at & 1 == 0 {
            let one = &packets[at..=at];
            let meta = plain(&one[0], is_v6);
            counted =
                sum.count(one, table.count_marked([self.named(at, offset)], [meta], moment.now));
            if counted == 1 {
                return 1;
            }
        }
        let at = at + counted;
        let is_sampled = sampled >> at & 1 != 0;
        match self.look(&packets[at], (at, offset), is_sampled, (table, moment)) {
            true => _ = sum.count(&packets[at..=at], 1),
            false => sum.rest |= 1 << at,
        }
        counted + 1
    }

    /// Record, in a table whose first is `offset`, and mark of a packet.
    #[inline(always)]
    fn named(&self, at: usize, offset: u32) -> (u32, u32) {
        (self.records[at % BURST_MAX].wrapping_sub(offset), self.marks[at % BURST_MAX])
    }

    /// What is not simply good: true if it was counted all the same.
    #[inline(never)]
    fn look<P: Packet, const W: usize>(
        &mut self,
        packet: &P,
        (at, offset): (usize, u32),
        is_sampled: bool,
        (table, moment): (&mut FlowTable<W>, Moment),
    ) -> bool
    where
        Lanes: Of<W>,
    {
        let (record, mark) = self.named(at, offset);
        let outcome = self.judge(packet, Claim { record, mark }, is_sampled, (table, moment));
        if outcome == Outcome::Unsettles {
            self.unsettled[self.unsettled_len % BURST_MAX] = record + offset;
            self.unsettled_len += 1;
        }
        outcome == Outcome::Counted
    }

    fn judge<P: Packet, const W: usize>(
        &mut self,
        packet: &P,
        claim: Claim,
        is_sampled: bool,
        (table, Moment { now, zone }): (&mut FlowTable<W>, Moment),
    ) -> Outcome
    where
        Lanes: Of<W>,
    {
        let lengths = Lengths { frame: packet.frame_len(), bytes: packet.wire_len() };
        let read = uncounted(packet.head(), lengths, zone, W > 2);
        let (meta, of_zone) = read.unwrap_or((Meta::UNUSUAL, 0));
        let rule = self.layout.decode(claim.mark);
        let meta = Meta { swapped: rule.direction, ..meta };
        match table.standing(claim.record, rule, (&meta, of_zone)) {
            Standing::Stale => {
                self.stats.stale += 1;
                return Outcome::Left;
            }
            Standing::Unusual => {
                self.stats.unusual += 1;
                table.unsettle(claim.record, true);
                return Outcome::Unsettles;
            }
            Standing::Good if !is_sampled => {}
            Standing::Good | Standing::Doubted => {
                self.stats.checked += 1;
                self.lanes.clear();
                let parsed = parse(packet, 0, zone, &mut self.lanes);
                let first = parsed.ok().and_then(|()| self.lanes.lane().first());
                let is_so = |(key, read): (Key<W>, &Meta)| {
                    table.holds(claim.record, &key) && read.swapped == rule.direction
                };
                if !first.is_some_and(is_so) {
                    self.stats.mismatched += 1;
                    return Outcome::Left;
                }
                table.believe(claim.record);
            }
        }
        table.count_one(claim.record, &meta, now);
        Outcome::Counted
    }

    /// Which packets of this burst have their key compared for the sample.
    #[inline(always)]
    fn sample(&mut self, len: usize) -> Places {
        let KeyCheck::Sampled { one_in, .. } = self.check else { return 0 };
        let mut sampled = 0;
        while (self.until_check as usize) < len {
            sampled |= 1 << self.until_check;
            self.until_check += one_in.max(1);
        }
        self.until_check -= len as u32;
        sampled
    }
}

/// Packets from a place on, and what is to be known of them.
#[derive(Clone, Copy)]
struct Run {
    at: usize,
    /// Those that are not settled yet, and those whose key is compared for the sample.
    left: Places,
    sampled: Places,
    moment: Moment,
}

/// What became of the packets of a burst.
struct Sum {
    counted: u64,
    bytes: u64,
    /// Packets that go the way of others.
    rest: Places,
}

impl Sum {
    /// The first `counted` of some packets were counted.
    #[inline(always)]
    fn count<P: Packet>(&mut self, packets: &[P], counted: usize) -> usize {
        self.counted += counted as u64;
        let bytes = packets.iter().map(|packet| packet.frame_len() as u64);
        self.bytes += match counted == packets.len() {
            true => bytes.sum::<u64>(),
            false => bytes.take(counted).sum(),
        };
        counted
    }
}

/// The first so many places.
#[inline(always)]
fn first(count: usize) -> Places {
    if count >= BURST_MAX { Places::MAX } else { (1 << count) - 1 }
}

/// One place after the other.
fn places(mut places: Places) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = places.trailing_zeros() as usize;
        places &= places.wrapping_sub(1);
        (place < BURST_MAX).then_some(place)
    })
}
