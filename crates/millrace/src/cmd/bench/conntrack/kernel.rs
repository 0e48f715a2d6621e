// SPDX-License-Identifier: BSD-3-Clause
//! Runs Linux as a device: it routes between two veth pairs, in a network namespace of its own. The
//! generator is in another one, at the other ends of the pairs, with af_packet ports.

use super::super::testbed::{Running, hold, succeed};
use super::device::{self, Configuration, Placement, TIMEOUTS};
use crate::cmd::bench::serving_generator::{Wiring, inside};
use anyhow::{Context, bail};
use std::path::Path;
use std::process::Command;

/// Interfaces of the router, of the generator, and MAC addresses of the generator's.
const ROUTER: [&str; 2] = ["router-a", "router-b"];
const GENERATOR: [&str; 2] = ["gen-a", "gen-b"];
const MACS: [&str; 2] = ["02:00:00:00:c7:0a", "02:00:00:00:c7:0b"];
/// Networks of the generator's clients and servers.
const NETWORKS: [&str; 2] = ["16.0.0.0/8", "48.0.0.0/8"];
/// Addresses of the routers' interfaces, and of next hops there.
const ADDRESSES: [[&str; 2]; 2] = [["192.0.2.1", "192.0.2.2"], ["192.0.2.5", "192.0.2.6"]];
/// The rules of the article for nft: only connections from port A may begin.
const RULES: [&str; 4] = [
    "add table ip conntrack",
    "add chain ip conntrack forward { type filter hook forward priority 0; policy drop; }",
    "add rule ip conntrack forward ct state established accept",
    "add rule ip conntrack forward iifname router-a ct state new accept",
];
/// Names of the kernel's timeouts, for those of the article.
const NAMES: [(&str, &str); 8] = [
    ("tcp_syn_sent", "tcp_timeout_syn_sent"),
    ("tcp_syn_recv", "tcp_timeout_syn_recv"),
    ("tcp_established", "tcp_timeout_established"),
    ("tcp_fin_wait", "tcp_timeout_fin_wait"),
    ("tcp_time_wait", "tcp_timeout_time_wait"),
    ("tcp_close", "tcp_timeout_close"),
    ("udp_first", "udp_timeout"),
    ("udp_multiple", "udp_timeout_stream"),
];
/// Sizes of an af_packet ring: room for about as many packets as a memif has.
const RING: &str = "qdisc_bypass=1,framesz=2048,blocksz=65536,framecnt=16384";

/// A router between two veth pairs. Dropping the value removes all of it.
pub(super) struct Router {
    router: Running,
    generator: Running,
    has_tracking: bool,
    /// Commands that have configured it.
    set_up: Vec<String>,
}

impl Router {
    /// Fails if it cannot run on this host.
    pub(super) fn require() -> anyhow::Result<()> {
        if !rustix::process::geteuid().is_root() {
            bail!("a router between network namespaces needs root");
        }
        for (tool, argument, package) in [
            ("ip", "-V", "iproute2"),
            ("nft", "-v", "nftables"),
            ("unshare", "-V", "util-linux"),
            ("nsenter", "-V", "util-linux"),
        ] {
            let ran = Command::new(tool).arg(argument).output();
            ran.with_context(|| format!("cannot run {tool}: install the package {package}"))?;
        }
        Ok(())
    }

    pub(super) fn start(of: &Configuration, placement: &Placement) -> anyhow::Result<Self> {
        let (router, generator) = (hold()?, hold()?);
        let has_tracking = of.has_tracking;
        let mut device = Self { router, generator, has_tracking, set_up: Vec::new() };
        device.make_interfaces()?;
        device.forward()?;
        device.use_cpus(&placement.device)?;
        if has_tracking {
            device.track()?;
        }
        Ok(device)
    }

    /// Returns where the generator's ports are.
    pub(super) fn wiring(&self) -> Wiring {
        let [a, b] =
            [0, 1].map(|port| format!("net_af_packet{port},iface={},{RING}", GENERATOR[port]));
        Wiring::inside(&format!("{a},{b}"), self.generator.network_namespace())
    }

    /// Runs a command in the router's namespace, which the set-up lists.
    fn run(&mut self, words: &[&str]) -> anyhow::Result<String> {
        self.set_up.push(words.join(" "));
        run_in(&self.router, words)
    }

