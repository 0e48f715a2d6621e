// SPDX-License-Identifier: BSD-3-Clause
//! What an engine is built from. Every value has a default; none is read from anywhere.

use super::behaviour::{
    ChecksumCheck, Evict, InvalidFragments, InvalidPackets, MalformedPackets, TcpPickup,
    TcpWindowCheck, WhenFull,
};
use super::fragment_limits::FragmentLimits;
use super::mark_rule::MarkRule;
use super::offload::OffloadConfig;
use super::steering::SteeringConfig;
use super::timeouts::Timeouts;
use super::zone::{ZonePolicy, ZoneRule, ZoneSource};
use crate::base::{KeyDomain, derive};

/// Parameters of one [`Engine`](crate::Engine). All memory follows from them and is taken at start.
#[derive(Clone, Debug)]
pub struct Config {
    /// IPv4 flows the table holds. At least 1, at most [`MAX_CAPACITY`].
    pub capacity_ipv4: u32,
    /// IPv6 flows the table holds. At least 1, at most [`MAX_CAPACITY`].
    pub capacity_ipv6: u32,
    /// What happens to the first packet of a flow that finds no room.
    pub when_full: WhenFull,
    /// What happens to packets whose [`UntrackedReason`](crate::UntrackedReason) is malformed.
    pub malformed: MalformedPackets,
    /// Whether TCP is judged by its numbers.
    pub tcp: TcpWindowCheck,
    /// Whether checksums are taken for granted.
    pub checksums: ChecksumCheck,
    /// What happens to packets their connection cannot have.
    pub invalid: InvalidPackets,
    /// Whether the engine sees every packet of its connections. One of several sees not all: what
    /// an ICMP error is about may be with another, and it is not dropped for want of a connection,
    /// unless [`steering`](Self::steering) says that it would be here, and was right so far.
    pub sees_all: bool,
    /// One of several: which connections the others have.
    pub steering: Option<SteeringConfig>,
    /// What is remembered of fragments.
    pub fragments: FragmentLimits,
    /// What happens to fragments that no correct sender makes.
    pub odd_fragments: InvalidFragments,
    /// Where the zone of a flow comes from, unless a rule says so.
    pub zone: ZoneSource,
    /// What puts packets into another one: the first rule that means a packet. At most
    /// [`ZoneRule::MAX`].
    pub zone_rules: Vec<ZoneRule>,
    /// How long a flow lives without a packet.
    pub timeouts: Timeouts,
    /// What a TCP connection may begin with.
    pub pick_up: TcpPickup,
    /// Zones in which something else holds than [`policy`](Self::policy), and what.
    pub zones: Vec<(Vec<u16>, ZonePolicy)>,
    /// What is written to connections as they begin, by one rule after the other.
    pub mark_rules: Vec<MarkRule>,
    /// How much of each table embryonic flows may take, those without an answer or a handshake: a
    /// whole number of percent, at least 1, at most 100.
    pub embryonic_percent: u8,
    /// Who goes when there is no room for a flow that begins.
    pub evict: Evict,
    /// From where on timeouts shrink, and where they would be 0: percent of the capacity of a
    /// table. The first is at most 100, the second more than that.
    pub adaptive_percent: Option<(u8, u8)>,
    /// Flows at one time whose first packets came from one /24 of IPv4, or /64 of IPv6, and zone.
    pub source_max: Option<u32>,
    /// Flows that may begin in a second.
    pub new_per_second: Option<u32>,
    /// Whether connections have labels: 128 bits each.
    pub labels: bool,
    /// Whether flow records are kept for who takes them. Flows end all the same, and are counted.
    pub records: bool,
    /// Whether the tables take 2 MB pages of the system's pool, if there are enough. Transparent
    /// huge pages are asked for in any case.
    pub huge_pages: bool,
    /// 128 random bits from the operating system, from which each table derives the secret of its
    /// keyed hash.
    pub secret: [u64; 2],
    /// A free-running cycle counter for the stage account; the engine itself knows no clock.
    pub cycle_counter: fn() -> u64,
    /// Rules of the NIC for the busiest flows, if its port may have some.
    pub offload: Option<OffloadConfig>,
}

impl Config {
    /// The same for one of several workers: what shows of one table tells nothing about another.
    pub fn of_worker(&self, worker: u64) -> Self {
        Self { secret: derive(self.secret, KeyDomain::Worker(worker)), ..self.clone() }
    }

    /// What holds in zones that are not named.
    pub fn policy(&self) -> ZonePolicy {
        ZonePolicy {
            timeouts: self.timeouts,
            tcp: self.tcp,
            pick_up: self.pick_up,
            connections_max: None,
            when_full: self.when_full,
        }
    }
}

/// Largest capacity of one table: indices are 31 bits wide, and marks narrower still.
pub const MAX_CAPACITY: u32 = 1 << 28;

impl Default for Config {
    fn default() -> Self {
        Self {
            capacity_ipv4: 1 << 20,
            capacity_ipv6: 1 << 18,
            when_full: WhenFull::PassUntracked,
            malformed: MalformedPackets::Pass,
            tcp: TcpWindowCheck::Judged,
            checksums: ChecksumCheck::Verified,
            invalid: InvalidPackets::Pass,
            sees_all: true,
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
        }
    }
}
