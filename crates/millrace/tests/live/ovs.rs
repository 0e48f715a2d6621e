// SPDX-License-Identifier: BSD-3-Clause
//! Tests Open vSwitch on the software NIC: it requests marks and finds its flows by them. Between
//! ports of one switch, it lets the NIC forward.

use crate::captures::Talk;
use crate::hugepages::Reserved;
use crate::new_scratch;
use crate::peer::{first_cpu, remove_runtime_dir};
use crate::twin::driver;
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::capture::write_pcap;
use testkit::host::{has_root_and, skip};
use testkit::process::{Process, mortal, run, wait_until};
use testkit::scratch::Scratch;

/// Path of the vswitchd with DPDK on Debian.
const SWITCH: &str = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// An Open vSwitch that is separate from any that the system runs.
struct Switch {
    scratch: Scratch,
    /// File prefix of its DPDK.
    prefix: String,
    switch: Option<Process>,
    _database: Process,
}

impl Switch {
    fn start(driver: &str) -> Self {
        let scratch = new_scratch("ovs");
        let database = scratch.path("conf.db");
        run(Command::new("ovsdb-tool").args(["create", &database, SCHEMA]));
        let socket = scratch.path("db.sock");
        let server = Process::spawn(
            mortal("ovsdb-server")
                .args([&database, &format!("--remote=punix:{socket}"), "--no-chdir"])
                .arg(format!("--unixctl={}", scratch.path("db.ctl")))
                .stderr(Stdio::null()),
        );
        wait_until("the database is there", || Path::new(&socket).exists());
        let prefix = format!("live-ovs-{}", std::process::id());
        let extra = format!("-m 256 --no-pci --no-telemetry --file-prefix {prefix} -d {driver}");
        let mut switch = Self { scratch, prefix, switch: None, _database: server };
        let cpus = format!("{:#x}", 1_u64 << first_cpu());
        switch.vsctl(&[
            "set Open_vSwitch . other_config:dpdk-init=true other_config:hw-offload=true",
            &format!("other_config:pmd-cpu-mask={cpus} other_config:dpdk-lcore-mask={cpus}"),
        ]);
        run(switch
            .vsctl_command()
            .args(["set", "Open_vSwitch", "."])
            .arg(format!("other_config:dpdk-extra=\"{extra}\"")));
        switch.vsctl(&["add-br br0 -- set bridge br0 datapath_type=netdev"]);
        let log = std::fs::File::create(switch.scratch.path("log")).unwrap();
        let mut command = mortal(SWITCH);
        command
            .arg(format!("unix:{socket}"))
            .args(["--no-chdir", &format!("--unixctl={}", switch.control())])
            .env("OVS_RUNDIR", switch.scratch.folder())
            .stdout(Stdio::null())
            .stderr(log);
        switch.switch = Some(Process::spawn(&mut command));
        wait_until("the switch answers", || Path::new(&switch.control()).exists());
        switch
    }

    fn control(&self) -> String {
        self.scratch.path("switch.ctl")
    }

    fn vsctl_command(&self) -> Command {
        let mut command = Command::new("ovs-vsctl");
        command.arg(format!("--db=unix:{}", self.scratch.path("db.sock")));
        command.arg("--no-wait");
        command
    }

    fn vsctl(&self, words: &[&str]) {
        let words = words.iter().flat_map(|words| words.split(' '));
        run(self.vsctl_command().args(words));
    }

    /// Adds a DPDK port.
    fn add(&self, number: u32, name: &str, devargs: &str) {
        self.vsctl(&[
            &format!("add-port br0 {name} -- set Interface {name} type=dpdk"),
            &format!("options:dpdk-devargs={devargs} ofport_request={number}"),
        ]);
    }

    fn forward(&self, rule: &str) {
        let bridge = self.scratch.path("br0.mgmt");
        wait_until("the bridge is there", || Path::new(&bridge).exists());
        run(Command::new("ovs-ofctl").args(["add-flow", &bridge, rule]));
    }

    /// Sends a command to vswitchd and returns the reply.
    fn shown(&self, command: &[&str]) -> String {
        run(Command::new("ovs-appctl").args(["--target", &self.control()]).args(command))
    }

