// SPDX-License-Identifier: BSD-3-Clause
//! Where a flow is in its life: decides its timeout, and which of its packets do more than to be
//! counted.

use super::{PROTO_ICMP, PROTO_ICMPV6, PROTO_TCP, PROTO_UDP};
use crate::record::State;
use crate::tcp::Segment;
use crate::{Nanos, Timeouts};

/// The lowest bit is for the packet path: a packet of the responder does more. [`Phase::OPEN`] is
/// another: any packet does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// The record is not in use.
    Free = 0,
    /// TCP: a SYN, no answer.
    TcpSynSent = 0x81,
    /// A SYN of both sides (RFC 9293 figure 7, and split handshakes).
    TcpSynSent2 = 0x83,
    /// The first packet was no SYN, and there is no answer.
    TcpPickedUp = 0x03,
    /// SYN+ACK is the answer.
    TcpSynRecv = 0x82,
    TcpEstablished = 0x02,
    /// A FIN of the originator.
    TcpFinWait = 0x04,
    /// A FIN of the responder.
    TcpCloseWait = 0x06,
    /// Of both.
    TcpTimeWait = 0x08,
    /// An RST.
    TcpClose = 0x0a,
    /// UDP: one packet.
    UdpFirst = 0x85,
    /// Several of one direction.
    UdpSingle = 0x05,
    UdpMultiple = 0x0c,
    IcmpFirst = 0x07,
    IcmpReply = 0x0e,
    OtherFirst = 0x09,
    OtherMultiple = 0x10,
}

impl Phase {
    /// Any packet does more than to be counted.
    pub(super) const OPEN: u8 = 0x80;

    /// Of a flow that begins with this segment, if it is TCP.
    pub(super) fn first(proto: u8, segment: Segment) -> Self {
        match (proto, segment) {
            (PROTO_TCP, Segment::Syn) => Phase::TcpSynSent,
            // A stray RST must not name the originator of the SYN that follows it.
            (PROTO_TCP, Segment::Rst) => Phase::TcpClose,
            (PROTO_TCP, _) => Phase::TcpPickedUp,
            (PROTO_UDP, _) => Phase::UdpFirst,
            (PROTO_ICMP | PROTO_ICMPV6, _) => Phase::IcmpFirst,
            _ => Phase::OtherFirst,
        }
    }

    /// After one more packet, of the originator (0) or the responder (1).
    pub(super) fn after(self, direction: usize, segment: Segment) -> Self {
        match (self, direction) {
            (Phase::UdpFirst, 0) => Phase::UdpSingle,
            (Phase::UdpFirst | Phase::UdpSingle, 1) => Phase::UdpMultiple,
            (Phase::IcmpFirst, 1) => Phase::IcmpReply,
            (Phase::OtherFirst, 1) => Phase::OtherMultiple,
            _ => segment.leads(self, direction),
        }
    }

    /// 1 until the responder has answered, then 0.
    #[inline(always)]
    pub(crate) fn is_first(self) -> u8 {
        self as u8 & 1
    }

    /// Whether any packet does more than to be counted.
    pub(crate) fn is_open(self) -> bool {
        self as u8 & Self::OPEN != 0
    }

    /// Whether both sides have ended the connection, or one has at once: its ports may soon be
    /// another's.
    pub(super) fn is_closing(self) -> bool {
        matches!(self, Phase::TcpTimeWait | Phase::TcpClose)
    }

    pub(crate) fn timeout(self, timeouts: &Timeouts) -> Nanos {
        match self {
            Phase::TcpSynSent | Phase::TcpSynSent2 | Phase::TcpPickedUp => timeouts.tcp_syn_sent,
            Phase::TcpSynRecv => timeouts.tcp_syn_recv,
            Phase::TcpEstablished => timeouts.tcp_established,
            Phase::TcpFinWait | Phase::TcpCloseWait => timeouts.tcp_fin_wait,
            Phase::TcpTimeWait => timeouts.tcp_time_wait,
            Phase::TcpClose => timeouts.tcp_close,
            Phase::UdpFirst => timeouts.udp_first,
            Phase::UdpSingle => timeouts.udp_single,
            Phase::UdpMultiple => timeouts.udp_multiple,
            Phase::IcmpFirst => timeouts.icmp_first,
            Phase::IcmpReply => timeouts.icmp_reply,
            Phase::OtherFirst => timeouts.other_first,
            Phase::OtherMultiple => timeouts.other_multiple,
            Phase::Free => Nanos::MAX,
        }
    }

    pub(super) fn state(self) -> State {
        match self {
            phase if phase.is_closing() => State::Closing,
            phase if phase.is_first() == 1 => State::New,
            _ => State::Open,
        }
    }
}