    /// Makes the pairs. Each end of the router has the MAC address of the generator's other port: a
    /// port of the generator sends to its other port, as if a cable was between them.
    fn make_interfaces(&mut self) -> anyhow::Result<()> {
        for port in [0, 1] {
            let (mac, of_router) = (MACS[port], MACS[1 - port]);
            let (interface, peer) = (ROUTER[port], GENERATOR[port]);
            let holder = self.generator.id().to_string();
            let peer_at = ["peer", "name", peer, "address", mac, "netns", &holder];
            run_in(
                &self.router,
                &[&["ip", "link", "add", interface, "type", "veth"], &peer_at[..]].concat(),
            )?;
            self.run(&[
                "ip",
                "link",
                "set",
                interface,
                "address",
                of_router,
                "addrgenmode",
                "none",
            ])?;
            self.run(&["ip", "link", "set", interface, "up"])?;
            run_in(&self.generator, &["ip", "link", "set", peer, "addrgenmode", "none"])?;
            run_in(&self.generator, &["ip", "link", "set", peer, "up"])?;
        }
        Ok(())
    }

    /// Makes the router route between the networks of clients and of servers.
    fn forward(&mut self) -> anyhow::Result<()> {
        for setting in ["ip_forward=1", "conf.all.rp_filter=0", "conf.default.rp_filter=0"] {
            self.set("net.ipv4", setting)?;
        }
        for port in [0, 1] {
            let (interface, [own, hop]) = (ROUTER[port], ADDRESSES[port]);
            self.set("net.ipv4", &format!("conf.{interface}.rp_filter=0"))?;
            self.run(&["ip", "address", "add", &format!("{own}/30"), "dev", interface])?;
            let to = ["lladdr", MACS[port], "dev", interface, "nud", "permanent"];
            self.run(&[&["ip", "neighbour", "add", hop], &to[..]].concat())?;
            self.run(&["ip", "route", "add", NETWORKS[port], "via", hop])?;
        }
        Ok(())
    }

    /// Writes a sysctl; `setting` is NAME=VALUE.
    fn set(&mut self, folder: &str, setting: &str) -> anyhow::Result<()> {
        let (name, value) = setting.split_once('=').context("a setting has a value")?;
        // An interface may have dots in its name, but ours have none.
        let path = format!("/proc/sys/{}", format!("{folder}.{name}").replace('.', "/"));
        run_in(&self.router, &["sh", "-c", &format!("echo {value} > {path}")])?;
        self.set_up.push(format!("sysctl {folder}.{name}={value}"));
        Ok(())
    }

    /// Makes the device's cpus, and not that of the sender, process packets (Receive Packet
    /// Steering). /sys shows the interfaces of the namespace in which it was mounted.
    fn use_cpus(&mut self, cpus: &[u32]) -> anyhow::Result<()> {
        let mask = Placement::mask(cpus, ",");
        for interface in ROUTER {
            let file = format!("/sys/class/net/{interface}/queues/rx-0/rps_cpus");
            let script = format!("mount -t sysfs none /sys && echo {mask} > {file}");
            run_in(&self.router, &["unshare", "--mount", "sh", "-c", &script])
                .context("cannot choose the cpus that route")?;
            self.set_up.push(format!("echo {mask} > {file}"));
        }
        Ok(())
    }

    fn track(&mut self) -> anyhow::Result<()> {
        for rule in RULES {
            self.run(&["nft", rule])?;
        }
        for (name, seconds) in TIMEOUTS {
            if let Some((_, of_kernel)) = NAMES.iter().find(|(of, _)| *of == name) {
                self.set("net.netfilter", &format!("nf_conntrack_{of_kernel}={seconds}"))?;
            }
        }
        // Only the whole host can change it.
        let max = run_in(&self.router, &["cat", "/proc/sys/net/netfilter/nf_conntrack_max"])?;
        self.set_up.push(format!("nf_conntrack_max is {}, the host's", max.trim()));
        Ok(())
    }
}

/// Runs a command in the namespace that a process holds; returns its output.
fn run_in(holder: &Running, words: &[&str]) -> anyhow::Result<String> {
    let [program, rest @ ..] = words else { bail!("a program is missing") };
    let namespace = holder.network_namespace();
    succeed(inside(&namespace, Path::new(program))?.args(rest))
}

impl device::Running for Router {
    fn set_up(&self) -> Vec<String> {
        self.set_up.clone()
    }

    fn count(&mut self) -> anyhow::Result<Option<u64>> {
        self.router.check().context("the namespace has gone")?;
        if !self.has_tracking {
            return Ok(None);
        }
        let file = "/proc/sys/net/netfilter/nf_conntrack_count";
        let shown = run_in(&self.router, &["cat", file])?;
        shown.trim().parse().map(Some).with_context(|| format!("no number: {shown:?}"))
    }
}
