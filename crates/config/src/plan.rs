// SPDX-License-Identifier: BSD-3-Clause
//! Turns a [`Config`] into the settings of a run: checks it as a whole and fills in every default.
//!
//! Every value passes once through `Settings::take`, which fills in the default and notes the
//! origin. So `millrace check` shows every value that takes effect.

mod args;
mod changes;
mod eal;
mod ethernet_lists;
mod fragments;
mod list_names;
mod lists;
mod marks;
mod memory;
mod new_from;
mod offload;
mod settings;
mod snapshot;
#[cfg(test)]
mod tests;
mod workers;
mod zone_rules;
mod zones;

pub use args::{EngineArgs, PlanArgs};
pub(crate) use eal::EalPlan;
pub use lists::{Keeps, ListContext};
pub use memory::{LargestPart, engine_bytes, handed_mbufs};
pub use offload::OffloadPlan;
pub(crate) use settings::Origin;
pub use settings::Settings;
pub use snapshot::SnapshotPlan;
pub use zones::ZoneRules;

use crate::{Config, Devargs, Fault, Huge, Located, Place, Problem, Socket};
use doctor::host::Cpus;
use engine::{ChecksumCheck, Nanos, Timeouts, Tracking, ZoneSource};
use std::collections::HashMap;
use std::sync::Arc;

/// Default descriptors of a queue: about 100 us of small packets at 10 Gb/s.
const DESCRIPTORS: u16 = 1024;

/// All settings of a run, valid as a whole.
#[derive(Debug)]
pub struct Plan {
    /// Settings of DPDK.
    pub eal: EalPlan,
    /// The pairs: at least one.
    pub pairs: Vec<PairPlan>,
    /// What rules are read with that are added to access lists later.
    pub list_context: ListContext,
    /// Configuration of every worker's engine. Its secret and cycle counter are filled in at start.
    pub engine: engine::Config,
    /// Names of the timeout policies of the engine's zones.
    pub zone_timeouts: Vec<String>,
    /// NIC rules.
    pub offload: OffloadPlan,
    /// Place of the control socket.
    pub socket: Socket,
    /// Snapshots of connections for the next run.
    pub snapshot: SnapshotPlan,
    /// Every value above with its origin, in the order of display.
    pub settings: Settings,
}

/// Two ports and the workers between them.
#[derive(Debug)]
pub struct PairPlan {
    /// Port A; packets that arrive here go up.
    pub a: Devargs,
    /// Port B; packets that arrive here go down.
    pub b: Devargs,
    /// Cpu of each worker: queue `w` of both ports belongs to worker `w`.
    pub workers: Vec<u32>,
    /// Descriptors of each receive queue.
    pub rx_descriptors: u16,
    /// Descriptors of each transmit queue.
    pub tx_descriptors: u16,
    /// Zone of all packets of the pair; `None` if it has none of its own.
    pub(crate) zone: Option<u16>,
    /// Deepest tracking in any zone of the pair.
    pub deepest: engine::Tracking,
    /// Access lists of its ports; `None` without any.
    pub access: Option<Arc<engine::AccessLists>>,
    /// MTU to set for both ports; `None` leaves it as it is.
    pub mtu: Option<u16>,
    /// Largest frame payload that is known to arrive, in bytes; packet buffers must hold it.
    pub(crate) largest_mtu: u32,
}

impl PairPlan {
    /// Returns the source of the pair's zones; `others` is that of pairs without their own zone.
    pub fn zone_from(&self, others: ZoneSource) -> ZoneSource {
        self.zone.map_or(others, ZoneSource::Fixed)
    }
}

