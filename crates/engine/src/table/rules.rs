// SPDX-License-Identifier: BSD-3-Clause
//! What a table does for rules of the NIC, and counts by their marks.

use super::FlowTable;
use crate::api::{Answer, RuleId, Side, Wish};
use crate::base::{Micros, Nanos};
use crate::conn::When;
use crate::offload::{Learnt, Looks, MarkCheck, Named, Rules, Score, Sight, Wanted};
use crate::packet::{FIN, Meta, Numbers, RST, SYN_FIN_RST};

/// A direction that is to be looked at.
#[derive(Clone, Copy)]
pub(super) struct Due {
    record: u32,
    direction: u8,
    /// Where its packet arrived.
    side: Side,
}

impl Due {
    pub(super) fn is_of(self, record: u32) -> bool {
        self.record == record
    }
}

/// Candidates that are tried for one rule: more are for the next time.
const CANDIDATES: usize = 16;

impl<const W: usize> FlowTable<W> {
    /// Counts packets whose marks name records, in their order, up to one that is more than one
    /// more of its flow, or not of it. Returns how many it counted; directions are those of the
    /// marks.
    #[inline(always)]
    pub(crate) fn count_marked(
        &mut self,
        (records, marks): (&[u32], &[u32]),
        metas: &[Meta],
        now: Micros,
        numbers: impl Fn(usize) -> Option<Numbers>,
    ) -> usize {
        let mut counted = 0;
        while counted < records.len() {
            let left = (&records[counted..], &marks[counted..]);
            let numbers = |at: usize| numbers(counted + at);
            let (more, is_rare) = self.count_until_rare(left, &metas[counted..], now, numbers);
            counted += more;
            if !is_rare {
                break;
            }
            let (record, mark) = (records[counted - 1], marks[counted - 1]);
            self.counted(record, mark as u8 & 1, true);
        }
        counted
    }

    /// The same, up to one for which [`counted`](Self::counted) must follow.
    #[inline(always)]
    fn count_until_rare(
        &mut self,
        (records, marks): (&[u32], &[u32]),
        metas: &[Meta],
        now: Micros,
        numbers: impl Fn(usize) -> Option<Numbers>,
    ) -> (usize, bool) {
        let (Some(looks), hot) = (self.looks, &mut *self.hot) else { return (0, false) };
        let looks = looks.of_marked();
        let mut counted = 0;
        for ((&record, &mark), &meta) in records.iter().zip(marks).zip(metas) {
            let Some(hot) = hot.get_mut(record as usize) else { break };
            let Some(direction) = hot.direction_of(mark, meta) else { break };
            if hot.is_judged() && !hot.takes(direction, meta, numbers(counted)) {
                break;
            }
            counted += 1;
            if hot.count_to(direction, meta, now, looks.of(record)) {
                return (counted, true);
            }
        }
        (counted, false)
    }

    /// The zone of a record's flow.
    pub(crate) fn zone(&self, record: u32) -> u16 {
        self.hot[record as usize].key.zone()
    }

    /// What is known of a packet whose mark names the record.
    pub(crate) fn check_mark(
        &self,
        record: u32,
        (mark, rule): (u32, RuleId),
        (meta, zone): (Meta, u16),
    ) -> MarkCheck {
        let hot = &self.hot[record as usize];
        // What the record says by itself spares the slot, which comes from afar.
        if zone == hot.key.zone() && hot.direction_of(mark, meta).is_some() {
            return MarkCheck::Trusted;
        }
        let rules = self.rules.as_ref();
        rules.map_or(MarkCheck::Stale, |rules| rules.check_mark((record, rule), hot, (meta, zone)))
    }

    /// Whether a packet whose mark is enough for this record is more than one more of its flow, by
    /// its flags alone.
    #[inline(always)]
    pub(crate) fn is_more_by_flags(&self, (record, mark, meta): (u32, u32, Meta)) -> bool {
        let (hot, flags) = (&self.hot[record as usize], meta.tcp_flags());
        // Without numbers a SYN is no more than an ACK.
        let more = if hot.is_judged() { SYN_FIN_RST } else { FIN | RST };
        meta != Meta::UNUSUAL && (mark ^ hot.expected) & !1 == 0 && flags & more != 0
    }

    /// Whether a packet that is one more of the record's flow by its flags has the right numbers,
    /// if they are judged; if so, they are taken.
    pub(crate) fn takes(
        &mut self,
        record: u32,
        meta: Meta,
        numbers: impl FnOnce() -> Option<Numbers>,
    ) -> bool {
        let hot = &mut self.hot[record as usize];
        !hot.is_judged() || hot.takes_of_sender(meta, numbers())
    }

