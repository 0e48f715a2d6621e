// SPDX-License-Identifier: BSD-3-Clause
//! Zones: where the zone of a packet comes from, and which policy holds in one.

use super::behaviour::{TcpPickup, TcpWindowCheck, WhenFull};
use super::filter::EndpointMatch;
use super::timeouts::Timeouts;

/// Where the zone, the number that separates overlapping address spaces, comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneSource {
    /// Every packet is in zone 0.
    None,
    /// VLAN identifier of the outer tag; 0 without one.
    OuterVlan,
    /// VLAN identifier of the innermost tag; 0 without one.
    InnerVlan,
    /// Every packet is in this one, whatever its tags.
    Fixed(u16),
}

impl ZoneSource {
    /// Whether packets say by their tags in which zone they are.
    #[inline(always)]
    pub(crate) fn is_by_tag(self) -> bool {
        matches!(self, ZoneSource::OuterVlan | ZoneSource::InnerVlan)
    }

    /// The zone of packets without a tag.
    #[inline(always)]
    pub(crate) fn untagged(self) -> u16 {
        match self {
            ZoneSource::Fixed(zone) => zone,
            ZoneSource::None | ZoneSource::OuterVlan | ZoneSource::InnerVlan => 0,
        }
    }
}

/// What holds for the connections of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZonePolicy {
    /// How long they live without a packet.
    pub timeouts: Timeouts,
    /// Whether TCP is judged by its numbers.
    pub tcp: TcpWindowCheck,
    /// Whether TCP may begin with anything.
    pub pick_up: TcpPickup,
    /// How many there may be at one time, of both IP versions.
    pub connections_max: Option<u32>,
    /// What happens to the first packet of one that finds no room.
    pub when_full: WhenFull,
}

/// How many zones there are.
pub(crate) const ZONES: usize = 1 << 16;

/// Puts the packets that it means into a zone. Nothing is asked for where there is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneRule {
    /// The zone that they would be in without any rule.
    pub from: Option<u16>,
    /// Their IP protocol number.
    pub proto: Option<u8>,
    /// Of one end, be it the source or the destination.
    pub end: EndpointMatch,
    /// Of the other one.
    pub peer: EndpointMatch,
    /// Where they are put.
    pub zone: u16,
}

impl ZoneRule {
    /// Most rules of an engine: a packet may be held against all of them.
    pub const MAX: usize = 256;
}
