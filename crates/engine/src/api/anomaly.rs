// SPDX-License-Identifier: BSD-3-Clause
//! Why a packet does not fit its connection, or cannot begin one.

/// Why a packet changes nothing about its connection, and is no sign of life. It is forwarded and
/// counted all the same, unless told otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Anomaly {
    /// Flags that no segment has together, or none.
    TcpFlags,
    /// An RST outside of the window (RFC 5961 section 3.2).
    TcpRst,
    /// Sequence number beyond the window of the receiver.
    TcpBeyondWindow,
    /// Acknowledges what was not sent.
    TcpAckBeyond,
    /// A SYN that this side cannot send: the responder's where there is a connection, or the answer
    /// of the originator to none.
    TcpSynOfOther,
    /// It is of no connection that is known, and none may begin with it: there has to be a SYN.
    TcpNoSyn,
    /// An RST in the window that is not what the receiver waits for: it asks back (RFC 5961 section
    /// 3.2).
    TcpRstInWindow,
    /// A SYN where there is a connection: the other end asks back (RFC 5961 section 4.2).
    TcpSyn,
    /// All of it is older than a window.
    TcpOld,
    /// Acknowledges less than was acknowledged a window ago, or something of before the SYN.
    TcpAckOld,
    /// It would begin a connection, or change the state of one, and a checksum is wrong: its
    /// receiver drops it.
    Checksum,
    /// A verification tag that its association does not have (RFC 9260 section 8.5).
    SctpTag,
    /// Chunks that no packet of SCTP has together, or none.
    SctpChunk,
    /// SCTP of no association that is known, and none may begin with it.
    SctpNoInit,
    /// An INIT where there is an association, and not the one it began with: the other end answers
    /// (RFC 9260 section 5.2.2).
    SctpInit,
    /// A reply of ICMP that nobody has asked for.
    IcmpReply,
    /// A HEARTBEAT with a verification tag that its association does not have: between other
    /// addresses it may have begun anew, which the answer says.
    SctpHeartbeat,
}

impl Anomaly {
    /// Every reason, in the order of the counters.
    pub const ALL: [Anomaly; 17] = [
        Anomaly::TcpFlags,
        Anomaly::TcpRst,
        Anomaly::TcpBeyondWindow,
        Anomaly::TcpAckBeyond,
        Anomaly::TcpSynOfOther,
        Anomaly::TcpNoSyn,
        Anomaly::TcpRstInWindow,
        Anomaly::TcpSyn,
        Anomaly::TcpOld,
        Anomaly::TcpAckOld,
        Anomaly::Checksum,
        Anomaly::SctpTag,
        Anomaly::SctpChunk,
        Anomaly::SctpNoInit,
        Anomaly::SctpInit,
        Anomaly::IcmpReply,
        Anomaly::SctpHeartbeat,
    ];

    /// Whether its connection cannot have it. The others are such as their receiver has to see: it
    /// answers them, and goes on.
    pub const fn is_invalid(self) -> bool {
        match self {
            Anomaly::TcpFlags
            | Anomaly::TcpRst
            | Anomaly::TcpBeyondWindow
            | Anomaly::TcpAckBeyond
            | Anomaly::TcpSynOfOther
            | Anomaly::TcpNoSyn
            | Anomaly::Checksum
            | Anomaly::SctpTag
            | Anomaly::SctpChunk
            | Anomaly::SctpNoInit
            | Anomaly::IcmpReply => true,
            Anomaly::TcpRstInWindow
            | Anomaly::TcpSyn
            | Anomaly::TcpOld
            | Anomaly::TcpAckOld
            | Anomaly::SctpInit
            | Anomaly::SctpHeartbeat => false,
        }
    }

    /// The name in `--json`, metrics and documentation.
    pub const fn name(self) -> &'static str {
        match self {
            Anomaly::TcpFlags => "tcp_flags",
            Anomaly::TcpRst => "tcp_rst",
            Anomaly::TcpBeyondWindow => "tcp_beyond_window",
            Anomaly::TcpAckBeyond => "tcp_ack_beyond",
            Anomaly::TcpSynOfOther => "tcp_syn_of_other",
            Anomaly::TcpNoSyn => "tcp_no_syn",
            Anomaly::TcpRstInWindow => "tcp_rst_in_window",
            Anomaly::TcpSyn => "tcp_syn",
            Anomaly::TcpOld => "tcp_old",
            Anomaly::TcpAckOld => "tcp_ack_old",
            Anomaly::Checksum => "checksum",
            Anomaly::SctpTag => "sctp_tag",
            Anomaly::SctpChunk => "sctp_chunk",
            Anomaly::SctpNoInit => "sctp_no_init",
            Anomaly::SctpInit => "sctp_init",
            Anomaly::IcmpReply => "icmp_reply",
            Anomaly::SctpHeartbeat => "sctp_heartbeat",
        }
    }

    /// One line for people.
    pub const fn doc(self) -> &'static str {
        match self {
            Anomaly::TcpFlags => "TCP flags that no segment has together, or none",
            Anomaly::TcpRst => "TCP RST outside of the window",
            Anomaly::TcpBeyondWindow => "TCP data beyond the window of the receiver",
            Anomaly::TcpAckBeyond => "TCP acknowledgment of what was not sent",
            Anomaly::TcpSynOfOther => "TCP SYN of the side that does not send it",
            Anomaly::TcpNoSyn => "TCP without a SYN before it, where there has to be one",
            Anomaly::TcpRstInWindow => "TCP RST that is not what the receiver waits for",
            Anomaly::TcpSyn => "TCP SYN where there is a connection",
            Anomaly::TcpOld => "TCP segment older than a window",
            Anomaly::TcpAckOld => "TCP acknowledgment older than a window",
            Anomaly::Checksum => "wrong checksum of IPv4, TCP, UDP, SCTP or ICMP",
            Anomaly::SctpTag => "SCTP with a tag that its association does not have",
            Anomaly::SctpChunk => "SCTP with chunks that no packet has together, or none",
            Anomaly::SctpNoInit => "SCTP without an INIT before it, where there has to be one",
            Anomaly::SctpInit => "SCTP INIT where there is an association",
            Anomaly::IcmpReply => "ICMP reply that nobody has asked for",
            Anomaly::SctpHeartbeat => "SCTP HEARTBEAT with another tag, not answered yet",
        }
    }
}
