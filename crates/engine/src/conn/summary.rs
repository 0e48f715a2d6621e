// SPDX-License-Identifier: BSD-3-Clause
//! Computes the totals of a connection, and its flow record, from its two records.

use super::record::{ConnCold, ConnHot, PackedCounters};
use crate::api::{
    CtMark, DirectionCounters, EndReason, FlowRecord, PROTO_ESP, PROTO_GRE, PROTO_ICMP,
    PROTO_ICMPV6, ProtoState,
};
use crate::base::Nanos;

impl<const W: usize> ConnHot<W> {
    pub(super) fn tally(&self, cold: &ConnCold, direction: usize) -> DirectionCounters {
        let wide = |high: u32, bits: u32, low: u32| (u64::from(high) << bits) + u64::from(low);
        let counters = self.counters[direction];
        // An embryonic connection has links in place of these high words.
        let is_link = direction == 1 && self.is_embryonic();
        let high = |words: [u32; 2]| if is_link { 0 } else { words[direction] };
        let bytes = wide(high(cold.bytes_high), PackedCounters::BYTES_BITS, counters.bytes());
        let (high_word, low) = (cold.overhead_high[direction], counters.overhead());
        let overhead = wide(high_word, PackedCounters::OVERHEAD_BITS, low.into());
        let (high, low) = (high(cold.packets_high), counters.packets());
        DirectionCounters {
            packets: wide(high, PackedCounters::PACKETS_BITS, low.into()),
            bytes,
            ip_bytes: bytes - overhead,
            tcp_flags: counters.tcp_flags(),
        }
    }

    /// Returns the number of packets that this end of the key has sent, and the start of the
    /// connection.
    pub(crate) fn totals(&self, cold: &ConnCold, swapped: u8) -> (u64, Nanos) {
        let direction = usize::from(swapped ^ self.originator()) & 1;
        (self.tally(cold, direction).packets, cold.start)
    }

    /// Returns packets and frame bytes of a direction, 0 for the originator's.
    pub(crate) fn packets_and_bytes(&self, cold: &ConnCold, direction: usize) -> [u64; 2] {
        let tally = self.tally(cold, direction);
        [tally.packets, tally.bytes]
    }

    /// Returns the flow record without mark and label, which are not in the two records.
    pub(crate) fn record(&self, cold: &ConnCold, end_reason: EndReason) -> FlowRecord {
        let parts = self.key.parts();
        let low = (parts.low, parts.low_port);
        let high = (parts.high, parts.high_port);
        let ((src, sport), (dst, dport)) =
            if self.originator() == 1 { (high, low) } else { (low, high) };
        let (sport, dport) = match parts.proto {
            PROTO_ICMP | PROTO_ICMPV6 => (parts.low_port, cold.icmp),
            PROTO_GRE | PROTO_ESP => (parts.low_port, parts.high_port),
            _ => (sport, dport),
        };
        FlowRecord {
            src,
            dst,
            proto: parts.proto,
            sport,
            dport,
            zone: parts.zone,
            vlan: cold.vlan,
            start: cold.start,
            end: self.last_seen(cold),
            orig: self.tally(cold, 0),
            reply: self.tally(cold, 1),
            state: self.state().flow_state(),
            // Only a free record has no state.
            proto_state: self.state().proto_state().unwrap_or(ProtoState::OtherFirst),
            is_assured: !self.is_embryonic(),
            end_reason,
            ct_mark: CtMark::default(),
        }
    }
}
