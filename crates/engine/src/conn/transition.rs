// SPDX-License-Identifier: BSD-3-Clause
//! The first packet of a connection, and what each further one changes: chooses between the rules
//! of TCP, SCTP and of protocols without states.

use super::event::Transition;
use super::record::{ConnHot, PackedCounters};
use super::sctp::tags::SctpTags;
use super::state::State;
use super::state_word::StateWord;
use super::tcp::states::FlagKind;
use super::tcp::window::{TcpWindow, WindowScales};
use crate::api::{Anomaly, PROTO_SCTP};
use crate::packet::{
    FIN, Key, PacketMeta, PacketView, RST, SYN_FIN_RST, TcpSegment, has_valid_flags,
};

impl<const W: usize> ConnHot<W> {
    /// Makes it a flow before its first packet is counted. It is judged by numbers if there is a
    /// segment, and that can be the first of a connection.
    #[inline(always)]
    pub(crate) fn begin(&mut self, key: Key<W>, packet: &PacketView) {
        let (meta, segment) = (packet.meta, packet.segment());
        let flags = meta.tcp_flags();
        let mut phase = State::first(key.proto(), FlagKind::of(flags));
        self.key = key;
        self.counters = [PackedCounters(0); 2];
        self.state_word = StateWord::begin(meta.swapped());
        self.window = TcpWindow::NONE;
        if let Some(segment) = segment {
            // What no connection begins with is not to stand for one that does begin.
            phase = if has_valid_flags(flags) { phase } else { State::TcpStray };
            self.open_window(phase, segment);
        }
        if let Some(chunks) = packet.chunks {
            phase = self.open_association(chunks);
        }
        // A reply must not name the originator of the request that follows it.
        if phase == State::IcmpFirst && packet.is_icmp_reply(&key) {
            phase = State::IcmpStray;
        }
        self.expected = 0;
        self.enter(phase);
    }

    /// Makes it the flow that has begun with this SYN of the other side, and that the packet
    /// answers, before that is counted.
    pub(crate) fn begin_answered(&mut self, syn: TcpSegment, packet: &PacketView) {
        self.counters = [PackedCounters(0); 2];
        self.state_word = StateWord::begin(packet.meta.swapped() ^ 1);
        self.open_window(State::TcpSynSent, syn);
        if let Some(answer) = packet.segment() {
            let scales = self.window.on_syn_ack(self.state_word.scales(), answer, true);
            self.state_word = self.state_word.with_scales(scales);
        }
        self.expected = 0;
        self.enter(State::TcpSynRecv);
    }

    /// Its zone is one that judges by numbers now, or is not. Numbers that nobody has followed are
    /// learnt anew, as after a restart, where the flow neither begins nor ends: there, both sides
    /// are to be heard. One that is not judged any more goes by its flags.
    pub(crate) fn set_window_check(&mut self, is_judged: bool) {
        if self.checks_window() == is_judged {
            return;
        }
        if !is_judged {
            self.state_word = self.state_word.with_scales(WindowScales::NOT_JUDGED);
            self.window = TcpWindow::NONE;
        }
        match (is_judged, self.phase()) {
            (true, State::TcpEstablished) => {
                self.state_word = self.state_word.with_scales(WindowScales::UNKNOWN);
                self.enter(State::TcpResumed);
            }
            (true, State::SctpEstablished) => self.set_tags(&SctpTags::default()),
            (false, phase) if phase.is_resumed() => {
                let has_fin = self.counters.map(|counters| counters.tcp_flags() & FIN != 0);
                self.enter(match has_fin {
                    [false, false] => State::TcpEstablished,
                    [true, false] => State::TcpFinWait,
                    [false, true] => State::TcpCloseWait,
                    [true, true] => State::TcpTimeWait,
                });
            }
            (false, State::TcpOutOfSync) => self.enter(State::TcpEstablished),
            // Which acknowledgment is the last one is known by its number.
            (false, State::TcpLastAck) => self.enter(State::TcpTimeWait),
            _ => {}
        }
    }

    /// Whether the sender of a quoted packet can have sent this sequence number, as far as anybody
    /// knows (RFC 5927 section 4.1).
    pub(crate) fn has_sent(&self, meta: PacketMeta, seq: u32) -> bool {
        if !self.checks_window() {
            return true;
        }
        if self.key.proto() == PROTO_SCTP {
            return self.has_sent_tag(meta, seq);
        }
        match (self.phase(), self.direction(meta)) {
            (State::TcpSynSent, 0) => self.window.is_asked_with(seq),
            // Nothing came of the responder: of one that was picked up it may have gone before.
            (State::TcpSynSent, _) => false,
            (State::TcpPickedUp, 1) | (State::TcpClose, _) => true,
            // What both have sent before the restart is learnt as soon as both are heard.
            (phase, _) if phase.is_resumed() => true,
            (_, direction) => self.window.has_sent(self.state_word.scales(), direction, seq),
        }
    }

    /// What this packet does to the flow, if it came as it was sent. Before [`count`](Self::count).
    pub(crate) fn event(&mut self, packet: &PacketView) -> Result<Transition, Anomaly> {
        if let Some(chunks) = &packet.chunks {
            return self.event_of_association(packet, chunks);
        }
        let (untouched, flags) = (*self, packet.meta.tcp_flags());
        let event = self.event_of_sound(packet)?;
        // With such a flag numbers may have changed where the phase has not, or flags that count
        // later. A SYN without numbers is no more than an ACK.
        let telling = if self.checks_window() { SYN_FIN_RST } else { FIN | RST };
        let is_more = event != Transition::None || flags & telling != 0;
        if is_more && !packet.is_intact(&self.key) {
            *self = untouched;
            return Err(Anomaly::Checksum);
        }
        Ok(event)
    }
}
