// SPDX-License-Identifier: BSD-3-Clause
//! The kernel as a router between two veth cables in a network namespace of its own, without and
//! with connection tracking; beside it one that drops all packets at its door.
//!
//! testpmd sends the capture into the first cable (`net_af_packet`, a system call for a burst), and
//! the kernel does all that follows on the same cpu, in that call or in its thread `ksoftirqd`. So
//! the sender is in every figure; that of the router that drops says how much it is.

use crate::captures::Traffic;
use crate::cases::{Case, Load};
use crate::heat::{Dut, Readings};
use crate::process::{Process, mortal, run, wait_until};
use crate::stopwatch::{Figures, Reading, WARM_UP};
use crate::{MBUF_DATA_BYTES, Setup, testpmd};
use anyhow::Context;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use traffic::scenario::SHORT_TCP_PACKETS;

/// What is done with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// It is dropped right where it arrives: it is for somebody else.
    Drop,
    /// It is routed.
    Route,
    /// It is routed, and a rule asks for the state of its connection.
    Track,
}

/// A router and its sender.
pub(crate) struct Router {
    sender: Process,
    namespace: Process,
    work: Work,
    readings: Readings,
    /// Process number of `ksoftirqd` on the cpu.
    softirq: u32,
    /// Nanoseconds that it worked in turns of this router.
    softirq_ns: u64,
}

/// Ethernet address of the router: the first bytes of every packet.
const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 0x99];
/// Length of the headers of a capture and of a packet in it.
const PCAP_HEADERS: (usize, usize) = (24, 16);

/// Places of the ring that packets are copied to, each smaller than a buffer, which it would be
/// refused for otherwise.
const RING: &str = "framesz=256,blocksz=65536,framecnt=4096";

/// The rule that connections are tracked for, with a count of what is not the common case.
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

/// It is a router, whatever addresses packets come from.
const SETTINGS: &str = "cd /proc/sys/net/ipv4; echo 1 > ip_forward; echo 0 > conf/all/rp_filter; \
                        echo 0 > conf/default/rp_filter";

/// Why it cannot be measured here, if so.
pub(crate) fn lacks() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root".to_owned());
    }
    let tools = [("ip", "-V"), ("nft", "-v"), ("unshare", "-V"), ("nsenter", "-V")];
    let is_missing = |(tool, arg): &&(&str, &str)| run(Command::new(tool).arg(arg)).is_err();
    tools.iter().find(is_missing).map(|(tool, _)| format!("needs the program {tool}"))
}

/// Where the packets of a router are, which have its address.
fn capture(setup: &Setup, traffic: Traffic) -> PathBuf {
    setup.dir.join(format!("{}-routed.pcap", traffic.name()))
}

/// Writes them.
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
    /// Starts it, lets it warm up and stops it.
    pub(crate) fn start(setup: &Setup, case: &Case, work: Work) -> anyhow::Result<Self> {
        let namespace = make_namespace(setup, work)?;
        let source = capture(setup, case.traffic);
        let pair = [
            format!("net_pcap0,rx_pcap={},infinite_rx=1", source.display()),
            format!("net_af_packet0,iface=source,qdisc_bypass=1,{RING}"),
        ];
        // What it sends is copied: the buffers may as well be small.
        let setup = &Setup { mbuf_data_bytes: MBUF_DATA_BYTES, ..setup.clone() };
        let who = format!("-{work:?}");
        let mut sender = Process::start(
            inside(&namespace, "stdbuf")
                .args(["-oL", "dpdk-testpmd"])
                .args(testpmd::arguments_on(setup, case, vec![pair], &who))
                .env("RUNTIME_DIRECTORY", &setup.dir),
        )?;
        testpmd::sent_by(&mut sender, 1).context("testpmd does not start")?;
        sender.say("start")?;
        let softirq = softirq_thread(setup.worker_cpus[case.first_cpu])?;
        let readings = Readings::default();
        let router = Self { sender, namespace, work, readings, softirq, softirq_ns: 0 };
        std::thread::sleep(WARM_UP);
        let warm = 2.0 * case.traffic.packets() as f64;
        wait_until("two rounds of packets", || router.arrived().is_ok_and(|n| n > warm))?;
        router.sender.stand_still()?;
        Ok(router)
    }

    /// Packets that came to the end of their way so far.
    fn arrived(&self) -> anyhow::Result<f64> {
        let interface = if self.work == Work::Drop { "in:" } else { "far:" };
        let text = fs::read_to_string(format!("/proc/{}/net/dev", self.namespace.id()))?;
        let line = text.lines().find_map(|line| line.trim_start().strip_prefix(interface));
        let received = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        received.with_context(|| format!("no interface {interface}"))
    }

    /// Nanoseconds on the cpu of the kernel's thread.
    fn softirq_ns(&self) -> anyhow::Result<u64> {
        let account = fs::read_to_string(format!("/proc/{}/schedstat", self.softirq))?;
        account.split(' ').next().and_then(|n| n.parse().ok()).context("no time of ksoftirqd")
    }

    /// Ends it. Gives its figures and why they are not those of the case.
    pub(crate) fn finish(
        mut self,
        setup: &Setup,
        case: &Case,
    ) -> anyhow::Result<(Figures, Vec<String>)> {
        let figures = self.readings.figures(setup, case.workers)?;
        self.sender.go_on()?;
        let doubts = match self.work {
            Work::Track => self.doubts(case)?,
            Work::Drop | Work::Route => Vec::new(),
        };
        self.sender.say("quit")?;
        self.sender.finish()?;
        Ok((figures, doubts))
    }

    /// What the rules have counted must be what the case is about.
    fn doubts(&self, case: &Case) -> anyhow::Result<Vec<String>> {
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
        let is_made = match case.load {
            Load::Reused => new > 0.9 * all / f64::from(SHORT_TCP_PACKETS),
            _ => (flows..2.0 * flows).contains(&new),
        };
        let checks = [
            (is_made, format!("{new} of {all} packets were new")),
            (invalid < 0.001 * all, format!("{invalid} of {all} packets were invalid")),
        ];
        Ok(checks.into_iter().filter(|(holds, _)| !holds).map(|(_, doubt)| doubt).collect())
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
        self.readings.add(reading.helped_for(self.softirq_ns));
        Ok(())
    }
}

/// A namespace with both cables, that lives as long as its process.
fn make_namespace(setup: &Setup, work: Work) -> anyhow::Result<Process> {
    let mut namespace = Process::start(mortal("unshare").args([
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
    // Otherwise all packets are for somebody else.
    if work != Work::Drop {
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
    if work == Work::Track {
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

/// `program` in the namespace.
fn inside(namespace: &Process, program: &str) -> Command {
    let mut command = mortal("nsenter");
    command.args([&format!("--net=/proc/{}/ns/net", namespace.id()), "--", program]);
    command
}

/// The kernel's own thread for packets on a cpu.
fn softirq_thread(cpu: usize) -> anyhow::Result<u32> {
    let wanted = format!("ksoftirqd/{cpu}\n");
    let processes = fs::read_dir("/proc")?.flatten();
    let mut ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let found = ids.find(|id: &u32| {
        fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name == wanted)
    });
    found.with_context(|| format!("ksoftirqd/{cpu} cannot be seen from here"))
}
