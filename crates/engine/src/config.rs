// SPDX-License-Identifier: BSD-3-Clause
//! What an engine is built from. Every value has a default; none is read from anywhere.

use crate::base::{KeyDomain, Nanos, derive};
use crate::ctmark::MarkRule;
use crate::errands::Steering;
use crate::fragments::{FragmentLimits, OddFragments};
use crate::limits::Limits;
use crate::offload::Offload;
use crate::zones::{PickUp, ZonePolicy};
use crate::zoning::ZoneRule;

/// Parameters of one [`Engine`](crate::Engine). All memory follows from them and is taken at start.
#[derive(Clone, Debug)]
pub struct Config {
    /// IPv4 flows the table holds. At least 1, at most [`MAX_CAPACITY`].
    pub capacity_ipv4: u32,
    /// IPv6 flows the table holds. At least 1, at most [`MAX_CAPACITY`].
    pub capacity_ipv6: u32,
    /// What happens to the first packet of a flow that finds no room.
    pub when_full: WhenFull,
    /// What happens to packets whose [`Reason`](crate::Reason) is malformed.
    pub malformed: Malformed,
    /// Whether TCP is judged by its numbers.
    pub tcp: TcpNumbers,
    /// Whether checksums are taken for granted.
    pub checksums: Checksums,
    /// What happens to packets their connection cannot have.
    pub invalid: InvalidPackets,
    /// Whether the engine sees every packet of its connections. One of several sees not all: what
    /// an ICMP error is about may be with another, and it is not dropped for want of a connection,
    /// unless [`steering`](Self::steering) says that it would be here, and was right so far.
    pub sees_all: bool,
    /// One of several: which connections the others have.
    pub steering: Option<Steering>,
    /// What is remembered of fragments.
    pub fragments: FragmentLimits,
    /// What happens to fragments that no correct sender makes.
    pub odd_fragments: OddFragments,
    /// Where the zone of a flow comes from, unless a rule says so.
    pub zone: ZoneFrom,
    /// What puts packets into another one: the first rule that means a packet. At most
    /// [`ZoneRule::MAX`].
    pub zone_rules: Vec<ZoneRule>,
    /// How long a flow lives without a packet.
    pub timeouts: Timeouts,
    /// What a TCP connection may begin with.
    pub pick_up: PickUp,
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
    pub offload: Option<Offload>,
}

impl Config {
    /// The same for one of several workers: what shows of one table tells nothing about another.
    pub fn of_worker(&self, worker: u64) -> Self {
        Self { secret: derive(self.secret, KeyDomain::Worker(worker)), ..self.clone() }
    }

    /// Bytes that an engine takes beside its tables: counts of zones and of sources.
    pub fn limits_bytes(&self) -> usize {
        Limits::bytes(self)
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
            malformed: Malformed::Pass,
            tcp: TcpNumbers::Judged,
            checksums: Checksums::Verified,
            invalid: InvalidPackets::Pass,
            sees_all: true,
            steering: None,
            fragments: FragmentLimits::default(),
            odd_fragments: OddFragments::Pass,
            zone: ZoneFrom::OuterVlan,
            zone_rules: Vec::new(),
            timeouts: Timeouts::default(),
            pick_up: PickUp::Loose,
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

/// Behaviour for a new flow when the table is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Forward the packet without tracking it; counted as passed, `table_full`.
    PassUntracked,
    /// Drop the packet; counted as dropped, `table_full`.
    Drop,
}

/// Who goes when there is no room for a flow that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evict {
    /// Nobody: there is no room.
    Nothing,
    /// The embryonic flow that began first. One that has had its answer is never evicted.
    Embryonic,
}

/// Behaviour for malformed packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Forward them as they are.
    Pass,
    /// Drop them.
    Drop,
}

/// What is believed of a packet that begins a connection, or changes its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksums {
    /// That it came as it was sent if its checksums are right. If one is wrong, the packet is
    /// [irregular](crate::Irregular::Checksum).
    Verified,
    /// That it came as it was sent: in a capture of the host that sends, there are sums that its
    /// NIC had yet to fill in.
    Trusted,
}

/// What is believed of a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpNumbers {
    /// Sequence numbers, acknowledgments and windows are followed, and what does not fit into them
    /// is [irregular](crate::Irregular): it changes nothing.
    Judged,
    /// Its flags, whatever the numbers are: where only one direction is seen, or captures have
    /// lost packets.
    Ignored,
}

/// Behaviour for packets their connection cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidPackets {
    /// Forward them, and count them to the flow.
    Pass,
    /// Drop them; counted as dropped, `invalid`. ICMP errors about no connection as `unrelated`.
    Drop,
}

/// Where the zone, the number that separates overlapping address spaces, comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneFrom {
    /// Every packet is in zone 0.
    None,
    /// VLAN identifier of the outer tag; 0 without one.
    OuterVlan,
    /// VLAN identifier of the innermost tag; 0 without one.
    InnerVlan,
    /// Every packet is in this one, whatever its tags.
    Fixed(u16),
}

impl ZoneFrom {
    /// Whether packets say by their tags in which zone they are.
    #[inline(always)]
    pub(crate) fn is_by_tag(self) -> bool {
        matches!(self, ZoneFrom::OuterVlan | ZoneFrom::InnerVlan)
    }

    /// The zone of packets without a tag.
    #[inline(always)]
    pub(crate) fn untagged(self) -> u16 {
        match self {
            ZoneFrom::Fixed(zone) => zone,
            ZoneFrom::None | ZoneFrom::OuterVlan | ZoneFrom::InnerVlan => 0,
        }
    }
}

/// Idle limits in nanoseconds by phase of the flow. Names and defaults are those of OVS's timeout
/// policy (lib/ct-dpif.h, lib/conntrack-tp.c) where the phase is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP, a SYN of one side or of both, or packets of one direction only.
    pub tcp_syn_sent: Nanos,
    /// TCP, SYN and SYN+ACK.
    pub tcp_syn_recv: Nanos,
    /// TCP, packets of both directions.
    pub tcp_established: Nanos,
    /// TCP after a FIN of one side.
    pub tcp_fin_wait: Nanos,
    /// TCP after a FIN of both: late packets still belong to the flow.
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
    /// SCTP, an INIT, and an INIT ACK that answers it.
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
}

impl Timeouts {
    /// Those of measurement, where a connection is what comes without a pause: 5 s in all phases,
    /// 2 s after the end of TCP
    /// and SCTP.
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
        }
    }
}
