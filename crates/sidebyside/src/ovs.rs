// SPDX-License-Identifier: BSD-3-Clause
//! Open vSwitch with DPDK on the ports of the floor: packets go through its connection tracking.
//!
//! A switch of its own, beside any that the system runs: database, sockets and logs are in the
//! directory of the benchmark, memory is nobody else's, interfaces are in a network namespace that
//! goes with it. Both processes are killed by the kernel if the benchmark ends without doing so.

use crate::Setup;
use crate::cases::{Case, Load};
use crate::heat::{Dut, Readings};
use crate::process::{Process, mortal, run, wait_until};
use crate::stopwatch::{Figures, Reading};
use anyhow::Context;
use serde_json::{Deserializer, Value, json};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use traffic::scenario::SHORT_TCP_PACKETS;

/// Where Debian has the one with DPDK.
const SWITCH: &str = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// Its store of packet buffers has 262 144 of them, whatever the ports need, with 2 kB of packet.
pub(crate) const MEMORY_MB: usize = 1000;

/// What every packet goes through; both directions come in at port 1. An invalid packet leaves as
/// well: a packet that is dropped would cost less.
const RULES: [&str; 4] = [
    "table=0,ip,ct_state=-trk,actions=ct(table=1)",
    "table=1,ip,ct_state=+trk+new,actions=ct(commit),output:2",
    "table=1,ip,ct_state=+trk+est,actions=output:2",
    "table=1,ip,ct_state=+trk+inv,actions=output:2",
];

/// Its cache of exact matches in front of its table of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExactCache {
    /// One packet in a hundred that is not in it is put there.
    Default,
    /// Few rules are found faster without it, as flows are many.
    Off,
}

/// Open vSwitch, forwarding.
pub(crate) struct Switch {
    process: Process,
    _database: Process,
    dir: PathBuf,
    readings: Readings,
}

/// Why it cannot be measured here, if so.
pub(crate) fn lacks(setup: &Setup) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root".to_owned());
    }
    if !Path::new(SWITCH).exists() {
        return Some("openvswitch-switch-dpdk is not installed".to_owned());
    }
    (!setup.huge).then(|| "needs hugepages".to_owned())
}

/// Its version as it says it.
pub(crate) fn version() -> String {
    let text = run(Command::new(SWITCH).arg("--version")).unwrap_or_default();
    text.lines().collect::<Vec<_>>().join(", ")
}

impl Switch {
    /// Starts it, lets every flow be made, and stops it.
    pub(crate) fn start(setup: &Setup, case: &Case, cache: ExactCache) -> anyhow::Result<Self> {
        let dir = setup.dir.join(format!("ovs-{cache:?}"));
        if dir.exists() {
            std::fs::remove_dir_all(&dir)?;
        }
        std::fs::create_dir(&dir)?;
        let database = start_database(&dir)?;
        configure(&dir, setup, case, cache)?;
        let process = Process::start(
            mortal("unshare")
                .args(["--net", SWITCH, &format!("unix:{}", at(&dir, "db.sock")), "--no-chdir"])
                .arg(format!("--unixctl={}", at(&dir, "switch.ctl")))
                .env("OVS_RUNDIR", &dir)
                .env("OVS_LOGDIR", &dir)
                .env("RUNTIME_DIRECTORY", &dir),
        )?;
        let mut switch = Self { process, _database: database, dir, readings: Readings::default() };
        let bridge = at(&switch.dir, "br0.mgmt");
        wait_until("the bridge of Open vSwitch", || Path::new(&bridge).exists())?;
        let rules = at(&switch.dir, "rules");
        std::fs::write(&rules, RULES.join("\n"))?;
        run(Command::new("ovs-ofctl").args(["--bundle", "add-flows", &bridge, &rules]))?;
        // Each packet has come by twice.
        let warm = 2.0 * case.traffic.packets() as f64;
        let begin = Instant::now();
        while switch.sent()? < warm {
            let is_late = begin.elapsed() > Duration::from_secs(20);
            anyhow::ensure!(!is_late, "{}", switch.process.with_tail("forwards too little"));
            std::thread::sleep(Duration::from_millis(20));
        }
        switch.process.stand_still()?;
        Ok(switch)
    }

