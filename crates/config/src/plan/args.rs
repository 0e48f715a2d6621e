// SPDX-License-Identifier: BSD-3-Clause
//! Defines the options that make a plan, or only an engine: a file, flags, or both.

use super::{Plan, engine_config, workers};
use crate::{
    Config, Located, MTU_RANGE, Pair, Place, Policy, Problem, Problems, Socket, nodes_of,
    split_pair,
};
use doctor::host::{CpuList, Cpus};
use engine::Tracking;
use std::path::{Path, PathBuf};

/// Options that make a plan.
#[derive(Clone, clap::Args)]
pub struct PlanArgs {
    /// Configuration file (TOML)
    config: Option<PathBuf>,
    /// Bridge ports A and B. Each is a Linux interface (eth1), a PCI address (0000:18:00.0) or a
    /// vdev with its arguments. Replaces the pairs of the file. Arguments may contain commas: B
    /// begins after the comma that is followed by a device name
    #[arg(long = "pair", value_name = "A,B")]
    pairs: Vec<String>,
    /// Run N workers per pair, on the least busy cpus. Replaces the workers of the file
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=128))]
    workers: Option<u32>,
    /// Set the MTU of all ports: bytes of payload that a frame may carry. Replaces that of the
    /// file. By default each port keeps its own
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(MTU_RANGE))]
    mtu: Option<u16>,
    /// Run one worker on each of these cpus, such as 2,4-6. Replaces the workers of the file. Pairs
    /// share the list evenly, in its order
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,
    /// Track `connections` with their states, `flows` without states, or nothing (`off`). Replaces
    /// `tracking` of [policy] in the file
    #[arg(long, value_name = "DEPTH")]
    tracking: Option<TrackingDepth>,
    /// Choose the connections that get flow rules: `measured`, `off`, `all`, `after N` packets of a
    /// direction, or `rate > N` packets per second. Replaces the policy of the file
    #[arg(long, value_name = "POLICY")]
    offload: Option<String>,
    /// Open the control socket for `millrace flows`, `ct`, `offload` and `stats` at PATH, instead
    /// of the usual place
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Do not open the control socket
    #[arg(long, conflicts_with = "socket")]
    no_socket: bool,
}

impl PlanArgs {
    /// Returns the arguments that name this configuration file and nothing else.
    pub fn of_file(path: PathBuf) -> Self {
        Self {
            config: Some(path),
            pairs: Vec::new(),
            workers: None,
            mtu: None,
            cpus: None,
            tracking: None,
            offload: None,
            socket: None,
            no_socket: false,
        }
    }

    /// Returns the configuration file, if there is one.
    pub fn files(&self) -> &[PathBuf] {
        self.config.as_slice()
    }

    /// True if there is a configuration file, which can be read again.
    pub fn has_file(&self) -> bool {
        self.config.is_some()
    }

    /// Returns these arguments with another configuration file.
    pub fn with_file(&self, path: PathBuf) -> Self {
        Self { config: Some(path), ..self.clone() }
    }

