// SPDX-License-Identifier: BSD-3-Clause
//! Owns the anomalies: reasons why a packet does not fit its connection, or cannot begin one.

/// Reason why a packet changes no state of its connection and does not restart its timeout.
///
/// By default the packet is forwarded and counted to the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Anomaly {
    /// No TCP flags, or a combination that no correct sender makes.
    TcpFlags,
    /// An RST outside the window (RFC 5961 section 3.2).
    TcpRst,
    /// A sequence number beyond the window of the receiver.
    TcpBeyondWindow,
    /// An acknowledgment of data that was not sent.
    TcpAckBeyond,
    /// A SYN that this side cannot send: a SYN of the responder, or a SYN+ACK of the originator.
    TcpSynOfOther,
    /// A segment without a known connection that is not a SYN, where only a SYN may begin a
    /// connection.
    TcpNoSyn,
    /// An RST in the window with a sequence number that the receiver does not expect. The receiver
    /// sends a challenge ACK (RFC 5961 section 3.2).
    TcpRstInWindow,
    /// A SYN on an existing connection. The other end sends a challenge ACK (RFC 5961 section 4.2).
    TcpSyn,
    /// A segment that is completely older than a window.
    TcpOld,
    /// An acknowledgment older than a window, or of something before the SYN.
    TcpAckOld,
    /// A wrong checksum of a packet that would begin a connection or change its state. The receiver
    /// drops such a packet.
    Checksum,
    /// A verification tag that the association does not have (RFC 9260 section 8.5).
    SctpTag,
    /// No SCTP chunks, or a combination that no correct sender makes.
    SctpChunk,
    /// SCTP without a known association that is not an INIT, where only an INIT may begin one.
    SctpNoInit,
    /// An INIT on an existing association, other than the one it began with. The other end answers
    /// (RFC 9260 section 5.2.2).
    SctpInit,
    /// An ICMP reply without a request.
    IcmpReply,
    /// A HEARTBEAT with a verification tag that the association does not have. The association may
    /// have restarted between other addresses; the answer will tell.
    SctpHeartbeat,
}

impl Anomaly {
    /// Every anomaly, in the order of the counters.
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

    /// True if the connection cannot have this packet.
    ///
    /// The other anomalies are packets that the receiver must see: it answers them and continues.
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

    /// Returns the name in `--json`, metrics and documentation.
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

    /// Returns a one-line description for reports and documentation.
    pub const fn doc(self) -> &'static str {
        match self {
            Anomaly::TcpFlags => "TCP with an impossible combination of flags, or none",
            Anomaly::TcpRst => "TCP RST outside the window",
            Anomaly::TcpBeyondWindow => "TCP data beyond the receiver's window",
            Anomaly::TcpAckBeyond => "TCP acknowledgment of data that was not sent",
            Anomaly::TcpSynOfOther => "TCP SYN or SYN+ACK from the wrong side",
            Anomaly::TcpNoSyn => "TCP of no known connection, and not a SYN",
            Anomaly::TcpRstInWindow => "TCP RST in the window, but not at the expected number",
            Anomaly::TcpSyn => "TCP SYN in an existing connection",
            Anomaly::TcpOld => "TCP segment older than the largest window",
            Anomaly::TcpAckOld => "TCP acknowledgment older than the largest window",
            Anomaly::Checksum => "wrong checksum of IPv4, TCP, UDP, SCTP or ICMP",
            Anomaly::SctpTag => "SCTP with a wrong verification tag",
            Anomaly::SctpChunk => "SCTP with an impossible combination of chunks, or none",
            Anomaly::SctpNoInit => "SCTP of no known association, and not an INIT",
            Anomaly::SctpInit => "SCTP INIT in an existing association",
            Anomaly::IcmpReply => "ICMP reply without a request",
            Anomaly::SctpHeartbeat => "SCTP HEARTBEAT with another verification tag",
        }
    }
}
