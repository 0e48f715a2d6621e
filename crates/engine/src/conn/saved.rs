// SPDX-License-Identifier: BSD-3-Clause
//! Converts a record into a snapshot, and a snapshot into a record.

use super::record::{ConnCold, ConnHot, PackedCounters};
use super::sctp::tags::SctpTags;
use super::state::State;
use super::state_word::StateWord;
use super::tcp::window::WindowScales;
use crate::api::{
    ConnSnapshot, CtMark, DirectionCounters, PROTO_ICMP, PROTO_ICMPV6, PROTO_SCTP, PROTO_TCP,
    PROTO_UDP, SnapshotState,
};
use crate::base::Micros;
use crate::packet::{FIN, Key, KeyParts, L4Id, icmp_ports, is_reply, key4, key6, zone_proto};
use std::net::IpAddr;

impl<const W: usize> ConnHot<W> {
    /// Returns the snapshot of the connection, without mark and label. `None`: connections in this
    /// state are not saved.
    pub(crate) fn saved(&self, cold: &ConnCold) -> Option<ConnSnapshot> {
        let KeyParts { low, high, low_port, high_port, zone, proto } = self.key.parts();
        let is_swapped = self.originator() == 1;
        let (src, dst) = if is_swapped { (high, low) } else { (low, high) };
        let (sport, dport) = match is_swapped && has_ports(proto) {
            true => (high_port, low_port),
            // The connection began with a request, whose type and code the snapshot stores.
            false if proto == Key::<W>::ICMP => (low_port, cold.icmp),
            false => (low_port, high_port),
        };
        Some(ConnSnapshot {
            src,
            dst,
            proto,
            sport,
            dport,
            icmp: cold.icmp,
            zone,
            vlan: cold.vlan,
            start: cold.start,
            last_seen: self.last_seen(cold),
            orig: self.tally(cold, 0),
            reply: self.tally(cold, 1),
            state: self.state_to_save().saved()?,
            scales: self.scales().saved().filter(|_| proto == PROTO_TCP),
            tags: self.saved_tags(),
            ct_mark: CtMark::default(),
        })
    }

    /// Returns the state that is saved: a snapshot names the side that has sent the first FIN.
    fn state_to_save(&self) -> State {
        match self.state() {
            State::TcpFinAcked => {
                State::of_fins(self.counters.map(|counters| counters.tcp_flags() & FIN != 0))
            }
            state => state,
        }
    }

    /// Returns the records of a saved connection with this key. If `swapped`, the originator is the
    /// second end of the key. `None`: the snapshot is invalid.
    pub(crate) fn restored(
        (key, swapped): (Key<W>, bool),
        flow: &ConnSnapshot,
        has_window_check: bool,
    ) -> Option<(Self, ConnCold)> {
        let [kind, _] = flow.icmp.to_be_bytes();
        let has_states = flow.state != SnapshotState::Flow;
        if flow.proto == Key::<W>::ICMP && has_states && is_reply(flow.proto, kind) {
            // A snapshot of a version that did not record which end sends the requests. The next
            // request begins the connection anew.
            return None;
        }
        let (state, scales) = resumed(flow, has_window_check)?;
        let mut hot = ConnHot { key, state_word: StateWord::begin(swapped.into()), ..Self::FREE };
        let mut cold =
            ConnCold { start: flow.start, vlan: flow.vlan, icmp: flow.icmp, ..ConnCold::FREE };
        for (direction, tally) in [flow.orig, flow.reply].into_iter().enumerate() {
            hot.counters[direction] = cold.count_up(direction, tally)?;
        }
        hot.state_word = hot.state_word.with_scales(scales).at(Micros::of(flow.last_seen));
        if flow.proto == PROTO_SCTP && has_window_check {
            // An unknown tag is learnt from the next packet.
            hot.set_tags(&SctpTags { known: flow.tags, ..SctpTags::default() });
        }
        hot.enter(state);
        Some((hot, cold))
    }
}

/// True if each end has a port. Other protocols have numbers that are the same in both directions.
fn has_ports(proto: u8) -> bool {
    matches!(proto, PROTO_TCP | PROTO_UDP | PROTO_SCTP)
}

fn is_icmp(proto: u8) -> bool {
    matches!(proto, PROTO_ICMP | PROTO_ICMPV6)
}

/// Returns the state and window shifts with which a saved connection continues. `None`: protocol
/// and state do not fit.
fn resumed(flow: &ConnSnapshot, has_window_check: bool) -> Option<(State, WindowScales)> {
    let is_of_proto = match flow.state {
        SnapshotState::Udp => flow.proto == PROTO_UDP,
        SnapshotState::Icmp => is_icmp(flow.proto),
        SnapshotState::Other => {
            ![PROTO_TCP, PROTO_UDP].contains(&flow.proto) && !is_icmp(flow.proto)
        }
        SnapshotState::Flow => true,
        SnapshotState::SctpEstablished
        | SnapshotState::SctpShutdown
        | SnapshotState::SctpClosed
        | SnapshotState::SctpAborted => flow.proto == PROTO_SCTP,
        _ => flow.proto == PROTO_TCP,
    };
    let scales = flow.scales.filter(|_| has_window_check).and_then(WindowScales::of_saved);
    let unchecked = |state| (state, WindowScales::UNCHECKED);
    is_of_proto.then_some(match (flow.state, scales) {
        (SnapshotState::TcpEstablished, Some(scales)) => (State::TcpResumed, scales),
        (SnapshotState::TcpEstablished, None) => unchecked(State::TcpEstablished),
        // An ending connection is not checked any more: only one side may be left to learn from.
        (SnapshotState::TcpFinWait, _) => unchecked(State::TcpFinWait),
        (SnapshotState::TcpCloseWait, _) => unchecked(State::TcpCloseWait),
        // Without sequence numbers, the last acknowledgment cannot be recognised.
        (SnapshotState::TcpLastAck | SnapshotState::TcpTimeWait, _) => {
            unchecked(State::TcpTimeWait)
        }
        (SnapshotState::TcpClose, _) => unchecked(State::TcpClose),
        (SnapshotState::Flow, _) => unchecked(State::FlowMultiple),
        (SnapshotState::Udp, _) => unchecked(State::UdpMultiple),
        (SnapshotState::Icmp, _) => unchecked(State::IcmpReply),
        (SnapshotState::SctpEstablished, _) => unchecked(State::SctpEstablished),
        (SnapshotState::SctpShutdown, _) => unchecked(State::SctpShutdown),
        (SnapshotState::SctpClosed, _) => unchecked(State::SctpClosed),
        (SnapshotState::SctpAborted, _) => unchecked(State::SctpAborted),
        // Written by a version without SCTP states.
        (SnapshotState::Other, _) if flow.proto == PROTO_SCTP => unchecked(State::SctpEstablished),
        (SnapshotState::Other, _) => unchecked(State::OtherMultiple),
    })
}

