// SPDX-License-Identifier: BSD-3-Clause
//! Owns the record of a connection: a hot part that every packet reads and writes, and a cold part.
//!
//! The cold part has the start time, the timer and the high words of counters. The hot part of an
//! IPv4 connection is one cache line, of an IPv6 connection two. Its counters are low words: 13
//! bits of packets, 15 bits of link-layer bytes, 25 bits of frame bytes. When one of them is full,
//! the excess moves to the cold part. An IPv4 connection takes 64 + 48 bytes.

use super::sampler::Sampler;
use super::state::State;
use super::state_word::StateWord;
use super::tcp::window::TcpWindow;
use crate::api::{CtState, EndReason, PROTO_TCP, VlanTags};
use crate::base::{Micros, Nanos, TimerLink};
use crate::packet::{
    BYTES_SHIFT, FIN, HeaderInfo, Key, OVERHEAD_SHIFT, PACKETS_SHIFT, PacketMeta, RST, SYN_FIN_RST,
};

/// Counters of one direction: union of TCP flags, packets, frame bytes that are not IP bytes, frame
/// bytes.
///
/// They are laid out as in a [`PacketMeta`], so that one addition counts a packet. The top bit of
/// each number is 0 before the addition, so no sum overflows into the next.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct PackedCounters(pub(super) u64);

impl PackedCounters {
    /// Top bits of the numbers. If one is set, the numbers must move to the cold part.
    const HIGH: u64 = 1 << 63 | 1 << (BYTES_SHIFT - 1) | 1 << (OVERHEAD_SHIFT - 1);

    /// Bits of each number below its top bit, which is free for the carry of one addition.
    pub(super) const PACKETS_BITS: u32 = OVERHEAD_SHIFT - 1 - PACKETS_SHIFT;

    pub(super) const OVERHEAD_BITS: u32 = BYTES_SHIFT - 1 - OVERHEAD_SHIFT;

    pub(super) const BYTES_BITS: u32 = 63 - BYTES_SHIFT;

    /// Creates counters from the low bits of these numbers.
    pub(super) fn new(tcp_flags: u8, packets: u64, overhead: u64, bytes: u64) -> Self {
        let low = |number: u64, bits: u32| number & ((1 << bits) - 1);
        let packets = low(packets, Self::PACKETS_BITS) << PACKETS_SHIFT;
        let overhead = low(overhead, Self::OVERHEAD_BITS) << OVERHEAD_SHIFT;
        let bytes = low(bytes, Self::BYTES_BITS) << BYTES_SHIFT;
        PackedCounters(bytes | overhead | packets | u64::from(tcp_flags))
    }

    /// Returns the counters after one packet more.
    #[inline(always)]
    pub(super) fn plus(self, meta: PacketMeta) -> Self {
        PackedCounters((self.0 | u64::from(meta.tcp_flags())).wrapping_add(meta.tally()))
    }

    /// True if a number has reached its top bit.
    #[inline(always)]
    pub(super) fn is_full(self) -> bool {
        self.0 & Self::HIGH != 0
    }

    #[inline(always)]
    pub(super) fn tcp_flags(self) -> u8 {
        self.0 as u8
    }

    #[inline(always)]
    pub(super) fn packets(self) -> u16 {
        (self.0 >> PACKETS_SHIFT) as u16 & (u16::MAX >> (15 - Self::PACKETS_BITS))
    }

    pub(super) fn overhead(self) -> u16 {
        (self.0 >> OVERHEAD_SHIFT) as u16
    }

    pub(super) fn bytes(self) -> u32 {
        (self.0 >> BYTES_SHIFT) as u32
    }
}

/// Hot part of a record, which every packet touches.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct ConnHot<const W: usize> {
    pub(crate) key: Key<W>,
    /// Counters of the originator's and of the responder's packets.
    pub(super) counters: [PackedCounters; 2],
    pub(super) state_word: StateWord,
    /// Mark of the originator's packets, if the mark alone suffices to count them. Otherwise 0,
    /// which is no mark.
    ///
    /// The mark of the responder's packets differs from it in the lowest bit.
    pub(crate) expected: u32,
    /// Window of TCP, or tags of SCTP; empty if they are not checked.
    pub(super) window: TcpWindow,
}

