// SPDX-License-Identifier: BSD-3-Clause
//! Runs Open vSwitch with DPDK as a device, set up as in the article.
//!
//! The instance is separate from any that the system runs: its database, sockets and log are in a
//! folder of its own, and its interfaces in a network namespace of its own. If this process ends
//! without stopping it, the kernel does.

use super::super::testbed::{Running, end_with_us, succeed};
use super::device::{self, CAPACITY, Configuration, Placement, TIMEOUTS};
use crate::cmd::bench::serving_generator::{READY, Wiring, file_socket, memif};
use anyhow::{Context, bail};
use doctor::host::Memory;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Path of the vswitchd with DPDK on Debian, and the package that has it.
const SWITCH: &str = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";
const PACKAGE: &str = "openvswitch-switch-dpdk";
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// Megabytes of its memory: its pool always has 262 144 packet buffers with 2 kB of data.
const MEMORY_MB: u64 = 1024;
/// Time between two looks whether it is ready.
const TURN: Duration = Duration::from_millis(50);
/// Lines of the log that an error shows.
const LOG_LINES: usize = 5;
/// The article's rules: only connections from port 0 may begin.
const TRACKING: [&str; 4] = [
    "table=0,priority=10,ip,ct_state=-trk,actions=ct(table=0)",
    "table=0,priority=10,ip,ct_state=+trk+new,in_port=port0,actions=ct(commit),normal",
    "table=0,priority=10,ip,ct_state=+trk+est,actions=normal",
    "table=0,priority=0,actions=drop",
];
const NO_TRACKING: [&str; 1] = ["actions=normal"];

/// An installed version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Installation {
    switch: PathBuf,
    /// Its version; with its path if the command line names several of one version.
    pub(super) name: String,
}

impl Installation {
    /// Returns the versions to measure: those with these paths, or that of the package.
    pub(super) fn all(paths: &[PathBuf]) -> Vec<Self> {
        let package = [PathBuf::from(SWITCH)];
        let paths = if paths.is_empty() { &package[..] } else { paths };
        let named = paths.iter().map(|path| {
            // A name without a folder must not become a program of the system.
            let switch = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            let version = succeed(Command::new(&switch).arg("--version")).ok();
            let version = version.and_then(|printed| version_in(&printed).map(str::to_owned));
            Self { switch, name: version.unwrap_or_else(|| "unknown".to_owned()) }
        });
        let mut all: Vec<Self> = named.collect();
        let names: Vec<String> = all.iter().map(|it| it.name.clone()).collect();
        for one in &mut all {
            if names.iter().filter(|name| **name == one.name).count() > 1 {
                one.name = format!("{} {}", one.name, one.switch.display());
            }
        }
        all
    }

    /// Fails if it cannot run on this host.
    pub(super) fn require(&self) -> anyhow::Result<()> {
        let path = self.switch.display();
        if !self.switch.exists() {
            bail!("{path} is not there: install the package {PACKAGE}, or name a file with --ovs");
        }
        for (tool, package) in [
            ("ovsdb-server", "openvswitch-switch"),
            ("ovsdb-tool", "openvswitch-common"),
            ("ovs-vsctl", "openvswitch-switch"),
            ("ovs-ofctl", "openvswitch-common"),
            ("ovs-appctl", "openvswitch-common"),
        ] {
            let ran = Command::new(tool).arg("--version").output();
            ran.with_context(|| format!("cannot run {tool}: install the package {package}"))?;
        }
        if !rustix::process::geteuid().is_root() {
            bail!("Open vSwitch needs root: it makes interfaces");
        }
        let printed = succeed(Command::new(&self.switch).arg("--version"))?;
        if !printed.contains("DPDK") {
            bail!("{path} is built without DPDK: install the package {PACKAGE}");
        }
        Ok(())
    }

    /// Returns the schema beside the program, or that of the system.
    fn schema(&self) -> PathBuf {
        let prefix = self.switch.parent().and_then(Path::parent);
        let beside = prefix.map(|prefix| prefix.join("share/openvswitch/vswitch.ovsschema"));
        beside.filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from(SCHEMA))
    }
}

/// Returns the version in the first line of `ovs-vswitchd --version`.
fn version_in(printed: &str) -> Option<&str> {
    printed.lines().next()?.split_whitespace().next_back()
}

/// A running Open vSwitch. Dropping the value ends the switch, then its database.
pub(super) struct Switch {
    process: Running,
    _database: Running,
    has_tracking: bool,
    /// Commands that have configured it.
    set_up: Vec<String>,
    dir: TempDir,
}

