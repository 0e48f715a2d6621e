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
    len: usize,
    claims: [Claim; BURST_MAX],
    /// Records of flows that a packet of this burst may end, and how many.
    unsettled: [u32; BURST_MAX],
    unsettled_len: usize,
    /// Where keys are made to be compared.
    lanes: Box<Lanes>,
    pub(crate) stats: MarkStats,
}

/// A packet, its mark, and the record that it names.
#[derive(Clone, Copy)]
struct Claim {
    record: u32,
    mark: u32,
    position: u32,
}

impl Claim {
    const NONE: Claim = Claim { record: 0, mark: 0, position: 0 };
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
            len: 0,
            claims: [Claim::NONE; BURST_MAX],
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
        let of_v4 = v4.capacity();
        let all = of_v4 + v6.capacity();
        let (mut len, mut rest) = (0, 0);
        for (packet, position) in packets.iter().zip(0..BURST_MAX as u32) {
            // 0 names no record.
            let mark = packet.mark().unwrap_or(0);
            let record = (mark >> shift).wrapping_sub(before);
            self.claims[len % BURST_MAX] = Claim { record, mark, position };
            if record < of_v4 {
                v4.prefetch(record);
            } else if record < all {
                v6.prefetch(record - of_v4);
            } else {
                self.stats.foreign += u64::from(mark != 0);
                rest |= 1 << position;
                continue;
            }
            len += 1;
        }
        self.len = len;
        rest
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
        let len = self.len.min(BURST_MAX);
        let sampled = self.sample();
        self.unsettled_len = 0;
        let mut sum = Sum { counted: 0, bytes: 0, rest: 0 };
        let claims = self.claims;
        let is_v6 = |claim: &Claim| claim.record >= of_v4;
        let mut first = 0;
        for run in claims[..len].chunk_by(|a, b| is_v6(a) == is_v6(b)) {
            let run_and_samples = (run, sampled >> first);
            match is_v6(&run[0]) {
                false => self.count_run(packets, run_and_samples, (v4, 0, moment), &mut sum),
                true => self.count_run(packets, run_and_samples, (v6, of_v4, moment), &mut sum),
            }
            first += run.len();
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

    /// Counts packets of one table, whose first record is `offset`, in their order.
    #[inline(always)]
    fn count_run<P: Packet, const W: usize>(
        &mut self,
        packets: &[P],
        (run, sampled): (&[Claim], Places),
        (table, offset, moment): (&mut FlowTable<W>, u32, Moment),
        sum: &mut Sum,
    ) where
        Lanes: Of<W>,
    {
        let mut place = 0;
        while let Some(claim) = run.get(place) {
            let sampled = sampled >> place;
            let four = run[place..].first_chunk::<GROUP>().filter(|_| sampled & 0b1111 == 0);
            let counted = match four {
                Some(four) => {
                    let of = four.each_ref().map(|claim| &packets[claim.position as usize]);
                    let metas = plain_four(of, W > 2, self.vectors);
                    let named = four.map(|claim| (claim.record - offset, claim.mark));
                    sum.count(&of, table.count_marked(named, metas, moment.now))
                }
                None if sampled & 1 == 0 => {
                    let packet = &packets[claim.position as usize];
                    let named = [(claim.record - offset, claim.mark)];
                    let metas = [plain(packet, W > 2)];
                    sum.count(&[packet], table.count_marked(named, metas, moment.now))
                }
                None => 0,
            };
            place += counted;
            if counted == four.map_or(1, |_| GROUP) {
                continue;
            }
            let Some(claim) = run.get(place) else { break };
            let packet = &packets[claim.position as usize];
            let is_sampled = sampled >> counted & 1 != 0;
            let named = (*claim, claim.record - offset);
            match self.look(packet, named, is_sampled, (&mut *table, moment)) {
                true => _ = sum.count(&[packet], 1),
                false => sum.rest |= 1 << claim.position,
            }
            place += 1;
        }
    }

    /// What is not simply good: true if it was counted all the same.
    #[inline(never)]
    fn look<P: Packet, const W: usize>(
        &mut self,
        packet: &P,
        (claim, record): (Claim, u32),
        is_sampled: bool,
        (table, moment): (&mut FlowTable<W>, Moment),
    ) -> bool
    where
        Lanes: Of<W>,
    {
        let outcome = self.judge(packet, Claim { record, ..claim }, is_sampled, (table, moment));
        if outcome == Outcome::Unsettles {
            self.unsettled[self.unsettled_len % BURST_MAX] = claim.record;
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

    /// Which claims of this burst have their key compared for the sample.
    #[inline(always)]
    fn sample(&mut self) -> Places {
        let KeyCheck::Sampled { one_in, .. } = self.check else { return 0 };
        let mut sampled = 0;
        while (self.until_check as usize) < self.len {
            sampled |= 1 << self.until_check;
            self.until_check += one_in.max(1);
        }
        self.until_check -= self.len as u32;
        sampled
    }
}

/// What became of the claims of a burst.
struct Sum {
    counted: u64,
    bytes: u64,
    /// Packets that go the way of others.
    rest: Places,
}

impl Sum {
    /// The first `counted` of some packets were counted.
    #[inline(always)]
    fn count<P: Packet>(&mut self, packets: &[&P], counted: usize) -> usize {
        self.counted += counted as u64;
        let bytes = packets.iter().map(|packet| packet.frame_len() as u64);
        self.bytes += match counted == packets.len() {
            true => bytes.sum::<u64>(),
            false => bytes.take(counted).sum(),
        };
        counted
    }
}
