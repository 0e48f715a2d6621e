// SPDX-License-Identifier: BSD-3-Clause
//! What tracking produces, and what becomes of packets that begin no flow or are none of theirs.

use crate::account::Events;
use crate::api::{
    Config, CtState, EndReason, FlowEvent, FlowRecord, InvalidPackets, Irregular, Malformed,
    OddFragments, Reason, Stats, Verdict, WhenFull,
};
use crate::base::Nanos;
use crate::burst::Outcome;
use crate::errands::Others;
use crate::packet::Key;
use crate::pipeline::States;
use crate::policy::{Limits, Zones};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

/// Flow records that may wait to be taken. `expire` and `flush` leave half of them to flows that
/// end by a packet, which cannot wait.
const RECORDS_MAX: usize = 4096;

/// What tracking produces: counters and flow records.
pub(crate) struct Books {
    pub(crate) stats: Stats,
    pub(crate) records: VecDeque<FlowRecord>,
    pub(crate) events: Events,
    pub(crate) limits: Limits,
    pub(crate) limits_bytes: usize,
    pub(crate) others: Others,
    zones: Arc<Zones>,
    malformed: Malformed,
    invalid: InvalidPackets,
    sees_all: bool,
    odd_fragments: OddFragments,
    keeps_records: bool,
}

impl Books {
    pub(crate) fn new(config: &Config, zones: Arc<Zones>) -> Self {
        Self {
            stats: Stats::default(),
            records: VecDeque::with_capacity(RECORDS_MAX),
            events: Events::new(),
            limits: Limits::new(config),
            limits_bytes: Limits::bytes(config),
            others: Others::new(config.steering.clone()),
            zones,
            malformed: config.malformed,
            invalid: config.invalid,
            sees_all: config.sees_all,
            odd_fragments: config.odd_fragments,
            keeps_records: config.records,
        }
    }

    /// What holds in zones from now on; returns what held before.
    pub(crate) fn set_zones(&mut self, zones: Arc<Zones>) -> Arc<Zones> {
        std::mem::replace(&mut self.zones, zones)
    }

    /// Whether a flow that can wait may end now.
    pub(crate) fn has_room(&self) -> bool {
        self.records.len() < RECORDS_MAX / 2
    }

    /// What becomes of a packet without a key.
    #[inline(never)]
    pub(crate) fn without_key(&mut self, reason: Reason) -> Verdict {
        let is_dropped = match reason {
            Reason::Unrelated => self.invalid == InvalidPackets::Drop,
            _ if reason.is_odd_fragment() => self.odd_fragments == OddFragments::Drop,
            _ => reason.is_malformed() && self.malformed == Malformed::Drop,
        };
        if is_dropped {
            self.stats.dropped[reason as usize] += 1;
            return Verdict::Drop;
        }
        self.stats.passed[reason as usize] += 1;
        Verdict::Forward
    }

    /// Whether a connection that is not here is nowhere: it may be with another engine.
    fn is_nowhere(&self) -> bool {
        self.sees_all || self.others.have_none_more()
    }

    /// Whether anybody takes what is left of a flow.
    pub(crate) fn keeps(&self) -> bool {
        self.keeps_records || self.events.listens()
    }

    /// A flow of this zone has ended, which somebody at this address began.
    pub(crate) fn count_end(&mut self, reason: EndReason, zone: u16, src: impl FnOnce() -> IpAddr) {
        self.limits.ended(zone, src);
        self.stats.ended[reason as usize] += 1;
        // The packet that ended it by reuse began another flow in its place.
        self.stats.created += u64::from(reason == EndReason::Reuse);
    }

    pub(crate) fn end(&mut self, flow: FlowRecord) {
        self.count_end(flow.end_reason, flow.zone, || flow.src);
        self.events.ended(&flow);
        if !self.keeps_records {
            return;
        }
        // A caller that takes no record between bursts loses the oldest ones, not memory.
        if self.records.len() == RECORDS_MAX {
            self.records.pop_front();
            self.stats.records_lost += 1;
        }
        self.records.push_back(flow);
    }
}