const _: () = assert!(size_of::<ConnHot<2>>() == 64 && size_of::<ConnHot<5>>() == 128);

/// Cold part of a record. Few packets touch it: the first one, and those that fill a counter, arm
/// the timer anew, or remove the connection from the embryonic list. Evaluation and expiry touch it
/// too.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct ConnCold {
    pub(super) start: Nanos,
    /// High words of packets. In an embryonic connection, the second word of `packets_high` and of
    /// `bytes_high` is a link (`embryonic.rs`).
    pub(super) packets_high: [u32; 2],
    pub(super) bytes_high: [u32; 2],
    pub(super) overhead_high: [u32; 2],
    /// Timer, or link to the next free record.
    pub(crate) link: TimerLink,
    /// Identifiers of up to two VLAN tags of the first packet.
    pub(super) vlan: VlanTags,
    /// ICMP: type * 256 + code of the first packet. The key has them as its first end sends them,
    /// which may be the responder.
    pub(super) icmp: u16,
}

const _: () = assert!(size_of::<ConnCold>() == 48);

impl<const W: usize> ConnHot<W> {
    pub(crate) const FREE: ConnHot<W> = ConnHot {
        key: Key([0; W]),
        counters: [PackedCounters(0); 2],
        state_word: StateWord::FREE,
        expected: 0,
        window: TcpWindow::NONE,
    };

    #[inline(always)]
    pub(crate) fn is_free(&self) -> bool {
        self.state_word.state_bits() == State::Free as u8
    }

    #[inline(always)]
    pub(crate) fn state(&self) -> State {
        State::of_bits(self.state_word.state_bits())
    }

    /// True if the connection was evaluated for a NIC rule.
    #[inline(always)]
    pub(crate) fn was_evaluated(&self) -> bool {
        self.state_word.was_evaluated()
    }

    /// True if access lists check each packet of the connection: one direction is denied, or the
    /// decision varies from packet to packet.
    #[inline(always)]
    pub(crate) fn is_checked(&self) -> bool {
        self.state_word.is_checked()
    }

    /// Sets whether access lists check each packet. While they do, no mark suffices to count one.
    pub(crate) fn set_checked(&mut self, is_checked: bool) {
        self.state_word = self.state_word.with_checked(is_checked);
        if is_checked {
            self.expected = 0;
        }
    }

    /// Marks the connection as evaluated for a NIC rule.
    pub(crate) fn set_evaluated(&mut self) {
        self.state_word = self.state_word.with_evaluated();
    }

    /// Returns the time of the last packet, to the microsecond.
    pub(crate) fn last_seen(&self, cold: &ConnCold) -> Nanos {
        self.state_word.last_seen(cold.start)
    }

    #[inline(always)]
    pub(crate) fn enter(&mut self, state: State) {
        self.state_word = self.state_word.with_state(state);
        if !self.is_steady() {
            self.expected = 0;
        }
    }

    /// True for a packet that does no more than being counted.
    ///
    /// False does not imply a change of state: [`event`](Self::event) decides.
    #[inline(always)]
    pub(crate) fn is_plain(&self, meta: PacketMeta) -> bool {
        let direction = meta.swapped() ^ self.originator();
        let more = direction | State::OPEN | StateWord::CHECKED_BIT;
        meta.tcp_flags() & SYN_FIN_RST | more & self.state_word.checked_state_bits() == 0
    }

    /// True if the TCP flags of a packet do not matter, because the states of its flow are not
    /// tracked. Also true for most packets of protocols without TCP flags.
    #[inline(always)]
    pub(crate) fn ignores_flags(&self, meta: PacketMeta) -> bool {
        let bits = self.state_word.checked_state_bits();
        let counts = State::FLAGLESS | State::OPEN | StateWord::CHECKED_BIT;
        (bits & counts == State::FLAGLESS) & meta.is_usual()
    }

