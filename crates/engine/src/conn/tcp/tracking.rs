// SPDX-License-Identifier: BSD-3-Clause
//! Determines the effect of a TCP segment on its connection by its numbers, or its anomaly.

use super::states::FlagKind;
use super::window::{TcpWindow, WindowScales};
use crate::api::{Anomaly, PROTO_TCP};
use crate::conn::event::Transition;
use crate::conn::record::ConnHot;
use crate::conn::sampler::Sampler;
use crate::conn::state::State;
use crate::packet::{
    ACK, FIN, PacketMeta, PacketView, RST, SYN, SeqNumbers, TcpHead, TcpReach, TcpSegment,
    has_valid_flags, is_syn,
};

impl<const W: usize> ConnHot<W> {
    /// Applies a [plain](Self::is_plain) segment to the window, if it has an ACK and its numbers
    /// fit. Also true if the numbers are unknown; then the window does not change.
    ///
    /// False: the segment does not fit, and nothing has changed.
    #[inline(always)]
    pub(crate) fn accepts(
        &mut self,
        direction: usize,
        meta: PacketMeta,
        numbers: Option<SeqNumbers>,
    ) -> bool {
        let Some(numbers) = numbers else { return true };
        let scales = self.state_word.scales();
        let is_plain = meta.tcp_flags() & (SYN | FIN | RST | ACK) == ACK;
        if !is_plain || self.window.check(scales, direction, numbers).is_err() {
            return false;
        }
        self.window.follow(scales, direction, numbers);
        true
    }

    /// Counts a later fragment of TCP or SCTP. It does not restart the timeout.
    ///
    /// Its part of the segment may be acknowledged later, so it extends the window if it fits. The
    /// result is that of [`count`](Self::count).
    #[must_use]
    pub(crate) fn count_later_fragment(
        &mut self,
        meta: PacketMeta,
        reach: TcpReach,
        sampler: impl Sampler,
    ) -> bool {
        let direction = self.direction(meta);
        if self.key.proto() == PROTO_TCP && self.checks_window() && self.can_go_on(direction, reach)
        {
            self.window.reach(direction, reach);
        }
        self.count_anomaly(meta, sampler)
    }

    /// True if a segment with this first fragment fits the connection.
    ///
    /// The result for the first fragment is not stored, so the whole segment is checked again.
    fn can_go_on(&self, direction: usize, TcpReach { front, more }: TcpReach) -> bool {
        let TcpHead { seq, ack, flags, len } = front;
        if self.state() == State::TcpSynSent {
            // Data with a SYN (RFC 7413). No numbers of the responder are known yet.
            return direction == 0 && is_syn(flags);
        }
        let len = u32::from(len) + u32::from(more);
        let segment = SeqNumbers { seq, ack, window: 0, len };
        let is_data = has_valid_flags(flags) && flags & (RST | ACK) == ACK;
        is_data && self.check_numbers(direction, segment).is_ok()
    }

    /// Applies a plain segment to the window like [`accepts`](Self::accepts), with the direction
    /// taken from `meta`.
    #[inline(always)]
    pub(crate) fn accepts_of_sender(
        &mut self,
        meta: PacketMeta,
        numbers: Option<SeqNumbers>,
    ) -> bool {
        self.accepts(self.direction(meta), meta, numbers)
    }

    /// Returns the effect of a packet without SCTP chunks, as if its checksum were right, and
    /// applies its numbers. The caller verifies the checksum and undoes the changes if it is wrong.
    #[inline(always)]
    pub(crate) fn event_of_sound(&mut self, packet: &PacketView) -> Result<Transition, Anomaly> {
        let meta = packet.meta;
        let checked = if self.checks_window() { packet.segment() } else { None };
        let Some(segment) = checked else { return self.event_without_numbers(packet) };
        let (direction, flags, state) = (self.direction(meta), meta.tcp_flags(), self.state());
        if !has_valid_flags(flags) {
            return Err(Anomaly::TcpFlags);
        }
        if is_syn(flags) && (state.is_closing() || self.yields_to_syn(direction, segment.numbers)) {
            return Ok(Transition::Reuse);
        }
        let kind = FlagKind::of(flags);
        let next = match (kind, state) {
            (FlagKind::Rst, _) => {
                self.check_rst(direction, flags, segment.numbers)?;
                // In an unanswered connection, some numbers are unknown.
                if state.is_first() == 1 {
                    self.state_word = self.state_word.with_scales(WindowScales::UNCHECKED);
                }
                State::TcpClose
            }
            (FlagKind::Syn | FlagKind::SynAck, _) => self.after_syn(direction, kind, segment)?,
            _ if state.is_resumed() => self.after_restart(direction, flags, segment.numbers),
            (_, State::TcpSynSent) => self.after_answer(direction, kind, segment.numbers)?,
            _ => self.after_data(direction, flags, segment.numbers)?,
        };
        Ok(Transition::entering(next, state))
    }

