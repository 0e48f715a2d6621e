// SPDX-License-Identifier: BSD-3-Clause
//! Runs Linux as a router between two veth pairs in a network namespace, without and with
//! connection tracking. For comparison, a third router drops all packets when they arrive.
//!
//! testpmd sends the capture into the first veth pair (`net_af_packet`, one system call per burst).
//! The kernel does its work on the same cpu, in that call or in its thread `ksoftirqd`. So all
//! figures include the sender; the figure of the router that drops shows the sender's share.

use crate::captures::Traffic;
use crate::cases::{Case, Load};
use crate::figures::{Figures, Reading, WARM_UP};
use crate::process::{Process, child_command, run, wait_until};
use crate::turns::{Dut, Readings};
use crate::{MBUF_DATA_BYTES, Setup, testpmd};
use anyhow::Context;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use traffic::scenario::SHORT_TCP_PACKETS;

/// Work that a router does for each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouterMode {
    /// The first interface drops it, because its Ethernet address is not the interface's.
    Drop,
    /// The kernel routes it.
    Route,
    /// The kernel routes it and tracks its connection, because a rule matches the connection's
    /// state.
    Track,
}

/// A running router, and the testpmd that sends to it.
pub(crate) struct Router {
    sender: Process,
    namespace: Process,
    mode: RouterMode,
    readings: Readings,
    /// Process id of `ksoftirqd` of the sender's cpu.
    softirq: u32,
    /// Nanoseconds that `ksoftirqd` ran in turns of this router.
    softirq_ns: u64,
}

/// Ethernet address of the router, and destination of all packets.
const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 0x99];
/// Bytes of the file header of a pcap file, and of the header of each packet.
const PCAP_HEADERS: (usize, usize) = (24, 16);

/// Devargs for the ring of `net_af_packet`. It refuses frames that are larger than a packet buffer.
const RING: &str = "framesz=256,blocksz=65536,framecnt=4096";

/// nftables rules that make the kernel track connections, and count new and invalid packets.
const RULES: &str = "table ip bench {
    counter new { }
    counter invalid { }
    chain forward {
        type filter hook forward priority 0
        policy accept
        ct state established accept
        ct state new counter name new accept
        ct state invalid counter name invalid accept
    }
}
";

/// Commands that enable forwarding and disable the check of source addresses.
const SETTINGS: &str = "cd /proc/sys/net/ipv4; echo 1 > ip_forward; echo 0 > conf/all/rp_filter; \
                        echo 0 > conf/default/rp_filter";

/// Returns the reason why Linux cannot be measured on this machine; `None` if it can.
pub(crate) fn missing_requirement() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root".to_owned());
    }
    let tools = [("ip", "-V"), ("nft", "-v"), ("unshare", "-V"), ("nsenter", "-V")];
    let cannot_run = |(tool, arg): &&(&str, &str)| run(Command::new(tool).arg(arg)).is_err();
    tools.iter().find(cannot_run).map(|(tool, _)| format!("needs the program {tool}"))
}

/// Returns the path of the capture whose packets have the router's Ethernet address.
fn capture(setup: &Setup, traffic: Traffic) -> PathBuf {
    setup.dir.join(format!("{}-routed.pcap", traffic.name()))
}

/// Writes a copy of the case's capture, with the router's Ethernet address as destination.
pub(crate) fn write_capture(setup: &Setup, traffic: Traffic) -> anyhow::Result<()> {
    let mut bytes = fs::read(setup.capture(traffic))?;
    let (file_header, packet_header) = PCAP_HEADERS;
    let mut rest = bytes.get_mut(file_header..).unwrap_or_default();
    while let Some((header, packets)) = rest.split_at_mut_checked(packet_header) {
        let len = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
        let (packet, others) = packets.split_at_mut(len as usize);
        packet[..ROUTER.len()].copy_from_slice(&ROUTER);
        rest = others;
    }
    Ok(fs::write(capture(setup, traffic), bytes)?)
}

impl Router {
    /// Starts a router and its sender, lets them warm up, and stops the sender (SIGSTOP).
    pub(crate) fn start(setup: &Setup, case: &Case, mode: RouterMode) -> anyhow::Result<Self> {
        let namespace = make_namespace(setup, mode)?;
        let source = capture(setup, case.traffic);
        let pair = [
            format!("net_pcap0,rx_pcap={},infinite_rx=1", source.display()),
            format!("net_af_packet0,iface=source,qdisc_bypass=1,{RING}"),
        ];
        // `net_af_packet` copies packets into its ring, so small buffers are enough.
        let setup = &Setup { mbuf_data_bytes: MBUF_DATA_BYTES, ..setup.clone() };
        let suffix = format!("-{mode:?}");
        let mut sender = Process::start(
            inside(&namespace, "stdbuf")
                .args(["-oL", "dpdk-testpmd"])
                .args(testpmd::arguments_on(setup, case, vec![pair], &suffix))
                .env("RUNTIME_DIRECTORY", &setup.dir),
        )?;
        testpmd::sent_by(&mut sender, 1).context("testpmd does not start")?;
        sender.write_line("start")?;
        let softirq = softirq_thread(setup.worker_cpus[case.first_cpu])?;
        let readings = Readings::default();
        let router = Self { sender, namespace, mode, readings, softirq, softirq_ns: 0 };
        std::thread::sleep(WARM_UP);
        let warm = 2.0 * case.traffic.packets() as f64;
        wait_until("two rounds of packets", || router.arrived().is_ok_and(|n| n > warm))?;
        router.sender.pause()?;
        Ok(router)
    }

