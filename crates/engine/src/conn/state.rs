// SPDX-License-Identifier: BSD-3-Clause
//! Owns the states of a connection. The state decides the timeout, and which packets do more than
//! being counted.

use crate::api::ProtoState;

/// State in six bits. If the lowest bit is set, a packet of the responder does more than being
/// counted. With [`State::OPEN`], any packet does. With [`State::FLAGLESS`] and without `OPEN`, TCP
/// flags do not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// The record is not in use.
    Free = 0,
    /// TCP: a SYN without an answer.
    TcpSynSent = 0x21,
    /// TCP: a SYN from both sides (RFC 9293 figure 7, and split handshakes).
    TcpSynSent2 = 0x23,
    /// TCP: the first packet was not a SYN, and there is no answer.
    TcpPickedUp = 0x03,
    /// TCP: SYN and SYN+ACK.
    TcpSynRecv = 0x22,
    TcpEstablished = 0x02,
    /// TCP: established, and both sides have sent a FIN or RST that did not fit.
    TcpOutOfSync = 0x3a,
    /// TCP: established before a restart; neither side has sent a packet since.
    TcpResumed = 0x26,
    /// TCP: established before a restart; one side has sent a packet since, the originator or the
    /// responder.
    TcpResumedOrig = 0x28,
    TcpResumedReply = 0x2a,
    /// TCP: a FIN from the originator; whether it is acknowledged is not known.
    TcpFinWait = 0x04,
    /// TCP: a FIN from the responder; whether it is acknowledged is not known.
    TcpCloseWait = 0x06,
    /// TCP: a FIN from the originator that the responder has not acknowledged.
    TcpFinSent = 0x3c,
    /// TCP: a FIN from the responder that the originator has not acknowledged.
    TcpFinSentReply = 0x3e,
    /// TCP: a FIN from one side that the other side has acknowledged. It stays so when numbers are
    /// not checked any more.
    TcpFinAcked = 0x0e,
    /// TCP: a FIN from both sides; not everything is acknowledged yet.
    TcpLastAck = 0x24,
    /// TCP: a FIN from both sides; everything is acknowledged, unless numbers are not checked.
    TcpTimeWait = 0x08,
    /// TCP: an RST.
    TcpClose = 0x0a,
    /// TCP: the first packet was an RST, or had flags that no correct sender uses.
    TcpStray = 0x0c,
    /// UDP: one packet.
    UdpFirst = 0x25,
    /// UDP: several packets of one direction.
    UdpSingle = 0x05,
    UdpMultiple = 0x12,
    IcmpFirst = 0x07,
    IcmpReply = 0x16,
    /// ICMP: the first packet was a reply.
    IcmpStray = 0x2f,
    /// SCTP: an INIT without an answer.
    SctpInit = 0x27,
    /// SCTP: the first packet was not an INIT, and there is no answer. Usually it is a HEARTBEAT
    /// between another pair of addresses of an association.
    SctpHeartbeat = 0x29,
    SctpInitAck = 0x2c,
    SctpCookie = 0x2e,
    SctpEstablished = 0x30,
    /// SCTP: a SHUTDOWN from one side.
    SctpShutdown = 0x32,
    SctpShutdownAck = 0x34,
    /// SCTP: SHUTDOWN COMPLETE.
    SctpClosed = 0x36,
    SctpAborted = 0x38,
    /// SCTP: an ABORT of the originator before any answer.
    SctpWithdrawn = 0x2b,
    /// SCTP: the first packet cannot begin an association.
    SctpStray = 0x2d,
    OtherFirst = 0x09,
    OtherMultiple = 0x10,
    /// A flow of any protocol whose states are not tracked: packets of one direction.
    FlowFirst = 0x15,
    /// Such a flow with packets of both directions.
    FlowMultiple = 0x14,
}

impl State {
    /// Bit of states in which any packet does more than being counted.
    pub(super) const OPEN: u8 = 0x20;

    /// Bit of states in which TCP flags do not matter, unless [`State::OPEN`] is set too.
    pub(super) const FLAGLESS: u8 = 0x10;

    /// Number of values of the six bits.
    pub(crate) const BITS: usize = 64;

