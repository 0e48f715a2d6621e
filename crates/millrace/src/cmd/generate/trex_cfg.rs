// SPDX-License-Identifier: BSD-3-Clause
//! Implements `--trex-cfg`: takes ports, MAC addresses, cpus and descriptors from a
//! `trex_cfg.yaml`.
//!
//! Options of the command line replace settings of the file. Standard error has a line, with the
//! line of the file, for each setting without effect.

use super::GenArgs;
use crate::cpu_locks;
use crate::ports::{PortNames, Tuning};
use anyhow::{Context, bail};
use config::Devargs;
use doctor::host::{CpuList, Cpus, format_cpus};
use report::output::write_line;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use traffic::trex::{Config, Note, Place, Platform, PortInfo};

/// Settings of ports, without their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LinkSettings {
    pub(super) tuning: Tuning,
    /// Source MAC addresses of frames of the ports A and B, instead of those of the ports.
    pub(super) src_macs: [Option<[u8; 6]>; 2],
    /// Destination MAC addresses of frames of the ports A and B, instead of the other port's.
    pub(super) dest_macs: [Option<[u8; 6]>; 2],
}

impl LinkSettings {
    /// Returns the MAC addresses that the ports send to instead of each other: those of the file,
    /// or else those of gateways.
    pub(super) fn next_hops(&self, gateways: [Option<[u8; 6]>; 2]) -> [Option<[u8; 6]>; 2] {
        [0, 1].map(|port: usize| self.dest_macs[port].or(gateways[port]))
    }
}

impl GenArgs {
    /// Reads the file of `--trex-cfg`, if there is one. Sets options that are not given, and
    /// returns the settings that have no option.
    pub(super) fn read_trex_cfg(&mut self) -> anyhow::Result<LinkSettings> {
        let mut link = LinkSettings::default();
        if let Some(path) = self.trex_cfg.clone() {
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let cpus = cpu_locks::cpus_of_this_host();
            let notes = self.apply(&text, &path, &mut link, &cpus)?;
            for note in notes {
                write_line(io::stderr(), format_args!("millrace: {note}"));
            }
        }
        link.tuning.cpus = self.cpus.clone().map(|it| it.0);
        link.tuning.descriptors = self.descriptors;
        Ok(link)
    }

    /// Applies the text of a file; returns the notes, in the order of its lines.
    fn apply(
        &mut self,
        text: &str,
        path: &Path,
        link: &mut LinkSettings,
        cpus: &Cpus,
    ) -> anyhow::Result<Vec<Note>> {
        let config = Config::parse(text, &path.display().to_string())?;
        let mut notes = config.notes();
        let mut note = |place: &Place, text: String| {
            notes.push(Note { place: place.clone(), text });
        };
        if self.ports.is_none() {
            self.ports = Some(ports(&config, &mut note)?);
        } else if let Some(first) = config.interfaces.first() {
            note(&first.place, "interfaces are ignored: the command line names ports".to_owned());
        }
        for (port, info) in config.port_info.iter().enumerate().take(2) {
            (link.src_macs[port], link.dest_macs[port]) = (info.src_mac, info.dest_mac);
        }
        if self.gateways.is_empty() {
            self.gateways = gateways(&config.port_info, &mut note);
        }
        let descriptors = &mut self.descriptors;
        descriptors.rx_descriptors = descriptors.rx_descriptors.or(config.rx_descriptors);
        descriptors.tx_descriptors = descriptors.tx_descriptors.or(config.tx_descriptors);
        link.tuning.file_prefix = config.file_prefix.clone();
        self.mtu = self.mtu.or(config.mtu);
        if self.profile.is_given() {
            self.profile.shares = self.profile.shares.or(config.threads);
        }
        if let Some(platform) = &config.platform {
            if self.cpus.is_some() || self.workers.is_some() {
                let text = "platform is ignored: the command line sets the workers";
                note(&platform.master.place, text.to_owned());
            } else {
                let threads = self.senders.or(self.profile.shares).unwrap_or(1).into();
                let chosen = worker_cpus(platform, threads, cpus, &mut note)?;
                self.cpus = Some(CpuList(chosen));
            }
        }
        notes.sort_by_key(|note| note.place.line);
        Ok(notes)
    }
}

