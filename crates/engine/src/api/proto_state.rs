// SPDX-License-Identifier: BSD-3-Clause
//! Owns the protocol state of a connection, which decides its timeout.
//!
//! Flow records have it beside the coarser [`FlowState`](super::FlowState).

/// Protocol state of a connection, as a box between both ends sees it.
///
/// TCP has the states of RFC 9293 section 3.3.2, SCTP those of RFC 9260 section 4. States of other
/// protocols are named like their timeouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ProtoState {
    /// TCP: a SYN without an answer.
    SynSent,
    /// TCP: a SYN from both sides.
    SynSent2,
    /// TCP: the first packet was not a SYN, and there is no answer.
    PickedUp,
    /// TCP: SYN and SYN+ACK.
    SynRecv,
    /// TCP: packets from both sides. SCTP: the COOKIE ACK.
    Established,
    /// TCP: a FIN from one side that the other has not acknowledged, or may not have.
    FinWait,
    /// TCP: a FIN from one side, acknowledged.
    CloseWait,
    /// TCP: a FIN from both sides, one of which is not acknowledged.
    LastAck,
    /// TCP: a FIN from both sides.
    TimeWait,
    /// TCP: an RST.
    Close,
    /// SCTP: an INIT, and possibly an INIT ACK.
    CookieWait,
    /// SCTP: a COOKIE ECHO.
    CookieEchoed,
    /// SCTP: a SHUTDOWN from one side.
    ShutdownSent,
    /// SCTP: a SHUTDOWN ACK.
    ShutdownAckSent,
    /// SCTP: SHUTDOWN COMPLETE or ABORT.
    Closed,
    /// SCTP: the first packet was not an INIT, and there is no answer.
    HeartbeatSent,
    /// UDP: one packet.
    UdpFirst,
    /// UDP: several packets of one direction.
    UdpSingle,
    /// UDP: packets of both directions.
    UdpMultiple,
    /// ICMP and ICMPv6: one direction only.
    IcmpFirst,
    /// ICMP and ICMPv6: both directions.
    IcmpReply,
    /// Any other protocol: one direction only.
    OtherFirst,
    /// Any other protocol: both directions.
    OtherMultiple,
    /// A flow of any protocol: one direction only.
    FlowFirst,
    /// A flow of any protocol: both directions.
    FlowMultiple,
}

impl ProtoState {
    /// Every state.
    pub const ALL: [ProtoState; 25] = [
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
        ProtoState::FlowFirst,
        ProtoState::FlowMultiple,
    ];

    /// Returns the name in lists and events.
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
            ProtoState::FlowFirst => "flow_first",
            ProtoState::FlowMultiple => "flow_multiple",
        }
    }

    /// Returns the state with this name, in upper or lower case; `None` if there is none.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name().eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use crate::api::proto_state::ProtoState;

    #[test]
    fn names_are_unique_and_found_again() {
        for proto_state in ProtoState::ALL {
            let name = proto_state.name();
            assert_eq!(ProtoState::named(name), Some(proto_state));
            assert_eq!(ProtoState::named(&name.to_uppercase()), Some(proto_state));
            assert_eq!(ProtoState::named(&name.to_lowercase()), Some(proto_state));
        }
        assert_eq!(ProtoState::named("first"), None);
    }
}