    /// Counts a packet that is one more of the record's flow.
    #[inline(always)]
    pub(crate) fn count_one(&mut self, record: u32, meta: Meta, now: Micros) {
        let looks = self.looks.map(Looks::of_marked);
        if self.hot[record as usize].count(meta, now, looks.of(record)) {
            self.counted(record, meta.swapped(), true);
        }
    }

    /// When somebody looks at a direction; never without rules.
    #[inline(always)]
    pub(crate) fn looks(&self) -> Option<Looks> {
        self.looks
    }

    /// A packet with the mark of this record had its key; true if it is the first of its rule.
    pub(crate) fn believe(&mut self, record: u32, direction: u8) -> bool {
        let Some(rules) = &mut self.rules else { return false };
        let hot = &mut self.hot[record as usize];
        let is_first = rules.believe(record, direction, hot);
        if is_first {
            let (packets, _) = hot.so_far(&self.cold.0[record as usize], direction);
            rules.begin_hits(record, direction, packets);
        }
        is_first
    }

    /// Which mark is enough for packets of this record from here on; 0: none. Returns which was.
    #[inline(always)]
    pub(crate) fn expect(&mut self, record: u32, mark: u32) -> u32 {
        std::mem::replace(&mut self.hot[record as usize].expected, mark)
    }

    /// Where and when the packets of the next calls arrived, and how many. Without a side there is
    /// but one.
    #[inline(always)]
    pub(crate) fn arrive(&mut self, side: Option<Side>, now: Nanos, packets: usize) {
        self.side = side;
        if let Some(rules) = &mut self.rules {
            rules.arrive(side.unwrap_or(Side::A), now, packets);
        }
    }

    /// The rules of its flows.
    pub(crate) fn rules(&self) -> Option<&Rules> {
        self.rules.as_deref()
    }

    /// The same, to change them.
    pub(crate) fn rules_mut(&mut self) -> Option<&mut Rules> {
        self.rules.as_deref_mut()
    }

    /// Which records slots name.
    #[inline(always)]
    pub(crate) fn named(&self) -> Named<'_> {
        self.rules.as_deref().map_or(Named::NONE, |rules| rules.slots().named())
    }

    /// Visits rules: [`Rules::tend`].
    pub(crate) fn tend(&mut self, turn: (Nanos, usize), wanted: &mut [Wanted; 2]) {
        if let Some(rules) = &mut self.rules {
            rules.tend(&self.hot, turn, wanted);
        }
    }

    /// Asks for a rule of the best candidate of a side, which is worth so much.
    pub(crate) fn ask(&mut self, side: Side, worth: Score) -> Option<Wish> {
        let rules = self.rules.as_deref_mut()?;
        for _ in 0..CANDIDATES {
            let who = rules.take_candidate(side, worth)?;
            let hot = &mut self.hot[who.record as usize];
            if rules.has_place(hot.key.zone(), (side, worth)) {
                let (packets, _) = hot.so_far(&self.cold.0[who.record as usize], who.direction);
                return rules.ask(who, (side, worth), (hot, packets));
            }
        }
        None
    }

    /// Learns what became of a wish.
    pub(crate) fn learn(&mut self, rule: RuleId, answer: Answer) -> Learnt {
        let Some(rules) = &mut self.rules else { return Learnt::default() };
        let learnt = rules.learn(rule, answer);
        if let Some(record) = learnt.without_rule {
            rules.release(record, &mut self.hot[record as usize]);
        }
        learnt
    }

    /// What is rare about a packet that was counted, by its mark or not.
    #[cold]
    pub(super) fn counted(&mut self, record: u32, swapped: u8, is_marked: bool) {
        if self.hot[record as usize].is_full_of_responder() {
            self.leave_embryonic(record);
        }
        let hot = &mut self.hot[record as usize];
        if hot.is_full() {
            hot.spill(&mut self.cold.0[record as usize]);
        }
        let (looks, later) = (self.looks.of(record), self.looks.map(Looks::of_marked).of(record));
        let is_due =
            if is_marked { hot.is_due(swapped, later) } else { hot.is_due(swapped, looks) };
        let Some(rules) = self.rules.as_mut().filter(|_| is_due) else { return };
        let due = Due { record, direction: swapped & 1, side: rules.side() };
        if !is_marked {
            return self.look(due, false);
        }
        rules.prefetch(record);
        self.cold.0.prefetch(record as usize, 0);
        if let Some(due) = self.waiting.replace(due) {
            self.look(due, true);
        }
    }

    fn look(&mut self, Due { record, direction, side }: Due, is_marked: bool) {
        let Some(rules) = &mut self.rules else { return };
        let hot = &mut self.hot[record as usize];
        let (packets, start) = hot.so_far(&self.cold.0[record as usize], direction);
        rules.look((Sight { record, direction, packets, start, is_marked }, side), hot);
    }
}
