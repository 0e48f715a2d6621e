// SPDX-License-Identifier: BSD-3-Clause
//! Owns the explanation of a packet that may arrive: its connection, and what access lists would
//! say about it.

use super::access::AccessTrace;
use super::offload::Side;
use super::query::ConnView;
use acl::{CtStates, Packet};

/// A packet to explain, without VLAN tags.
#[derive(Clone, Copy, Debug)]
pub struct PacketQuestion {
    /// Side at which it arrives.
    pub side: Side,
    /// Its fields. Zone, states and mark do not count: they follow from the configuration and its
    /// connection.
    pub packet: Packet,
    /// Without ports: the numbers that [`FlowRecord`](crate::FlowRecord) has in their place.
    pub numbers: [u16; 2],
    /// Its zone, if it is not the one that the configuration gives it.
    pub zone: Option<u16>,
    /// Its states, if they are not those of its connection. It is then compared with the lists,
    /// whatever is stored with its connection.
    pub ct: Option<CtStates>,
}

/// What happens to a packet when it arrives.
#[derive(Clone, Debug)]
pub struct PacketExplanation {
    /// What the lists say about it.
    pub trace: AccessTrace,
    /// Its relation to connections.
    pub relation: PacketRelation,
    /// The connection that has its key.
    pub conn: Option<ConnExplanation>,
}

/// Relation of a packet to the connections that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketRelation {
    /// It belongs to a connection.
    Belongs,
    /// Its connection has ended, and it begins another one with the same key.
    Reopens,
    /// It has no connection, and begins one if it passes.
    Begins,
    /// It has no connection and begins none.
    Invalid,
    /// Nothing is tracked in its zone.
    Untracked,
    /// It is an ICMP error. The packet that it quotes decides about its relation; it is taken for
    /// one of a known connection.
    Error,
}

impl PacketRelation {
    /// Returns the name in `--json`.
    pub fn name(self) -> &'static str {
        match self {
            PacketRelation::Belongs => "belongs",
            PacketRelation::Reopens => "reopens",
            PacketRelation::Begins => "begins",
            PacketRelation::Invalid => "invalid",
            PacketRelation::Untracked => "untracked",
            PacketRelation::Error => "error",
        }
    }
}

/// A connection, and what access lists have decided about it.
#[derive(Clone, Debug)]
pub struct ConnExplanation {
    /// The connection, with the views of its NIC rules.
    pub view: ConnView,
    /// Direction of the packet: 0 if the originator sends it, 1 for the responder.
    pub direction: usize,
    /// What is stored about both directions, the originator's first.
    pub decisions: [DirectionAccess; 2],
    /// True if a rule permits both directions, and related ICMP errors.
    pub reflects: bool,
    /// True if the lists have changed, and the next packet decides anew about both directions.
    pub is_open: bool,
    /// Side at which its first packet arrived; `None` for a restored connection.
    pub side: Option<Side>,
}

/// What the lists say about the packets of one direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DirectionAccess {
    /// They were not asked yet.
    Undecided,
    /// All packets pass.
    Permitted,
    /// All packets are dropped.
    Denied,
    /// All packets are dropped, and their senders are told.
    Rejected,
    /// It depends on the packet.
    Varies,
}

impl DirectionAccess {
    /// Returns the name in `--json`.
    pub fn name(self) -> &'static str {
        match self {
            DirectionAccess::Undecided => "undecided",
            DirectionAccess::Permitted => "permitted",
            DirectionAccess::Denied => "denied",
            DirectionAccess::Rejected => "rejected",
            DirectionAccess::Varies => "varies",
        }
    }
}
