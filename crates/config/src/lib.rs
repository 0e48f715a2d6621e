// SPDX-License-Identifier: BSD-3-Clause
//! Reads a configuration from TOML or flags, each value with its place. [`plan`] makes a run's
//! settings of it.
//!
//! A [`Config`] has no defaults; [`Plan`](crate::plan::Plan) fills them in. Reading goes on after a
//! fault, so that all faults of a file are reported together. A key is known if and only if a line
//! below reads it; all other keys are refused.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod control;
mod devargs;
mod fragments;
mod lists;
mod marks;
mod offload;
pub mod plan;
mod problem;
mod section;
mod snapshot;
#[cfg(test)]
mod tests;
mod zone_rules;
mod zones;

pub(crate) use control::Control;
pub use control::Socket;
pub use devargs::{Devargs, PairError, af_packet_sizes, companions_of, nodes_of, split_pair};
pub(crate) use fragments::Fragments;
pub(crate) use lists::{Acl, List, Set};
pub(crate) use marks::Mark;
pub use offload::{Bypass, MarkPolicy, Policy, RuleApi};
pub(crate) use offload::{MARK_POLICY, Offload, RULE_API, check_words, sampled};
pub(crate) use problem::{Fault, Located};
pub use problem::{Place, Problem, Problems};
pub(crate) use snapshot::{Folder, Snapshot};
pub(crate) use zone_rules::ZoneRule;
pub(crate) use zones::{EVICT, Limits, TimeoutPolicy, Zone};

use engine::{
    ChecksumCheck, InvalidFragments, InvalidPackets, MalformedPackets, NeighbourDiscovery,
    TcpPickup, TcpWindowCheck, Tracking, WhenFull, ZoneSource,
};
use section::{Document, Section};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Most bytes of a configuration file. A larger file, such as a capture named by mistake, is
/// refused instead of filling the memory.
const FILE_MAX: u64 = 16 << 20;

/// Reads a file of at most [`FILE_MAX`] bytes.
fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    read_at_most(path, FILE_MAX)
}

/// Reads a file of at most `max` bytes.
fn read_at_most(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(max + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > max {
        true => Err(io::Error::other(format!("it is larger than {} MiB", max >> 20))),
        false => Ok(bytes),
    }
}

/// All sections of a configuration.
#[derive(Default)]
pub struct Config {
    pub(crate) eal: Eal,
    pub(crate) pairs: Vec<Pair>,
    pub(crate) table: Table,
    pub(crate) policy: PacketPolicy,
    pub(crate) limits: Limits,
    pub(crate) fragments: Fragments,
    pub(crate) timeouts: Timeouts,
    pub(crate) timeout_policies: Vec<TimeoutPolicy>,
    pub(crate) zones: Vec<Zone>,
    pub(crate) zone_rules: Vec<ZoneRule>,
    pub(crate) marks: Vec<Mark>,
    /// `None` without the section.
    pub(crate) acl: Option<Acl>,
    pub(crate) sets: Vec<Set>,
    pub(crate) lists: Vec<List>,
    pub(crate) offload: Offload,
    pub(crate) control: Control,
    pub(crate) snapshot: Snapshot,
    /// Workers per pair (`--workers`); the program then chooses their cpus.
    pub(crate) workers: Option<Located<u32>>,
    /// Problems of the text. A plan fails with these and with those that it finds itself.
    pub(crate) problems: Vec<Problem>,
}

/// `[policy]`: what happens to malformed, invalid and unusual packets.
#[derive(Default)]
pub(crate) struct PacketPolicy {
    pub(crate) tracking: Option<Located<Tracking>>,
    pub(crate) malformed: Option<Located<MalformedPackets>>,
    pub(crate) tcp: Option<Located<TcpWindowCheck>>,
    pub(crate) pick_up: Option<Located<TcpPickup>>,
    pub(crate) checksums: Option<Located<ChecksumCheck>>,
    pub(crate) neighbour_discovery: Option<Located<NeighbourDiscovery>>,
    pub(crate) invalid: Option<Located<InvalidPackets>>,
    pub(crate) fragments: Option<Located<InvalidFragments>>,
}

/// `[eal]`: settings of DPDK.
#[derive(Default)]
pub(crate) struct Eal {
    pub(crate) huge: Option<Located<Huge>>,
    pub(crate) memory_mb: Option<Located<u32>>,
    pub(crate) mbufs: Option<Located<u32>>,
    pub(crate) mbuf_data_bytes: Option<Located<u16>>,
    pub(crate) extra: Option<Located<Vec<String>>>,
}

/// `[[pair]]`: two ports and the cpus of the workers between them.
pub(crate) struct Pair {
    /// `None` only if there is a problem.
    pub(crate) a: Option<Located<Devargs>>,
    /// `None` only if there is a problem.
    pub(crate) b: Option<Located<Devargs>>,
    pub(crate) workers: Option<Located<Vec<Located<u32>>>>,
    pub(crate) rx_descriptors: Option<Located<u16>>,
    pub(crate) tx_descriptors: Option<Located<u16>>,
    pub(crate) zone: Option<Located<u16>>,
    pub(crate) tracking: Option<Located<Tracking>>,
    pub(crate) mtu: Option<Located<u16>>,
    /// Largest MTU of its Linux interfaces; 0 if it has none, or if the host was not asked.
    pub(crate) found_mtu: u32,
    /// NUMA nodes of both ports, as far as the kernel tells.
    pub(crate) found_nodes: Vec<u32>,
}

/// `[table]`: the flow table of each worker.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) capacity: Option<Located<u32>>,
    pub(crate) capacity_ipv6: Option<Located<u32>>,
    pub(crate) labels: Option<Located<bool>>,
    pub(crate) when_full: Option<Located<WhenFull>>,
    pub(crate) zone: Option<Located<ZoneSource>>,
}

