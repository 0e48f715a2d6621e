// SPDX-License-Identifier: BSD-3-Clause
//! Owns the configuration of zones: the source of a packet's zone, zone policies and zone rules.

use super::behaviour::{TcpPickup, TcpWindowCheck, Tracking, WhenFull};
use super::filter::EndpointMatch;
use super::timeouts::Timeouts;

/// Source of a packet's zone, the number that separates overlapping address spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneSource {
    /// Every packet is in zone 0.
    None,
    /// VLAN identifier of the outer tag; 0 without a tag.
    OuterVlan,
    /// VLAN identifier of the innermost tag; 0 without a tag.
    InnerVlan,
    /// Every packet is in this zone, whatever its tags.
    Fixed(u16),
}

impl ZoneSource {
    /// True if VLAN tags give the zone.
    #[inline(always)]
    pub(crate) fn is_by_tag(self) -> bool {
        matches!(self, ZoneSource::OuterVlan | ZoneSource::InnerVlan)
    }

    /// Returns the zone of packets without a tag.
    #[inline(always)]
    pub(crate) fn untagged(self) -> u16 {
        match self {
            ZoneSource::Fixed(zone) => zone,
            ZoneSource::None | ZoneSource::OuterVlan | ZoneSource::InnerVlan => 0,
        }
    }
}

/// Policy for the connections of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZonePolicy {
    /// Depth of tracking.
    pub tracking: Tracking,
    /// Timeouts of connections.
    pub timeouts: Timeouts,
    /// Check of TCP segments against the window.
    pub tcp: TcpWindowCheck,
    /// Packets with which a TCP connection may begin.
    pub pick_up: TcpPickup,
    /// Maximum number of connections at a time, of both IP versions; `None`: no limit.
    pub connections_max: Option<u32>,
    /// Treatment of the first packet of a connection that finds no room.
    pub when_full: WhenFull,
}

/// Number of zones.
pub(crate) const ZONES: usize = 1 << 16;

/// A rule that puts matching packets into a zone. `None` matches everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneRule {
    /// Zone of the packet without any rule.
    pub from: Option<u16>,
    /// IP protocol number.
    pub proto: Option<u8>,
    /// Criteria for one end, either source or destination.
    pub end: EndpointMatch,
    /// Criteria for the other end.
    pub peer: EndpointMatch,
    /// Zone of matching packets.
    pub zone: u16,
}

impl ZoneRule {
    /// Maximum number of rules of an engine: a packet may be compared with all of them.
    pub const MAX: usize = 256;
}
