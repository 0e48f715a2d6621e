// SPDX-License-Identifier: BSD-3-Clause
//! Where a flow is in its life: decides its timeout, and which of its packets do more than to be
//! counted.

use super::resync::OUT_OF_SYNC_TIMEOUT;
use crate::api::{
    PROTO_ICMP, PROTO_ICMPV6, PROTO_SCTP, PROTO_TCP, PROTO_UDP, Progress, State, Timeouts,
};
use crate::base::Nanos;
use crate::tcp::Kind;

/// Six bits. The lowest is for the packet path: a packet of the responder does more.
/// [`Phase::OPEN`] is another: any packet does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// The record is not in use.
    Free = 0,
    /// TCP: a SYN, no answer.
    TcpSynSent = 0x21,
    /// A SYN of both sides (RFC 9293 figure 7, and split handshakes).
    TcpSynSent2 = 0x23,
    /// The first packet was no SYN, and there is no answer.
    TcpPickedUp = 0x03,
    /// SYN+ACK is the answer.
    TcpSynRecv = 0x22,
    TcpEstablished = 0x02,
    /// The same, and a FIN or an RST of both sides did not fit.
    TcpOutOfSync = 0x3a,
    /// It was established before a restart, and nobody was heard since.
    TcpResumed = 0x26,
    /// The same, and the originator was heard; or the responder.
    TcpResumedOrig = 0x28,
    TcpResumedReply = 0x2a,
    /// A FIN of the originator.
    TcpFinWait = 0x04,
    /// A FIN of the responder.
    TcpCloseWait = 0x06,
    /// Of both, of which one is not acknowledged.
    TcpLastAck = 0x24,
    /// Of both.
    TcpTimeWait = 0x08,
    /// An RST.
    TcpClose = 0x0a,
    /// The first packet was an RST, or has flags that nobody sends.
    TcpStray = 0x12,
    /// UDP: one packet.
    UdpFirst = 0x25,
    /// Several of one direction.
    UdpSingle = 0x05,
    UdpMultiple = 0x0c,
    IcmpFirst = 0x07,
    IcmpReply = 0x0e,
    /// The first packet was a reply.
    IcmpStray = 0x2f,
    /// SCTP: an INIT, no answer.
    SctpInit = 0x27,
    /// The first packet was no INIT, and there is no answer: a HEARTBEAT most often, of another
    /// pair of addresses of an association.
    SctpHeartbeat = 0x29,
    SctpInitAck = 0x2c,
    SctpCookie = 0x2e,
    SctpEstablished = 0x30,
    /// A SHUTDOWN of one side.
    SctpShutdown = 0x32,
    SctpShutdownAck = 0x34,
    /// SHUTDOWN COMPLETE.
    SctpClosed = 0x36,
    SctpAborted = 0x38,
    /// An ABORT of the originator, to which nobody had answered.
    SctpWithdrawn = 0x2b,
    /// The first packet was one that no association begins with.
    SctpStray = 0x2d,
    OtherFirst = 0x09,
    OtherMultiple = 0x10,
}

impl Phase {
    /// Any packet does more than to be counted.
    pub(super) const OPEN: u8 = 0x20;

    /// How many values its bits can have.
    pub(crate) const BITS: usize = 64;

    /// Every one of them.
    const ALL: [Phase; 35] = [
        Phase::TcpSynSent,
        Phase::TcpSynSent2,
        Phase::TcpPickedUp,
        Phase::TcpSynRecv,
        Phase::TcpEstablished,
        Phase::TcpOutOfSync,
        Phase::TcpResumed,
        Phase::TcpResumedOrig,
        Phase::TcpResumedReply,
        Phase::TcpFinWait,
        Phase::TcpCloseWait,
        Phase::TcpLastAck,
        Phase::TcpTimeWait,
        Phase::TcpClose,
        Phase::TcpStray,
        Phase::UdpFirst,
        Phase::UdpSingle,
        Phase::UdpMultiple,
        Phase::IcmpFirst,
        Phase::IcmpReply,
        Phase::IcmpStray,
        Phase::SctpInit,
        Phase::SctpHeartbeat,
        Phase::SctpInitAck,
        Phase::SctpCookie,
        Phase::SctpEstablished,
        Phase::SctpShutdown,
        Phase::SctpShutdownAck,
        Phase::SctpClosed,
        Phase::SctpAborted,
        Phase::SctpWithdrawn,
        Phase::SctpStray,
        Phase::OtherFirst,
        Phase::OtherMultiple,
        Phase::Free,
    ];