/// Returns the first two of `interfaces`.
fn ports(config: &Config, note: &mut impl FnMut(&Place, String)) -> anyhow::Result<PortNames> {
    let mut ports: Vec<Devargs> = Vec::new();
    for interface in config.interfaces.iter().take(2) {
        let place = &interface.place;
        let port = Devargs::parse(&interface.name)
            .with_context(|| format!("{place}: interfaces: {:?}", interface.name))?;
        if ports.iter().any(|other| other.name == port.name) {
            bail!("{place}: interfaces: {} is given twice; remove one", port.name);
        }
        ports.push(port);
    }
    if let Some(third) = config.interfaces.get(2) {
        let count = config.interfaces.len() - 2;
        note(&third.place, format!("{count} more of interfaces are ignored: a run has two ports"));
    }
    Ok(PortNames::new(ports))
}

/// Returns the gateways to resolve. Ports that are each other's gateway need none: they send to
/// each other.
fn gateways(ports: &[PortInfo], note: &mut impl FnMut(&Place, String)) -> Vec<IpAddr> {
    let is_loop = matches!(ports, [a, b, ..]
        if a.default_gw.is_some() && a.default_gw == b.ip && b.default_gw == a.ip);
    let mut gateways = Vec::new();
    for (port, info) in ports.iter().enumerate().take(2) {
        let why = match (info.default_gw, info.dest_mac) {
            (None, _) if info.ip.is_none() => continue,
            (None, _) => "ports have no network stack",
            (Some(_), Some(_)) => "frames go to dest_mac",
            (Some(_), None) if is_loop => "the ports send to each other",
            (Some(_), None) if gateways.len() < port => {
                "the first port has no gateway to resolve; name a destination with dest_mac"
            }
            (Some(gateway), None) => {
                gateways.push(IpAddr::V4(gateway));
                if info.ip.is_some() {
                    let why = "requests for the gateway come from a source address of the traffic";
                    note(&info.place, format!("ip is ignored: {why}"));
                }
                continue;
            }
        };
        note(&info.place, format!("ip and default_gw are ignored: {why}"));
    }
    gateways
}