impl Plan {
    /// Checks `config` and its use of `cpus`, and fills in what it omits.
    pub fn new(mut config: Config, cpus: &Cpus) -> Result<Self, Vec<Problem>> {
        let mut problems = std::mem::take(&mut config.problems);
        if config.pairs.is_empty() && problems.is_empty() {
            let (place, key) = (Place::Whole {}, "pair".to_owned());
            problems.push(Problem { place, key, fault: Fault::NoPair });
        }
        problems.extend(twice_the_same_port(&config.pairs));
        problems.extend(workers::impossible(&config.pairs, cpus));
        let workers = workers::assign(&config.pairs, config.workers.as_ref(), cpus);
        let workers = match workers {
            Ok(workers) if problems.is_empty() => workers,
            Ok(_) => return Err(problems),
            Err(problem) => {
                problems.push(problem);
                return Err(problems);
            }
        };

        let mut settings = Settings::default();
        let mut pairs: Vec<_> = std::mem::take(&mut config.pairs)
            .into_iter()
            .zip(workers)
            .filter_map(|(pair, cpus)| plan_pair(pair, cpus, &mut settings))
            .collect();
        let held = fragments::packets_held(&config.fragments);
        let eal = EalPlan::new(std::mem::take(&mut config.eal), (&pairs, held), &mut settings)?;
        let offload = std::mem::take(&mut config.offload);
        let control = std::mem::take(&mut config.control);
        let snapshot = std::mem::take(&mut config.snapshot);
        let acl = std::mem::take(&mut config.acl);
        let lists = (std::mem::take(&mut config.sets), std::mem::take(&mut config.lists));
        let (mut engine, zone_timeouts) = plan_engine(config, &mut settings)?;
        let keeps: Vec<_> = pairs.iter().map(|pair| keeps(pair, &engine)).collect();
        let lists = lists::plan_lists(acl, lists, &keeps, &mut settings)?;
        for (pair, access) in pairs.iter_mut().zip(lists.of_pairs) {
            pair.access = access;
        }
        let list_context = lists.context;
        engine.huge_pages = eal.huge != Huge::No;
        let mut offload = OffloadPlan::new(offload, &mut settings);
        offload.list_rules_max = lists.nic_rules_max;
        settings.open("control");
        let socket = settings.take("socket", control.socket, Socket::Auto);
        let snapshot = SnapshotPlan::new(snapshot, &mut settings);
        Ok(Self {
            eal,
            pairs,
            list_context,
            engine,
            zone_timeouts,
            offload,
            socket,
            snapshot,
            settings,
        })
    }

    /// Returns the cpu of each worker, pair after pair.
    pub fn worker_cpus(&self) -> Vec<u32> {
        self.pairs.iter().flat_map(|pair| &pair.workers).copied().collect()
    }
}

/// Returns what the connections of a pair keep.
fn keeps(pair: &PairPlan, engine: &engine::Config) -> lists::Keeps {
    let zones = engine.zones.iter().map(|(_, policy)| policy.tracking).chain([engine.tracking]);
    let marks = pair.deepest != Tracking::Off && zones.max() != Some(Tracking::Off);
    lists::Keeps { marks, labels: engine.labels }
}

/// Returns the configuration of an engine; pairs in `config` are ignored.
fn engine_config(config: Config) -> Result<engine::Config, Vec<Problem>> {
    if !config.problems.is_empty() {
        return Err(config.problems);
    }
    // A capture on the sending host has checksums that its NIC had not filled in yet.
    let otherwise = config.policy.checksums.is_none().then_some(ChecksumCheck::Trusted);
    let (engine, _) = plan_engine(config, &mut Settings::default())?;
    Ok(engine::Config { checksums: otherwise.unwrap_or(engine.checksums), ..engine })
}