    /// True for a packet of a flow without states that does no more than being counted.
    #[inline(always)]
    pub(crate) fn is_plain_of_flow(&self, meta: PacketMeta) -> bool {
        let direction = meta.swapped() ^ self.originator();
        self.ignores_flags(meta) && direction & self.state_word.state_bits() & 1 == 0
    }

    /// True for a packet of a [steady](Self::is_steady) connection that does no more than being
    /// counted. There a SYN does no more than an ACK.
    pub(crate) fn is_plain_of_steady(&self, meta: PacketMeta) -> bool {
        let direction = meta.swapped() ^ self.originator();
        let flags = if self.ignores_flags(meta) { 0 } else { meta.tcp_flags() & (FIN | RST) };
        flags | direction & self.state_word.state_bits() & 1 == 0
    }

    /// True if only flags and first answers can change the state, and no access list checks each
    /// packet.
    pub(crate) fn is_steady(&self) -> bool {
        let state = self.state();
        !state.is_open() && !state.is_closing() && !self.is_checked()
    }

    /// Returns the direction of a packet with this mark, 0 for the originator and 1 for the
    /// responder.
    ///
    /// `None`: the mark is not the expected one, or the packet does more than being counted. If the
    /// connection is not steady, its expected mark is 0, which no marked packet has.
    #[inline(always)]
    pub(crate) fn direction_of(&self, mark: u32, meta: PacketMeta) -> Option<usize> {
        let direction = mark ^ self.expected;
        // The first packet of the responder changes the state, so its mark does not suffice.
        let more = u32::from(self.state_word.state_bits()) & 1 | !1;
        // Few packets have these flags, so the processor predicts the branch.
        let is_plain = meta.tcp_flags() & (FIN | RST) == 0 || self.ignores_flags(meta);
        let is_so = (direction & more == 0) & is_plain;
        is_so.then_some(direction as usize)
    }

    /// Returns the relation of a tracked packet to the connection.
    pub(crate) fn ct_state(&self, meta: PacketMeta) -> CtState {
        let of_responder = self.counters[1].tcp_flags();
        let is_answered = match self.key.proto() {
            PROTO_TCP => of_responder != 0,
            _ => self.state().is_first() == 0,
        };
        match (self.is_reply(meta), is_answered) {
            (true, _) => CtState::ESTABLISHED | CtState::REPLY,
            (false, true) => CtState::ESTABLISHED,
            (false, false) if self.state().is_stray() => CtState::INVALID,
            (false, false) => CtState::NEW,
        }
    }

    /// True if the responder sent the packet.
    pub(crate) fn is_reply(&self, meta: PacketMeta) -> bool {
        self.direction(meta) == 1
    }

    /// Returns the direction of a packet: 0 if the originator sent it, 1 for the responder.
    #[inline(always)]
    pub(crate) fn direction(&self, meta: PacketMeta) -> usize {
        usize::from(meta.swapped() ^ self.originator()) & 1
    }

    /// Adds a packet to the counters of its direction.
    ///
    /// True: a counter has reached its top bit and [`carry_counters`](Self::carry_counters) must
    /// follow, or an evaluation for offload is due.
    #[inline(always)]
    #[must_use]
    pub(crate) fn count(&mut self, meta: PacketMeta, now: Micros, sampler: impl Sampler) -> bool {
        self.count_to(self.direction(meta), meta, now, sampler)
    }

    /// Counts a packet with an anomaly: the time of the last packet and the flags do not change.
    ///
    /// The result is that of [`count`](Self::count).
    #[must_use]
    pub(crate) fn count_anomaly(&mut self, meta: PacketMeta, sampler: impl Sampler) -> bool {
        let counters = &mut self.counters[self.direction(meta)];
        *counters = PackedCounters(counters.0.wrapping_add(meta.tally()));
        counters.is_full() || sampler.is_sample_due(counters.packets())
    }