    /// Packets that have left so far, to the last one.
    fn sent(&mut self) -> anyhow::Result<f64> {
        let shown = self.ask("dpctl/show", &["-s"])?;
        let count = shown.split_once(": sink ").and_then(|(_, port)| {
            let (_, count) = port.split_once("TX packets:")?;
            count.split_whitespace().next()?.parse().ok()
        });
        // Until both ports are there.
        Ok(count.unwrap_or(0.0))
    }

    /// What it says to a command.
    fn ask(&self, method: &str, words: &[&str]) -> anyhow::Result<String> {
        let mut socket = UnixStream::connect(self.dir.join("switch.ctl"))?;
        socket.set_read_timeout(Some(Duration::from_secs(20)))?;
        let request = json!({"id": 0, "method": method, "params": words});
        socket.write_all(request.to_string().as_bytes())?;
        let mut answers = Deserializer::from_reader(socket).into_iter::<Value>();
        let answer = answers.next().with_context(|| format!("no answer to {method}"))??;
        Ok(answer["result"].as_str().unwrap_or_default().to_owned())
    }

    /// Ends it. Gives its figures and why they are not those of the case.
    pub(crate) fn finish(
        self,
        setup: &Setup,
        case: &Case,
    ) -> anyhow::Result<(Figures, Vec<String>)> {
        let figures = self.readings.figures(setup, case.workers)?;
        self.process.go_on()?;
        let bridge = at(&self.dir, "br0.mgmt");
        let rules = run(Command::new("ovs-ofctl").args(["dump-flows", &bridge]))?;
        let connections = self.ask("dpctl/ct-get-nconns", &[])?;
        let connections: f64 = connections.trim().parse().context("no number of connections")?;
        self.ask("exit", &[])?;
        self.process.finish()?;
        Ok((figures, doubts(case, &rules, connections)))
    }
}

impl Dut for Switch {
    fn process(&self) -> &Process {
        &self.process
    }

    fn turn(&mut self, end: Instant, ran: Duration) -> anyhow::Result<()> {
        let begin = Instant::now();
        std::thread::sleep(end.saturating_duration_since(begin));
        let sent = self.sent()?;
        self.readings.add(Reading::take(self.process.id(), sent, ran + begin.elapsed()));
        Ok(())
    }
}

/// What its rules have counted, and its connections, must be what the case is about.
fn doubts(case: &Case, rules: &str, connections: f64) -> Vec<String> {
    let packets = |state: &str| -> f64 {
        let line = rules.lines().find(|line| line.contains(&format!("ct_state={state}")));
        let count = line.and_then(|line| line.split_once("n_packets=")?.1.split(',').next());
        count.and_then(|count| count.parse().ok()).unwrap_or(f64::NAN)
    };
    let [new, established, invalid] = ["+new", "+est", "+inv"].map(packets);
    let all = new + established + invalid;
    let flows = case.traffic.flows() as f64;
    let opened = all / f64::from(SHORT_TCP_PACKETS);
    let (is_made, invalid_max) = match case.load {
        // An answer in the burst of its SYN comes before the rule that makes the connection.
        Load::Reused => (new > 0.9 * opened, 0.05 * all),
        // Of UDP the second packet of the same direction is new as well.
        _ => (new < 4.0 * flows && connections == flows, 0.001 * all),
    };
    let checks = [
        (is_made, format!("{new} of {all} packets were new, {connections} connections at the end")),
        (invalid < invalid_max, format!("{invalid} of {all} packets were invalid")),
    ];
    checks.into_iter().filter(|(holds, _)| !holds).map(|(_, doubt)| doubt).collect()
}

fn start_database(dir: &Path) -> anyhow::Result<Process> {
    let database = at(dir, "conf.db");
    run(Command::new("ovsdb-tool").args(["create", &database, SCHEMA]))?;
    let socket = at(dir, "db.sock");
    let server = Process::start(
        mortal("ovsdb-server")
            .args([&database, &format!("--remote=punix:{socket}"), "--no-chdir"])
            .arg(format!("--unixctl={}", at(dir, "db.ctl"))),
    )?;
    wait_until("the database of Open vSwitch", || Path::new(&socket).exists())?;
    Ok(server)
}

/// Says what it is to be, before it starts.
fn configure(dir: &Path, setup: &Setup, case: &Case, cache: ExactCache) -> anyhow::Result<()> {
    let database = format!("--db=unix:{}", at(dir, "db.sock"));
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

fn at(dir: &Path, name: &str) -> String {
    dir.join(name).display().to_string()
}
