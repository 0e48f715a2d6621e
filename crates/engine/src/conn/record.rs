// SPDX-License-Identifier: BSD-3-Clause
//! The record of a connection: a hot line that every packet reads and writes, and a cold part for
//! birth, death and the high words of counters.
//!
//! The hot part of an IPv4 flow is one cache line, of an IPv6 flow two. Counters there are low
//! words of 13, 15 or 25 bits; what goes beyond them, once in 2^13 packets or 2^15 bytes of
//! link-layer headers, is moved to the cold part. That makes 64 + 48 bytes per IPv4 flow.

use super::sampler::Sampler;
use super::state::State;
use super::state_word::StateWord;
use super::tcp::window::TcpWindow;
use crate::api::{CtState, EndReason, PROTO_TCP, VlanTags};
use crate::base::{Micros, Nanos, TimerLink};
use crate::packet::{
    BYTES_SHIFT, FIN, HeaderInfo, Key, OVERHEAD_SHIFT, PACKETS_SHIFT, PacketMeta, RST, SYN_FIN_RST,
};

/// The union of TCP flags, packets, frame bytes that are not IP bytes and frame bytes of one
/// direction, laid out as in a [`PacketMeta`], so that one addition counts a packet. The top bit of
/// each number is 0 before it: no sum carries.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct PackedCounters(pub(super) u64);

impl PackedCounters {
    /// The top bits: time to move them to the cold part.
    const HIGH: u64 = 1 << 63 | 1 << (BYTES_SHIFT - 1) | 1 << (OVERHEAD_SHIFT - 1);

    /// Bits of each number below its top bit.
    pub(super) const PACKETS_BITS: u32 = OVERHEAD_SHIFT - 1 - PACKETS_SHIFT;

    pub(super) const OVERHEAD_BITS: u32 = BYTES_SHIFT - 1 - OVERHEAD_SHIFT;

    pub(super) const BYTES_BITS: u32 = 63 - BYTES_SHIFT;

    /// The low bits of these.
    pub(super) fn new(tcp_flags: u8, packets: u64, overhead: u64, bytes: u64) -> Self {
        let low = |number: u64, bits: u32| number & ((1 << bits) - 1);
        let packets = low(packets, Self::PACKETS_BITS) << PACKETS_SHIFT;
        let overhead = low(overhead, Self::OVERHEAD_BITS) << OVERHEAD_SHIFT;
        let bytes = low(bytes, Self::BYTES_BITS) << BYTES_SHIFT;
        PackedCounters(bytes | overhead | packets | u64::from(tcp_flags))
    }

