// SPDX-License-Identifier: BSD-3-Clause
//! Counts packets that the NIC forwarded by itself, so that no worker saw them.
//!
//! While the NIC may forward packets of a TCP connection, their numbers are unknown. So the window
//! check is paused. Flags alone change the state, and an RST, whose place in the window cannot be
//! known, only shortens the timeout. Once the NIC has no rule left, the numbers are learnt from
//! both sides, as after a restart.

use super::event::Transition;
use super::record::{ConnCold, ConnHot, PackedCounters};
use super::state::State;
use super::tcp::states::FlagKind;
use super::tcp::window::{TcpWindow, WindowScales};
use crate::api::{Anomaly, BypassCount, EndReason, PROTO_TCP, PROTO_UDP};
use crate::base::{Micros, Nanos};
use crate::packet::{ETHERNET, FIN, PacketMeta, PacketView, RST, VLAN_TAG, has_valid_flags};

impl<const W: usize> ConnHot<W> {
    /// True if the NIC may forward packets of the connection: it is TCP or UDP, both sides have
    /// sent packets, neither has begun to end it, and no access list checks each packet.
    pub(crate) fn can_be_bypassed(&self) -> bool {
        match self.state() {
            _ if self.is_checked() => false,
            State::UdpMultiple | State::TcpEstablished => true,
            State::FlowMultiple => matches!(self.key.proto(), PROTO_TCP | PROTO_UDP),
            _ => false,
        }
    }

    /// Pauses the window check, if there is one.
    pub(crate) fn pause_window_check(&mut self) {
        let scales = self.state_word.scales();
        if self.key.proto() != PROTO_TCP || !scales.are_known() {
            return;
        }
        // The SYNs, in which shifts are offered, may be among the packets that no worker sees.
        let scales = if self.state().is_handshake() { WindowScales::UNKNOWN } else { scales };
        self.window = TcpWindow::paused(scales);
        self.state_word = self.state_word.with_scales(WindowScales::PAUSED);
        self.expected = 0;
        if self.state().is_resumed() {
            self.enter(State::TcpEstablished);
        }
    }

    /// True if the window check is paused.
    #[inline(always)]
    pub(crate) fn has_paused_window(&self) -> bool {
        self.state_word.scales() == WindowScales::PAUSED
    }

    /// Ends the pause of the window check, unless the handshake is still going on. The numbers of
    /// an open connection are learnt anew. Those of an ending one are not checked any more: only
    /// one side may be left to learn from.
    pub(crate) fn resume_window_check(&mut self) {
        if !self.has_paused_window() || self.state().is_handshake() {
            return;
        }
        let is_open = self.state() == State::TcpEstablished;
        let scales = if is_open { self.scales() } else { WindowScales::UNCHECKED };
        self.window = TcpWindow::NONE;
        self.state_word = self.state_word.with_scales(scales);
        if is_open {
            self.enter(State::TcpResumed);
        }
    }

    /// Returns the window shifts, also while the window check is paused.
    pub(super) fn scales(&self) -> WindowScales {
        if self.has_paused_window() {
            return self.window.scales_before_pause();
        }
        self.state_word.scales()
    }

    /// Returns the effect of a packet while the window check is paused.
    ///
    /// # Errors
    /// [`Anomaly`] of a packet that an open connection has no use for.
    pub(super) fn event_while_paused(&self, packet: &PacketView) -> Result<Transition, Anomaly> {
        if self.state() != State::TcpEstablished {
            return self.event_by_flags(packet);
        }
        let (flags, direction) = (packet.meta.tcp_flags(), self.direction(packet.meta));
        match FlagKind::of(flags) {
            _ if !has_valid_flags(flags) => Err(Anomaly::TcpFlags),
            FlagKind::Syn if direction == 0 => Err(Anomaly::TcpSyn),
            FlagKind::SynAck if direction == 1 => Err(Anomaly::TcpSyn),
            FlagKind::Syn | FlagKind::SynAck => Err(Anomaly::TcpSynOfOther),
            FlagKind::Rst => Ok(Transition::None),
            FlagKind::Fin | FlagKind::Other => self.event_by_flags(packet),
        }
    }

    /// True for an open TCP connection whose numbers are unknown, so that an RST may be a forgery.
    pub(crate) fn has_unknown_numbers(&self) -> bool {
        let state = self.state();
        state.is_resumed() || state == State::TcpEstablished && self.has_paused_window()
    }

    /// Notes an RST of a connection whose numbers are unknown. Its timeout begins at `now`.
    pub(crate) fn note_rst(&mut self, meta: PacketMeta, now: Micros) {
        self.state_word = self.state_word.at(now);
        self.counters[self.direction(meta)].0 |= u64::from(RST);
    }

    /// Returns the reason of the end of a connection that was out of sync, or whose numbers were
    /// unknown when a side sent an RST.
    pub(crate) fn reason_when_unknown(&self) -> EndReason {
        if self.has_unknown_numbers() { EndReason::Rst } else { EndReason::Idle }
    }

    /// Returns the state whose timeout the connection has. It differs from the state if numbers
    /// are unknown and a side has sent a FIN or RST.
    #[inline(always)]
    pub(crate) fn state_for_timeout(&self) -> State {
        let state = self.state();
        if self.has_unknown_numbers() { self.state_by_flags(state) } else { state }
    }

    #[inline(never)]
    fn state_by_flags(&self, state: State) -> State {
        let [a, b] = self.counters.map(PackedCounters::tcp_flags);
        match a | b {
            flags if flags & RST != 0 => State::TcpOutOfSync,
            flags if flags & FIN != 0 => State::TcpFinWait,
            _ => state,
        }
    }

    /// Adds packets that the NIC has forwarded, sent by the end of the key that `swapped` names.
    ///
    /// The NIC does not report how many frame bytes are not IP bytes. Their average over the
    /// packets of the direction seen so far is assumed; if there are none, Ethernet header and tags
    /// of the first packet of the connection.
    pub(crate) fn add_bypass_count(
        &mut self,
        cold: &mut ConnCold,
        swapped: u8,
        passed: BypassCount,
        now: Nanos,
    ) {
        let direction = usize::from(swapped ^ self.originator()) & 1;
        let before = self.tally(cold, direction);
        let overhead = before.bytes - before.ip_bytes;
        let (known, of_known) = match before.packets {
            0 => (1, (ETHERNET + cold.vlan.count() * VLAN_TAG) as u64),
            packets => (packets, overhead),
        };
        let more = u128::from(of_known) * u128::from(passed.packets) / u128::from(known);
        let more = more.min(passed.bytes.into()) as u64;
        let packets = before.packets + passed.packets;
        let (bytes, overhead) = (before.bytes + passed.bytes, overhead + more);
        cold.packets_high[direction] = (packets >> PackedCounters::PACKETS_BITS) as u32;
        cold.overhead_high[direction] = (overhead >> PackedCounters::OVERHEAD_BITS) as u32;
        cold.bytes_high[direction] = (bytes >> PackedCounters::BYTES_BITS) as u32;
        let counters = PackedCounters::new(before.tcp_flags, packets, overhead, bytes);
        self.counters[direction] = counters;
        if now > self.last_seen(cold) {
            self.state_word = self.state_word.at(Micros::of(now));
        }
    }
}