    /// That with these bits.
    pub(crate) fn of_bits(bits: u8) -> Self {
        const BY_BITS: [Phase; Phase::BITS] = {
            let mut phases = [Phase::Free; Phase::BITS];
            let mut i = 0;
            while i < Phase::ALL.len() {
                phases[Phase::ALL[i] as usize] = Phase::ALL[i];
                i += 1;
            }
            phases
        };
        BY_BITS[usize::from(bits) % BY_BITS.len()]
    }

    /// Of a flow that begins with this kind of segment, if it is TCP.
    pub(super) fn first(proto: u8, kind: Kind) -> Self {
        match (proto, kind) {
            (PROTO_TCP, Kind::Syn) => Phase::TcpSynSent,
            // A stray RST must not name the originator of the SYN that follows it.
            (PROTO_TCP, Kind::Rst) => Phase::TcpStray,
            (PROTO_TCP, _) => Phase::TcpPickedUp,
            (PROTO_UDP, _) => Phase::UdpFirst,
            (PROTO_ICMP | PROTO_ICMPV6, _) => Phase::IcmpFirst,
            // Its chunks, which decide, are not there.
            (PROTO_SCTP, _) => Phase::SctpHeartbeat,
            _ => Phase::OtherFirst,
        }
    }

    /// After one more packet, of the originator (0) or the responder (1).
    pub(super) fn after(self, direction: usize, kind: Kind) -> Self {
        match (self, direction) {
            (Phase::UdpFirst, 0) => Phase::UdpSingle,
            (Phase::UdpFirst | Phase::UdpSingle, 1) => Phase::UdpMultiple,
            (Phase::IcmpFirst, 1) => Phase::IcmpReply,
            (Phase::SctpHeartbeat, 1) => Phase::SctpEstablished,
            (Phase::OtherFirst, 1) => Phase::OtherMultiple,
            // Something fits after all.
            (Phase::TcpOutOfSync, _) => kind.leads(Phase::TcpEstablished, direction),
            _ => kind.leads(self, direction),
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

    /// Whether both sides have ended the connection, or one has at once: its ports may be another's
    /// at any time.
    pub(crate) fn is_closing(self) -> bool {
        matches!(self, Phase::TcpTimeWait | Phase::TcpClose | Phase::TcpStray)
    }

    /// Whether the first packet was one that no connection begins with.
    pub(super) fn is_stray(self) -> bool {
        matches!(self, Phase::TcpStray | Phase::SctpStray | Phase::IcmpStray)
    }

    /// Whether [it is over](Self::is_closing) for an association of SCTP.
    pub(super) fn is_over_for_sctp(self) -> bool {
        matches!(
            self,
            Phase::SctpClosed | Phase::SctpAborted | Phase::SctpWithdrawn | Phase::SctpStray
        )
    }

    /// After a restart, when this direction was heard.
    pub(super) fn resumed(direction: usize) -> Self {
        if direction == 0 { Phase::TcpResumedOrig } else { Phase::TcpResumedReply }
    }

    /// Where its numbers are to be learnt anew after a restart: which direction was heard, if any.
    pub(super) fn heard_since(self) -> Option<Option<usize>> {
        match self {
            Phase::TcpResumed => Some(None),
            Phase::TcpResumedOrig => Some(Some(0)),
            Phase::TcpResumedReply => Some(Some(1)),
            _ => None,
        }
    }

    /// Whether its numbers are to be learnt anew after a restart.
    pub(super) fn is_resumed(self) -> bool {
        self.heard_since().is_some()
    }

    pub(crate) fn timeout(self, timeouts: &Timeouts) -> Nanos {
        match self {
            Phase::TcpSynSent | Phase::TcpSynSent2 | Phase::TcpPickedUp => timeouts.tcp_syn_sent,
            Phase::TcpSynRecv => timeouts.tcp_syn_recv,
            Phase::TcpEstablished
            | Phase::TcpResumed
            | Phase::TcpResumedOrig
            | Phase::TcpResumedReply => timeouts.tcp_established,
            Phase::TcpOutOfSync => timeouts.tcp_established.min(OUT_OF_SYNC_TIMEOUT),
            Phase::TcpFinWait | Phase::TcpCloseWait | Phase::TcpLastAck => timeouts.tcp_fin_wait,
            Phase::TcpTimeWait => timeouts.tcp_time_wait,
            Phase::TcpClose | Phase::TcpStray => timeouts.tcp_close,
            Phase::UdpFirst => timeouts.udp_first,
            Phase::UdpSingle => timeouts.udp_single,
            Phase::UdpMultiple => timeouts.udp_multiple,
            Phase::IcmpFirst | Phase::IcmpStray => timeouts.icmp_first,
            Phase::IcmpReply => timeouts.icmp_reply,
            Phase::SctpInit | Phase::SctpInitAck => timeouts.sctp_init,
            Phase::SctpCookie => timeouts.sctp_cookie,
            Phase::SctpEstablished => timeouts.sctp_established,
            Phase::SctpShutdown | Phase::SctpShutdownAck => timeouts.sctp_shutdown,
            Phase::SctpClosed | Phase::SctpAborted | Phase::SctpWithdrawn | Phase::SctpStray => {
                timeouts.sctp_closed
            }
            Phase::SctpHeartbeat => timeouts.sctp_heartbeat,
            Phase::OtherFirst => timeouts.other_first,
            Phase::OtherMultiple => timeouts.other_multiple,
            Phase::Free => Nanos::MAX,
        }
    }

    pub(super) fn state(self) -> State {
        match self {
            Phase::TcpLastAck | Phase::SctpShutdownAck => State::Closing,
            phase if phase.is_closing() || phase.is_over_for_sctp() => State::Closing,
            phase if phase.is_first() == 1 => State::New,
            _ => State::Open,
        }
    }
}

impl Phase {
    /// The same for others; `None` of a record that is not in use.
    pub(crate) fn progress(self) -> Option<Progress> {
        Some(match self {
            Phase::Free => return None,
            Phase::TcpSynSent => Progress::SynSent,
            Phase::TcpSynSent2 => Progress::SynSent2,
            Phase::TcpPickedUp => Progress::PickedUp,
            Phase::TcpSynRecv => Progress::SynRecv,
            // What has to be learnt anew changes nothing for those who look.
            Phase::TcpEstablished
            | Phase::TcpOutOfSync
            | Phase::TcpResumed
            | Phase::TcpResumedOrig
            | Phase::TcpResumedReply
            | Phase::SctpEstablished => Progress::Established,
            Phase::TcpFinWait => Progress::FinWait,
            Phase::TcpCloseWait => Progress::CloseWait,
            Phase::TcpLastAck => Progress::LastAck,
            Phase::TcpTimeWait => Progress::TimeWait,
            Phase::TcpClose | Phase::TcpStray => Progress::Close,
            Phase::SctpInit | Phase::SctpInitAck => Progress::CookieWait,
            Phase::SctpCookie => Progress::CookieEchoed,
            Phase::SctpShutdown => Progress::ShutdownSent,
            Phase::SctpShutdownAck => Progress::ShutdownAckSent,
            Phase::SctpClosed | Phase::SctpAborted | Phase::SctpWithdrawn | Phase::SctpStray => {
                Progress::Closed
            }
            Phase::SctpHeartbeat => Progress::HeartbeatSent,
            Phase::UdpFirst => Progress::UdpFirst,
            Phase::UdpSingle => Progress::UdpSingle,
            Phase::UdpMultiple => Progress::UdpMultiple,
            Phase::IcmpFirst | Phase::IcmpStray => Progress::IcmpFirst,
            Phase::IcmpReply => Progress::IcmpReply,
            Phase::OtherFirst => Progress::OtherFirst,
            Phase::OtherMultiple => Progress::OtherMultiple,
        })
    }
}