/// Returns problems for devices, and interfaces of devices, that are named twice.
fn twice_the_same_port(pairs: &[crate::Pair]) -> Vec<Problem> {
    let mut devices = HashMap::new();
    let mut interfaces = HashMap::new();
    let mut problems = Vec::new();
    for (index, pair) in pairs.iter().enumerate() {
        for (end, device) in [("a", &pair.a), ("b", &pair.b)] {
            let Some(Located { value: device, place }) = device else { continue };
            let interface = device.interface().unwrap_or_default();
            let fault = if let Some(first) = devices.get(&device.name) {
                Fault::PortTwice { device: device.name.clone(), first: *first }
            } else if let Some(first) = interfaces.get(interface) {
                Fault::InterfaceTwice { interface: interface.to_owned(), first: *first }
            } else {
                devices.insert(&device.name, *place);
                if !interface.is_empty() {
                    interfaces.insert(interface, *place);
                }
                continue;
            };
            problems.push(Problem { place: *place, key: format!("pair[{index}].{end}"), fault });
        }
    }
    problems
}

/// Returns the plan of a pair; `None` if it lacks a port, which is already a problem.
fn plan_pair(pair: crate::Pair, cpus: Vec<u32>, settings: &mut Settings) -> Option<PairPlan> {
    settings.open_element("pair");
    let chosen_by = pair.workers.map_or(Origin::Computed, |workers| Origin::from(workers.place));
    let largest_mtu = pair.mtu.as_ref().map_or(pair.found_mtu, |mtu| mtu.value.into());
    let fit = |mut port: Located<Devargs>| {
        port.value.fit_for(largest_mtu);
        port
    };
    Some(PairPlan {
        a: settings.require("a", fit(pair.a?)),
        b: settings.require("b", fit(pair.b?)),
        workers: settings.note("workers", cpus, chosen_by),
        rx_descriptors: settings.take("rx_descriptors", pair.rx_descriptors, DESCRIPTORS),
        tx_descriptors: settings.take("tx_descriptors", pair.tx_descriptors, DESCRIPTORS),
        zone: pair.zone.map(|zone| settings.require("zone", zone)),
        deepest: pair.tracking.map_or(engine::Tracking::Connections, |tracking| {
            settings.require("tracking", tracking)
        }),
        access: None,
        mtu: pair.mtu.map(|mtu| settings.require("mtu", mtu)),
        largest_mtu,
    })
}

/// Returns the configuration of every worker's engine, and the names of its zones' timeouts.
fn plan_engine(
    config: Config,
    settings: &mut Settings,
) -> Result<(engine::Config, Vec<String>), Vec<Problem>> {
    let table = config.table;
    let default = engine::Config::default();
    settings.open("table");
    let capacity_ipv4 = settings.take("capacity", table.capacity, default.capacity_ipv4);
    let quarter = (capacity_ipv4 / 4).max(1);
    let capacity_ipv6 = settings.take_or_compute("capacity_ipv6", table.capacity_ipv6, quarter);
    let labels = settings.take("labels", table.labels, default.labels);
    let when_full = settings.take("when_full", table.when_full, default.when_full);
    let zone = settings.take("zone", table.zone, default.zone);
    let policy = config.policy;
    settings.open("policy");
    let tracking = settings.take("tracking", policy.tracking, default.tracking);
    let malformed = settings.take("malformed", policy.malformed, default.malformed);
    let tcp = settings.take("tcp", policy.tcp, default.tcp);
    let pick_up = settings.take("pick_up", policy.pick_up, default.pick_up);
    let checksums = settings.take("checksums", policy.checksums, default.checksums);
    let discovery = policy.neighbour_discovery;
    let neighbour_discovery =
        settings.take("neighbour_discovery", discovery, default.neighbour_discovery);
    let invalid = settings.take("invalid", policy.invalid, default.invalid);
    let odd_fragments = settings.take("fragments", policy.fragments, default.odd_fragments);
    let fragments = fragments::plan_fragments(config.fragments, settings);
    let limits = config.limits;
    settings.open("limits");
    let percent = settings.take("embryonic_percent", limits.embryonic_percent, 50);
    let evict = settings.take("evict", limits.evict, default.evict);
    let start = settings.take("adaptive_start", limits.adaptive_start, 0);
    let end = settings.take("adaptive_end", limits.adaptive_end, 120);
    let source_max = settings.take("source_max", limits.source_max, 0);
    let new_per_second = settings.take("new_per_second", limits.new_per_second, 0);
    settings.open("timeouts");
    let engine = engine::Config {
        capacity_ipv4,
        capacity_ipv6,
        labels,
        when_full,
        tracking,
        malformed,
        tcp,
        checksums,
        neighbour_discovery,
        invalid,
        zone,
        odd_fragments,
        fragments,
        pick_up,
        embryonic_percent: percent as u8,
        evict,
        adaptive_percent: zones::limit(start).map(|start| (start as u8, end as u8)),
        source_max: zones::limit(source_max),
        new_per_second: zones::limit(new_per_second),
        timeouts: plan_timeouts(config.timeouts, Timeouts::default(), settings),
        ..default
    };
    let (policies, zones) = (config.timeout_policies, config.zones);
    let zones = zones::plan_zones(policies, zones, engine.policy(), settings);
    let zone_rules = zone_rules::plan_zone_rules(config.zone_rules, settings);
    let marks = marks::plan_marks(config.marks, labels, settings);
    match (zones, zone_rules, marks) {
        (Ok(zones), Ok(zone_rules), Ok(mark_rules)) => {
            let (zones, timeouts) = zones.into_iter().unzip();
            Ok((engine::Config { zones, zone_rules, mark_rules, ..engine }, timeouts))
        }
        // All problems are reported together.
        (zones, rules, marks) => {
            let problems = [zones.err(), rules.err(), marks.err()];
            Err(problems.into_iter().flatten().flatten().collect())
        }
    }
}

