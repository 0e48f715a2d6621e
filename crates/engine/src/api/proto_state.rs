// SPDX-License-Identifier: BSD-3-Clause
//! How far a connection has come, in words: what decides its timeout, and finer than the state that
//! flow records have.

/// How far a connection has come. Of TCP the states of RFC 9293 section 3.3.2 as a box between both
/// ends sees them; of SCTP those of RFC 9260 section 4; of others, named as their timeouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Progress {
    /// TCP: a SYN, no answer.
    SynSent,
    /// A SYN of both sides.
    SynSent2,
    /// The first packet was no SYN, and there is no answer.
    PickedUp,
    /// SYN and SYN+ACK.
    SynRecv,
    /// Packets of both sides; of SCTP, the COOKIE ACK.
    Established,
    /// A FIN of the originator.
    FinWait,
    /// A FIN of the responder.
    CloseWait,
    /// A FIN of both, of which one is not acknowledged.
    LastAck,
    /// A FIN of both.
    TimeWait,
    /// An RST.
    Close,
    /// SCTP: an INIT, and its answer maybe.
    CookieWait,
    /// A COOKIE ECHO.
    CookieEchoed,
    /// A SHUTDOWN of one side.
    ShutdownSent,
    /// A SHUTDOWN ACK.
    ShutdownAckSent,
    /// SHUTDOWN COMPLETE, or an ABORT.
    Closed,
    /// The first packet was no INIT, and there is no answer.
    HeartbeatSent,
    /// UDP: one packet.
    UdpFirst,
    /// Several packets of one direction.
    UdpSingle,
    /// Packets of both directions.
    UdpMultiple,
    /// ICMP and ICMPv6: one direction only.
    IcmpFirst,
    /// Both directions.
    IcmpReply,
    /// Any other protocol: one direction only.
    OtherFirst,
    /// Both directions.
    OtherMultiple,
}

impl Progress {
    /// Every one of them.
    pub const ALL: [Progress; 23] = [
        Progress::SynSent,
        Progress::SynSent2,
        Progress::PickedUp,
        Progress::SynRecv,
        Progress::Established,
        Progress::FinWait,
        Progress::CloseWait,
        Progress::LastAck,
        Progress::TimeWait,
        Progress::Close,
        Progress::CookieWait,
        Progress::CookieEchoed,
        Progress::ShutdownSent,
        Progress::ShutdownAckSent,
        Progress::Closed,
        Progress::HeartbeatSent,
        Progress::UdpFirst,
        Progress::UdpSingle,
        Progress::UdpMultiple,
        Progress::IcmpFirst,
        Progress::IcmpReply,
        Progress::OtherFirst,
        Progress::OtherMultiple,
    ];

    /// The name in lists and events.
    pub const fn name(self) -> &'static str {
        match self {
            Progress::SynSent => "SYN_SENT",
            Progress::SynSent2 => "SYN_SENT2",
            Progress::PickedUp => "PICKED_UP",
            Progress::SynRecv => "SYN_RECV",
            Progress::Established => "ESTABLISHED",
            Progress::FinWait => "FIN_WAIT",
            Progress::CloseWait => "CLOSE_WAIT",
            Progress::LastAck => "LAST_ACK",
            Progress::TimeWait => "TIME_WAIT",
            Progress::Close => "CLOSE",
            Progress::CookieWait => "COOKIE_WAIT",
            Progress::CookieEchoed => "COOKIE_ECHOED",
            Progress::ShutdownSent => "SHUTDOWN_SENT",
            Progress::ShutdownAckSent => "SHUTDOWN_ACK_SENT",
            Progress::Closed => "CLOSED",
            Progress::HeartbeatSent => "HEARTBEAT_SENT",
            Progress::UdpFirst => "udp_first",
            Progress::UdpSingle => "udp_single",
            Progress::UdpMultiple => "udp_multiple",
            Progress::IcmpFirst => "icmp_first",
            Progress::IcmpReply => "icmp_reply",
            Progress::OtherFirst => "other_first",
            Progress::OtherMultiple => "other_multiple",
        }
    }

    /// The one with this name, in large or small letters.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|progress| progress.name().eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use crate::api::proto_state::Progress;

    #[test]
    fn names_are_unique_and_found_again() {
        for progress in Progress::ALL {
            let name = progress.name();
            assert_eq!(Progress::named(name), Some(progress));
            assert_eq!(Progress::named(&name.to_uppercase()), Some(progress));
            assert_eq!(Progress::named(&name.to_lowercase()), Some(progress));
        }
        assert_eq!(Progress::named("first"), None);
    }
}
