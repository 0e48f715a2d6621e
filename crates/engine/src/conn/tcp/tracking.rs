// SPDX-License-Identifier: BSD-3-Clause
//! TCP by its numbers: what a segment does to its connection, or why it is none of its own.

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
    /// Takes a segment that is no more than [one more](Self::is_plain) of its flow by its flags,
    /// if its numbers are right, or not to be known. False, and nothing has changed, if they are
    /// wrong.
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

    /// Counts another fragment of TCP or SCTP, which is no sign of life. What it has of a segment
    /// may be acknowledged, if the connection can have that.
    #[must_use]
    pub(crate) fn count_later_fragment(
        &mut self,
        meta: PacketMeta,
        reach: TcpReach,
        looks: impl Sampler,
    ) -> bool {
        let direction = self.direction(meta);
        if self.key.proto() == PROTO_TCP && self.checks_window() && self.can_go_on(direction, reach)
        {
            self.window.reach(direction, reach);
        }
        self.count_irregular(meta, looks)
    }

    /// Whether the connection can have a segment whose first fragment says this. Nobody has written
    /// down what became of that one, so all of it is judged once more.
    fn can_go_on(&self, direction: usize, TcpReach { front, more }: TcpReach) -> bool {
        let TcpHead { seq, ack, flags, len } = front;
        if self.phase() == State::TcpSynSent {
            // Data beside a SYN (RFC 7413); of who has not answered no numbers are known.
            return direction == 0 && is_syn(flags);
        }
        let len = u32::from(len) + u32::from(more);
        let segment = SeqNumbers { seq, ack, window: 0, len };
        let is_data = has_valid_flags(flags) && flags & (RST | ACK) == ACK;
        is_data && self.window.check(self.state_word.scales(), direction, segment).is_ok()
    }

    /// The same by who sent it.
    #[inline(always)]
    pub(crate) fn accepts_of_sender(
        &mut self,
        meta: PacketMeta,
        numbers: Option<SeqNumbers>,
    ) -> bool {
        self.accepts(self.direction(meta), meta, numbers)
    }

    #[inline(always)]
    pub(crate) fn event_of_sound(&mut self, packet: &PacketView) -> Result<Transition, Anomaly> {
        let meta = packet.meta;
        let judged = if self.checks_window() { packet.segment() } else { None };
        let Some(segment) = judged else { return self.event_without_numbers(packet) };
        let (direction, flags, phase) = (self.direction(meta), meta.tcp_flags(), self.phase());
        if !has_valid_flags(flags) {
            return Err(Anomaly::TcpFlags);
        }
        if is_syn(flags) && (phase.is_closing() || self.yields_to_syn(direction, segment.numbers)) {
            return Ok(Transition::Reuse);
        }
        let kind = FlagKind::of(flags);
        let next = match (kind, phase) {
            (FlagKind::Rst, _) => {
                self.check_rst(direction, flags, segment.numbers)?;
                // Of what nobody has confirmed, some numbers are not known.
                if phase.is_first() == 1 {
                    self.state_word = self.state_word.with_scales(WindowScales::NOT_JUDGED);
                }
                State::TcpClose
            }
            (FlagKind::Syn | FlagKind::SynAck, _) => self.after_syn(direction, kind, segment)?,
            _ if phase.is_resumed() => self.after_restart(direction, flags, segment.numbers),
            (_, State::TcpSynSent) => self.after_answer(direction, kind, segment.numbers)?,
            _ => self.after_data(direction, flags, segment.numbers)?,
        };
        Ok(Transition::entering(next, phase))
    }

    /// What a packet does by its flags: its flow is not judged, or a capture has cut its numbers. A
    /// connection whose beginning lacks numbers is not judged: nothing could be held against them.
    #[inline(never)]
    fn event_without_numbers(&mut self, packet: &PacketView) -> Result<Transition, Anomaly> {
        if self.checks_window() && self.phase().is_first() == 1 {
            self.state_word = self.state_word.with_scales(WindowScales::NOT_JUDGED);
            self.window = TcpWindow::NONE;
        }
        self.event_by_flags(packet)
    }

    /// Whether a connection of which one side was heard, and not its SYN, has to give way to this
    /// SYN, as it is none that comes late: anybody may have said what was heard, and nobody has
    /// said anything to it.
    fn yields_to_syn(&self, direction: usize, syn: SeqNumbers) -> bool {
        let is_late = || self.window.is_repeated(WindowScales(0), direction, syn);
        self.phase() == State::TcpPickedUp && !is_late()
    }

    fn check_rst(&self, direction: usize, flags: u8, rst: SeqNumbers) -> Result<(), Anomaly> {
        let checked = self.window.check_rst(self.state_word.scales(), direction, rst);
        match (self.phase(), direction) {
            // RFC 9293 section 3.5.1: it ends a connection of before, of which only the responder
            // knows, and not this one. RFC 9293 section 3.10.7.1: or it answers what came late.
            (State::TcpSynSent, 0) | (State::TcpClose, _) => {
                checked.map_err(|_| Anomaly::TcpRstInWindow)
            }
            // RFC 9293 section 3.10.7.3: nothing is known of who answers but what it acknowledges.
            (State::TcpSynSent, _) => {
                let is_answer = flags & ACK != 0 && self.window.is_answer(rst);
                if is_answer { Ok(()) } else { Err(Anomaly::TcpRst) }
            }
            _ => match self.phase().side_heard_since() {
                None => checked,
                // Only an answer to what the other side has said is more than a guess.
                Some(heard) if heard == Some(1 - direction) && checked.is_ok() => checked,
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
        let (phase, scales, numbers) = (self.phase(), self.state_word.scales(), segment.numbers);
        match (phase, direction, kind) {
            (State::TcpSynSent, 0, FlagKind::Syn) => {
                // Whoever asks anew has forgotten what it asked before.
                if !self.window.is_asked_by(numbers) {
                    self.open_window(phase, segment);
                }
                return Ok(phase);
            }
            (State::TcpSynSent, 1, _) => {
                let is_ack = kind == FlagKind::SynAck;
                if is_ack && !self.window.is_answer(numbers) {
                    return Err(Anomaly::TcpAckBeyond);
                }
                let scales = self.window.on_syn_ack(scales, segment, is_ack);
                self.state_word = self.state_word.with_scales(scales);
            }
            // It has seen the SYN of its peer, and whoever has asked in its name has not.
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
            _ if !phase.is_resumed() && self.window.is_repeated(scales, direction, numbers) => {
                return Ok(phase);
            }
            (_, 0, FlagKind::Syn) | (_, 1, FlagKind::SynAck) => return Err(Anomaly::TcpSyn),
            // Where its start was not seen, who is the originator is a guess.
            _ if scales == WindowScales::UNKNOWN => return Err(Anomaly::TcpSyn),
            _ => return Err(Anomaly::TcpSynOfOther),
        }
        Ok(phase.after(direction, kind))
    }

    /// After data of a connection whose numbers are of before a restart. Once a side fits to what
    /// the other has said since, both are judged. Until then whoever was heard last is believed,
    /// and nobody is refused: a packet that someone has made up keeps no other from being known.
    fn after_restart(&mut self, direction: usize, flags: u8, numbers: SeqNumbers) -> State {
        let (scales, heard) = (self.state_word.scales(), self.phase().side_heard_since().flatten());
        let mut window = self.window;
        if heard == Some(1 - direction) {
            window.accept_ack(direction, numbers.ack);
        }
        if heard.is_none() || window.check(scales, direction, numbers).is_err() {
            self.window = TcpWindow::learn_side(direction, numbers);
            return State::resumed(direction);
        }
        window.follow(scales, direction, numbers);
        self.window = window;
        if heard == Some(direction) {
            return self.phase();
        }
        self.phase_by_fins(direction, flags)
    }

    /// After something that is no SYN, where there should be an answer to one.
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
            // RFC 9293 section 3.5.1: it has a connection of before, and has to be told by an RST
            // that the originator has not.
            return Err(Anomaly::TcpAckOld);
        }
        let scales = self.window.joined(numbers);
        self.state_word = self.state_word.with_scales(scales);
        Ok(self.phase().after(direction, kind))
    }

    #[inline(always)]
    fn after_data(
        &mut self,
        direction: usize,
        flags: u8,
        numbers: SeqNumbers,
    ) -> Result<State, Anomaly> {
        let (phase, scales) = (self.phase(), self.state_word.scales());
        if phase == State::TcpPickedUp {
            self.window.accept_ack(direction, numbers.ack);
        }
        self.window.check(scales, direction, numbers)?;
        self.window.follow(scales, direction, numbers);
        if phase == State::TcpClose {
            return Ok(phase);
        }
        let is_over = self.is_of_both(FIN, direction, flags);
        let next = phase.after(direction, FlagKind::of(flags));
        Ok(match if is_over { State::TcpTimeWait } else { next } {
            State::TcpTimeWait | State::TcpLastAck
                if phase != State::TcpTimeWait && !self.window.is_all_acked() =>
            {
                State::TcpLastAck
            }
            State::TcpLastAck => State::TcpTimeWait,
            next => next,
        })
    }
}