    /// Adds a packet to the counters of a known direction: 0 for the originator, 1 for the
    /// responder.
    ///
    /// The result is that of [`count`](Self::count).
    #[inline(always)]
    #[must_use]
    pub(crate) fn count_to(
        &mut self,
        direction: usize,
        meta: PacketMeta,
        now: Micros,
        sampler: impl Sampler,
    ) -> bool {
        let direction = direction & 1;
        self.state_word = self.state_word.at(now);
        let counters = self.counters[direction].plus(meta);
        self.counters[direction] = counters;
        counters.is_full() || sampler.is_sample_due(counters.packets())
    }

    /// True if an evaluation for offload is due after the last counted packet of this end of the
    /// key.
    pub(crate) fn is_sample_due(&self, swapped: u8, sampler: impl Sampler) -> bool {
        sampler.is_sample_due(self.packets(swapped))
    }

    /// True if the responder's packets or bytes have reached their top bit.
    pub(crate) fn is_full_of_responder(&self) -> bool {
        self.counters[1].0 & PackedCounters::HIGH & !(1 << (BYTES_SHIFT - 1)) != 0
    }

    /// True if a counter has reached its top bit.
    pub(crate) fn is_full(&self) -> bool {
        let [a, b] = self.counters;
        (a.0 | b.0) & PackedCounters::HIGH != 0
    }

    /// Moves the top bits of the counters to the cold part.
    #[cold]
    pub(crate) fn carry_counters(&mut self, cold: &mut ConnCold) {
        for direction in 0..2 {
            let counters = &mut self.counters[direction];
            cold.packets_high[direction] +=
                u32::from(counters.packets() >> PackedCounters::PACKETS_BITS);
            cold.bytes_high[direction] += counters.bytes() >> PackedCounters::BYTES_BITS;
            cold.overhead_high[direction] +=
                u32::from(counters.overhead() >> PackedCounters::OVERHEAD_BITS);
            counters.0 &= !PackedCounters::HIGH;
        }
    }

    /// Returns the packets sent by this end of the key, modulo 2^13. Just after a packet that has
    /// filled the counter, and before [`carry_counters`](Self::carry_counters): 2^13.
    pub(crate) fn packets(&self, swapped: u8) -> u16 {
        self.counters[usize::from(swapped ^ self.originator()) & 1].packets()
    }

    /// Returns 1 if the originator is the second end of the key, else 0.
    #[inline(always)]
    pub(crate) fn originator(&self) -> u8 {
        self.state_word.orig_swapped()
    }

    /// True if both sides have sent a FIN.
    fn is_fin(&self) -> bool {
        let [a, b] = self.counters;
        a.tcp_flags() & b.tcp_flags() & FIN != 0
    }

    /// Returns the reason of the end of a connection whose timeout has passed.
    pub(crate) fn end_reason(&self) -> EndReason {
        match self.state() {
            State::TcpLastAck | State::SctpShutdownAck | State::SctpClosed => EndReason::Fin,
            state if state.is_closing() && self.is_fin() => EndReason::Fin,
            State::TcpClose | State::TcpStray => EndReason::Rst,
            state if state.is_over_for_sctp() => EndReason::Rst,
            _ if self.state_for_timeout() == State::TcpOutOfSync => self.reason_when_unknown(),
            _ => EndReason::Idle,
        }
    }
}

impl ConnCold {
    pub(crate) const FREE: ConnCold = ConnCold {
        start: 0,
        packets_high: [0; 2],
        bytes_high: [0; 2],
        overhead_high: [0; 2],
        link: TimerLink::UNLINKED,
        vlan: VlanTags::NONE,
        icmp: 0,
    };

    /// Returns the time of the first packet.
    pub(crate) fn start(&self) -> Nanos {
        self.start
    }

    /// Returns the cold part of a connection that begins now. The caller arms the timer in `link`.
    pub(crate) fn begin(info: &HeaderInfo, now: Nanos, link: TimerLink) -> Self {
        ConnCold { start: now, link, vlan: info.vlan, icmp: info.icmp, ..Self::FREE }
    }
}