/// `[timeouts]`: seconds, under the names of [`engine::Timeouts`].
#[derive(Default)]
pub(crate) struct Timeouts {
    pub(crate) tcp_syn_sent: Option<Located<f64>>,
    pub(crate) tcp_syn_recv: Option<Located<f64>>,
    pub(crate) tcp_established: Option<Located<f64>>,
    pub(crate) tcp_fin_wait: Option<Located<f64>>,
    pub(crate) tcp_time_wait: Option<Located<f64>>,
    pub(crate) tcp_close: Option<Located<f64>>,
    pub(crate) udp_first: Option<Located<f64>>,
    pub(crate) udp_single: Option<Located<f64>>,
    pub(crate) udp_multiple: Option<Located<f64>>,
    pub(crate) icmp_first: Option<Located<f64>>,
    pub(crate) icmp_reply: Option<Located<f64>>,
    pub(crate) sctp_init: Option<Located<f64>>,
    pub(crate) sctp_cookie: Option<Located<f64>>,
    pub(crate) sctp_established: Option<Located<f64>>,
    pub(crate) sctp_shutdown: Option<Located<f64>>,
    pub(crate) sctp_closed: Option<Located<f64>>,
    pub(crate) sctp_heartbeat: Option<Located<f64>>,
    pub(crate) other_first: Option<Located<f64>>,
    pub(crate) other_multiple: Option<Located<f64>>,
    pub(crate) flow_first: Option<Located<f64>>,
    pub(crate) flow_multiple: Option<Located<f64>>,
}

/// Least MTU of a pair: that of IPv4 (RFC 791, section 3.2).
const MTU_MIN: u16 = 68;
/// Largest MTU: a frame with two VLAN tags fits one packet buffer.
const MTU_MAX: u16 = 16_000;
/// Range of `--mtu`.
pub const MTU_RANGE: std::ops::RangeInclusive<i64> = MTU_MIN as i64..=MTU_MAX as i64;

/// Most bytes of data in one packet buffer.
pub const MBUF_DATA_BYTES_MAX: u16 = 16_384;

/// Whether DPDK's memory comes from hugepages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Huge {
    /// From hugepages if enough of them are free.
    Auto,
    /// From hugepages only.
    Yes,
    /// Without hugepages.
    No,
}