    /// Returns the packets received from a port.
    fn received(&self, name: &str) -> u64 {
        let shown = self.shown(&["dpctl/show", "-s"]);
        let (_, port) = shown.split_once(&format!(": {name} ")).expect("the port is there");
        let (_, count) = port.split_once("RX packets:").expect("it has statistics");
        count.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number")
    }

    /// Returns a counter, summed over all PMD threads.
    fn counter(&self, name: &str) -> u64 {
        let shown = self.shown(&["dpif-netdev/pmd-stats-show"]);
        let lines = shown.lines().filter_map(|line| line.trim().strip_prefix(name));
        lines.filter_map(|rest| rest.trim_start_matches(": ").parse::<u64>().ok()).sum()
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        drop(self.switch.take());
        remove_runtime_dir(&self.prefix);
    }
}

/// Returns driver and hugepages; `None` after a message if something is missing.
fn needs() -> Option<(String, Reserved)> {
    let tools = ["ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-ofctl", "ovs-appctl", "setpriv"];
    let driver = driver()?;
    if !has_root_and(&tools) {
        return None;
    }
    if !Path::new(SWITCH).exists() {
        skip("Open vSwitch with DPDK is not installed (openvswitch-switch-dpdk)");
        return None;
    }
    Some((driver, Reserved::new()?))
}

/// Starts a switch whose port 1 receives a talk repeatedly.
fn playing(driver: &str) -> Switch {
    let switch = Switch::start(driver);
    let talk = Talk::new(1, 50);
    let capture = switch.scratch.path("talk.pcap");
    write_pcap(&capture, &talk.frames[0]);
    switch.add(1, "pcap", &format!("net_pcap0,rx_pcap={capture},infinite_rx=1"));
    switch
}

#[test]
fn open_vswitch_finds_flows_by_marks() {
    let Some((driver, _pages)) = needs() else { return };
    let switch = playing(&driver);
    switch.add(2, "here", "net_twin0,wire=w");
    switch.add(3, "there", "net_twin1,wire=w");
    switch.add(4, "null", "net_null0,no-rx=1");
    switch.forward("in_port=1,actions=output:2");
    switch.forward("in_port=3,actions=output:4");
    wait_until("packets are found by their mark", || switch.counter("phwol hits") > 1000);
}

#[test]
fn open_vswitch_leaves_flows_to_the_nic() {
    let Some((driver, _pages)) = needs() else { return };
    let switch = playing(&driver);
    switch.add(2, "left", "net_twin0,wire=a");
    switch.add(3, "in", "net_twin1,wire=a,switch=s");
    switch.add(4, "out", "net_twin2,wire=b,switch=s");
    switch.add(5, "right", "net_twin3,wire=b");
    switch.add(6, "null", "net_null0,no-rx=1");
    for (from, to) in [(1, 2), (3, 4), (5, 6)] {
        switch.forward(&format!("in_port={from},actions=output:{to}"));
    }
    let offloaded = || switch.shown(&["dpctl/dump-flows", "-m", "type=offloaded"]);
    wait_until("a flow is the NIC's", || offloaded().contains("in_port(in)"));
    let flows = offloaded();
    let flow = flows.lines().find(|flow| flow.contains("in_port(in)")).expect("as above");
    assert!(flow.contains("offloaded:yes") && flow.contains("dp:dpdk"), "{flow}");
    assert!(flow.contains("actions:out"), "{flow}");
    // Waits until the packets under way have arrived.
    let mut before = 0;
    wait_until("no more comes in", || {
        std::mem::replace(&mut before, switch.received("in")) == switch.received("in")
    });
    let [came_in, arrived] = ["in", "right"].map(|port| switch.received(port));
    wait_until("packets come out", || switch.received("right") > arrived + 10_000);
    assert!(switch.received("in") < came_in + 1000, "{came_in} {}", switch.received("in"));
    // The switch reads the NIC's counters of these flows.
    wait_until("they are counted", || {
        let flows = offloaded();
        let flow = flows.lines().find(|flow| flow.contains("in_port(in)")).unwrap_or_default();
        let count = flow.split_once("packets:").and_then(|(_, rest)| rest.split(',').next());
        count.and_then(|count| count.parse().ok()).is_some_and(|count: u64| count > 10_000)
    });
}