fn plan_timeouts(written: crate::Timeouts, default: Timeouts, settings: &mut Settings) -> Timeouts {
    let mut take = |key, written, default: Nanos| -> Nanos {
        let seconds: f64 = settings.take(key, written, default as f64 / 1e9);
        (seconds * 1e9).round() as Nanos
    };
    Timeouts {
        tcp_syn_sent: take("tcp_syn_sent", written.tcp_syn_sent, default.tcp_syn_sent),
        tcp_syn_recv: take("tcp_syn_recv", written.tcp_syn_recv, default.tcp_syn_recv),
        tcp_established: take("tcp_established", written.tcp_established, default.tcp_established),
        tcp_fin_wait: take("tcp_fin_wait", written.tcp_fin_wait, default.tcp_fin_wait),
        tcp_time_wait: take("tcp_time_wait", written.tcp_time_wait, default.tcp_time_wait),
        tcp_close: take("tcp_close", written.tcp_close, default.tcp_close),
        udp_first: take("udp_first", written.udp_first, default.udp_first),
        udp_single: take("udp_single", written.udp_single, default.udp_single),
        udp_multiple: take("udp_multiple", written.udp_multiple, default.udp_multiple),
        icmp_first: take("icmp_first", written.icmp_first, default.icmp_first),
        icmp_reply: take("icmp_reply", written.icmp_reply, default.icmp_reply),
        sctp_init: take("sctp_init", written.sctp_init, default.sctp_init),
        sctp_cookie: take("sctp_cookie", written.sctp_cookie, default.sctp_cookie),
        sctp_established: take(
            "sctp_established",
            written.sctp_established,
            default.sctp_established,
        ),
        sctp_shutdown: take("sctp_shutdown", written.sctp_shutdown, default.sctp_shutdown),
        sctp_closed: take("sctp_closed", written.sctp_closed, default.sctp_closed),
        sctp_heartbeat: take("sctp_heartbeat", written.sctp_heartbeat, default.sctp_heartbeat),
        other_first: take("other_first", written.other_first, default.other_first),
        other_multiple: take("other_multiple", written.other_multiple, default.other_multiple),
        flow_first: take("flow_first", written.flow_first, default.flow_first),
        flow_multiple: take("flow_multiple", written.flow_multiple, default.flow_multiple),
    }
}
