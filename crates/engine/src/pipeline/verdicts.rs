// SPDX-License-Identifier: BSD-3-Clause
//! Writes verdicts and, if asked, connection states.

use crate::account::Books;
use crate::api::{
    CtState, EndReason, FlowEvent, FlowRecord, InvalidPackets, Irregular, Malformed, OddFragments,
    Reason, Verdict, WhenFull,
};
use crate::base::Nanos;
use crate::packet::{Errand, Handed, Key};

/// Who is told the states of the packets of a burst.
pub(crate) trait States {
    /// Of the packet at this place.
    fn tell(&mut self, position: u8, state: impl FnOnce() -> CtState);
}

/// Nobody asks.
pub(crate) struct Unasked;

impl States for Unasked {
    #[inline(always)]
    fn tell(&mut self, _position: u8, _state: impl FnOnce() -> CtState) {}
}

impl States for &mut [CtState] {
    #[inline(always)]
    fn tell(&mut self, position: u8, state: impl FnOnce() -> CtState) {
        if let Some(told) = self.get_mut(usize::from(position)) {
            *told = state();
        }
    }
}

impl Books {
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

/// Who is told what became of packets that were more than one more of their flow.
pub(crate) trait Outcome {
    /// What the packet at this place is to its flow, if anybody asks.
    fn state(&mut self, position: u8, state: impl FnOnce() -> CtState);
    /// Whether a flow with this key may begin by a packet of this sender, and if not, why.
    fn check<const W: usize>(&mut self, key: &Key<W>, swapped: u8) -> Result<(), Reason>;
    /// Whether one may begin by a packet in the place of another one of its ports, and if not, why;
    /// who began that one and who begins this.
    fn check_next<const W: usize>(&mut self, key: &Key<W>, swapped: [u8; 2]) -> Result<(), Reason>;
    /// One did.
    fn created<const W: usize>(&mut self, key: &Key<W>, swapped: u8);
    /// One did, in the place of another, which ended by the same packet.
    fn replaced<const W: usize>(&mut self, key: &Key<W>, swapped: u8);
    /// Whether anybody takes what is left of flows.
    fn keeps(&self) -> bool;
    /// A flow ended by a packet.
    fn ended(&mut self, flow: FlowRecord);
    /// The same where nobody does; who began it.
    fn ended_unkept<const W: usize>(&mut self, key: &Key<W>, swapped: u8, reason: EndReason);
    /// The packet at this place in the burst began no flow in this zone, for want of room.
    fn full(&mut self, position: u8, zone: u16, reason: Reason);
    /// The packet at this place is of no flow, and begins none.
    fn stray(&mut self, position: u8, reason: Irregular);
    /// The fragment at this place has no flow to be counted to.
    fn astray(&mut self, position: u8);
    /// The packet at this place changes nothing. True: it is counted all the same.
    fn irregular(&mut self, position: u8, reason: Irregular) -> bool;
    /// The packet at this place is an ICMP error about a connection that there is, and about a
    /// packet that its sender can have sent; or about another one; or about none. It is a reply if
    /// it goes to the originator.
    fn error(&mut self, position: u8, is_related: Option<bool>, is_reply: bool);
    /// Whether somebody listens to what becomes of flows.
    fn listens(&self) -> bool;
    /// This became of one that has not ended.
    fn changed(&mut self, event: FlowEvent);
}

impl<S: States> Told<'_, S> {
    /// The packet at this place goes to another worker.
    pub(crate) fn send_away(&mut self, errand: Errand) {
        let position = errand.opening.position;
        self.books.stats.handed += 1;
        self.books.others.handed.push(Handed { position, errand });
        self.verdicts[usize::from(position)] = Verdict::Elsewhere;
        self.states.tell(position, || CtState::UNTRACKED);
    }
}

impl Books {
    /// A packet that waited goes to another worker. It was counted as held.
    pub(crate) fn held_goes_away(&mut self) {
        self.stats.held -= 1;
        self.stats.handed += 1;
    }
}
