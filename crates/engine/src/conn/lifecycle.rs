// SPDX-License-Identifier: BSD-3-Clause
//! The states of a connection in order: which comes first, which follows, how long each may last.

use super::state::Phase;
use super::tcp::states::FlagKind;
use crate::api::{PROTO_ICMP, PROTO_ICMPV6, PROTO_SCTP, PROTO_TCP, PROTO_UDP, State, Timeouts};
use crate::base::Nanos;

impl Phase {
    /// Of a flow that begins with this kind of segment, if it is TCP.
    pub(super) fn first(proto: u8, kind: FlagKind) -> Self {
        match (proto, kind) {
            (PROTO_TCP, FlagKind::Syn) => Phase::TcpSynSent,
            // A stray RST must not name the originator of the SYN that follows it.
            (PROTO_TCP, FlagKind::Rst) => Phase::TcpStray,
            (PROTO_TCP, _) => Phase::TcpPickedUp,
            (PROTO_UDP, _) => Phase::UdpFirst,
            (PROTO_ICMP | PROTO_ICMPV6, _) => Phase::IcmpFirst,
            // Its chunks, which decide, are not there.
            (PROTO_SCTP, _) => Phase::SctpHeartbeat,
            _ => Phase::OtherFirst,
        }
    }

    /// After one more packet, of the originator (0) or the responder (1).
    pub(super) fn after(self, direction: usize, kind: FlagKind) -> Self {
        match (self, direction) {
            (Phase::UdpFirst, 0) => Phase::UdpSingle,
            (Phase::UdpFirst | Phase::UdpSingle, 1) => Phase::UdpMultiple,
            (Phase::IcmpFirst, 1) => Phase::IcmpReply,
            (Phase::SctpHeartbeat, 1) => Phase::SctpEstablished,
            (Phase::OtherFirst, 1) => Phase::OtherMultiple,
            // Something fits after all.
            (Phase::TcpOutOfSync, _) => kind.next_state(Phase::TcpEstablished, direction),
            _ => kind.next_state(self, direction),
        }
    }

    /// Whether [it is over](Self::is_closing) for an association of SCTP.
    pub(super) fn is_over_for_sctp(self) -> bool {
        matches!(
            self,
            Phase::SctpClosed | Phase::SctpAborted | Phase::SctpWithdrawn | Phase::SctpStray
        )
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

/// How long a connection lives whose ends have both sent a FIN or an RST that does not fit:
/// Linux's `nf_conntrack_tcp_timeout_unacknowledged`.
pub(crate) const OUT_OF_SYNC_TIMEOUT: Nanos = 300_000_000_000;
