// SPDX-License-Identifier: BSD-3-Clause
//! Defines the order of a connection's states: the first one, the next one, and their timeouts.

use super::state::State;
use super::tcp::states::FlagKind;
use crate::api::{FlowState, PROTO_ICMP, PROTO_ICMPV6, PROTO_SCTP, PROTO_TCP, PROTO_UDP, Timeouts};
use crate::base::Nanos;

impl State {
    /// Returns the first state of a connection. `kind` matters for TCP only.
    pub(super) fn first(proto: u8, kind: FlagKind) -> Self {
        match (proto, kind) {
            (PROTO_TCP, FlagKind::Syn) => State::TcpSynSent,
            // A stray RST must not name the originator of the SYN that follows it.
            (PROTO_TCP, FlagKind::Rst) => State::TcpStray,
            (PROTO_TCP, _) => State::TcpPickedUp,
            (PROTO_UDP, _) => State::UdpFirst,
            (PROTO_ICMP | PROTO_ICMPV6, _) => State::IcmpFirst,
            // The chunks, which would decide, are missing.
            (PROTO_SCTP, _) => State::SctpHeartbeat,
            _ => State::OtherFirst,
        }
    }

    /// Returns the state after one more packet, from the originator (0) or the responder (1).
    pub(super) fn after(self, direction: usize, kind: FlagKind) -> Self {
        match (self, direction) {
            (State::UdpFirst, 0) => State::UdpSingle,
            (State::UdpFirst | State::UdpSingle, 1) => State::UdpMultiple,
            (State::IcmpFirst, 1) => State::IcmpReply,
            (State::SctpHeartbeat, 1) => State::SctpEstablished,
            (State::OtherFirst, 1) => State::OtherMultiple,
            (State::FlowFirst, 1) => State::FlowMultiple,
            (State::FlowFirst | State::FlowMultiple, _) => self,
            // A segment fits again, so the connection is established as before.
            (State::TcpOutOfSync, _) => kind.next_state(State::TcpEstablished, direction),
            _ => kind.next_state(self, direction),
        }
    }

    /// Returns the state of an open TCP connection whose ends have sent a FIN or not.
    pub(super) fn of_fins(has_fin: [bool; 2]) -> Self {
        match has_fin {
            [false, false] => State::TcpEstablished,
            [true, false] => State::TcpFinWait,
            [false, true] => State::TcpCloseWait,
            [true, true] => State::TcpTimeWait,
        }
    }

    /// True if an SCTP association has ended; compare [`is_closing`](Self::is_closing).
    pub(super) fn is_over_for_sctp(self) -> bool {
        matches!(
            self,
            State::SctpClosed | State::SctpAborted | State::SctpWithdrawn | State::SctpStray
        )
    }

    pub(crate) fn timeout(self, timeouts: &Timeouts) -> Nanos {
        match self {
            State::TcpSynSent | State::TcpSynSent2 | State::TcpPickedUp => timeouts.tcp_syn_sent,
            State::TcpSynRecv => timeouts.tcp_syn_recv,
            State::TcpEstablished
            | State::TcpResumed
            | State::TcpResumedOrig
            | State::TcpResumedReply => timeouts.tcp_established,
            State::TcpOutOfSync => timeouts.tcp_established.min(OUT_OF_SYNC_TIMEOUT),
            State::TcpFinWait
            | State::TcpCloseWait
            | State::TcpFinSent
            | State::TcpFinSentReply
            | State::TcpFinAcked
            | State::TcpLastAck => timeouts.tcp_fin_wait,
            State::TcpTimeWait => timeouts.tcp_time_wait,
            State::TcpClose | State::TcpStray => timeouts.tcp_close,
            State::UdpFirst => timeouts.udp_first,
            State::UdpSingle => timeouts.udp_single,
            State::UdpMultiple => timeouts.udp_multiple,
            State::IcmpFirst | State::IcmpStray => timeouts.icmp_first,
            State::IcmpReply => timeouts.icmp_reply,
            State::SctpInit | State::SctpInitAck => timeouts.sctp_init,
            State::SctpCookie => timeouts.sctp_cookie,
            State::SctpEstablished => timeouts.sctp_established,
            State::SctpShutdown | State::SctpShutdownAck => timeouts.sctp_shutdown,
            State::SctpClosed | State::SctpAborted | State::SctpWithdrawn | State::SctpStray => {
                timeouts.sctp_closed
            }
            State::SctpHeartbeat => timeouts.sctp_heartbeat,
            State::OtherFirst => timeouts.other_first,
            State::OtherMultiple => timeouts.other_multiple,
            State::FlowFirst => timeouts.flow_first,
            State::FlowMultiple => timeouts.flow_multiple,
            State::Free => Nanos::MAX,
        }
    }

    pub(super) fn flow_state(self) -> FlowState {
        match self {
            State::TcpLastAck | State::SctpShutdownAck => FlowState::Closing,
            state if state.is_closing() || state.is_over_for_sctp() => FlowState::Closing,
            state if state.is_first() == 1 => FlowState::New,
            _ => FlowState::Open,
        }
    }
}

/// Timeout of a connection whose ends have both sent a FIN or RST that does not fit: Linux's
/// `nf_conntrack_tcp_timeout_unacknowledged`.
pub(crate) const OUT_OF_SYNC_TIMEOUT: Nanos = 300_000_000_000;
