// SPDX-License-Identifier: BSD-3-Clause
//! Keeps the decisions of access lists with their connections, and counts packets for the rules.
//!
//! A packet that its connection counts is not counted for its rule at once: when the connection
//! ends, or someone asks, the counters of the connection are added to those of the rule.

use super::Tracker;
use crate::account::Accounts;
use crate::api::{DirectionAccess, EventKind, MarkChange, RuleHits, Side};
use crate::base::Nanos;
use crate::conn::State;
use crate::packet::PacketMeta;
use crate::policy::{Judgement, Outcome};
use crate::table::{AccessColumn, ConnAccess, Searched};
use acl::CtStates;

impl Judgement {
    /// Returns what it says about the packets of one direction of a connection. Once the connection
    /// is reflected, its packets need not match the rule.
    pub(crate) fn decision(&self) -> DirectionAccess {
        match self.outcome() {
            _ if self.varies && !self.reflects => DirectionAccess::Varies,
            Outcome::Permit => DirectionAccess::Permitted,
            Outcome::Deny => DirectionAccess::Denied,
            Outcome::Reject => DirectionAccess::Rejected,
        }
    }
}

impl<const W: usize> Tracker<W> {
    /// Returns what the lists have decided about the connection in `record`.
    pub(crate) fn access(&self, record: u32) -> ConnAccess {
        let column = self.table.access.as_ref();
        column.map_or(ConnAccess::NONE, |column| column.conns[record as usize])
    }

    /// Returns the counters of the rules that decided about both directions of the connection in
    /// `record`, in the numbers of today.
    pub(crate) fn rules_of_access(&self, record: u32) -> [[u32; 2]; 2] {
        let access = self.access(record);
        let of = |column: &AccessColumn| [0, 1].map(|way| column.rules_of(&access, way));
        self.table.access.as_ref().map_or(access.rules, of)
    }

    /// True if access lists have to be asked about a packet of the connection in `record`: they
    /// check each packet, or it is the first answer.
    ///
    /// `judges_answers`: false if no list can deny the first answer, or needs to know of it.
    #[inline(always)]
    pub(crate) fn needs_access_check(
        &self,
        record: u32,
        meta: PacketMeta,
        judges_answers: bool,
    ) -> bool {
        let hot = &self.table.hot[record as usize];
        let is_answer = hot.state().is_first() as usize & hot.direction(meta) == 1;
        hot.is_checked() || judges_answers && is_answer
    }

    /// True if packets of the connection in `record` have to be compared with access lists, or
    /// dropped by their decision.
    pub(crate) fn is_checked(&self, record: u32) -> bool {
        self.table.hot[record as usize].is_checked()
    }

    /// True if the connection in `record` has no answer yet.
    pub(crate) fn is_unanswered(&self, record: u32) -> bool {
        self.table.hot[record as usize].state().is_first() == 1
    }

    /// Returns the direction of a packet of the connection in `record`: 0 if the originator sent
    /// it, 1 for the responder.
    pub(crate) fn direction(&self, record: u32, meta: PacketMeta) -> usize {
        self.table.hot[record as usize].direction(meta)
    }

    /// Notes the judgement about the first packet, which arrived at this side, of the connection
    /// that has begun in `record`.
    #[inline(never)]
    pub(crate) fn begin_access(&mut self, record: u32, judgement: &Judgement, side: Option<Side>) {
        let access = match judgement.reflects {
            true => ConnAccess::reflected(judgement.rules, [[0; 2]; 2]),
            false => ConnAccess::begun(judgement.rules, judgement.decision()),
        };
        let no_offload = judgement.no_offload;
        self.write_access(record, ConnAccess { side, no_offload, ..access });
    }

    /// Has the lists asked about the next packet of the responder, if a packet of the originator
    /// has ended the time in which an answer is awaited. The state before was `before`.
    #[inline(always)]
    pub(super) fn note_missed_answer(&mut self, record: u32, before: State, meta: PacketMeta) {
        let Some(column) = &self.table.access else { return };
        let hot = &mut self.table.hot[record as usize];
        let is_missed =
            (before.is_first(), hot.state().is_first(), hot.direction(meta)) == (1, 0, 0);
        if is_missed && column.conns[record as usize].is_half_decided() {
            hot.set_checked(true);
        }
    }

    /// Writes marks of a connection that begins in `record`, before its event.
    #[inline(always)]
    pub(super) fn write_marks_of_rules(&mut self, record: u32, change: MarkChange) {
        if change != MarkChange::NONE {
            self.change_marks(record, change);
        }
    }

    /// Writes marks of the connection in `record`. Emits an event if they differ now.
    pub(crate) fn set_marks_by_rules(
        &mut self,
        record: u32,
        change: MarkChange,
        accounts: &mut Accounts,
    ) {
        if change != MarkChange::NONE
            && self.change_marks(record, change)
            && accounts.has_subscribers()
        {
            accounts.emit(self.event(record, EventKind::Update));
        }
    }

    /// Writes marks of the connection in `record`. True if they differ now.
    #[cold]
    fn change_marks(&mut self, record: u32, change: MarkChange) -> bool {
        let old = self.table.ct_mark(record);
        let new = change.written_to(old);
        if new != old {
            self.table.set_ct_mark(record, new);
        }
        self.table.ct_mark(record) != old
    }

    /// Permits both directions of the connection in `record`, by a rule that reflects it. Packets
    /// so far are counted for the rules that decided before.
    pub(crate) fn reflect_access(&mut self, record: u32, judgement: &Judgement) {
        self.settle_access(record);
        let ConnAccess { settled, side, .. } = self.access(record);
        let (access, no_offload) =
            (ConnAccess::reflected(judgement.rules, settled), judgement.no_offload);
        self.write_access(record, ConnAccess { side, no_offload, ..access });
    }

