// SPDX-License-Identifier: BSD-3-Clause
//! TCP by its numbers: what a segment does to its connection, or why it is none of its own.

use super::phase::Phase;
use super::vital::Vital;
use super::{Counters, Event, Hot};
use crate::api::{Irregular, PROTO_SCTP, PROTO_TCP};
use crate::conn::Tags;
use crate::offload::When;
use crate::packet::{
    ACK, Arrival, FIN, Front, Meta, Numbers, RST, Reach, SYN, SYN_FIN_RST, Segment, is_sound, opens,
};
use crate::tcp::{Kind, Scales, Window};

impl<const W: usize> Hot<W> {
    /// What is known after the first segment, which leads to this phase.
    pub(super) fn open_window(&mut self, phase: Phase, segment: Segment) {
        let (window, scales) = match phase {
            Phase::TcpSynSent => Window::asked(segment),
            Phase::TcpPickedUp => Window::picked_up(segment.numbers),
            // The numbers of what is over say nothing.
            _ => (Window::NONE, Scales::NOT_JUDGED),
        };
        self.window = window;
        self.vital = self.vital.with_scales(scales);
    }

    /// Makes it the flow that has begun with this SYN of the other side, and that the packet
    /// answers, before that is counted.
    pub(crate) fn begin_answered(&mut self, syn: Segment, packet: &Arrival) {
        self.counters = [Counters(0); 2];
        self.vital = Vital::begin(packet.meta.swapped() ^ 1);
        self.open_window(Phase::TcpSynSent, syn);
        if let Some(answer) = packet.segment() {
            let scales = self.window.answered(self.vital.scales(), answer, true);
            self.vital = self.vital.with_scales(scales);
        }
        self.expected = 0;
        self.enter(Phase::TcpSynRecv);
    }

    /// Whether it is TCP, and its numbers are known.
    #[inline(always)]
    pub(crate) fn is_judged(&self) -> bool {
        self.vital.scales() != Scales::NOT_JUDGED
    }

    /// Its zone is one that judges by numbers now, or is not. Numbers that nobody has followed are
    /// learnt anew, as after a restart, where the flow neither begins nor ends: there, both sides
    /// are to be heard. One that is not judged any more goes by its flags.
    pub(crate) fn judge_anew(&mut self, is_judged: bool) {
        if self.is_judged() == is_judged {
            return;
        }
        if !is_judged {
            self.vital = self.vital.with_scales(Scales::NOT_JUDGED);
            self.window = Window::NONE;
        }
        match (is_judged, self.phase()) {
            (true, Phase::TcpEstablished) => {
                self.vital = self.vital.with_scales(Scales::UNKNOWN);
                self.enter(Phase::TcpResumed);
            }
            (true, Phase::SctpEstablished) => self.set_tags(&Tags::default()),
            (false, phase) if phase.is_resumed() => {
                let has_fin = self.counters.map(|counters| counters.tcp_flags() & FIN != 0);
                self.enter(match has_fin {
                    [false, false] => Phase::TcpEstablished,
                    [true, false] => Phase::TcpFinWait,
                    [false, true] => Phase::TcpCloseWait,
                    [true, true] => Phase::TcpTimeWait,
                });
            }
            (false, Phase::TcpOutOfSync) => self.enter(Phase::TcpEstablished),
            // Which acknowledgment is the last one is known by its number.
            (false, Phase::TcpLastAck) => self.enter(Phase::TcpTimeWait),
            _ => {}
        }
    }