    /// Returns the plan, or all problems. `mtu` returns the MTU of a Linux interface of the host.
    pub fn plan(&self, cpus: &Cpus, mtu: impl Fn(&str) -> Option<u32>) -> Result<Plan, Problems> {
        let (file, mut config) = read_file(self.config.as_deref());
        self.replace_pairs(&mut config);
        if let Some(value) = self.mtu {
            let mtu = Located { value, place: Place::Flag { flag: "--mtu" } };
            config.pairs.iter_mut().for_each(|pair| pair.mtu = Some(mtu.clone()));
        }
        for pair in &mut config.pairs {
            let ports = [&pair.a, &pair.b].into_iter().flatten();
            pair.found_nodes = nodes_of(ports.clone().map(|port| &port.value));
            let interfaces = ports.filter_map(|port| port.value.host_interface());
            pair.found_mtu = interfaces.filter_map(&mtu).max().unwrap_or(0);
        }
        if let Some(value) = self.workers {
            config.workers = Some(Located { value, place: Place::Flag { flag: "--workers" } });
            config.pairs.iter_mut().for_each(|pair| pair.workers = None);
        }
        if let Some(CpuList(named)) = &self.cpus {
            let dealt = workers::deal_out(named, &mut config.pairs, config.workers.as_ref());
            config.problems.extend(dealt.err());
        }
        if let Some(text) = &self.offload {
            let place = Place::Flag { flag: "--offload" };
            match text.parse::<Policy>() {
                Ok(value) => config.offload.policy = Some(Located { value, place }),
                Err(words) => {
                    let (key, fault) = ("offload.policy".to_owned(), words.into());
                    config.problems.push(Problem { place, key, fault });
                }
            }
        }
        if let Some(depth) = self.tracking {
            let (value, place) = (depth.into(), Place::Flag { flag: "--tracking" });
            config.policy.tracking = Some(Located { value, place });
        }
        let socket = match &self.socket {
            Some(path) => Some((Socket::At(path.clone()), "--socket")),
            None => self.no_socket.then_some((Socket::Off, "--no-socket")),
        };
        if let Some((value, flag)) = socket {
            config.control.socket = Some(Located { value, place: Place::Flag { flag } });
        }
        // That takes a tenth of a second, which is lost where the file is refused.
        let is_sound = config.problems.is_empty();
        if is_sound && config.pairs.iter().any(|pair| pair.workers.is_none()) {
            cpus.measure_load();
        }
        Plan::new(config, cpus).map_err(|list| Problems { file, list })
    }

    /// Replaces the pairs of the file by those of `--pair`, if there are any.
    fn replace_pairs(&self, config: &mut Config) {
        if !self.pairs.is_empty() {
            config.pairs.clear();
        }
        for (index, text) in self.pairs.iter().enumerate() {
            let place = Place::Flag { flag: "--pair" };
            let (a, b) = match split_pair(text) {
                Ok((a, b)) => {
                    (Some(Located { value: a, place }), Some(Located { value: b, place }))
                }
                Err(error) => {
                    let key = format!("pair[{index}]");
                    config.problems.push(Problem { place, key, fault: error.into() });
                    (None, None)
                }
            };
            let (workers, rx_descriptors, tx_descriptors) = (None, None, None);
            let (zone, tracking) = (None, None);
            let (mtu, found_mtu, found_nodes) = (None, 0, Vec::new());
            config.pairs.push(Pair {
                a,
                b,
                workers,
                rx_descriptors,
                tx_descriptors,
                zone,
                tracking,
                mtu,
                found_mtu,
                found_nodes,
            });
        }
    }
}

/// Depth of tracking on the command line.
#[derive(Clone, Copy, clap::ValueEnum)]
enum TrackingDepth {
    Off,
    Flows,
    Connections,
}

impl From<TrackingDepth> for Tracking {
    fn from(depth: TrackingDepth) -> Self {
        match depth {
            TrackingDepth::Off => Tracking::Off,
            TrackingDepth::Flows => Tracking::Flows,
            TrackingDepth::Connections => Tracking::Connections,
        }
    }
}

/// Options of an engine without ports.
#[derive(clap::Args)]
pub struct EngineArgs {
    /// Configuration file (TOML) for table, policy and timeouts. Its settings of ports, workers and
    /// DPDK must be valid, but are not used
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Connections of each IP version that the table holds, instead of the capacities of the file
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=CAPACITY_MAX))]
    capacity: Option<u32>,
}

const CAPACITY_MAX: i64 = engine::MAX_CAPACITY as i64;

impl EngineArgs {
    /// Returns the configuration file, if there is one.
    pub fn files(&self) -> &[PathBuf] {
        self.config.as_slice()
    }

    /// Returns the configuration of an engine, or all problems of the file. The caller fills in its
    /// secret.
    pub fn engine_config(&self) -> Result<engine::Config, Problems> {
        let (file, mut config) = read_file(self.config.as_deref());
        if let Some(value) = self.capacity {
            let capacity = Located { value, place: Place::Flag { flag: "--capacity" } };
            config.table.capacity = Some(capacity.clone());
            config.table.capacity_ipv6 = Some(capacity);
        }
        engine_config(config).map_err(|list| Problems { file, list })
    }
}

/// Returns the name and the contents of a file; both are empty without a file.
fn read_file(path: Option<&Path>) -> (String, Config) {
    let name = path.map(|path| path.display().to_string()).unwrap_or_default();
    (name, path.map(Config::read_file).unwrap_or_default())
}