    /// Returns the effect of a packet by its flags: it is not TCP, there is no window check, or a
    /// capture cut its numbers.
    ///
    /// If the numbers of the beginning are missing, the connection is never checked.
    #[inline(never)]
    fn event_without_numbers(&mut self, packet: &PacketView) -> Result<Transition, Anomaly> {
        if self.has_paused_window() {
            return self.event_while_paused(packet);
        }
        if self.checks_window() && self.state().is_first() == 1 {
            self.state_word = self.state_word.with_scales(WindowScales::UNCHECKED);
            self.window = TcpWindow::NONE;
        }
        self.event_by_flags(packet)
    }

    /// True if a picked-up connection gives way to this SYN. False for a delayed SYN, whose number
    /// is at most one window behind the data seen.
    ///
    /// In such a connection, one side has sent a segment without a SYN and the other has not
    /// answered. That segment may be a forgery.
    fn yields_to_syn(&self, direction: usize, syn: SeqNumbers) -> bool {
        let is_late = || self.window.is_repeated(WindowScales(0), direction, syn);
        self.state() == State::TcpPickedUp && !is_late()
    }

    fn check_rst(&self, direction: usize, flags: u8, rst: SeqNumbers) -> Result<(), Anomaly> {
        let checked = self.window.check_rst(self.state_word.scales(), direction, rst);
        match (self.state(), direction) {
            // RFC 9293 section 3.5.1: it ends an earlier connection that only the responder knows,
            // not this one. Or it answers a late segment (RFC 9293 section 3.10.7.1).
            (State::TcpSynSent, 0) | (State::TcpClose, _) => {
                checked.map_err(|_| Anomaly::TcpRstInWindow)
            }
            // RFC 9293 section 3.10.7.3: of the responder only its acknowledgment is known.
            (State::TcpSynSent, _) => {
                let is_answer = flags & ACK != 0 && self.window.is_answer(rst);
                if is_answer { Ok(()) } else { Err(Anomaly::TcpRst) }
            }
            _ => match self.state().side_seen_since_restart() {
                None => checked,
                // Only an answer to a segment of the other side is more than a guess.
                Some(seen) if seen == Some(1 - direction) && checked.is_ok() => checked,
                Some(_) => Err(Anomaly::TcpRstInWindow),
            },
        }
    }

    fn after_syn(
        &mut self,
        direction: usize,
        kind: FlagKind,
        segment: TcpSegment,
    ) -> Result<State, Anomaly> {
        let (state, scales, numbers) = (self.state(), self.state_word.scales(), segment.numbers);
        match (state, direction, kind) {
            (State::TcpSynSent, 0, FlagKind::Syn) => {
                // An originator that sends another SYN has forgotten the first.
                if !self.window.is_syn_repeated(numbers) {
                    self.open_window(state, segment);
                }
                return Ok(state);
            }
            (State::TcpSynSent, 1, _) => {
                let is_ack = kind == FlagKind::SynAck;
                if is_ack && !self.window.is_answer(numbers) {
                    return Err(Anomaly::TcpAckBeyond);
                }
                let scales = self.window.on_syn_ack(scales, segment, is_ack);
                self.state_word = self.state_word.with_scales(scales);
            }
            // The sender of this SYN+ACK has seen the SYN of its peer. Whoever forged the earlier
            // SYN in its name has not.
            (State::TcpSynSent2, _, FlagKind::SynAck)
                if self.window.is_answer_of_another(direction, numbers) =>
            {
                let scales = self.window.answered_anew(scales, direction, segment);
                self.state_word = self.state_word.with_scales(scales);
            }
            (State::TcpSynSent2, _, FlagKind::SynAck) => {
                self.window.check(scales, direction, numbers)?;
                self.window.follow(scales, direction, numbers);
            }
            _ if !state.is_resumed() && self.window.is_repeated(scales, direction, numbers) => {
                return Ok(state);
            }
            (_, 0, FlagKind::Syn) | (_, 1, FlagKind::SynAck) => return Err(Anomaly::TcpSyn),
            // If the start was not seen, the originator is a guess.
            _ if scales == WindowScales::UNKNOWN => return Err(Anomaly::TcpSyn),
            _ => return Err(Anomaly::TcpSynOfOther),
        }
        Ok(state.after(direction, kind))
    }

