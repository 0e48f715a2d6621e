// SPDX-License-Identifier: BSD-3-Clause
//! Owns the timeouts of connections, by protocol and state.

use crate::base::Nanos;

/// Timeouts in nanoseconds, by protocol state of the connection.
///
/// Where the state is the same, names and defaults are those of OVS's timeout policy
/// (lib/ct-dpif.h, lib/conntrack-tp.c).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP, a SYN from one side or both, or packets of one direction only.
    pub tcp_syn_sent: Nanos,
    /// TCP, SYN and SYN+ACK.
    pub tcp_syn_recv: Nanos,
    /// TCP, packets of both directions.
    pub tcp_established: Nanos,
    /// TCP after a FIN from one side.
    pub tcp_fin_wait: Nanos,
    /// TCP after a FIN from both sides: late packets still belong to the connection.
    pub tcp_time_wait: Nanos,
    /// TCP after RST.
    pub tcp_close: Nanos,
    /// UDP, one packet.
    pub udp_first: Nanos,
    /// UDP, several packets of one direction only.
    pub udp_single: Nanos,
    /// UDP, packets of both directions.
    pub udp_multiple: Nanos,
    /// ICMP and ICMPv6, one direction only.
    pub icmp_first: Nanos,
    /// ICMP and ICMPv6, both directions.
    pub icmp_reply: Nanos,
    /// SCTP, an INIT, with or without the INIT ACK that answers it.
    pub sctp_init: Nanos,
    /// SCTP, a COOKIE ECHO.
    pub sctp_cookie: Nanos,
    /// SCTP, packets of both directions.
    pub sctp_established: Nanos,
    /// SCTP after a SHUTDOWN, or SHUTDOWN ACK.
    pub sctp_shutdown: Nanos,
    /// SCTP after SHUTDOWN COMPLETE, or ABORT.
    pub sctp_closed: Nanos,
    /// SCTP that did not begin with an INIT, one direction only.
    pub sctp_heartbeat: Nanos,
    /// Any other protocol, one direction only.
    pub other_first: Nanos,
    /// Any other protocol, both directions.
    pub other_multiple: Nanos,
    /// [Flows](crate::Tracking::Flows) of any protocol, one direction only.
    pub flow_first: Nanos,
    /// Flows of any protocol, both directions.
    pub flow_multiple: Nanos,
}

impl Timeouts {
    /// Timeouts for measurement, where a pause ends a connection.
    ///
    /// They are 5 s in all states, and 2 s after the end of TCP and SCTP.
    pub const SHORT: Self = {
        const IDLE: Nanos = 5 * SECOND;
        const CLOSE: Nanos = 2 * SECOND;
        Self {
            tcp_syn_sent: IDLE,
            tcp_syn_recv: IDLE,
            tcp_established: IDLE,
            tcp_fin_wait: IDLE,
            tcp_time_wait: CLOSE,
            tcp_close: CLOSE,
            udp_first: IDLE,
            udp_single: IDLE,
            udp_multiple: IDLE,
            icmp_first: IDLE,
            icmp_reply: IDLE,
            sctp_init: IDLE,
            sctp_cookie: IDLE,
            sctp_established: IDLE,
            sctp_shutdown: IDLE,
            sctp_closed: CLOSE,
            sctp_heartbeat: IDLE,
            other_first: IDLE,
            other_multiple: IDLE,
            flow_first: IDLE,
            flow_multiple: IDLE,
        }
    };
}

const SECOND: Nanos = 1_000_000_000;

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            tcp_syn_sent: 30 * SECOND,
            tcp_syn_recv: 30 * SECOND,
            tcp_established: 86_400 * SECOND,
            tcp_fin_wait: 900 * SECOND,
            tcp_time_wait: 45 * SECOND,
            tcp_close: 30 * SECOND,
            udp_first: 60 * SECOND,
            udp_single: 60 * SECOND,
            udp_multiple: 30 * SECOND,
            icmp_first: 60 * SECOND,
            icmp_reply: 30 * SECOND,
            sctp_init: 30 * SECOND,
            sctp_cookie: 30 * SECOND,
            sctp_established: 210 * SECOND,
            sctp_shutdown: 30 * SECOND,
            sctp_closed: 10 * SECOND,
            sctp_heartbeat: 30 * SECOND,
            other_first: 60 * SECOND,
            other_multiple: 60 * SECOND,
            flow_first: 60 * SECOND,
            flow_multiple: 60 * SECOND,
        }
    }
}
