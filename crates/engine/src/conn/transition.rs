// SPDX-License-Identifier: BSD-3-Clause
//! Determines the first state of a connection, and the effect of each later packet.
//!
//! Chooses between the rules of SCTP, and those of TCP and the other protocols.

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
    /// Initialises the record for a connection, before its first packet is counted.
    ///
    /// The window is tracked if the packet has a TCP segment that can begin a connection.
    #[inline(always)]
    pub(crate) fn begin(&mut self, key: Key<W>, packet: &PacketView) {
        let (meta, segment) = (packet.meta, packet.segment());
        let flags = meta.tcp_flags();
        let mut state = State::first(key.proto(), FlagKind::of(flags));
        self.key = key;
        self.counters = [PackedCounters(0); 2];
        self.state_word = StateWord::begin(meta.swapped());
        self.window = TcpWindow::NONE;
        if let Some(segment) = segment {
            // A packet that cannot begin a connection must not look like one that can.
            state = if has_valid_flags(flags) { state } else { State::TcpStray };
            self.open_window(state, segment);
        }
        if let Some(chunks) = packet.chunks {
            state = self.open_association(chunks);
        }
        // If a reply comes first, its sender must not become the originator of the next request.
        if state == State::IcmpFirst && packet.is_icmp_reply(&key) {
            state = State::IcmpStray;
        }
        self.expected = 0;
        self.enter(state);
    }

    /// Initialises the record for a flow whose states are not tracked, before its first packet is
    /// counted.
    #[inline(always)]
    pub(crate) fn begin_flow(&mut self, key: Key<W>, meta: PacketMeta) {
        self.key = key;
        self.counters = [PackedCounters(0); 2];
        self.state_word = StateWord::begin(meta.swapped());
        self.window = TcpWindow::NONE;
        self.expected = 0;
        self.enter(State::FlowFirst);
    }

    /// Begins or ceases to track the states of the connection.
    ///
    /// A TCP flow of both directions continues as established, or as closing if its flags say so.
    /// Call [`set_window_check`](Self::set_window_check) next.
    pub(crate) fn set_tracks_states(&mut self, tracks_states: bool) {
        if self.state().is_flow() != tracks_states {
            return;
        }
        if !tracks_states {
            self.state_word = self.state_word.with_scales(WindowScales::UNCHECKED);
            self.window = TcpWindow::NONE;
            let is_first = self.is_embryonic() || self.state().is_first() == 1;
            return self.enter(if is_first { State::FlowFirst } else { State::FlowMultiple });
        }
        let flags = self.counters.map(|counters| counters.tcp_flags());
        let state = match State::first(self.key.proto(), FlagKind::Other) {
            State::UdpFirst if self.state() == State::FlowFirst => State::UdpSingle,
            first if self.state() == State::FlowFirst => first,
            State::TcpPickedUp if (flags[0] | flags[1]) & RST != 0 => State::TcpClose,
            State::TcpPickedUp => State::of_fins(flags.map(|flags| flags & FIN != 0)),
            first => first.after(1, FlagKind::Other),
        };
        self.enter(state);
    }

    /// Initialises the record for a connection that began with `syn` of the other side.
    ///
    /// `packet` answers the SYN. Call this before the packet is counted.
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

    /// Turns the window check (TCP) or tag check (SCTP) of the connection on or off.
    ///
    /// When turned on, the numbers of an established connection are learnt anew from both sides, as
    /// after a restart. Connections that are beginning or ending are not checked. When turned off,
    /// only flags count.
    pub(crate) fn set_window_check(&mut self, has_window_check: bool) {
        let is_on = self.checks_window() || self.has_paused_window();
        if is_on == has_window_check {
            return;
        }
        if !has_window_check {
            self.state_word = self.state_word.with_scales(WindowScales::UNCHECKED);
            self.window = TcpWindow::NONE;
        }
        match (has_window_check, self.state()) {
            (true, State::TcpEstablished) => {
                self.state_word = self.state_word.with_scales(WindowScales::UNKNOWN);
                self.enter(State::TcpResumed);
            }
            (true, State::SctpEstablished) => self.set_tags(&SctpTags::default()),
            (false, state) if state.is_resumed() => {
                let has_fin = self.counters.map(|counters| counters.tcp_flags() & FIN != 0);
                self.enter(State::of_fins(has_fin));
            }
            (false, state) if state.without_numbers() != state => {
                self.enter(state.without_numbers());
            }
            _ => {}
        }
    }

    /// True if the sender of a quoted packet can have sent this sequence number (RFC 5927 section
    /// 4.1), or for SCTP this tag.
    ///
    /// Also true if too little is known to decide.
    pub(crate) fn has_sent(&self, meta: PacketMeta, seq: u32) -> bool {
        if !self.checks_window() {
            return true;
        }
        if self.key.proto() == PROTO_SCTP {
            return self.has_sent_tag(meta, seq);
        }
        match (self.state(), self.direction(meta)) {
            (State::TcpSynSent, 0) => self.window.has_sent_unanswered(seq),
            // The responder has sent nothing. Of a picked-up connection, that is not known: it may
            // have sent data before the pick-up.
            (State::TcpSynSent, _) => false,
            (State::TcpPickedUp, 1) | (State::TcpClose, _) => true,
            // After a restart, nothing is known until both sides have sent a packet.
            (state, _) if state.is_resumed() => true,
            (_, direction) => self.window.has_sent(self.state_word.scales(), direction, seq),
        }
    }

    /// Returns the effect of this packet on the connection. Call it before [`count`](Self::count).
    ///
    /// # Errors
    /// [`Anomaly`] if the packet does not fit the connection. A packet that would change the state
    /// must have a right checksum ([`Anomaly::Checksum`]).
    pub(crate) fn event(&mut self, packet: &PacketView) -> Result<Transition, Anomaly> {
        if self.state().is_flow() {
            return Ok(self.event_of_flow(packet.meta));
        }
        if let Some(chunks) = &packet.chunks {
            return self.event_of_association(packet, chunks);
        }
        let (before, flags) = (*self, packet.meta.tcp_flags());
        let event = self.event_of_sound(packet)?;
        // A packet with one of these flags may have changed numbers but not the state, or its flags
        // matter for a later packet. Without window check, a SYN does no more than an ACK.
        let significant_flags = if self.checks_window() { SYN_FIN_RST } else { FIN | RST };
        let is_more = event != Transition::None || flags & significant_flags != 0;
        if is_more && !packet.is_intact(&self.key) {
            *self = before;
            return Err(Anomaly::Checksum);
        }
        Ok(event)
    }
}