impl ConnCold {
    /// Stores the high words of the counters and returns the low ones. `None`: a number is too
    /// large for a record, or there are more IP bytes than frame bytes.
    fn count_up(&mut self, direction: usize, tally: DirectionCounters) -> Option<PackedCounters> {
        let DirectionCounters { packets, bytes, ip_bytes, tcp_flags } = tally;
        let overhead = bytes.checked_sub(ip_bytes)?;
        let high = |number: u64, bits: u32| u32::try_from(number >> bits).ok();
        self.packets_high[direction] = high(packets, PackedCounters::PACKETS_BITS)?;
        self.overhead_high[direction] = high(overhead, PackedCounters::OVERHEAD_BITS)?;
        self.bytes_high[direction] = high(bytes, PackedCounters::BYTES_BITS)?;
        Some(PackedCounters::new(tcp_flags, packets, overhead, bytes))
    }
}

impl ConnSnapshot {
    fn ports<const W: usize>(&self) -> L4Id {
        let ([a, b], [c, d]) = (self.sport.to_be_bytes(), self.dport.to_be_bytes());
        match has_ports(self.proto) {
            true => L4Id::Pair([a, b, c, d]),
            // Identifier, type and code, as the originator sent them.
            false if self.proto == Key::<W>::ICMP => {
                icmp_ports(self.proto, self.icmp.to_be_bytes(), [a, b])
            }
            false => L4Id::Common([a, b, c, d]),
        }
    }
}

impl Key<2> {
    /// Returns the key of an IPv4 connection, and whether its originator is the second end. `None`
    /// if it is not IPv4.
    pub(crate) fn of_saved_v4(flow: &ConnSnapshot) -> Option<(Self, bool)> {
        let (IpAddr::V4(src), IpAddr::V4(dst)) = (flow.src, flow.dst) else { return None };
        let ([a, b, c, d], [e, f, g, h]) = (src.octets(), dst.octets());
        let last = zone_proto(flow.zone, flow.proto);
        Some(key4([a, b, c, d, e, f, g, h], flow.ports::<2>(), last))
    }
}

impl Key<5> {
    /// Returns the key of an IPv6 connection, and whether its originator is the second end. `None`
    /// if it is not IPv6.
    pub(crate) fn of_saved_v6(flow: &ConnSnapshot) -> Option<(Self, bool)> {
        let (IpAddr::V6(src), IpAddr::V6(dst)) = (flow.src, flow.dst) else { return None };
        let mut addresses = [0; 32];
        addresses[..16].copy_from_slice(&src.octets());
        addresses[16..].copy_from_slice(&dst.octets());
        Some(key6(&addresses, flow.ports::<5>(), zone_proto(flow.zone, flow.proto)))
    }
}

impl State {
    /// Returns the state in a snapshot; `None` if the connection is not saved in this state.
    pub(crate) fn saved(self) -> Option<SnapshotState> {
        Some(match self {
            State::TcpEstablished
            | State::TcpOutOfSync
            | State::TcpResumed
            | State::TcpResumedOrig
            | State::TcpResumedReply => SnapshotState::TcpEstablished,
            State::TcpFinWait | State::TcpFinSent | State::TcpFinAcked => SnapshotState::TcpFinWait,
            State::TcpCloseWait | State::TcpFinSentReply => SnapshotState::TcpCloseWait,
            State::TcpLastAck => SnapshotState::TcpLastAck,
            State::TcpTimeWait => SnapshotState::TcpTimeWait,
            State::TcpClose => SnapshotState::TcpClose,
            State::UdpMultiple => SnapshotState::Udp,
            State::IcmpReply => SnapshotState::Icmp,
            State::OtherMultiple => SnapshotState::Other,
            State::SctpCookie | State::SctpEstablished => SnapshotState::SctpEstablished,
            State::SctpShutdown | State::SctpShutdownAck => SnapshotState::SctpShutdown,
            State::SctpClosed => SnapshotState::SctpClosed,
            State::SctpAborted => SnapshotState::SctpAborted,
            State::FlowMultiple => SnapshotState::Flow,
            State::Free
            | State::TcpSynSent
            | State::TcpSynSent2
            | State::TcpPickedUp
            | State::TcpSynRecv
            | State::TcpStray
            | State::UdpFirst
            | State::UdpSingle
            | State::IcmpFirst
            | State::IcmpStray
            | State::SctpInit
            | State::SctpHeartbeat
            | State::SctpInitAck
            | State::SctpWithdrawn
            | State::SctpStray
            | State::OtherFirst
            | State::FlowFirst => return None,
        })
    }
}