    const ALL: [State; 40] = [
        State::TcpSynSent,
        State::TcpSynSent2,
        State::TcpPickedUp,
        State::TcpSynRecv,
        State::TcpEstablished,
        State::TcpOutOfSync,
        State::TcpResumed,
        State::TcpResumedOrig,
        State::TcpResumedReply,
        State::TcpFinWait,
        State::TcpCloseWait,
        State::TcpFinSent,
        State::TcpFinSentReply,
        State::TcpFinAcked,
        State::TcpLastAck,
        State::TcpTimeWait,
        State::TcpClose,
        State::TcpStray,
        State::UdpFirst,
        State::UdpSingle,
        State::UdpMultiple,
        State::IcmpFirst,
        State::IcmpReply,
        State::IcmpStray,
        State::SctpInit,
        State::SctpHeartbeat,
        State::SctpInitAck,
        State::SctpCookie,
        State::SctpEstablished,
        State::SctpShutdown,
        State::SctpShutdownAck,
        State::SctpClosed,
        State::SctpAborted,
        State::SctpWithdrawn,
        State::SctpStray,
        State::OtherFirst,
        State::OtherMultiple,
        State::FlowFirst,
        State::FlowMultiple,
        State::Free,
    ];

    /// Returns the state with these bits; [`State::Free`] if there is none.
    pub(crate) fn of_bits(bits: u8) -> Self {
        const BY_BITS: [State; State::BITS] = {
            let mut states = [State::Free; State::BITS];
            let mut i = 0;
            while i < State::ALL.len() {
                states[State::ALL[i] as usize] = State::ALL[i];
                i += 1;
            }
            states
        };
        BY_BITS[usize::from(bits) % BY_BITS.len()]
    }

    /// Returns 1 in states in which a packet of the responder does more than being counted: it has
    /// not answered yet. Otherwise 0.
    #[inline(always)]
    pub(crate) fn is_first(self) -> u8 {
        self as u8 & 1
    }

    /// True if any packet does more than being counted.
    pub(crate) fn is_open(self) -> bool {
        self as u8 & Self::OPEN != 0
    }

    /// True if the TCP connection has ended, so that a SYN may begin another one on its ports.
    pub(crate) fn is_closing(self) -> bool {
        matches!(self, State::TcpTimeWait | State::TcpClose | State::TcpStray)
    }

    /// Returns the state that stands for this one where numbers are checked.
    pub(super) fn with_numbers(self) -> Self {
        match self {
            State::TcpFinWait => State::TcpFinSent,
            State::TcpCloseWait => State::TcpFinSentReply,
            state => state,
        }
    }

    /// Returns the state that stands for this one where numbers are not checked. Without sequence
    /// numbers, the last acknowledgment cannot be recognised.
    pub(super) fn without_numbers(self) -> Self {
        match self {
            State::TcpOutOfSync => State::TcpEstablished,
            State::TcpFinSent => State::TcpFinWait,
            State::TcpFinSentReply => State::TcpCloseWait,
            State::TcpLastAck => State::TcpTimeWait,
            state => state,
        }
    }

    /// Returns the side whose FIN has not been acknowledged, if only one side has sent a FIN and
    /// numbers are checked.
    pub(super) fn side_of_open_fin(self) -> Option<usize> {
        match self {
            State::TcpFinSent => Some(0),
            State::TcpFinSentReply => Some(1),
            _ => None,
        }
    }

    /// True for a flow whose states are not tracked.
    pub(crate) fn is_flow(self) -> bool {
        matches!(self, State::FlowFirst | State::FlowMultiple)
    }

    /// True if the first packet cannot begin a connection.
    pub(super) fn is_stray(self) -> bool {
        matches!(self, State::TcpStray | State::SctpStray | State::IcmpStray)
    }

    /// Returns the state after a restart once this direction has sent a packet.
    pub(super) fn resumed(direction: usize) -> Self {
        if direction == 0 { State::TcpResumedOrig } else { State::TcpResumedReply }
    }

