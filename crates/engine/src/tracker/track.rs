// SPDX-License-Identifier: BSD-3-Clause
//! Counts a packet to its connection, and moves the connection from state to state.

use super::Tracker;
use super::marked::Evidence;
use super::step::{Foreseen, ReopenCause, Step};
use crate::account::Accounts;
use crate::api::Anomaly;
use crate::base::{LinkStore, Micros, Nanos};
use crate::conn::{Sampler, State, Transition};
use crate::packet::{FIN, HeaderInfo, Key, PacketMeta, PacketView, RST, SYN_FIN_RST, SeqNumbers};

/// How a packet changed the state of a connection, and the state before.
#[derive(Clone, Copy)]
pub(super) enum StateChange {
    /// The connection has left this state for another.
    From(State),
    /// Another connection has begun in the place of one that was in this state.
    New(State),
}

impl<const W: usize> Tracker<W> {
    /// Counts a packet if `record` has its key and the packet changes only counters. Otherwise
    /// changes nothing and returns false: the record has another key or is free, or the packet
    /// changes more.
    #[inline(always)]
    #[must_use]
    pub(crate) fn count(
        &mut self,
        (record, key): (u32, &Key<W>),
        (meta, numbers): (PacketMeta, impl FnOnce() -> Option<SeqNumbers>),
        now: Micros,
        sampler: impl Sampler,
    ) -> bool {
        // `NO_RECORD` is beyond the end of the table. So the bounds check also finds that there is
        // no candidate.
        let Some(hot) = self.table.hot.get_mut(record as usize) else { return false };
        if hot.key != *key || !hot.is_plain(meta) && !hot.is_plain_of_flow(meta) {
            return false;
        }
        if hot.checks_window() && !hot.accepts_of_sender(meta, numbers()) {
            return false;
        }
        if hot.count(meta, now, sampler.of(record)) {
            self.handle_rare(record, meta.swapped(), Evidence::Unmarked);
        }
        true
    }

    /// Counts a packet of the connection in `record`, and changes the connection's state.
    pub(crate) fn track(
        &mut self,
        record: u32,
        packet: &PacketView,
        accounts: &mut Accounts,
    ) -> Step {
        let PacketView { meta, header_info: info, now, .. } = *packet;
        if meta.tcp_flags() & SYN_FIN_RST != 0 {
            self.end_bypass(record, packet);
        }
        let hot = &mut self.table.hot[record as usize];
        let before = hot.state();
        let event = match hot.event(packet) {
            Err(anomaly) if self.answers_pending_syn(record, packet, anomaly) => {
                return Step::NeedsAdmission(ReopenCause::AgreedSyn);
            }
            event => event.or_else(|anomaly| self.resync(record, packet, anomaly)),
        };
        let transition = match event {
            Err(anomaly) if accounts.drops.drops(anomaly) => return Step::Invalid(anomaly),
            Err(anomaly) => return self.ignore(record, packet, anomaly),
            Ok(Transition::Reuse) => return Step::NeedsAdmission(ReopenCause::PortReuse),
            Ok(Transition::None) => None,
            Ok(Transition::Enter(state)) => {
                self.table.hot[record as usize].enter(state);
                self.entered(record);
                self.note_missed_answer(record, before, meta);
                Some(StateChange::From(before))
            }
        };
        self.finish(record, (meta, info, now), transition, accounts);
        if meta.tcp_flags() & (FIN | RST) != 0 {
            self.shorten_unknown(record, now);
        }
        Step::Tracked
    }

    /// Returns what [`track`](Self::track) would do with a packet of the connection in `record`.
    pub(crate) fn foresee(&self, record: u32, packet: &PacketView) -> Foreseen {
        let mut copy = self.table.hot[record as usize];
        match copy.event(packet) {
            Ok(Transition::Reuse) => Foreseen::Begins,
            Ok(_) => Foreseen::Fits,
            Err(anomaly) if self.answers_pending_syn(record, packet, anomaly) => Foreseen::Begins,
            Err(anomaly) if self.answered_misfit(record, packet, anomaly).is_some() => {
                Foreseen::Fits
            }
            Err(anomaly) => Foreseen::Ignored(anomaly),
        }
    }

    /// Updates the expected mark and the embryonic list after the connection in `record` changed
    /// its state.
    #[inline(always)]
    pub(super) fn entered(&mut self, record: u32) {
        let hot = &mut self.table.hot[record as usize];
        if let Some(rules) = &mut self.rules {
            if hot.has_paused_window() && !rules.has_bypass(record) {
                // A handshake kept the pause from ending with the last bypass.
                hot.resume_window_check();
            }
            rules.sync_mark(record, hot);
        }
        let state = hot.state();
        if state.is_assured() {
            self.table.unlink_embryonic(record);
        }
    }

    /// Counts a packet whose effect on the connection in `record` has been applied. Arms the timer
    /// anew if the new state has a shorter timeout, and emits the event.
    #[inline(always)]
    pub(super) fn finish(
        &mut self,
        record: u32,
        (meta, info, now): (PacketMeta, &HeaderInfo, Nanos),
        transition: Option<StateChange>,
        accounts: &mut Accounts,
    ) {
        let sampler = self.eval_interval.filter(|_| !info.is_later_fragment()).of(record);
        let hot = &mut self.table.hot[record as usize];
        let is_rare = hot.count(meta, Micros::of(now), sampler);
        if let Some(StateChange::From(before) | StateChange::New(before)) = transition {
            let timeout = self.timeouts.of(hot);
            // A timer may come up early but never late.
            if timeout < self.timeouts.of_state(hot, before) {
                self.rearm_earlier(record, now.saturating_add(timeout));
            }
        }
        if is_rare {
            self.handle_rare(record, meta.swapped(), Evidence::of_unmarked(info));
        }
        if accounts.has_subscribers() {
            self.emit_update(record, transition, accounts);
        }
    }

    /// Counts a packet that does not fit the connection in `record`.
    fn ignore(&mut self, record: u32, packet: &PacketView, anomaly: Anomaly) -> Step {
        if matches!(anomaly, Anomaly::TcpSyn | Anomaly::TcpSynOfOther) {
            self.store_pending_syn(record, packet);
        }
        let hot = &mut self.table.hot[record as usize];
        let is_rst = anomaly == Anomaly::TcpRstInWindow && hot.has_unknown_numbers();
        if is_rst && packet.is_intact(&hot.key) {
            hot.note_rst(packet.meta, Micros::of(packet.now));
            self.shorten_unknown(record, packet.now);
        }
        let evidence = Evidence::of_unmarked(packet.header_info);
        let sampler = self.eval_interval.filter(|_| evidence != Evidence::None).of(record);
        if self.table.hot[record as usize].count_anomaly(packet.meta, sampler) {
            self.handle_rare(record, packet.meta.swapped(), evidence);
        }
        Step::Ignored(anomaly)
    }

    /// Arms the timer of a connection again if it would expire after `deadline`. False if it
    /// expires in time already.
    pub(crate) fn rearm_earlier(&mut self, record: u32, deadline: Nanos) -> bool {
        let is_late = !self.table.wheel.comes_by(*self.table.cold.link(record), deadline);
        if is_late {
            self.table.wheel.disarm(&mut self.table.cold, record);
            self.table.wheel.arm(&mut self.table.cold, record, deadline);
        }
        is_late
    }
}
