// SPDX-License-Identifier: BSD-3-Clause
//! Owns the snapshot of a connection, the form in which it outlives the engine, and the outcome of
//! its restoration.
//!
//! Connections without an answer have no snapshot: they are cheap to begin anew, and a flood
//! consists mostly of them. NIC rules have none either: they end with the process that made them.

use super::ct_mark::CtMark;
use super::flow_record::{DirectionCounters, VlanTags};
use crate::base::{Nanos, whole_micros};
use std::net::IpAddr;

/// Everything about a connection that is worth keeping.
///
/// A snapshot may come from a file that anyone has written.
/// [`Engine::restore`](crate::Engine::restore) rejects impossible values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnSnapshot {
    /// Address of the originator.
    pub src: IpAddr,
    /// Address of the responder.
    pub dst: IpAddr,
    /// IP protocol number.
    pub proto: u8,
    /// Port of the originator; for ICMP the identifier; for GRE and ESP the upper half of the key
    /// or SPI.
    pub sport: u16,
    /// Port of the responder; for ICMP type * 256 + code of the request; for GRE and ESP the lower
    /// half.
    pub dport: u16,
    /// For ICMP, type * 256 + code of the first packet.
    pub icmp: u16,
    /// Zone of the connection when it was saved. The configuration at restoration decides its new
    /// zone.
    pub zone: u16,
    /// VLAN tags of the first packet.
    pub vlan: VlanTags,
    /// Time of the first packet.
    pub start: Nanos,
    /// Time of the last packet.
    pub last_seen: Nanos,
    /// Packets from `src` to `dst`.
    pub orig: DirectionCounters,
    /// Packets from `dst` to `src`.
    pub reply: DirectionCounters,
    /// State of the connection.
    pub state: SnapshotState,
    /// For TCP with window check, the window shifts of originator and responder. Sequence numbers
    /// are not saved: they are soon out of date.
    pub scales: Option<[u8; 2]>,
    /// For SCTP with tag check, the tags in packets of originator and responder; 0 if unknown. Tags
    /// stay valid while Millrace does not run.
    pub tags: [u32; 2],
    /// Connection mark and label that users have set.
    pub ct_mark: CtMark,
}

/// State of a saved connection. The numbers are written to files: they never change, and no number
/// is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SnapshotState {
    /// TCP; neither side has ended it.
    TcpEstablished = 1,
    /// TCP: a FIN from the originator.
    TcpFinWait = 2,
    /// TCP: a FIN from the responder.
    TcpCloseWait = 3,
    /// TCP: a FIN from both sides, one of which is not acknowledged.
    TcpLastAck = 4,
    /// TCP: a FIN from both sides.
    TcpTimeWait = 5,
    /// TCP: an RST.
    TcpClose = 6,
    /// UDP of both directions.
    Udp = 7,
    /// ICMP and ICMPv6 of both directions.
    Icmp = 8,
    /// Any other protocol, both directions.
    Other = 9,
    /// SCTP; neither side has ended it.
    SctpEstablished = 10,
    /// SCTP: a SHUTDOWN from one side or both.
    SctpShutdown = 11,
    /// SCTP: SHUTDOWN COMPLETE.
    SctpClosed = 12,
    /// SCTP: ABORT.
    SctpAborted = 13,
    /// A flow of any protocol, both directions; its states were not tracked.
    Flow = 14,
}

impl SnapshotState {
    /// Every state.
    pub const ALL: [SnapshotState; 14] = [
        SnapshotState::TcpEstablished,
        SnapshotState::TcpFinWait,
        SnapshotState::TcpCloseWait,
        SnapshotState::TcpLastAck,
        SnapshotState::TcpTimeWait,
        SnapshotState::TcpClose,
        SnapshotState::Udp,
        SnapshotState::Icmp,
        SnapshotState::Other,
        SnapshotState::SctpEstablished,
        SnapshotState::SctpShutdown,
        SnapshotState::SctpClosed,
        SnapshotState::SctpAborted,
        SnapshotState::Flow,
    ];

    /// Returns the state with this number; `None` if there is none.
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| *state as u8 == number)
    }
}

/// Outcome of restoring a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreOutcome {
    /// The connection is in the table.
    Known,
    /// Its timeout has passed.
    Expired,
    /// There is no room, the table has a more recent connection with this key, or the snapshot is
    /// invalid.
    Refused,
}

impl ConnSnapshot {
    /// Returns a copy whose times are at most `now`. The machine's clock may have been set back
    /// since.
    pub(crate) fn at_most(&self, now: Nanos) -> Self {
        let last_seen = whole_micros(self.last_seen).min(now);
        Self { last_seen, start: whole_micros(self.start).min(last_seen), ..self.clone() }
    }
}