/// Returns the cpus of the workers: of up to `threads` threads that send, then of the thread that
/// receives.
fn worker_cpus(
    platform: &Platform,
    threads: usize,
    cpus: &Cpus,
    note: &mut impl FnMut(&Place, String),
) -> anyhow::Result<Vec<u32>> {
    let Some(pair) = platform.dual_if.first() else { bail!("dual_if is empty") };
    if let Some(second) = platform.dual_if.get(1) {
        let text = "further maps of dual_if are ignored: a run has one pair of ports";
        note(&second.place, text.to_owned());
    }
    let text = "master_thread_id is ignored: the control thread runs on cpus without workers";
    note(&platform.master.place, text.to_owned());
    let elsewhere: Vec<u32> = pair
        .threads
        .iter()
        .map(|thread| thread.cpu)
        .filter(|cpu| cpus.node_of(*cpu).is_some_and(|node| node != pair.socket))
        .collect();
    if !elsewhere.is_empty() {
        let (s, list) = (if elsewhere.len() == 1 { "" } else { "s" }, format_cpus(&elsewhere));
        note(&pair.place, format!("cpu{s} not on socket {}: {list}", pair.socket));
    }
    let mut chosen = Vec::new();
    for thread in pair.threads.iter().take(threads).chain([&platform.receiver]) {
        let (place, cpu) = (&thread.place, thread.cpu);
        let usable = cpus.usable();
        if !usable.contains(&cpu) {
            let usable = format_cpus(&usable);
            bail!("{place}: cpu {cpu} cannot be used: there are {usable}; --cpus names others");
        }
        if !chosen.contains(&cpu) {
            chosen.push(cpu);
        }
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: GenArgs,
    }

    const FILE: &str = "\
- version: 2
  interfaces: [\"18:00.0\", '--vdev=net_null0,size=64', eth2, eth3]
  prefix: one
  rx_desc: 2048
  port_info:
    - dest_mac: 02:00:00:00:00:0d
      src_mac: [2, 0, 0, 0, 0, 10]
    - ip: 1.1.1.1
      default_gw: 1.1.1.2
  c: 2
  platform:
    master_thread_id: 0
    latency_thread_id: 4
    dual_if:
      - socket: 0
        threads: [3, 2, 1]
";

    fn apply(line: &str, text: &str) -> anyhow::Result<(GenArgs, LinkSettings, Vec<String>)> {
        let words = ["gen"].into_iter().chain(line.split_whitespace());
        let mut args = Line::try_parse_from(words).unwrap().args;
        let online: Vec<u32> = (0..6).collect();
        let cpus = Cpus { allowed: online.clone(), online, ..Cpus::default() };
        let mut link = LinkSettings::default();
        let notes = args.apply(text, Path::new("t.yaml"), &mut link, &cpus)?;
        Ok((args, link, notes.iter().map(ToString::to_string).collect()))
    }

    #[test]
    fn the_file_fills_in_what_the_command_line_leaves_out() {
        let (args, link, notes) = apply("--trex-cfg t.yaml -f imix_fast_1g", FILE).unwrap();
        let ports = PortNames::new(vec![
            Devargs::parse("0000:18:00.0").unwrap(),
            Devargs::parse("net_null0,size=64").unwrap(),
        ]);
        assert_eq!(format!("{:?}", args.ports), format!("{:?}", Some(ports)));
        assert_eq!(args.cpus, Some(CpuList(vec![3, 2, 4])));
        assert_eq!(args.profile.shares.map(u64::from), Some(2));
        assert_eq!(args.descriptors.rx_descriptors, Some(2048));
        let expected = LinkSettings {
            tuning: Tuning { file_prefix: Some("one".to_owned()), ..Tuning::default() },
            src_macs: [Some([2, 0, 0, 0, 0, 10]), None],
            dest_macs: [Some([2, 0, 0, 0, 0, 13]), None],
        };
        assert_eq!(link, expected);
        let told = |line: u32| {
            let place = format!("t.yaml:{line}: ");
            notes.iter().filter(|note| note.starts_with(&place)).count()
        };
        assert_eq!([1, 2, 8, 12].map(told), [1, 1, 1, 1], "{notes:?}");
        assert!(args.gateways.is_empty(), "{:?}", args.gateways);
        assert_eq!(link.next_hops([None, Some([1; 6])]), [Some([2, 0, 0, 0, 0, 13]), Some([1; 6])]);
    }

    #[test]
    fn gateways_are_those_to_resolve() {
        let gateways = |ports: &str| {
            let text = format!("- interfaces: [eth0, eth1]\n  port_info:\n{ports}");
            let (args, _, notes) = apply("--trex-cfg t.yaml", &text).unwrap();
            let found: Vec<_> = args.gateways.iter().map(ToString::to_string).collect();
            (found.join(" "), notes.len())
        };
        let port =
            |ip: u8, gateway: u8| format!("  - ip: 1.1.1.{ip}\n    default_gw: 1.1.1.{gateway}\n");
        assert_eq!(gateways(&(port(1, 9) + &port(2, 8))), ("1.1.1.9 1.1.1.8".to_owned(), 2));
        assert_eq!(gateways(&(port(1, 2) + &port(2, 1))), (String::new(), 2));
        let mac = "  - dest_mac: 02:00:00:00:00:01\n";
        assert_eq!(gateways(&format!("{}{mac}", port(1, 9))), ("1.1.1.9".to_owned(), 1));
        assert_eq!(gateways(&format!("{mac}{}", port(2, 8))), (String::new(), 1));
        assert_eq!(gateways(&format!("{mac}    default_gw: 1.1.1.1\n")), (String::new(), 1));
    }

    #[test]
    fn the_command_line_comes_first() {
        let line = "net_null1 --trex-cfg t.yaml -f imix_fast_1g -c 3 --cpus 5";
        let (args, _, notes) = apply(line, FILE).unwrap();
        assert_eq!(args.ports.map(|ports| ports.count()), Some(1));
        assert_eq!(args.cpus, Some(CpuList(vec![5])));
        assert_eq!(args.profile.shares.map(u64::from), Some(3));
        let told = |text: &str| notes.iter().any(|note| note.contains(text));
        assert!(told("interfaces are ignored") && told("platform is ignored"), "{notes:?}");
        let (args, _, _) = apply("--trex-cfg t.yaml", FILE).unwrap();
        assert_eq!(args.cpus, Some(CpuList(vec![3, 4])), "streams have one sender");
    }

    #[test]
    fn what_this_host_has_not_is_reported_with_its_line() {
        let told = |from: &str, to: &str| {
            let text = FILE.replace(from, to);
            apply("--trex-cfg t.yaml", &text).map(|_| ()).unwrap_err().to_string()
        };
        assert_eq!(
            told("latency_thread_id: 4", "latency_thread_id: 9"),
            "t.yaml:13: cpu 9 cannot be used: there are 0-5; --cpus names others"
        );
        assert!(told("18:00.0", "18:00").starts_with("t.yaml:2: interfaces: \"18:00\""));
        assert!(told("--vdev=net_null0,size=64", "0000:18:00.0").contains("is given twice"));
        assert!(told("version", "verson").starts_with("t.yaml:1: verson is not a key"));
    }
}
