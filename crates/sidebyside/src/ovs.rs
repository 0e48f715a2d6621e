// SPDX-License-Identifier: BSD-3-Clause
//! Runs Open vSwitch with DPDK on the same ports as testpmd, with connection tracking.
//!
//! The instance is separate from any that the system runs. Its database, sockets and logs are in
//! the benchmark's directory, its interfaces in a network namespace of its own, its memory is not
//! shared. If the benchmark ends without stopping both processes, the kernel kills them.

use crate::Setup;
use crate::cases::{Case, Load};
use crate::figures::Figures;
use crate::process::{Process, child_command, run, wait_until};
use crate::turns::{CountingDut, Readings};
use anyhow::Context;
use serde_json::{Deserializer, Value, json};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use traffic::scenario::SHORT_TCP_PACKETS;

/// Path of the vswitchd with DPDK on Debian.
const SWITCH: &str = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// Megabytes of memory: its pool always has 262 144 packet buffers with 2 kB of data.
pub(crate) const MEMORY_MB: usize = 1000;

/// OpenFlow rules; both directions arrive at port 1. Invalid packets are forwarded too, because
/// dropping them would cost less.
const RULES: [&str; 4] = [
    "table=0,ip,ct_state=-trk,actions=ct(table=1)",
    "table=1,ip,ct_state=+trk+new,actions=ct(commit),output:2",
    "table=1,ip,ct_state=+trk+est,actions=output:2",
    "table=1,ip,ct_state=+trk+inv,actions=output:2",
];

/// Setting of the exact match cache (EMC).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExactCache {
    /// One in a hundred packets that miss the cache is inserted.
    Default,
    /// Nothing is inserted. With many flows and few rules, lookups are faster without the cache.
    Off,
}

/// A running Open vSwitch.
pub(crate) struct Switch {
    process: Process,
    _database: Process,
    dir: PathBuf,
    readings: Readings,
}

/// Returns the reason why Open vSwitch cannot be measured on this machine; `None` if it can.
pub(crate) fn missing_requirement(setup: &Setup) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root".to_owned());
    }
    if !Path::new(SWITCH).exists() {
        return Some("openvswitch-switch-dpdk is not installed".to_owned());
    }
    (!setup.huge).then(|| "needs hugepages".to_owned())
}

/// Returns the version that vswitchd prints.
pub(crate) fn version() -> String {
    let text = run(Command::new(SWITCH).arg("--version")).unwrap_or_default();
    text.lines().collect::<Vec<_>>().join(", ")
}

impl Switch {
    /// Starts Open vSwitch, waits until all flows have connections, and stops it (SIGSTOP).
    pub(crate) fn start(setup: &Setup, case: &Case, cache: ExactCache) -> anyhow::Result<Self> {
        let dir = setup.dir.join(format!("ovs-{cache:?}"));
        if dir.exists() {
            std::fs::remove_dir_all(&dir)?;
        }
        std::fs::create_dir(&dir)?;
        let database = start_database(&dir)?;
        configure(&dir, setup, case, cache)?;
        let process = Process::start(
            child_command("unshare")
                .args([
                    "--net",
                    SWITCH,
                    &format!("unix:{}", path_in(&dir, "db.sock")),
                    "--no-chdir",
                ])
                .arg(format!("--unixctl={}", path_in(&dir, "switch.ctl")))
                .env("OVS_RUNDIR", &dir)
                .env("OVS_LOGDIR", &dir)
                .env("RUNTIME_DIRECTORY", &dir),
        )?;
        let mut switch = Self { process, _database: database, dir, readings: Readings::default() };
        let bridge = path_in(&switch.dir, "br0.mgmt");
        wait_until("the bridge of Open vSwitch", || Path::new(&bridge).exists())?;
        let rules = path_in(&switch.dir, "rules");
        std::fs::write(&rules, RULES.join("\n"))?;
        run(Command::new("ovs-ofctl").args(["--bundle", "add-flows", &bridge, &rules]))?;
        // Until the capture has been replayed twice.
        let warm = 2.0 * case.traffic.packets() as f64;
        let begin = Instant::now();
        while switch.read_sent()? < warm {
            let is_late = begin.elapsed() > Duration::from_secs(20);
            anyhow::ensure!(!is_late, "{}", switch.process.error_text("forwards too little"));
            std::thread::sleep(Duration::from_millis(20));
        }
        switch.process.pause()?;
        Ok(switch)
    }

    /// Returns the packets that port `sink` has sent so far.
    fn read_sent(&mut self) -> anyhow::Result<f64> {
        let shown = self.command("dpctl/show", &["-s"])?;
        let count = shown.split_once(": sink ").and_then(|(_, port)| {
            let (_, count) = port.split_once("TX packets:")?;
            count.split_whitespace().next()?.parse().ok()
        });
        // The count is missing until both ports exist.
        Ok(count.unwrap_or(0.0))
    }

    /// Sends a command to vswitchd's control socket and returns the reply.
    fn command(&self, method: &str, words: &[&str]) -> anyhow::Result<String> {
        let mut socket = UnixStream::connect(self.dir.join("switch.ctl"))?;
        socket.set_read_timeout(Some(Duration::from_secs(20)))?;
        let request = json!({"id": 0, "method": method, "params": words});
        socket.write_all(request.to_string().as_bytes())?;
        let mut answers = Deserializer::from_reader(socket).into_iter::<Value>();
        let answer = answers.next().with_context(|| format!("no answer to {method}"))??;
        Ok(answer["result"].as_str().unwrap_or_default().to_owned())
    }

