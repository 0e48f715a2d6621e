// SPDX-License-Identifier: BSD-3-Clause
//! How far a connection has come, in words: what decides its timeout, and finer than the state that
//! flow records have.

/// How far a connection has come. Of TCP the states of RFC 9293 section 3.3.2 as a box between both
/// ends sees them; of SCTP those of RFC 9260 section 4; of others, named as their timeouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ProtoState {
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

impl ProtoState {
    /// Every one of them.
    pub const ALL: [ProtoState; 23] = [
        ProtoState::SynSent,
        ProtoState::SynSent2,
        ProtoState::PickedUp,
        ProtoState::SynRecv,
        ProtoState::Established,
        ProtoState::FinWait,
        ProtoState::CloseWait,
        ProtoState::LastAck,
        ProtoState::TimeWait,
        ProtoState::Close,
        ProtoState::CookieWait,
        ProtoState::CookieEchoed,
        ProtoState::ShutdownSent,
        ProtoState::ShutdownAckSent,
        ProtoState::Closed,
        ProtoState::HeartbeatSent,
        ProtoState::UdpFirst,
        ProtoState::UdpSingle,
        ProtoState::UdpMultiple,
        ProtoState::IcmpFirst,
        ProtoState::IcmpReply,
        ProtoState::OtherFirst,
        ProtoState::OtherMultiple,
    ];

    /// The name in lists and events.
    pub const fn name(self) -> &'static str {
        match self {
            ProtoState::SynSent => "SYN_SENT",
            ProtoState::SynSent2 => "SYN_SENT2",
            ProtoState::PickedUp => "PICKED_UP",
            ProtoState::SynRecv => "SYN_RECV",
            ProtoState::Established => "ESTABLISHED",
            ProtoState::FinWait => "FIN_WAIT",
            ProtoState::CloseWait => "CLOSE_WAIT",
            ProtoState::LastAck => "LAST_ACK",
            ProtoState::TimeWait => "TIME_WAIT",
            ProtoState::Close => "CLOSE",
            ProtoState::CookieWait => "COOKIE_WAIT",
            ProtoState::CookieEchoed => "COOKIE_ECHOED",
            ProtoState::ShutdownSent => "SHUTDOWN_SENT",
            ProtoState::ShutdownAckSent => "SHUTDOWN_ACK_SENT",
            ProtoState::Closed => "CLOSED",
            ProtoState::HeartbeatSent => "HEARTBEAT_SENT",
            ProtoState::UdpFirst => "udp_first",
            ProtoState::UdpSingle => "udp_single",
            ProtoState::UdpMultiple => "udp_multiple",
            ProtoState::IcmpFirst => "icmp_first",
            ProtoState::IcmpReply => "icmp_reply",
            ProtoState::OtherFirst => "other_first",
            ProtoState::OtherMultiple => "other_multiple",
        }
    }

    /// The one with this name, in large or small letters.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|progress| progress.name().eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use crate::api::proto_state::ProtoState;

    #[test]
    fn names_are_unique_and_found_again() {
        for progress in ProtoState::ALL {
            let name = progress.name();
            assert_eq!(ProtoState::named(name), Some(progress));
            assert_eq!(ProtoState::named(&name.to_uppercase()), Some(progress));
            assert_eq!(ProtoState::named(&name.to_lowercase()), Some(progress));
        }
        assert_eq!(ProtoState::named("first"), None);
    }
}