impl Switch {
    pub(super) fn start(
        of: &Installation,
        configuration: &Configuration,
        placement: &Placement,
        interrupted: &AtomicBool,
    ) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("millrace-ovs-").tempdir()?;
        let path = |name: &str| dir.path().join(name);
        let database = start_database(of, dir.path(), interrupted)?;
        let sockets = sockets(dir.path());
        let settings = settings(configuration, placement, &sockets);
        for words in &settings {
            let database = format!("--db=unix:{}", path("db.sock").display());
            succeed(Command::new("ovs-vsctl").args([&database, "--no-wait"]).args(words))?;
        }
        let mut command = end_with_us("unshare")?;
        command.arg("--net").arg(&of.switch);
        command.arg(format!("unix:{}", path("db.sock").display())).arg("--no-chdir");
        command.arg(format!("--unixctl={}", path("switch.ctl").display()));
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "RUNTIME_DIRECTORY"] {
            command.env(variable, dir.path());
        }
        let process = Running::start_with_log(&mut command, &path("log"))?;
        let set_up = settings.iter().map(|words| format!("ovs-vsctl {}", words.join(" ")));
        let (set_up, has_tracking) = (set_up.collect(), configuration.has_tracking);
        let mut switch = Self { process, _database: database, has_tracking, set_up, dir };
        switch.wait_until_ready(interrupted)?;
        switch.add_rules()?;
        Ok(switch)
    }

    /// Returns where the generator's ports are. Besides one queue for each thread of the datapath,
    /// the switch sends to one more, for its other threads.
    pub(super) fn wiring(&self, of: &Configuration) -> Wiring {
        Wiring::memif(&sockets(self.dir.path()), [of.queues, of.cpus + 1])
    }

    /// Waits until both ports are there.
    fn wait_until_ready(&mut self, interrupted: &AtomicBool) -> anyhow::Result<()> {
        let begun = Instant::now();
        let bridge = self.path("br0.mgmt");
        let has_ports = |shown: &str| ["port0", "port1"].iter().all(|port| shown.contains(port));
        let is_ready = |it: &Self| {
            bridge.exists() && it.ask(&["dpctl/show"]).is_ok_and(|shown| has_ports(&shown))
        };
        while !is_ready(self) {
            if interrupted.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            let has_ended = self.process.check().is_err();
            if has_ended || begun.elapsed() > READY {
                let state = if has_ended { "has ended" } else { "has no ports" };
                bail!("ovs-vswitchd {state}; its log ends with:\n{}", self.end_of_log());
            }
            std::thread::sleep(TURN);
        }
        Ok(())
    }

    fn add_rules(&mut self) -> anyhow::Result<()> {
        let bridge = self.path("br0.mgmt");
        let rules = if self.has_tracking { &TRACKING[..] } else { &NO_TRACKING };
        for rule in rules {
            succeed(Command::new("ovs-ofctl").arg("add-flow").arg(&bridge).arg(rule))?;
            self.set_up.push(format!("ovs-ofctl add-flow br0 {rule}"));
        }
        if self.has_tracking {
            let words = ["dpctl/ct-set-maxconns", &CAPACITY.to_string()];
            self.ask(&words)?;
            self.set_up.push(format!("ovs-appctl {}", words.join(" ")));
        }
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Sends a command to the switch; returns its answer.
    fn ask(&self, words: &[&str]) -> anyhow::Result<String> {
        let control = self.path("switch.ctl");
        succeed(Command::new("ovs-appctl").arg("--target").arg(control).args(words))
    }

    /// Returns the last warnings and errors; the last lines if there are none.
    fn end_of_log(&self) -> String {
        let text = std::fs::read_to_string(self.path("log")).unwrap_or_default();
        let is_bad = |line: &&str| ["|WARN|", "|ERR|", "|EMER|"].iter().any(|it| line.contains(it));
        let bad: Vec<&str> = text.lines().filter(is_bad).collect();
        let lines = if bad.is_empty() { text.lines().collect() } else { bad };
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }
}

impl device::Running for Switch {
    fn set_up(&self) -> Vec<String> {
        self.set_up.clone()
    }

    fn count(&mut self) -> anyhow::Result<Option<u64>> {
        if self.process.check().is_err() {
            bail!("ovs-vswitchd has ended; its log ends with:\n{}", self.end_of_log());
        }
        if !self.has_tracking {
            return Ok(None);
        }
        let answer = self.ask(&["dpctl/ct-get-nconns"])?;
        answer.trim().parse().map(Some).with_context(|| format!("no number: {answer:?}"))
    }
}

/// Returns the sockets of the ports, as devargs. They are files, because the switch is in another
/// network namespace.
fn sockets(dir: &Path) -> [String; 2] {
    ["a.sock", "b.sock"].map(|name| file_socket(&dir.join(name)))
}

