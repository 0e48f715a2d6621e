// SPDX-License-Identifier: BSD-3-Clause
//! Where a flow is in its life: decides its timeout, and which of its packets do more than to be
//! counted.

use crate::api::Progress;

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

    /// After a restart, when this direction was heard.
    pub(super) fn resumed(direction: usize) -> Self {
        if direction == 0 { Phase::TcpResumedOrig } else { Phase::TcpResumedReply }
    }

    /// Where its numbers are to be learnt anew after a restart: which direction was heard, if any.
    pub(super) fn side_heard_since(self) -> Option<Option<usize>> {
        match self {
            Phase::TcpResumed => Some(None),
            Phase::TcpResumedOrig => Some(Some(0)),
            Phase::TcpResumedReply => Some(Some(1)),
            _ => None,
        }
    }

    /// Whether its numbers are to be learnt anew after a restart.
    pub(super) fn is_resumed(self) -> bool {
        self.side_heard_since().is_some()
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

impl Phase {
    /// Whether both ends have shown that they want the flow. One that is refused has not come so
    /// far by that, and one that was assured stays so.
    pub(crate) fn is_assured(self) -> bool {
        let is_refused = matches!(
            self,
            Phase::TcpSynRecv
                | Phase::TcpClose
                | Phase::TcpStray
                | Phase::SctpInitAck
                | Phase::SctpClosed
                | Phase::SctpAborted
                | Phase::Free
        );
        self.is_first() == 0 && !is_refused
    }
}

impl Phase {
    /// Whether both ends know the connection, and its numbers are judged.
    pub(crate) fn can_be_out_of_sync(self) -> bool {
        matches!(
            self,
            Phase::TcpPickedUp
                | Phase::TcpSynRecv
                | Phase::TcpEstablished
                | Phase::TcpOutOfSync
                | Phase::TcpFinWait
                | Phase::TcpCloseWait
                | Phase::TcpLastAck
        )
    }
}