/// Where it is written down what became of packets.
pub(crate) struct Told<'a, S> {
    pub(crate) books: &'a mut Books,
    pub(crate) verdicts: &'a mut [Verdict],
    pub(crate) states: &'a mut S,
    pub(crate) now: Nanos,
}

impl<S: States> Outcome for Told<'_, S> {
    #[inline(always)]
    fn state(&mut self, position: u8, state: impl FnOnce() -> CtState) {
        self.states.tell(position, state);
    }

    fn check<const W: usize>(&mut self, key: &Key<W>, swapped: u8) -> Result<(), Reason> {
        self.books.limits.check(&self.books.zones, (key, swapped), self.now)
    }

    fn check_next<const W: usize>(&mut self, key: &Key<W>, swapped: [u8; 2]) -> Result<(), Reason> {
        self.books.limits.check_next(key, swapped, self.now)
    }

    fn created<const W: usize>(&mut self, key: &Key<W>, swapped: u8) {
        self.books.stats.created += 1;
        self.books.limits.began(key.zone(), || key.end(swapped), self.now);
    }

    fn replaced<const W: usize>(&mut self, key: &Key<W>, swapped: u8) {
        self.books.limits.began(key.zone(), || key.end(swapped), self.now);
    }

    fn ended(&mut self, flow: FlowRecord) {
        self.books.end(flow);
    }

    fn keeps(&self) -> bool {
        self.books.keeps()
    }

    fn ended_unkept<const W: usize>(&mut self, key: &Key<W>, swapped: u8, reason: EndReason) {
        self.books.count_end(reason, key.zone(), || key.end(swapped));
    }

    fn irregular(&mut self, position: u8, reason: Irregular) -> bool {
        self.books.stats.irregular[reason as usize] += 1;
        // Somebody may have asked by way of another engine.
        let is_sure = reason != Irregular::IcmpReply || self.books.is_nowhere();
        let is_dropped = reason.is_invalid() && self.books.invalid == InvalidPackets::Drop;
        if is_dropped && is_sure {
            self.untracked(position, Reason::Invalid, true);
        }
        !(is_dropped && is_sure)
    }

    fn listens(&self) -> bool {
        self.books.events.listens()
    }

    fn changed(&mut self, event: FlowEvent) {
        self.books.events.push(event);
    }

    fn full(&mut self, position: u8, zone: u16, reason: Reason) {
        let is_dropped = self.books.zones.of(zone).when_full == WhenFull::Drop;
        self.untracked(position, reason, is_dropped);
    }

    fn error(&mut self, position: u8, is_related: Option<bool>, is_reply: bool) {
        let drops = self.books.invalid == InvalidPackets::Drop;
        match is_related {
            Some(true) => self.untracked(position, Reason::Related, false),
            Some(false) => self.untracked(position, Reason::Unrelated, drops),
            None => self.untracked(position, Reason::Unrelated, drops && self.books.is_nowhere()),
        }
        if is_related == Some(true) && is_reply {
            self.states.tell(position, || CtState::RELATED | CtState::REPLY);
        }
    }

    fn astray(&mut self, position: u8) {
        self.untracked(position, Reason::Fragment, false);
    }

    fn stray(&mut self, position: u8, reason: Irregular) {
        self.books.stats.irregular[reason as usize] += 1;
        let is_dropped = self.books.invalid == InvalidPackets::Drop;
        self.untracked(position, Reason::Invalid, is_dropped);
    }
}

impl<S: States> Told<'_, S> {
    /// The packet at this place has no key, and was not counted as tracked.
    pub(crate) fn refuse(&mut self, position: u8, reason: Reason) {
        self.verdicts[usize::from(position)] = self.books.without_key(reason);
        self.states.tell(position, || CtState::of_reason(reason));
    }

    /// A packet that was counted as tracked, and is not.
    fn untracked(&mut self, position: u8, reason: Reason, is_dropped: bool) {
        let stats = &mut self.books.stats;
        stats.tracked -= 1;
        self.states.tell(position, || CtState::of_reason(reason));
        match is_dropped {
            false => stats.passed[reason as usize] += 1,
            true => {
                stats.dropped[reason as usize] += 1;
                self.verdicts[usize::from(position)] = Verdict::Drop;
            }
        }
    }
}