    /// Returns the state after data of a connection whose numbers date from before a restart.
    ///
    /// Once one side's segment fits the other side's segments since the restart, both are checked.
    /// Until then, each segment that does not fit replaces the numbers learnt so far, and none is
    /// refused. So a forged packet cannot keep the real numbers from being learnt.
    fn after_restart(&mut self, direction: usize, flags: u8, numbers: SeqNumbers) -> State {
        let (scales, seen) =
            (self.state_word.scales(), self.state().side_seen_since_restart().flatten());
        let mut window = self.window;
        if seen == Some(1 - direction) {
            window.accept_ack(direction, numbers.ack);
        }
        if seen.is_none() || window.check(scales, direction, numbers).is_err() {
            self.window = TcpWindow::learn_side(direction, numbers);
            return State::resumed(direction);
        }
        window.follow(scales, direction, numbers);
        self.window = window;
        if seen == Some(direction) {
            return self.state();
        }
        self.state_word = self.state_word.with_learnt_numbers();
        self.state_by_fins(direction, flags)
    }

    /// Checks the numbers of a segment.
    ///
    /// If the numbers were learnt from one segment of each side, the peer may have sent more than
    /// was seen since. Then an acknowledgment of all that this side has let it send is right.
    ///
    /// # Errors
    /// [`Anomaly`] of the first bound that the segment violates.
    #[inline(always)]
    fn check_numbers(&self, direction: usize, numbers: SeqNumbers) -> Result<(), Anomaly> {
        let scales = self.state_word.scales();
        match self.window.check(scales, direction, numbers) {
            Err(Anomaly::TcpAckBeyond)
                if self.state_word.has_learnt_numbers()
                    && self.window.has_offered(scales, direction, numbers.ack) =>
            {
                Ok(())
            }
            checked => checked,
        }
    }

    /// Returns the state after a segment without SYN in answer to a SYN.
    ///
    /// # Errors
    /// [`Anomaly::TcpAckBeyond`] for a segment of the originator, [`Anomaly::TcpAckOld`] if it does
    /// not acknowledge the SYN.
    fn after_answer(
        &mut self,
        direction: usize,
        kind: FlagKind,
        numbers: SeqNumbers,
    ) -> Result<State, Anomaly> {
        if direction == 0 {
            return Err(Anomaly::TcpAckBeyond);
        }
        if !self.window.is_answer(numbers) {
            // RFC 9293 section 3.5.1: the responder has an earlier connection. An RST of the
            // originator must end it.
            return Err(Anomaly::TcpAckOld);
        }
        let scales = self.window.joined(numbers);
        self.state_word = self.state_word.with_scales(scales);
        Ok(self.state().after(direction, kind).with_numbers())
    }

    #[inline(always)]
    fn after_data(
        &mut self,
        direction: usize,
        flags: u8,
        numbers: SeqNumbers,
    ) -> Result<State, Anomaly> {
        let (state, scales) = (self.state(), self.state_word.scales());
        if state == State::TcpPickedUp {
            self.window.accept_ack(direction, numbers.ack);
        }
        self.check_numbers(direction, numbers)?;
        if self.state_word.has_learnt_numbers() {
            self.window.accept_ack(direction, numbers.ack);
        }
        self.window.follow(scales, direction, numbers);
        if state == State::TcpClose {
            return Ok(state);
        }
        let is_over = self.is_of_both(FIN, direction, flags);
        let next = match state.side_of_open_fin() {
            Some(closer) if self.window.is_acknowledged(closer) => State::TcpFinAcked,
            _ => match state.after(direction, FlagKind::of(flags)) {
                next if next == state => state,
                next => next.with_numbers(),
            },
        };
        Ok(match if is_over { State::TcpTimeWait } else { next } {
            State::TcpTimeWait | State::TcpLastAck
                if state != State::TcpTimeWait && !self.window.is_all_acked() =>
            {
                State::TcpLastAck
            }
            State::TcpLastAck => State::TcpTimeWait,
            next => next,
        })
    }
}