    /// Notes the decision of a judgement about a direction of the connection in `record`. Packets
    /// so far are counted for the rules that decided before.
    pub(crate) fn decide_access(
        &mut self,
        record: u32,
        direction: usize,
        (decision, judgement): (DirectionAccess, &Judgement),
    ) {
        self.settle_access(record);
        let mut access = self.access(record);
        access.decisions[direction] = decision;
        access.rules[direction] = judgement.rules;
        access.no_offload |= judgement.no_offload;
        self.write_access(record, access);
    }

    fn write_access(&mut self, record: u32, access: ConnAccess) {
        let Some(column) = &mut self.table.access else { return };
        column.conns[record as usize] = ConnAccess { epoch: column.epoch, ..access };
        let hot = &mut self.table.hot[record as usize];
        let was_checked = hot.is_checked();
        let awaits_answer = hot.state().is_first() == 1;
        hot.set_checked(access.is_checked() || access.is_half_decided() && !awaits_answer);
        if let Some(rules) = self.rules.as_mut().filter(|_| was_checked && !hot.is_checked()) {
            rules.sync_mark(record, hot);
        }
        if let Some(rules) = self.rules.as_mut().filter(|_| access.no_offload) {
            rules.withdraw_rules(record);
        }
    }

    /// Returns the decisions about both directions of the connection in `record`; `None` if its
    /// next packet decides anew about them.
    pub(crate) fn stored_decisions(&self, record: u32) -> Option<[DirectionAccess; 2]> {
        let (access, hot) = (self.access(record), &self.table.hot[record as usize]);
        let is_open = access.is_open || hot.is_checked() && self.has_old_access(record);
        (!is_open).then_some(access.decisions)
    }

    /// True if access lists let the connection in `record` have NIC rules.
    pub(super) fn allows_offload(&self, record: u32) -> bool {
        !self.access(record).no_offload
    }

    /// True if the lists have changed since they decided about the connection in `record`.
    pub(crate) fn has_old_access(&self, record: u32) -> bool {
        let column = self.table.access.as_ref();
        column.is_some_and(|column| column.conns[record as usize].epoch != column.epoch)
    }

    /// Makes the next packet of the connection in `record` decide anew about both directions. Until
    /// then, the NIC may forward no packets of it by itself.
    pub(crate) fn open_access(&mut self, record: u32, now: Nanos) {
        if self.table.access.is_none() || self.table.hot[record as usize].is_free() {
            return;
        }
        self.settle_access(record);
        let ConnAccess { settled, side, .. } = self.access(record);
        self.write_access(record, ConnAccess { settled, side, is_open: true, ..ConnAccess::NONE });
        if let Some(rules) = self.rules.as_deref_mut().filter(|rules| rules.has_bypass(record)) {
            rules.withdraw_bypass(record, now);
        }
    }

    /// Notes what the lists say about both directions of a connection that was
    /// [open](Self::open_access).
    pub(crate) fn close_access(
        &mut self,
        record: u32,
        decisions: [DirectionAccess; 2],
        (rules, no_offload): ([[u32; 2]; 2], bool),
    ) {
        let ConnAccess { settled, side, .. } = self.access(record);
        let access = ConnAccess { rules, settled, decisions, side, no_offload, ..ConnAccess::NONE };
        self.write_access(record, access);
    }

    /// Counts for their rules the packets that the connection in `record` has counted since the
    /// last time.
    pub(crate) fn settle_access(&mut self, record: u32) {
        let Some(column) = &mut self.table.access else { return };
        let (hot, cold) = (&self.table.hot[record as usize], &self.table.cold.0[record as usize]);
        let mut access = column.conns[record as usize];
        for direction in 0..2 {
            let [packets, bytes] = hot.packets_and_bytes(cold, direction);
            let [before, bytes_before] = access.settled[direction];
            access.settled[direction] = [packets, bytes];
            let is_of_rule = access.decisions[direction] == DirectionAccess::Permitted;
            if is_of_rule && packets > before {
                let more = [packets - before, bytes - bytes_before];
                let rules = column.rules_of(&access, direction);
                column.add(rules, more, hot.last_seen(cold));
            }
        }
        column.conns[record as usize] = access;
    }

    /// Counts the packets of the connection in `record` for their rules, if there is one.
    pub(crate) fn settle_live(&mut self, record: u32) {
        if !self.table.hot[record as usize].is_free() {
            self.settle_access(record);
        }
    }

    /// Counts the packets of the connection in `record`, which ends, for their rules. What was
    /// decided about it does not hold for the next one there.
    #[inline(always)]
    pub(super) fn end_access(&mut self, record: u32) {
        if self.table.access.is_some() {
            self.settle_access(record);
            if let Some(column) = &mut self.table.access {
                column.conns[record as usize] = ConnAccess::NONE;
            }
        }
    }

    /// Notes that a packet in this relation to connections was compared with the lists.
    pub(crate) fn note_search(&mut self, rules: [u32; 2], ct: CtStates) {
        if let Some(column) = &mut self.table.access {
            column.searched = Searched { packets: column.searched.packets + 1, ct, rules };
        }
    }

    /// Counts one packet for these rules.
    pub(crate) fn count_hit(&mut self, rules: [u32; 2], meta: PacketMeta, now: Nanos) {
        if let Some(column) = &mut self.table.access {
            column.add(rules, [1, meta.frame_bytes()], now);
        }
    }

    /// Returns the counters of all rules; none without lists.
    pub(crate) fn rule_hits(&self) -> &[RuleHits] {
        self.table.access.as_ref().map_or(&[], |column| &column.hits)
    }
}