/// The values that a key may have, each as TOML spells it.
pub(crate) type Choices<T> = [(&'static str, T)];

pub(crate) const HUGE: &Choices<Huge> =
    &[("\"auto\"", Huge::Auto), ("true", Huge::Yes), ("false", Huge::No)];
pub(crate) const YES_OR_NO: &Choices<bool> = &[("true", true), ("false", false)];
pub(crate) const WHEN_FULL: &Choices<WhenFull> =
    &[("\"pass-untracked\"", WhenFull::PassUntracked), ("\"drop\"", WhenFull::Drop)];
pub(crate) const TRACKING: &Choices<Tracking> = &[
    ("\"off\"", Tracking::Off),
    ("\"flows\"", Tracking::Flows),
    ("\"connections\"", Tracking::Connections),
];
pub(crate) const MALFORMED: &Choices<MalformedPackets> =
    &[("\"pass\"", MalformedPackets::Pass), ("\"drop\"", MalformedPackets::Drop)];
pub(crate) const TCP: &Choices<TcpWindowCheck> =
    &[("\"strict\"", TcpWindowCheck::Strict), ("\"liberal\"", TcpWindowCheck::Liberal)];
pub(crate) const PICK_UP: &Choices<TcpPickup> =
    &[("\"loose\"", TcpPickup::Loose), ("\"strict\"", TcpPickup::Strict)];
pub(crate) const CHECKSUMS: &Choices<ChecksumCheck> =
    &[("\"verify\"", ChecksumCheck::Verified), ("\"trust\"", ChecksumCheck::Trusted)];
pub(crate) const NEIGHBOUR_DISCOVERY: &Choices<NeighbourDiscovery> = &[
    ("\"untracked\"", NeighbourDiscovery::Untracked),
    ("\"tracked\"", NeighbourDiscovery::Tracked),
];
pub(crate) const INVALID: &Choices<InvalidPackets> =
    &[("\"pass\"", InvalidPackets::Pass), ("\"drop\"", InvalidPackets::Drop)];
pub(crate) const FRAGMENTS: &Choices<InvalidFragments> =
    &[("\"pass\"", InvalidFragments::Pass), ("\"drop\"", InvalidFragments::Drop)];
pub(crate) const ZONE: &Choices<ZoneSource> = &[
    ("\"none\"", ZoneSource::None),
    ("\"outer-vlan\"", ZoneSource::OuterVlan),
    ("\"inner-vlan\"", ZoneSource::InnerVlan),
];

impl Config {
    /// Reads a file. If it cannot be read, the result has only this problem.
    pub(crate) fn read_file(path: &Path) -> Self {
        match read_whole(path) {
            Ok(bytes) => Self::read_bytes(&bytes),
            Err(error) => {
                let (place, key) = (Place::Whole {}, String::new());
                let problem = Problem { place, key, fault: Fault::Unreadable(error.to_string()) };
                Self { problems: vec![problem], ..Self::default() }
            }
        }
    }

    /// Reads bytes that should be text.
    pub fn read_bytes(bytes: &[u8]) -> Self {
        let mut chunks = bytes.utf8_chunks();
        let text = chunks.next().map_or("", |chunk| chunk.valid());
        if text.len() == bytes.len() {
            return Self::read(text);
        }
        let fault = Fault::Syntax(format!("the byte {:#04x} is not UTF-8", bytes[text.len()]));
        let problem = Problem { place: Place::after(text), key: String::new(), fault };
        Self { problems: vec![problem], ..Self::default() }
    }

    /// Reads TOML. If the text is no TOML, the result has only problems.
    pub(crate) fn read(text: &str) -> Self {
        let document = Document::new(text);
        let Some(root) = document.root() else {
            return Self { problems: document.into_problems(), ..Self::default() };
        };
        let config = Self {
            eal: root.section("eal").map(Eal::read).unwrap_or_default(),
            pairs: root.sections("pair").into_iter().map(Pair::read).collect(),
            table: root.section("table").map(Table::read).unwrap_or_default(),
            policy: root.section("policy").map(PacketPolicy::read).unwrap_or_default(),
            limits: root.section("limits").map(Limits::read).unwrap_or_default(),
            fragments: root.section("fragments").map(Fragments::read).unwrap_or_default(),
            timeouts: root.section("timeouts").map(Timeouts::read).unwrap_or_default(),
            timeout_policies: root
                .sections("timeout_policy")
                .into_iter()
                .map(TimeoutPolicy::read)
                .collect(),
            zones: root.sections("zone").into_iter().map(Zone::read).collect(),
            zone_rules: root.sections("zone_rule").into_iter().map(ZoneRule::read).collect(),
            marks: root.sections("mark").into_iter().map(Mark::read).collect(),
            acl: root.section("acl").map(Acl::read),
            sets: root.sections("set").into_iter().map(Set::read).collect(),
            lists: root.sections("list").into_iter().map(List::read).collect(),
            offload: root.section("offload").map(Offload::read).unwrap_or_default(),
            control: root.section("control").map(Control::read).unwrap_or_default(),
            snapshot: root.section("snapshot").map(Snapshot::read).unwrap_or_default(),
            workers: None,
            problems: Vec::new(),
        };
        root.end();
        Self { problems: document.into_problems(), ..config }
    }
}

impl Eal {
    fn read(section: Section) -> Self {
        let eal = Self {
            huge: section.choice("huge", HUGE),
            memory_mb: section.integer("memory_mb", 16..=1 << 20),
            mbufs: section.integer("mbufs", 512..=1 << 26),
            mbuf_data_bytes: section.integer("mbuf_data_bytes", 64..=MBUF_DATA_BYTES_MAX),
            extra: section.strings("extra"),
        };
        section.end();
        eal
    }
}

impl Pair {
    fn read(section: Section) -> Self {
        let pair = Self {
            a: section.device("a"),
            b: section.device("b"),
            workers: section.cpus("workers"),
            rx_descriptors: section.integer("rx_descriptors", 32..=32_768),
            tx_descriptors: section.integer("tx_descriptors", 32..=32_768),
            zone: section.integer("zone", 0..=u16::MAX),
            tracking: section.choice("tracking", TRACKING),
            mtu: section.integer("mtu", MTU_MIN..=MTU_MAX),
            found_mtu: 0,
            found_nodes: Vec::new(),
        };
        section.end();
        pair
    }
}

impl Table {
    fn read(section: Section) -> Self {
        let table = Self {
            capacity: section.integer("capacity", 1..=engine::MAX_CAPACITY),
            capacity_ipv6: section.integer("capacity_ipv6", 1..=engine::MAX_CAPACITY),
            labels: section.choice("labels", YES_OR_NO),
            when_full: section.choice("when_full", WHEN_FULL),
            zone: section.choice("zone", ZONE),
        };
        section.end();
        table
    }
}

impl PacketPolicy {
    fn read(section: Section) -> Self {
        let policy = Self {
            tracking: section.choice("tracking", TRACKING),
            malformed: section.choice("malformed", MALFORMED),
            tcp: section.choice("tcp", TCP),
            pick_up: section.choice("pick_up", PICK_UP),
            checksums: section.choice("checksums", CHECKSUMS),
            neighbour_discovery: section.choice("neighbour_discovery", NEIGHBOUR_DISCOVERY),
            invalid: section.choice("invalid", INVALID),
            fragments: section.choice("fragments", FRAGMENTS),
        };
        section.end();
        policy
    }
}

impl Timeouts {
    fn read(section: Section) -> Self {
        let timeouts = Self::of(&section);
        section.end();
        timeouts
    }

    /// Reads timeouts from a section that may have other keys too.
    fn of(section: &Section) -> Self {
        Self {
            tcp_syn_sent: section.seconds("tcp_syn_sent"),
            tcp_syn_recv: section.seconds("tcp_syn_recv"),
            tcp_established: section.seconds("tcp_established"),
            tcp_fin_wait: section.seconds("tcp_fin_wait"),
            tcp_time_wait: section.seconds("tcp_time_wait"),
            tcp_close: section.seconds("tcp_close"),
            udp_first: section.seconds("udp_first"),
            udp_single: section.seconds("udp_single"),
            udp_multiple: section.seconds("udp_multiple"),
            icmp_first: section.seconds("icmp_first"),
            icmp_reply: section.seconds("icmp_reply"),
            sctp_init: section.seconds("sctp_init"),
            sctp_cookie: section.seconds("sctp_cookie"),
            sctp_established: section.seconds("sctp_established"),
            sctp_shutdown: section.seconds("sctp_shutdown"),
            sctp_closed: section.seconds("sctp_closed"),
            sctp_heartbeat: section.seconds("sctp_heartbeat"),
            other_first: section.seconds("other_first"),
            other_multiple: section.seconds("other_multiple"),
            flow_first: section.seconds("flow_first"),
            flow_multiple: section.seconds("flow_multiple"),
        }
    }
}