    #[inline(always)]
    fn plus(self, meta: PacketMeta) -> Self {
        PackedCounters((self.0 | u64::from(meta.tcp_flags())).wrapping_add(meta.tally()))
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

/// What every packet of a flow touches.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct ConnHot<const W: usize> {
    pub(crate) key: Key<W>,
    /// Of the originator and of the responder.
    pub(super) counters: [PackedCounters; 2],
    pub(super) state_word: StateWord,
    /// The mark of the originator's packets, if that is enough to count them; 0, which no mark is,
    /// if not. That of the responder's differs from it in the lowest bit.
    pub(crate) expected: u32,
    /// Of TCP that is judged by its numbers.
    pub(super) window: TcpWindow,
}

const _: () = assert!(size_of::<ConnHot<2>>() == 64 && size_of::<ConnHot<5>>() == 128);

/// What only the first packet, the last, and one that fills a counter touch.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct ConnCold {
    pub(super) start: Nanos,
    /// Of an embryonic flow, the second of each is a link (`embryonic.rs`).
    pub(super) packets_high: [u32; 2],
    pub(super) bytes_high: [u32; 2],
    pub(super) overhead_high: [u32; 2],
    /// Timer, or next free record.
    pub(crate) link: TimerLink,
    /// Identifiers of up to two VLAN tags of the first packet.
    pub(super) vlan: VlanTags,
    /// ICMP: type * 256 + code of the first packet; the key has that of its first end's.
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
        self.state_word.phase_bits() == State::Free as u8
    }

    #[inline(always)]
    pub(crate) fn phase(&self) -> State {
        State::of_bits(self.state_word.phase_bits())
    }

    /// Whether somebody has looked whether it is worth a rule.
    #[inline(always)]
    pub(crate) fn was_evaluated(&self) -> bool {
        self.state_word.was_evaluated()
    }

    /// Somebody has.
    pub(crate) fn set_evaluated(&mut self) {
        self.state_word = self.state_word.with_evaluated();
    }

    /// When its last packet came, to the microsecond.
    pub(crate) fn last_seen(&self, cold: &ConnCold) -> Nanos {
        self.state_word.last_seen(cold.start)
    }

    #[inline(always)]
    pub(crate) fn enter(&mut self, phase: State) {
        self.state_word = self.state_word.in_phase(phase);
        if !self.is_steady() {
            self.expected = 0;
        }
    }

    /// True for a packet that does no more than to be counted. One with a flag that can change the
    /// state may turn out to be no more either: [`event`](Self::event) knows.
    #[inline(always)]
    pub(crate) fn is_plain(&self, meta: PacketMeta) -> bool {
        let direction = meta.swapped() ^ self.originator();
        meta.tcp_flags() & SYN_FIN_RST | (direction | State::OPEN) & self.state_word.phase_bits()
            == 0
    }

    /// The same of a [steady](Self::is_steady) flow, where a SYN does no more than an ACK does.
    pub(crate) fn is_plain_of_steady(&self, meta: PacketMeta) -> bool {
        let direction = meta.swapped() ^ self.originator();
        meta.tcp_flags() & (FIN | RST) | direction & self.state_word.phase_bits() & 1 == 0
    }

    /// Whether the flow goes on as it is, but for flags and first answers.
    pub(crate) fn is_steady(&self) -> bool {
        let phase = self.phase();
        !phase.is_open() && !phase.is_closing()
    }

    /// Where to count a packet with this mark, 0 for the originator and 1 for the responder, if it
    /// is no more than one more. What is expected of a flow that is not steady is no mark.
    #[inline(always)]
    pub(crate) fn direction_of(&self, mark: u32, meta: PacketMeta) -> Option<usize> {
        let direction = mark ^ self.expected;
        // The responder's first is more than that.
        let more = u32::from(self.state_word.phase_bits()) & 1 | !1;
        let is_so = (direction & more == 0) & (meta.tcp_flags() & (FIN | RST) == 0);
        is_so.then_some(direction as usize)
    }

    /// What a packet, which was tracked, is to the flow.
    pub(crate) fn state(&self, meta: PacketMeta) -> CtState {
        let of_responder = self.counters[1].tcp_flags();
        let is_answered = match self.key.proto() {
            PROTO_TCP => of_responder != 0,
            _ => self.phase().is_first() == 0,
        };
        match (self.is_reply(meta), is_answered) {
            (true, _) => CtState::ESTABLISHED | CtState::REPLY,
            (false, true) => CtState::ESTABLISHED,
            (false, false) if self.phase().is_stray() => CtState::INVALID,
            (false, false) => CtState::NEW,
        }
    }

    /// Whether a packet is one of the responder.
    pub(crate) fn is_reply(&self, meta: PacketMeta) -> bool {
        self.direction(meta) == 1
    }

    /// Who sent a packet: 0 for the originator, 1 for the responder.
    #[inline(always)]
    pub(crate) fn direction(&self, meta: PacketMeta) -> usize {
        usize::from(meta.swapped() ^ self.originator()) & 1
    }

    /// Adds a packet to the counters of its sender. True: one has reached its top bit, and
    /// [`carry_counters`] must follow, or the packets are so many that somebody is to look at them.
    ///
    /// [`carry_counters`]: Self::carry_counters
    #[inline(always)]
    #[must_use]
    pub(crate) fn count(&mut self, meta: PacketMeta, now: Micros, looks: impl Sampler) -> bool {
        self.count_to(self.direction(meta), meta, now, looks)
    }

    /// The same of a packet that changes nothing: no sign of life, and its flags are not the
    /// connection's.
    #[must_use]
    pub(crate) fn count_irregular(&mut self, meta: PacketMeta, looks: impl Sampler) -> bool {
        let counters = &mut self.counters[self.direction(meta)];
        *counters = PackedCounters(counters.0.wrapping_add(meta.tally()));
        counters.0 & PackedCounters::HIGH != 0 || looks.is_sample_due(counters.packets())
    }

    /// The same where they are known: 0 for those of the originator, 1 for the responder's.
    #[inline(always)]
    #[must_use]
    pub(crate) fn count_to(
        &mut self,
        direction: usize,
        meta: PacketMeta,
        now: Micros,
        looks: impl Sampler,
    ) -> bool {
        let direction = direction & 1;
        self.state_word = self.state_word.at(now);
        let counters = self.counters[direction].plus(meta);
        self.counters[direction] = counters;
        counters.0 & PackedCounters::HIGH != 0 || looks.is_sample_due(counters.packets())
    }

    /// Whether a packet that was counted made it so many.
    pub(crate) fn is_sample_due(&self, swapped: u8, looks: impl Sampler) -> bool {
        looks.is_sample_due(self.packets(swapped))
    }

    /// Whether packets or bytes of the responder have reached their top bit.
    pub(crate) fn is_full_of_responder(&self) -> bool {
        self.counters[1].0 & PackedCounters::HIGH & !(1 << (BYTES_SHIFT - 1)) != 0
    }

    /// Whether a counter has reached its top bit.
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

    /// Packets of the direction whose sender is this end of the key; they come round at 2^13.
    pub(crate) fn packets(&self, swapped: u8) -> u16 {
        self.counters[usize::from(swapped ^ self.originator()) & 1].packets()
    }

    /// 1: the originator is the second end of the key.
    #[inline(always)]
    pub(crate) fn originator(&self) -> u8 {
        self.state_word.orig_swapped()
    }

    /// Whether there was a FIN of both sides.
    fn is_fin(&self) -> bool {
        let [a, b] = self.counters;
        a.tcp_flags() & b.tcp_flags() & FIN != 0
    }

    /// Why a flow ends whose time is over.
    pub(crate) fn end_reason(&self) -> EndReason {
        match self.phase() {
            State::TcpLastAck | State::SctpShutdownAck | State::SctpClosed => EndReason::Fin,
            phase if phase.is_closing() && self.is_fin() => EndReason::Fin,
            State::TcpClose | State::TcpStray => EndReason::Rst,
            phase if phase.is_over_for_sctp() => EndReason::Rst,
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

    /// When its first packet came.
    pub(crate) fn began(&self) -> Nanos {
        self.start
    }

    /// The cold part of a flow that begins now; its timer is the caller's.
    pub(crate) fn begin(opening: &HeaderInfo, now: Nanos, link: TimerLink) -> Self {
        ConnCold { start: now, link, vlan: opening.vlan, icmp: opening.icmp, ..Self::FREE }
    }
}
