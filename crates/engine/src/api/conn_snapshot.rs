// SPDX-License-Identifier: BSD-3-Clause
//! A connection in the form in which it outlives the engine, and what became of restoring it.
//!
//! Connections without an answer are left out: they are cheap to begin anew, and most of what a
//! flood is made of. NIC rules are left out too: they are gone with the process that made them.

use super::ct_mark::CtMark;
use super::flow_record::{DirectionCounters, VlanTags};
use crate::base::{Nanos, whole_micros};
use std::net::IpAddr;

/// A connection, with all of it that is worth keeping. What it says may come from a file that
/// anyone has written: [`Engine::restore`](crate::Engine::restore) believes nothing that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnSnapshot {
    /// Address of the originator.
    pub src: IpAddr,
    /// Address of the responder.
    pub dst: IpAddr,
    /// IP protocol number.
    pub proto: u8,
    /// Port of the originator; of ICMP the identifier, of GRE and ESP the upper half of the key or
    /// SPI.
    pub sport: u16,
    /// Port of the responder; of ICMP type * 256 + code of the request; else the lower half.
    pub dport: u16,
    /// Of ICMP, type * 256 + code of the first packet.
    pub icmp: u16,
    /// Zone it was tracked in. Where it is restored is said by what puts packets into zones then.
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
    /// Where it is in its life.
    pub phase: SnapshotState,
    /// Of TCP that is judged by its numbers, by how much windows of the originator and of the
    /// responder are shifted. The numbers themselves are soon of yesterday, and are not kept.
    pub scales: Option<[u8; 2]>,
    /// Of SCTP that is judged by its tags, those that packets of the originator and of the
    /// responder carry; 0 for one that is not known. They stay what they are while nobody looks.
    pub tags: [u32; 2],
    /// What somebody has written to it.
    pub ct_mark: CtMark,
}

/// Where a saved connection is in its life. The numbers are written to files: they never change,
/// and none is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SnapshotState {
    /// TCP, and neither side has ended it.
    TcpEstablished = 1,
    /// A FIN of the originator.
    TcpFinWait = 2,
    /// A FIN of the responder.
    TcpCloseWait = 3,
    /// A FIN of both, of which one is not acknowledged.
    TcpLastAck = 4,
    /// A FIN of both.
    TcpTimeWait = 5,
    /// An RST.
    TcpClose = 6,
    /// UDP of both directions.
    Udp = 7,
    /// ICMP and ICMPv6 of both directions.
    Icmp = 8,
    /// Any other protocol, both directions.
    Other = 9,
    /// SCTP, and neither side has ended it.
    SctpEstablished = 10,
    /// A SHUTDOWN of one side, or of both.
    SctpShutdown = 11,
    /// SHUTDOWN COMPLETE.
    SctpClosed = 12,
    /// ABORT.
    SctpAborted = 13,
}

impl SnapshotState {
    /// Every one of them.
    pub const ALL: [SnapshotState; 13] = [
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
    ];

    /// That with this number.
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| *phase as u8 == number)
    }
}

/// What became of a saved connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreOutcome {
    /// It is known again.
    Known,
    /// Its timeout is over.
    Expired,
    /// There is no room for it, it is known already and was seen later, or it cannot be.
    Refused,
}

impl ConnSnapshot {
    /// The same by a clock on which it is `now`: that of the machine may have been put back.
    pub(crate) fn at_most(&self, now: Nanos) -> Self {
        let last_seen = whole_micros(self.last_seen).min(now);
        Self { last_seen, start: whole_micros(self.start).min(last_seen), ..self.clone() }
    }
}