fn start_database(
    of: &Installation,
    dir: &Path,
    interrupted: &AtomicBool,
) -> anyhow::Result<Running> {
    let (database, socket) = (dir.join("conf.db"), dir.join("db.sock"));
    succeed(Command::new("ovsdb-tool").arg("create").arg(&database).arg(of.schema()))?;
    let mut command = end_with_us("ovsdb-server")?;
    command.arg(&database).arg(format!("--remote=punix:{}", socket.display()));
    command.arg("--no-chdir").arg(format!("--unixctl={}", dir.join("db.ctl").display()));
    let mut server = Running::start_with_log(&mut command, &dir.join("db.log"))?;
    let begun = Instant::now();
    while !socket.exists() {
        server.check().context("ovsdb-server has ended")?;
        if interrupted.load(Ordering::Relaxed) || begun.elapsed() > READY {
            bail!("ovsdb-server makes no socket");
        }
        std::thread::sleep(TURN);
    }
    Ok(server)
}

/// Returns the commands of ovs-vsctl that configure the switch before it starts.
fn settings(of: &Configuration, placement: &Placement, sockets: &[String; 2]) -> Vec<Vec<String>> {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<String>>();
    let set = |key: &str, value: &str| {
        let pair = format!("other_config:{key}=\"{value}\"");
        [words("set Open_vSwitch ."), vec![pair]].concat()
    };
    let mut all = vec![
        set("dpdk-init", "true"),
        set("dpdk-extra", &eal_arguments()),
        set("pmd-cpu-mask", &format!("0x{}", Placement::mask(&placement.device, ""))),
    ];
    // Its other threads, which end connections too, are the device's. They must not take time from
    // the generator.
    let others = if placement.spare.is_empty() { &placement.device } else { &placement.spare };
    all.push(set("dpdk-lcore-mask", &format!("0x{}", Placement::mask(&others[..1], ""))));
    all.push(words("add-br br0 -- set bridge br0 datapath_type=netdev fail_mode=secure"));
    for (number, socket) in (0..).zip(sockets) {
        let port = format!("add-port br0 port{number} -- set Interface port{number} type=dpdk");
        let devargs = format!("options:dpdk-devargs=\"{}\"", memif(number, "server", socket));
        let queues = format!("options:n_rxq={}", of.queues);
        all.push([words(&port), vec![devargs, queues]].concat());
    }
    if of.has_tracking {
        all.push(words(
            "-- --id=@m create Datapath datapath_version=0 -- set Open_vSwitch . \
             datapaths:netdev=@m",
        ));
        let timeouts = TIMEOUTS.iter().map(|(name, seconds)| format!("{name}={seconds}"));
        all.push([words("add-zone-tp netdev zone=0"), timeouts.collect()].concat());
    }
    all
}

/// Returns the arguments of DPDK: with hugepages where enough are free, as Millrace does it.
fn eal_arguments() -> String {
    let has_hugepages = Memory::free_hugepages_mb_of_this_host() >= MEMORY_MB;
    // The switch adds --in-memory unless --legacy-mem is there. Without hugepages, DPDK refuses it.
    let memory = if has_hugepages { "" } else { "--no-huge --legacy-mem --no-shconf " };
    let prefix = format!("millrace-conntrack-{}", std::process::id());
    format!("{memory}-m {MEMORY_MB} --no-pci --no-telemetry --file-prefix={prefix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_last_word_of_the_first_line() {
        let printed = "ovs-vswitchd (Open vSwitch) 3.1.0\nDPDK 22.11.11\n";
        assert_eq!(version_in(printed), Some("3.1.0"));
        assert_eq!(version_in(""), None);
    }

    #[test]
    fn a_missing_file_names_the_package() {
        let missing = PathBuf::from("/nowhere/ovs-vswitchd");
        let all = Installation::all(&[missing.clone(), missing]);
        assert_eq!(all[0].name, "unknown /nowhere/ovs-vswitchd", "two of one version");
        let error = all[0].require().unwrap_err().to_string();
        assert!(error.contains("install the package openvswitch-switch-dpdk"), "{error}");
    }

    #[test]
    fn tracking_has_the_timeouts_of_the_article() {
        let configuration = |has_tracking| Configuration {
            device: device::Device::Ovs(Installation::default()),
            has_tracking,
            cpus: 2,
            queues: 2,
        };
        let placement = Placement { device: vec![1, 2], generator: 3, spare: vec![] };
        let text = |has_tracking| {
            let all = settings(&configuration(has_tracking), &placement, &Default::default());
            all.iter().map(|words| words.join(" ")).collect::<Vec<_>>().join("\n")
        };
        let tracked = text(true);
        assert!(tracked.ends_with(
            "add-zone-tp netdev zone=0 tcp_syn_sent=1 tcp_syn_recv=1 tcp_established=30 \
             tcp_fin_wait=1 tcp_time_wait=1 tcp_close=1 udp_first=1 udp_single=1 udp_multiple=30"
        ));
        assert!(tracked.contains("pmd-cpu-mask=\"0x6\"") && tracked.contains("n_rxq=2"));
        assert!(tracked.contains("dpdk-lcore-mask=\"0x2\""), "not the generator's cpu: {tracked}");
        assert!(!text(false).contains("zone"));
    }
}
