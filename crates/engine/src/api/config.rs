// SPDX-License-Identifier: BSD-3-Clause
//! Owns the configuration of an engine.
//!
//! Every value has a default. No value is read from elsewhere.

use super::access::AccessLists;
use super::behaviour::{
    ChecksumCheck, Evict, InvalidFragments, InvalidPackets, MalformedPackets, NeighbourDiscovery,
    TcpPickup, TcpWindowCheck, Tracking, WhenFull,
};
use super::fragment_limits::FragmentLimits;
use super::list_marks::ListMarkConfig;
use super::mark_rule::MarkRule;
use super::offload::OffloadConfig;
use super::steering::SteeringConfig;
use super::timeouts::Timeouts;
use super::zone::{ZonePolicy, ZoneRule, ZoneSource};
use crate::base::{KeyDomain, derive};
use std::sync::Arc;

/// Configuration of one [`Engine`](crate::Engine). It determines all memory, which is allocated at
/// start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of IPv4 connections that the table holds. At least 1, at most [`MAX_CAPACITY`].
    pub capacity_ipv4: u32,
    /// Number of IPv6 connections that the table holds. At least 1, at most [`MAX_CAPACITY`].
    pub capacity_ipv6: u32,
    /// Depth of tracking in zones that are not listed in [`zones`](Self::zones).
    pub tracking: Tracking,
    /// Deepest tracking in any zone, whatever its policy.
    pub deepest: Tracking,
    /// Treatment of the first packet of a connection that finds no room.
    pub when_full: WhenFull,
    /// Treatment of packets whose [`UntrackedReason`](crate::UntrackedReason) is malformed.
    pub malformed: MalformedPackets,
    /// Check of TCP segments against the window.
    pub tcp: TcpWindowCheck,
    /// Verification of checksums.
    pub checksums: ChecksumCheck,
    /// Treatment of IPv6 neighbour discovery where connections are tracked.
    pub neighbour_discovery: NeighbourDiscovery,
    /// Treatment of packets that their connection cannot have.
    pub invalid: InvalidPackets,
    /// True if the engine sees every packet of its connections.
    ///
    /// Set it to false for one of several workers. The connection that an ICMP error is about may
    /// then belong to another worker. Such an error is not dropped for want of a connection, unless
    /// [`steering`](Self::steering) shows that the connection would be here. A mismatch of RSS ends
    /// this exception.
    pub has_all_packets: bool,
    /// For one of several workers: which connections the others have.
    pub steering: Option<SteeringConfig>,
    /// Limits of fragment tracking.
    pub fragments: FragmentLimits,
    /// Treatment of fragments that no correct sender makes.
    pub odd_fragments: InvalidFragments,
    /// Source of a packet's zone, unless a zone rule matches.
    pub zone: ZoneSource,
    /// Rules that put packets into another zone; the first rule that matches applies. At most
    /// [`ZoneRule::MAX`].
    pub zone_rules: Vec<ZoneRule>,
    /// Timeouts of connections.
    pub timeouts: Timeouts,
    /// Packets with which a TCP connection may begin.
    pub pick_up: TcpPickup,
    /// Zones with a policy other than [`policy`](Self::policy), and their policies.
    pub zones: Vec<(Vec<u16>, ZonePolicy)>,
    /// Rules that write marks and labels to new connections, applied in order.
    pub mark_rules: Vec<MarkRule>,
    /// Maximum share of embryonic connections in each table, in percent, from 1 to 100. A
    /// connection is embryonic until it has an answer, or a complete handshake.
    pub embryonic_percent: u8,
    /// Selects the connection that is evicted when a new one finds no room.
    pub evict: Evict,
    /// Load of a table at which timeouts begin to shrink, and load at which they would be 0, in
    /// percent of its capacity. The first is at most 100, the second is larger.
    pub adaptive_percent: Option<(u8, u8)>,
    /// Maximum number of connections at a time from one source: an IPv4 /24 or IPv6 /64, and a
    /// zone.
    pub source_max: Option<u32>,
    /// Maximum number of new connections per second.
    pub new_per_second: Option<u32>,
    /// True if connections have labels, of 128 bits each.
    pub labels: bool,
    /// True if flow records are queued for the caller. Otherwise connections still end and are
    /// counted.
    pub records: bool,
    /// True if the tables use 2 MB pages of the system's pool, if there are enough. Transparent
    /// huge pages are requested in any case.
    pub huge_pages: bool,
    /// 128 random bits from the operating system, from which each table derives the secret of its
    /// keyed hash.
    pub secret: [u64; 2],
    /// A free-running cycle counter, to measure stages. The engine itself reads no clock.
    pub cycle_counter: fn() -> u64,
    /// NIC rules for the busiest connections, if the port supports them.
    pub offload: Option<OffloadConfig>,
    /// Access lists of the pair's ports; `None` without any.
    pub access: Option<Arc<AccessLists>>,
    /// Marks of the lists' rules; `None` if the NIC has no such rules.
    pub list_marks: Option<ListMarkConfig>,
}

impl Config {
    /// Returns the configuration of one of several workers, with a secret of its own. Neither
    /// secret reveals anything about the other.
    pub fn of_worker(&self, worker: u64) -> Self {
        Self { secret: derive(self.secret, KeyDomain::Worker(worker)), ..self.clone() }
    }

    /// Returns the policy of zones that are not listed in [`zones`](Self::zones).
    pub fn policy(&self) -> ZonePolicy {
        ZonePolicy {
            tracking: self.tracking,
            timeouts: self.timeouts,
            tcp: self.tcp,
            pick_up: self.pick_up,
            connections_max: None,
            when_full: self.when_full,
        }
    }
}

/// Maximum capacity of one table: indices have 31 bits, and marks fewer.
pub const MAX_CAPACITY: u32 = 1 << 28;

impl Default for Config {
    fn default() -> Self {
        Self {
            capacity_ipv4: 1 << 20,
            capacity_ipv6: 1 << 18,
            tracking: Tracking::Connections,
            deepest: Tracking::Connections,
            when_full: WhenFull::PassUntracked,
            malformed: MalformedPackets::Pass,
            tcp: TcpWindowCheck::Strict,
            checksums: ChecksumCheck::Verified,
            neighbour_discovery: NeighbourDiscovery::Untracked,
            invalid: InvalidPackets::Pass,
            has_all_packets: true,
            steering: None,
            fragments: FragmentLimits::default(),
            odd_fragments: InvalidFragments::Pass,
            zone: ZoneSource::OuterVlan,
            zone_rules: Vec::new(),
            timeouts: Timeouts::default(),
            pick_up: TcpPickup::Loose,
            zones: Vec::new(),
            mark_rules: Vec::new(),
            embryonic_percent: 50,
            evict: Evict::Embryonic,
            adaptive_percent: None,
            source_max: None,
            new_per_second: None,
            labels: false,
            records: true,
            huge_pages: false,
            secret: [0, 0],
            cycle_counter: || 0,
            offload: None,
            access: None,
            list_marks: None,
        }
    }
}