    /// Takes a segment that is no more than [one more](Self::is_one_more) of its flow by its flags,
    /// if its numbers are right, or not to be known. False, and nothing has changed, if they are
    /// wrong.
    #[inline(always)]
    pub(crate) fn takes(&mut self, direction: usize, meta: Meta, numbers: Option<Numbers>) -> bool {
        let Some(numbers) = numbers else { return true };
        let scales = self.vital.scales();
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
    pub(crate) fn count_further(&mut self, meta: Meta, reach: Reach, looks: impl When) -> bool {
        let direction = self.direction(meta);
        if self.key.proto() == PROTO_TCP && self.is_judged() && self.can_go_on(direction, reach) {
            self.window.reach(direction, reach);
        }
        self.count_irregular(meta, looks)
    }

    /// Whether the connection can have a segment whose first fragment says this. Nobody has written
    /// down what became of that one, so all of it is judged once more.
    fn can_go_on(&self, direction: usize, Reach { front, more }: Reach) -> bool {
        let Front { seq, ack, flags, len } = front;
        if self.phase() == Phase::TcpSynSent {
            // Data beside a SYN (RFC 7413); of who has not answered no numbers are known.
            return direction == 0 && opens(flags);
        }
        let len = u32::from(len) + u32::from(more);
        let segment = Numbers { seq, ack, window: 0, len };
        let is_data = is_sound(flags) && flags & (RST | ACK) == ACK;
        is_data && self.window.check(self.vital.scales(), direction, segment).is_ok()
    }

    /// The same by who sent it.
    #[inline(always)]
    pub(crate) fn takes_of_sender(&mut self, meta: Meta, numbers: Option<Numbers>) -> bool {
        self.takes(self.direction(meta), meta, numbers)
    }

    /// Whether the sender of a quoted packet can have sent this sequence number, as far as anybody
    /// knows (RFC 5927 section 4.1).
    pub(crate) fn has_sent(&self, meta: Meta, seq: u32) -> bool {
        if !self.is_judged() {
            return true;
        }
        if self.key.proto() == PROTO_SCTP {
            return self.has_sent_tag(meta, seq);
        }
        match (self.phase(), self.direction(meta)) {
            (Phase::TcpSynSent, 0) => self.window.is_asked_with(seq),
            // Nothing came of the responder: of one that was picked up it may have gone before.
            (Phase::TcpSynSent, _) => false,
            (Phase::TcpPickedUp, 1) | (Phase::TcpClose, _) => true,
            // What both have sent before the restart is learnt as soon as both are heard.
            (phase, _) if phase.is_resumed() => true,
            (_, direction) => self.window.has_sent(self.vital.scales(), direction, seq),
        }
    }

    /// What this packet does to the flow, if it came as it was sent. Before [`count`](Self::count).
    pub(crate) fn event(&mut self, packet: &Arrival) -> Result<Event, Irregular> {
        if let Some(chunks) = &packet.chunks {
            return self.event_of_association(packet, chunks);
        }
        let (untouched, flags) = (*self, packet.meta.tcp_flags());
        let event = self.event_of_sound(packet)?;
        // With such a flag numbers may have changed where the phase has not, or flags that count
        // later. A SYN without numbers is no more than an ACK.
        let telling = if self.is_judged() { SYN_FIN_RST } else { FIN | RST };
        let is_more = event != Event::None || flags & telling != 0;
        if is_more && !packet.is_intact(&self.key) {
            *self = untouched;
            return Err(Irregular::Checksum);
        }
        Ok(event)
    }

    #[inline(always)]
    fn event_of_sound(&mut self, packet: &Arrival) -> Result<Event, Irregular> {
        let meta = packet.meta;
        let judged = if self.is_judged() { packet.segment() } else { None };
        let Some(segment) = judged else { return self.event_without_numbers(packet) };
        let (direction, flags, phase) = (self.direction(meta), meta.tcp_flags(), self.phase());
        if !is_sound(flags) {
            return Err(Irregular::TcpFlags);
        }
        if opens(flags) && (phase.is_closing() || self.is_unheard_of(direction, segment.numbers)) {
            return Ok(Event::Reuse);
        }
        let kind = Kind::of(flags);
        let next = match (kind, phase) {
            (Kind::Rst, _) => {
                self.check_rst(direction, flags, segment.numbers)?;
                // Of what nobody has confirmed, some numbers are not known.
                if phase.is_first() == 1 {
                    self.vital = self.vital.with_scales(Scales::NOT_JUDGED);
                }
                Phase::TcpClose
            }
            (Kind::Syn | Kind::SynAck, _) => self.after_syn(direction, kind, segment)?,
            _ if phase.is_resumed() => self.after_restart(direction, flags, segment.numbers),
            (_, Phase::TcpSynSent) => self.after_answer(direction, kind, segment.numbers)?,
            _ => self.after_data(direction, flags, segment.numbers)?,
        };
        Ok(Event::entering(next, phase))
    }

    /// What a packet does by its flags: its flow is not judged, or a capture has cut its numbers. A
    /// connection whose beginning lacks numbers is not judged: nothing could be held against them.
    #[inline(never)]
    fn event_without_numbers(&mut self, packet: &Arrival) -> Result<Event, Irregular> {
        if self.is_judged() && self.phase().is_first() == 1 {
            self.vital = self.vital.with_scales(Scales::NOT_JUDGED);
            self.window = Window::NONE;
        }
        self.event_by_flags(packet)
    }

    /// Whether a connection of which one side was heard, and not its SYN, has to give way to this
    /// SYN, as it is none that comes late: anybody may have said what was heard, and nobody has
    /// said anything to it.
    fn is_unheard_of(&self, direction: usize, syn: Numbers) -> bool {
        let is_late = || self.window.is_repeated(Scales(0), direction, syn);
        self.phase() == Phase::TcpPickedUp && !is_late()
    }

    fn check_rst(&self, direction: usize, flags: u8, rst: Numbers) -> Result<(), Irregular> {
        let checked = self.window.check_rst(self.vital.scales(), direction, rst);
        match (self.phase(), direction) {
            // RFC 9293 section 3.5.1: it ends a connection of before, of which only the responder
            // knows, and not this one. RFC 9293 section 3.10.7.1: or it answers what came late.
            (Phase::TcpSynSent, 0) | (Phase::TcpClose, _) => {
                checked.map_err(|_| Irregular::TcpRstInWindow)
            }
            // RFC 9293 section 3.10.7.3: nothing is known of who answers but what it acknowledges.
            (Phase::TcpSynSent, _) => {
                let is_answer = flags & ACK != 0 && self.window.is_answer(rst);
                if is_answer { Ok(()) } else { Err(Irregular::TcpRst) }
            }
            _ => match self.phase().heard_since() {
                None => checked,
                // Only an answer to what the other side has said is more than a guess.
                Some(heard) if heard == Some(1 - direction) && checked.is_ok() => checked,
                Some(_) => Err(Irregular::TcpRstInWindow),
            },
        }
    }

    fn after_syn(
        &mut self,
        direction: usize,
        kind: Kind,
        segment: Segment,
    ) -> Result<Phase, Irregular> {
        let (phase, scales, numbers) = (self.phase(), self.vital.scales(), segment.numbers);
        match (phase, direction, kind) {
            (Phase::TcpSynSent, 0, Kind::Syn) => {
                // Whoever asks anew has forgotten what it asked before.
                if !self.window.is_asked_by(numbers) {
                    self.open_window(phase, segment);
                }
                return Ok(phase);
            }
            (Phase::TcpSynSent, 1, _) => {
                let is_ack = kind == Kind::SynAck;
                if is_ack && !self.window.is_answer(numbers) {
                    return Err(Irregular::TcpAckBeyond);
                }
                let scales = self.window.answered(scales, segment, is_ack);
                self.vital = self.vital.with_scales(scales);
            }
            // It has seen the SYN of its peer, and whoever has asked in its name has not.
            (Phase::TcpSynSent2, _, Kind::SynAck)
                if self.window.is_answer_of_another(direction, numbers) =>
            {
                let scales = self.window.answered_anew(scales, direction, segment);
                self.vital = self.vital.with_scales(scales);
            }
            (Phase::TcpSynSent2, _, Kind::SynAck) => {
                self.window.check(scales, direction, numbers)?;
                self.window.follow(scales, direction, numbers);
            }
            _ if !phase.is_resumed() && self.window.is_repeated(scales, direction, numbers) => {
                return Ok(phase);
            }
            (_, 0, Kind::Syn) | (_, 1, Kind::SynAck) => return Err(Irregular::TcpSyn),
            // Where its start was not seen, who is the originator is a guess.
            _ if scales == Scales::UNKNOWN => return Err(Irregular::TcpSyn),
            _ => return Err(Irregular::TcpSynOfOther),
        }
        Ok(phase.after(direction, kind))
    }

    /// After data of a connection whose numbers are of before a restart. Once a side fits to what
    /// the other has said since, both are judged. Until then whoever was heard last is believed,
    /// and nobody is refused: a packet that someone has made up keeps no other from being known.
    fn after_restart(&mut self, direction: usize, flags: u8, numbers: Numbers) -> Phase {
        let (scales, heard) = (self.vital.scales(), self.phase().heard_since().flatten());
        let mut window = self.window;
        if heard == Some(1 - direction) {
            window.believe(direction, numbers.ack);
        }
        if heard.is_none() || window.check(scales, direction, numbers).is_err() {
            self.window = Window::heard(direction, numbers);
            return Phase::resumed(direction);
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
        kind: Kind,
        numbers: Numbers,
    ) -> Result<Phase, Irregular> {
        if direction == 0 {
            return Err(Irregular::TcpAckBeyond);
        }
        if !self.window.is_answer(numbers) {
            // RFC 9293 section 3.5.1: it has a connection of before, and has to be told by an RST
            // that the originator has not.
            return Err(Irregular::TcpAckOld);
        }
        let scales = self.window.joined(numbers);
        self.vital = self.vital.with_scales(scales);
        Ok(self.phase().after(direction, kind))
    }

    #[inline(always)]
    fn after_data(
        &mut self,
        direction: usize,
        flags: u8,
        numbers: Numbers,
    ) -> Result<Phase, Irregular> {
        let (phase, scales) = (self.phase(), self.vital.scales());
        if phase == Phase::TcpPickedUp {
            self.window.believe(direction, numbers.ack);
        }
        self.window.check(scales, direction, numbers)?;
        self.window.follow(scales, direction, numbers);
        if phase == Phase::TcpClose {
            return Ok(phase);
        }
        let is_over = self.is_of_both(FIN, direction, flags);
        let next = phase.after(direction, Kind::of(flags));
        Ok(match if is_over { Phase::TcpTimeWait } else { next } {
            Phase::TcpTimeWait | Phase::TcpLastAck
                if phase != Phase::TcpTimeWait && !self.window.is_all_acked() =>
            {
                Phase::TcpLastAck
            }
            Phase::TcpLastAck => Phase::TcpTimeWait,
            next => next,
        })
    }
}