    /// Returns, for a TCP connection that is resumed after a restart, the side that has sent a
    /// packet since.
    ///
    /// The outer `None`: it is not being resumed. The inner `None`: neither side has sent a packet.
    pub(super) fn side_seen_since_restart(self) -> Option<Option<usize>> {
        match self {
            State::TcpResumed => Some(None),
            State::TcpResumedOrig => Some(Some(0)),
            State::TcpResumedReply => Some(Some(1)),
            _ => None,
        }
    }

    /// True if the connection is resumed after a restart, so its numbers must be learnt anew.
    pub(super) fn is_resumed(self) -> bool {
        self.side_seen_since_restart().is_some()
    }

    /// True for a TCP connection that is beginning.
    pub(super) fn is_handshake(self) -> bool {
        matches!(self, State::TcpSynSent | State::TcpSynSent2 | State::TcpSynRecv)
    }
}

impl State {
    /// Returns the protocol state for users, with the words of Linux: it says `CLOSE_WAIT` once the
    /// first FIN is acknowledged, whichever end has sent it. Without window check that is not
    /// known. `None` for a record that is not in use.
    pub(crate) fn proto_state(self) -> Option<ProtoState> {
        Some(match self {
            State::Free => return None,
            State::TcpSynSent => ProtoState::SynSent,
            State::TcpSynSent2 => ProtoState::SynSent2,
            State::TcpPickedUp => ProtoState::PickedUp,
            State::TcpSynRecv => ProtoState::SynRecv,
            // Users do not see that numbers are learnt anew.
            State::TcpEstablished
            | State::TcpOutOfSync
            | State::TcpResumed
            | State::TcpResumedOrig
            | State::TcpResumedReply
            | State::SctpEstablished => ProtoState::Established,
            State::TcpFinWait
            | State::TcpCloseWait
            | State::TcpFinSent
            | State::TcpFinSentReply => ProtoState::FinWait,
            State::TcpFinAcked => ProtoState::CloseWait,
            State::TcpLastAck => ProtoState::LastAck,
            State::TcpTimeWait => ProtoState::TimeWait,
            State::TcpClose | State::TcpStray => ProtoState::Close,
            State::SctpInit | State::SctpInitAck => ProtoState::CookieWait,
            State::SctpCookie => ProtoState::CookieEchoed,
            State::SctpShutdown => ProtoState::ShutdownSent,
            State::SctpShutdownAck => ProtoState::ShutdownAckSent,
            State::SctpClosed | State::SctpAborted | State::SctpWithdrawn | State::SctpStray => {
                ProtoState::Closed
            }
            State::SctpHeartbeat => ProtoState::HeartbeatSent,
            State::UdpFirst => ProtoState::UdpFirst,
            State::UdpSingle => ProtoState::UdpSingle,
            State::UdpMultiple => ProtoState::UdpMultiple,
            State::IcmpFirst | State::IcmpStray => ProtoState::IcmpFirst,
            State::IcmpReply => ProtoState::IcmpReply,
            State::OtherFirst => ProtoState::OtherFirst,
            State::OtherMultiple => ProtoState::OtherMultiple,
            State::FlowFirst => ProtoState::FlowFirst,
            State::FlowMultiple => ProtoState::FlowMultiple,
        })
    }
}

impl State {
    /// True if a connection that enters this state has been confirmed by both ends.
    ///
    /// False for states that a refusal leads to: it confirms nothing. But a connection that was
    /// confirmed before it entered such a state stays so.
    pub(crate) fn is_assured(self) -> bool {
        let is_refused = matches!(
            self,
            State::TcpSynRecv
                | State::TcpClose
                | State::TcpStray
                | State::SctpInitAck
                | State::SctpClosed
                | State::SctpAborted
                | State::Free
        );
        self.is_first() == 0 && !is_refused
    }
}

impl State {
    /// True if the state is one in which a connection can get out of sync: both ends know the
    /// connection.
    pub(crate) fn can_be_out_of_sync(self) -> bool {
        matches!(
            self,
            State::TcpPickedUp
                | State::TcpSynRecv
                | State::TcpEstablished
                | State::TcpOutOfSync
                | State::TcpFinWait
                | State::TcpCloseWait
                | State::TcpFinSent
                | State::TcpFinSentReply
                | State::TcpFinAcked
                | State::TcpLastAck
        )
    }
}
