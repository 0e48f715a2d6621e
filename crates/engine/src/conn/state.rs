// SPDX-License-Identifier: BSD-3-Clause
//! Where a flow is in its life: decides its timeout, and which of its packets do more than to be
//! counted.

use crate::api::ProtoState;

/// Six bits. The lowest is for the packet path: a packet of the responder does more.
/// [`State::OPEN`] is another: any packet does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
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

impl State {
    /// Any packet does more than to be counted.
    pub(super) const OPEN: u8 = 0x20;

    /// How many values its bits can have.
    pub(crate) const BITS: usize = 64;

    /// Every one of them.
    const ALL: [State; 35] = [
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
        State::Free,
    ];

    /// That with these bits.
    pub(crate) fn of_bits(bits: u8) -> Self {
        const BY_BITS: [State; State::BITS] = {
            let mut phases = [State::Free; State::BITS];
            let mut i = 0;
            while i < State::ALL.len() {
                phases[State::ALL[i] as usize] = State::ALL[i];
                i += 1;
            }
            phases
        };
        BY_BITS[usize::from(bits) % BY_BITS.len()]
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
        matches!(self, State::TcpTimeWait | State::TcpClose | State::TcpStray)
    }

    /// Whether the first packet was one that no connection begins with.
    pub(super) fn is_stray(self) -> bool {
        matches!(self, State::TcpStray | State::SctpStray | State::IcmpStray)
    }

    /// After a restart, when this direction was heard.
    pub(super) fn resumed(direction: usize) -> Self {
        if direction == 0 { State::TcpResumedOrig } else { State::TcpResumedReply }
    }

    /// Where its numbers are to be learnt anew after a restart: which direction was heard, if any.
    pub(super) fn side_heard_since(self) -> Option<Option<usize>> {
        match self {
            State::TcpResumed => Some(None),
            State::TcpResumedOrig => Some(Some(0)),
            State::TcpResumedReply => Some(Some(1)),
            _ => None,
        }
    }

    /// Whether its numbers are to be learnt anew after a restart.
    pub(super) fn is_resumed(self) -> bool {
        self.side_heard_since().is_some()
    }
}

impl State {
    /// The same for others; `None` of a record that is not in use.
    pub(crate) fn progress(self) -> Option<ProtoState> {
        Some(match self {
            State::Free => return None,
            State::TcpSynSent => ProtoState::SynSent,
            State::TcpSynSent2 => ProtoState::SynSent2,
            State::TcpPickedUp => ProtoState::PickedUp,
            State::TcpSynRecv => ProtoState::SynRecv,
            // What has to be learnt anew changes nothing for those who look.
            State::TcpEstablished
            | State::TcpOutOfSync
            | State::TcpResumed
            | State::TcpResumedOrig
            | State::TcpResumedReply
            | State::SctpEstablished => ProtoState::Established,
            State::TcpFinWait => ProtoState::FinWait,
            State::TcpCloseWait => ProtoState::CloseWait,
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
        })
    }
}

impl State {
    /// Whether both ends have shown that they want the flow. One that is refused has not come so
    /// far by that, and one that was assured stays so.
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
    /// Whether both ends know the connection, and its numbers are judged.
    pub(crate) fn can_be_out_of_sync(self) -> bool {
        matches!(
            self,
            State::TcpPickedUp
                | State::TcpSynRecv
                | State::TcpEstablished
                | State::TcpOutOfSync
                | State::TcpFinWait
                | State::TcpCloseWait
                | State::TcpLastAck
        )
    }
}
