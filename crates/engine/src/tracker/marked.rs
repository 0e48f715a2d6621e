// SPDX-License-Identifier: BSD-3-Clause
//! Counts packets by their marks, and does what is rare after a counted packet: full counters, and
//! evaluation of its direction.

use super::Tracker;
use crate::api::{RuleId, Side};
use crate::base::{Micros, Nanos, SimdLevel};
use crate::conn::{EIGHT, MarkedEight, Sampler, count_eight};
use crate::offload::{MarkCheck, PendingEval};
use crate::packet::{FIN, HeaderInfo, Key, PacketMeta, RST, SYN_FIN_RST, SeqNumbers};

/// What a counted packet shows about the NIC rule of its direction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Evidence {
    /// It had the mark of the rule.
    Marked,
    /// It should have had the mark, if there is a rule.
    Unmarked,
    /// Nothing: it is a later fragment, which no rule matches.
    None,
}

impl Evidence {
    /// Returns what an unmarked packet shows.
    #[inline(always)]
    pub(super) fn of_unmarked(info: &HeaderInfo) -> Self {
        if info.is_later_fragment() { Evidence::None } else { Evidence::Unmarked }
    }
}

impl<const W: usize> Tracker<W> {
    /// Counts packets whose marks name records, in their order. Stops at a packet that changes more
    /// than counters, or is not of its record.
    ///
    /// Returns the number of packets counted. Directions are those of the marks.
    #[inline(always)]
    pub(crate) fn count_marked(
        &mut self,
        (records, marks): (&[u32], &[u32]),
        metas: &[PacketMeta],
        now: Micros,
        numbers: impl Fn(usize) -> Option<SeqNumbers>,
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
            self.handle_rare(record, mark as u8 & 1, Evidence::Marked);
        }
        counted
    }

    /// Counts marked packets in their order, up to one for which [`handle_rare`](Self::handle_rare)
    /// must follow. Returns the number counted, and true if it must follow.
    #[inline(always)]
    fn count_until_rare(
        &mut self,
        (records, marks): (&[u32], &[u32]),
        metas: &[PacketMeta],
        now: Micros,
        numbers: impl Fn(usize) -> Option<SeqNumbers>,
    ) -> (usize, bool) {
        let (Some(sampler), hot) = (self.marked_interval, &mut *self.table.hot) else {
            return (0, false);
        };
        let mut counted = 0;
        for ((&record, &mark), &meta) in records.iter().zip(marks).zip(metas) {
            let Some(hot) = hot.get_mut(record as usize) else { break };
            let Some(direction) = hot.direction_of(mark, meta) else { break };
            if hot.checks_window() && !hot.accepts(direction, meta, numbers(counted)) {
                break;
            }
            counted += 1;
            if hot.count_to(direction, meta, now, sampler.of(record)) {
                return (counted, true);
            }
        }
        (counted, false)
    }

    /// Counts those of eight marked packets that change only counters. Returns the set of them: bit
    /// `i` for packet `i`. It may be empty.
    #[inline(always)]
    pub(crate) fn count_eight(&mut self, simd: SimdLevel, packets: MarkedEight) -> u8 {
        let Some(sampler) = self.marked_interval else { return 0 };
        let set = count_eight(simd, &mut self.table.hot, packets, sampler);
        let mut rare = set.rare;
        while rare != 0 {
            let at = rare.trailing_zeros() as usize % EIGHT;
            rare &= rare - 1;
            self.handle_rare(packets.records[at], packets.marks[at] as u8 & 1, Evidence::Marked);
        }
        set.counted
    }

    /// True if the window of the connection in `record` is checked.
    #[inline(always)]
    pub(crate) fn checks_window_of(&self, record: u32) -> bool {
        self.table.hot[record as usize].checks_window()
    }

    /// Returns the key of the connection in `record`.
    pub(crate) fn key(&self, record: u32) -> &Key<W> {
        &self.table.hot[record as usize].key
    }

    /// Returns the zone of the connection in `record`.
    pub(crate) fn zone(&self, record: u32) -> u16 {
        self.table.hot[record as usize].key.zone()
    }

    /// Returns how far to trust a packet whose mark names the record.
    pub(crate) fn check_mark(
        &self,
        record: u32,
        (mark, rule): (u32, RuleId),
        (meta, zone): (PacketMeta, u16),
    ) -> MarkCheck {
        let hot = &self.table.hot[record as usize];
        // If the record alone decides, the slot, which is rarely in the cache, is not loaded.
        if zone == hot.key.zone() && hot.direction_of(mark, meta).is_some() {
            return MarkCheck::Trusted;
        }
        let rules = self.rules.as_ref();
        rules.map_or(MarkCheck::Stale, |rules| rules.check_mark((record, rule), hot, (meta, zone)))
    }

    /// True if a packet whose mark is enough for this record changes more than counters, by its
    /// flags alone.
    #[inline(always)]
    pub(crate) fn is_more_by_flags(&self, (record, mark, meta): (u32, u32, PacketMeta)) -> bool {
        let (hot, flags) = (&self.table.hot[record as usize], meta.tcp_flags());
        // Without the window check, a SYN does no more than an ACK.
        let more = if hot.checks_window() { SYN_FIN_RST } else { FIN | RST };
        let is_of_mark = meta != PacketMeta::UNUSUAL && (mark ^ hot.expected) & !1 == 0;
        is_of_mark && flags & more != 0 && !hot.ignores_flags(meta)
    }

    /// Applies the sequence numbers of a packet to the window, if they fit. False if they do not
    /// fit; true if they are not checked. The caller knows by the flags that the packet changes
    /// only counters.
    pub(crate) fn accepts(
        &mut self,
        record: u32,
        meta: PacketMeta,
        numbers: impl FnOnce() -> Option<SeqNumbers>,
    ) -> bool {
        let hot = &mut self.table.hot[record as usize];
        !hot.checks_window() || hot.accepts_of_sender(meta, numbers())
    }

    /// Counts a packet that changes only counters of the connection in `record`.
    #[inline(always)]
    pub(crate) fn count_one(&mut self, record: u32, meta: PacketMeta, now: Micros) {
        let sampler = self.marked_interval.of(record);
        if self.table.hot[record as usize].count(meta, now, sampler) {
            self.handle_rare(record, meta.swapped(), Evidence::Marked);
        }
    }

    /// Notes the side, the time and the number of packets of a burst. `None`: the caller has one
    /// side only.
    #[inline(always)]
    pub(crate) fn arrive(&mut self, side: Option<Side>, now: Nanos, packets: usize) {
        self.side = side;
        if let Some(rules) = &mut self.rules {
            rules.arrive(side.unwrap_or(Side::A), now, packets);
        }
    }

    /// Does what is rare for a counted packet: carries full counters, and evaluates its direction
    /// if that is due.
    #[cold]
    pub(super) fn handle_rare(&mut self, record: u32, swapped: u8, evidence: Evidence) {
        if self.table.hot[record as usize].is_full_of_responder() {
            self.table.unlink_embryonic(record);
        }
        let hot = &mut self.table.hot[record as usize];
        if hot.is_full() {
            hot.carry_counters(&mut self.table.cold.0[record as usize]);
        }
        let is_due = match evidence {
            Evidence::Marked => hot.is_sample_due(swapped, self.marked_interval.of(record)),
            Evidence::Unmarked => hot.is_sample_due(swapped, self.eval_interval.of(record)),
            Evidence::None => false,
        };
        let Some(rules) = self.rules.as_mut().filter(|rules| is_due && rules.may_gain(hot)) else {
            return;
        };
        let due = PendingEval { record, direction: swapped & 1, side: rules.side() };
        if evidence == Evidence::Unmarked {
            return self.evaluate(due, false);
        }
        rules.prefetch(record);
        self.table.cold.0.prefetch(record as usize, 0);
        if let Some(due) = self.pending_eval.replace(due) {
            self.evaluate(due, true);
        }
    }
}