    /// Returns the packets that have arrived so far: at the far end of the second veth pair, or at
    /// the router if it drops them.
    fn arrived(&self) -> anyhow::Result<f64> {
        let interface = if self.mode == RouterMode::Drop { "in:" } else { "far:" };
        let text = fs::read_to_string(format!("/proc/{}/net/dev", self.namespace.id()))?;
        let line = text.lines().find_map(|line| line.trim_start().strip_prefix(interface));
        let received = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        received.with_context(|| format!("no interface {interface}"))
    }

    /// Returns the nanoseconds that `ksoftirqd` has run so far.
    fn softirq_ns(&self) -> anyhow::Result<u64> {
        let schedstat = fs::read_to_string(format!("/proc/{}/schedstat", self.softirq))?;
        schedstat.split(' ').next().and_then(|n| n.parse().ok()).context("no time of ksoftirqd")
    }

    /// Ends the router. Returns its figures, and a description of each deviation from the case.
    pub(crate) fn finish(
        mut self,
        setup: &Setup,
        case: &Case,
    ) -> anyhow::Result<(Figures, Vec<String>)> {
        let figures = self.readings.figures(setup, case.workers)?;
        self.sender.resume()?;
        let deviations = match self.mode {
            RouterMode::Track => self.deviations(case)?,
            RouterMode::Drop | RouterMode::Route => Vec::new(),
        };
        self.sender.write_line("quit")?;
        self.sender.finish()?;
        Ok((figures, deviations))
    }

    /// Compares the counters of the rules with the load of the case; returns a description of each
    /// deviation.
    fn deviations(&self, case: &Case) -> anyhow::Result<Vec<String>> {
        let shown = run(inside(&self.namespace, "nft").args(["-j", "list", "counters"]))?;
        let shown: Value = serde_json::from_str(&shown)?;
        let all = self.arrived()?;
        let packets = |name: &str| {
            let objects = shown["nftables"].as_array().into_iter().flatten();
            let mut counters = objects.map(|object| &object["counter"]);
            let counter = counters.find(|counter| counter["name"] == name);
            counter.and_then(|counter| counter["packets"].as_f64()).unwrap_or(f64::NAN)
        };
        let [new, invalid] = ["new", "invalid"].map(packets);
        let flows = case.traffic.flows() as f64;
        let has_created = match case.load {
            Load::PortReuse => new > 0.9 * all / f64::from(SHORT_TCP_PACKETS),
            _ => (flows..2.0 * flows).contains(&new),
        };
        let checks = [
            (has_created, format!("{new} of {all} packets were new")),
            (invalid < 0.001 * all, format!("{invalid} of {all} packets were invalid")),
        ];
        Ok(checks.into_iter().filter(|(holds, _)| !holds).map(|(_, deviation)| deviation).collect())
    }
}

impl Dut for Router {
    fn process(&self) -> &Process {
        &self.sender
    }

    fn turn(&mut self, end: Instant, ran: Duration) -> anyhow::Result<()> {
        let begin = Instant::now();
        let before = self.softirq_ns()?;
        std::thread::sleep(end.saturating_duration_since(begin));
        let arrived = self.arrived()?;
        self.softirq_ns += self.softirq_ns()? - before;
        let reading = Reading::take(self.sender.id(), arrived, ran + begin.elapsed());
        self.readings.add(reading.with_kernel_thread(self.softirq_ns));
        Ok(())
    }
}

/// Starts a process in a new network namespace, with both veth pairs. The namespace ends with the
/// process.
fn make_namespace(setup: &Setup, mode: RouterMode) -> anyhow::Result<Process> {
    let mut namespace = Process::start(child_command("unshare").args([
        "--net",
        "sh",
        "-c",
        "echo ready && exec sleep 900",
    ]))?;
    namespace.wait_for("a network namespace", |line| (line == "ready").then_some(()))?;
    run(inside(&namespace, "sh").args(["-ec", SETTINGS]))?;
    let mac = ROUTER.map(|byte| format!("{byte:02x}")).join(":");
    let mut commands = vec![
        "ip link add source type veth peer name in".to_owned(),
        "ip link add out type veth peer name far".to_owned(),
    ];
    // With another address, the interface drops all packets.
    if mode != RouterMode::Drop {
        commands.push(format!("ip link set in address {mac}"));
    }
    for interface in ["source", "in", "out", "far"] {
        commands.push(format!("ip link set {interface} addrgenmode none"));
        commands.push(format!("ip link set {interface} up"));
    }
    commands.extend(
        [
            "ip address add 192.0.2.1/24 dev in",
            "ip address add 192.0.3.1/24 dev out",
            "ip neighbour add 192.0.3.2 lladdr 02:00:00:00:00:77 dev out nud permanent",
            "ip route add default via 192.0.3.2",
        ]
        .map(str::to_owned),
    );
    if mode == RouterMode::Track {
        let rules = setup.dir.join("rules.nft");
        fs::write(&rules, RULES)?;
        commands.push(format!("nft -f {}", rules.display()));
    }
    for command in commands {
        let mut words = command.split(' ');
        let program = words.next().unwrap_or_default();
        run(inside(&namespace, program).args(words))?;
    }
    Ok(namespace)
}

/// Returns a command that runs `program` in the namespace.
fn inside(namespace: &Process, program: &str) -> Command {
    let mut command = child_command("nsenter");
    command.args([&format!("--net=/proc/{}/ns/net", namespace.id()), "--", program]);
    command
}

/// Returns the process id of the kernel's thread `ksoftirqd` of a cpu.
fn softirq_thread(cpu: usize) -> anyhow::Result<u32> {
    let wanted = format!("ksoftirqd/{cpu}\n");
    let processes = fs::read_dir("/proc")?.flatten();
    let mut ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let found = ids.find(|id: &u32| {
        fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name == wanted)
    });
    found.with_context(|| format!("cannot find the kernel thread ksoftirqd/{cpu}"))
}
