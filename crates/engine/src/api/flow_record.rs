// SPDX-License-Identifier: BSD-3-Clause
//! Owns the flow record: the output for a connection when it ends.

use super::ct_mark::CtMark;
use super::proto_state::ProtoState;
use crate::base::Nanos;
use std::net::IpAddr;

/// One connection that has ended, or that was alive at exit.
///
/// `src` is the originator: the sender of its first packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRecord {
    /// Address of the originator.
    pub src: IpAddr,
    /// Address of the responder.
    pub dst: IpAddr,
    /// IP protocol number.
    pub proto: u8,
    /// Port of the originator; for ICMP the identifier (or 0); for GRE and ESP the upper half of
    /// key or SPI; 0 without ports.
    pub sport: u16,
    /// Port of the responder; for ICMP type * 256 + code of the first packet; for GRE and ESP the
    /// lower half; 0 without ports.
    pub dport: u16,
    /// Zone of the connection.
    pub zone: u16,
    /// VLAN tags of the first packet, outermost first.
    pub vlan: VlanTags,
    /// Time of the first packet, nanoseconds since the Unix epoch.
    pub start: Nanos,
    /// Time of the last packet, nanoseconds since the Unix epoch.
    pub end: Nanos,
    /// Packets from `src` to `dst`.
    pub orig: DirectionCounters,
    /// Packets from `dst` to `src`.
    pub reply: DirectionCounters,
    /// State at the end.
    pub state: FlowState,
    /// Protocol state at the end, in more detail.
    pub proto_state: ProtoState,
    /// True if both ends have confirmed the connection.
    pub is_assured: bool,
    /// Reason of the end.
    pub end_reason: EndReason,
    /// Connection mark and label that users have set.
    pub ct_mark: CtMark,
}

/// Counters of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectionCounters {
    /// Packets.
    pub packets: u64,
    /// Frame bytes without FCS.
    pub bytes: u64,
    /// IP bytes: header and payload as the IP header says, no padding.
    pub ip_bytes: u64,
    /// Union of the TCP flags of all packets without an anomaly.
    ///
    /// FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128.
    pub tcp_flags: u8,
}

/// Up to two VLAN identifiers, outermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanTags {
    pub(crate) ids: [u16; 2],
}

/// Stands for a missing tag in [`VlanTags`]: identifiers are 12 bits wide.
const NO_TAG: u16 = 0xffff;

impl VlanTags {
    /// The tags of an untagged frame.
    pub const NONE: VlanTags = VlanTags { ids: [NO_TAG; 2] };

    /// Creates tags from identifiers, outermost first. Only the first two are kept.
    pub fn new(ids: &[u16]) -> Self {
        let mut tags = Self::NONE;
        tags.ids.iter_mut().zip(ids).for_each(|(place, id)| *place = *id);
        tags
    }

    /// Returns the identifiers, outermost first; empty for an untagged frame.
    pub fn ids(&self) -> &[u16] {
        &self.ids[..self.count()]
    }

    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.ids.iter().filter(|&&id| id != NO_TAG).count()
    }
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FlowState {
    /// Packets of one direction only.
    New,
    /// Packets of both directions.
    Open,
    /// TCP: FIN from both sides, or RST. SCTP: SHUTDOWN ACK, SHUTDOWN COMPLETE or ABORT.
    Closing,
}

impl FlowState {
    /// Returns the name in flow records.
    pub const fn name(self) -> &'static str {
        match self {
            FlowState::New => "new",
            FlowState::Open => "open",
            FlowState::Closing => "closing",
        }
    }
}

/// Reason for which a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EndReason {
    /// The timeout of its state passed without a packet.
    Idle,
    /// TCP: FIN from both sides. SCTP: SHUTDOWN ACK or SHUTDOWN COMPLETE. Then the timeout passed.
    Fin,
    /// TCP: RST. SCTP: ABORT. Then the timeout passed.
    Rst,
    /// TCP: a new SYN took the ports of a closing connection, or of one that both ends had
    /// forgotten.
    Reuse,
    /// As the oldest embryonic connection, it was evicted when a new one needed room.
    Evicted,
    /// A user flushed it.
    Flushed,
    /// The connection was alive when the engine was flushed at exit.
    Exit,
}

impl EndReason {
    /// Every reason, in the order of the counters.
    pub const ALL: [EndReason; 7] = [
        EndReason::Idle,
        EndReason::Fin,
        EndReason::Rst,
        EndReason::Reuse,
        EndReason::Evicted,
        EndReason::Flushed,
        EndReason::Exit,
    ];

    /// Returns the name in flow records and counters.
    pub const fn name(self) -> &'static str {
        match self {
            EndReason::Idle => "idle",
            EndReason::Fin => "fin",
            EndReason::Rst => "rst",
            EndReason::Reuse => "reuse",
            EndReason::Evicted => "evicted",
            EndReason::Flushed => "flushed",
            EndReason::Exit => "exit",
        }
    }
}