    /// Ends Open vSwitch. Returns its figures, and a description of each deviation from the case.
    pub(crate) fn finish(
        self,
        setup: &Setup,
        case: &Case,
    ) -> anyhow::Result<(Figures, Vec<String>)> {
        let figures = self.readings.figures(setup, case.workers)?;
        self.process.resume()?;
        let bridge = path_in(&self.dir, "br0.mgmt");
        let rules = run(Command::new("ovs-ofctl").args(["dump-flows", &bridge]))?;
        let connections = self.command("dpctl/ct-get-nconns", &[])?;
        let connections: f64 = connections.trim().parse().context("no number of connections")?;
        self.command("exit", &[])?;
        self.process.finish()?;
        Ok((figures, deviations(case, &rules, connections)))
    }
}

impl CountingDut for Switch {
    fn process(&self) -> &Process {
        &self.process
    }

    fn sent(&mut self) -> anyhow::Result<f64> {
        self.read_sent()
    }

    fn readings(&mut self) -> &mut Readings {
        &mut self.readings
    }
}

/// Compares the counters of the rules, and the number of connections, with the load of the case.
/// Returns a description of each deviation.
fn deviations(case: &Case, rules: &str, connections: f64) -> Vec<String> {
    let packets = |state: &str| -> f64 {
        let line = rules.lines().find(|line| line.contains(&format!("ct_state={state}")));
        let count = line.and_then(|line| line.split_once("n_packets=")?.1.split(',').next());
        count.and_then(|count| count.parse().ok()).unwrap_or(f64::NAN)
    };
    let [new, established, invalid] = ["+new", "+est", "+inv"].map(packets);
    let all = new + established + invalid;
    let flows = case.traffic.flows() as f64;
    let opened = all / f64::from(SHORT_TCP_PACKETS);
    let (has_created, invalid_max) = match case.load {
        // A SYN+ACK in the same burst as its SYN is looked up before the connection exists, so it
        // is invalid.
        Load::PortReuse => (new > 0.9 * opened, 0.05 * all),
        // For UDP, the second packet of the same direction is `new` too.
        _ => (new < 4.0 * flows && connections == flows, 0.001 * all),
    };
    let checks = [
        (
            has_created,
            format!("{new} of {all} packets were new, {connections} connections at the end"),
        ),
        (invalid < invalid_max, format!("{invalid} of {all} packets were invalid")),
    ];
    checks.into_iter().filter(|(holds, _)| !holds).map(|(_, deviation)| deviation).collect()
}

fn start_database(dir: &Path) -> anyhow::Result<Process> {
    let database = path_in(dir, "conf.db");
    run(Command::new("ovsdb-tool").args(["create", &database, SCHEMA]))?;
    let socket = path_in(dir, "db.sock");
    let server = Process::start(
        child_command("ovsdb-server")
            .args([&database, &format!("--remote=punix:{socket}"), "--no-chdir"])
            .arg(format!("--unixctl={}", path_in(dir, "db.ctl"))),
    )?;
    wait_until("the database of Open vSwitch", || Path::new(&socket).exists())?;
    Ok(server)
}

/// Writes the configuration to the database, before vswitchd starts.
fn configure(dir: &Path, setup: &Setup, case: &Case, cache: ExactCache) -> anyhow::Result<()> {
    let database = format!("--db=unix:{}", path_in(dir, "db.sock"));
    let vsctl =
        |words: &[&str]| run(Command::new("ovs-vsctl").args([&database, "--no-wait"]).args(words));
    let set = |key: &str, value: &str| {
        vsctl(&["set", "Open_vSwitch", ".", &format!("other_config:{key}=\"{value}\"")])
    };
    let worker = setup.worker_cpus[case.first_cpu];
    let other = setup.cpus.iter().copied().find(|&cpu| cpu != worker).unwrap_or(worker);
    let mask = |cpu: usize| format!("{:#x}", 1_u128 << cpu);
    let prefix = format!("millrace-bench-{}-{cache:?}", std::process::id());
    set("dpdk-init", "true")?;
    set("pmd-cpu-mask", &mask(worker))?;
    set("dpdk-lcore-mask", &mask(other))?;
    set("dpdk-extra", &format!("--no-pci --no-telemetry --in-memory --file-prefix={prefix}"))?;
    if cache == ExactCache::Off {
        set("emc-insert-inv-prob", "0")?;
    }
    let bridge = "add-br br0 -- set bridge br0 datapath_type=netdev fail_mode=secure";
    vsctl(&bridge.split(' ').collect::<Vec<_>>())?;
    let ports = setup.pairs(case).into_iter().flatten();
    for ((name, devargs), number) in ["source", "sink"].into_iter().zip(ports).zip(1..) {
        let port = format!("add-port br0 {name} -- set Interface {name} type=dpdk");
        let mut words: Vec<&str> = port.split(' ').collect();
        let devargs = format!("options:dpdk-devargs=\"{devargs}\"");
        let number = format!("ofport_request={number}");
        words.extend(["options:n_rxq=1", &devargs, &number]);
        vsctl(&words)?;
    }
    Ok(())
}

/// Returns the path of a file in `dir`.
fn path_in(dir: &Path, name: &str) -> String {
    dir.join(name).display().to_string()
}
