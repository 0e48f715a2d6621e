// SPDX-License-Identifier: BSD-3-Clause
//! Loads TRex profiles, by name or from a file, with their captures, and makes probe streams for
//! them.

use anyhow::{Context, bail};
use capture::Capture as CaptureFile;
use std::fs::{self, File};
use std::net::IpAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use traffic::ProbedReplay;
use traffic::stream::{StreamSetup, StreamSpec, Streams};
use traffic::trex::{Capture, CapturedFrame, Decimal, Missing, Options, Profile, Split, Traffic};
use wire::ethernet::Ethernet;

/// Maximum number of packets of a template's capture.
const FRAMES_MAX: usize = 65_536;

/// Options for profiles, with the letters of TRex.
#[derive(clap::Args)]
pub(super) struct ProfileArgs {
    /// Send streams of a TOML file, or a TRex profile: a YAML file, or the name of a built-in one
    ///
    /// A TOML file has a [[stream]] for each stream, with the keys of --stream. Profiles built in:
    /// imix_fast_1g, imix_fast_1g_7_4_1, imix_article, syn_synack, udp_20k_64; also with folder and
    /// extension, as cap2/imix_fast_1g.yaml.
    #[arg(long, short = 'f', value_name = "PROFILE", conflicts_with = "streams")]
    profile: Option<String>,
    /// Multiply the rates of the profile by M
    #[arg(long, short = 'm', value_name = "M", default_value = "1", requires = "profile")]
    multiplier: Decimal,
    /// Send all packets of a flow from one port: A if the client's address is even, else B
    #[arg(long = "parity", short = 'p', requires = "profile")]
    is_parity: bool,
    /// Divide the profile among N senders, or fewer if there are fewer cpus
    #[arg(long, short = 'c', value_name = "N", requires = "profile",
          value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) shares: Option<u16>,
    /// Send HZ probes a second from each port, and measure their latency and loss
    #[arg(long, short = 'l', value_name = "HZ", requires = "profile",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    probes: Option<u32>,
    /// Protocol of probes
    #[arg(long, value_name = "PROTOCOL", default_value = "sctp", requires = "profile",
          value_parser = ["sctp", "udp", "icmp", "tcp"])]
    probe: String,
    /// If a capture is missing, send one 64-byte UDP packet for each flow of its templates
    #[arg(long, requires = "profile")]
    synthesise_missing: bool,
}

/// A profile that can be sent.
pub(super) struct LoadedProfile {
    traffic: Traffic,
    multiplier: Decimal,
    split: Split,
    /// Duration that the profile sets.
    pub(super) duration: Option<Duration>,
    pub(super) probes: Vec<StreamSpec>,
    notes: Vec<String>,
    /// Value of `-c`, TRex's number of threads, or of `c` in a `trex_cfg.yaml`.
    shares: Option<u16>,
}

impl ProfileArgs {
    /// Value of `-c`, TRex's number of threads, or of `c` in a `trex_cfg.yaml`.
    pub(super) fn shares(&self) -> Option<u16> {
        self.shares
    }

    /// True if the profile is a TRex profile.
    pub(super) fn is_given(&self) -> bool {
        self.profile.is_some() && self.stream_file().is_none()
    }

    /// Returns the path of the profile if it is a file of streams.
    pub(super) fn stream_file(&self) -> Option<&Path> {
        let path = self.profile.as_deref().map(Path::new);
        path.filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
    }

    /// Refuses options for TRex profiles with a file of streams, and options for streams with a
    /// TRex profile.
    pub(super) fn refuse_contradictions(&self, is_verified: bool) -> anyhow::Result<()> {
        if self.is_given() && is_verified {
            bail!("--verify checks streams, not TRex profiles: use probes instead, -l HZ");
        }
        let is_trex = self.is_parity || self.shares.is_some() || self.probes.is_some();
        let is_trex = is_trex || self.multiplier != Decimal::ONE || self.synthesise_missing;
        if self.stream_file().is_some() && is_trex {
            bail!(
                "-m, -p, -c, -l and --synthesise-missing are for profiles of TRex, not for streams"
            );
        }
        Ok(())
    }

    /// Loads the profile of `--profile`, to be sent from `ports` ports. `None` if it is not a TRex
    /// profile.
    pub(super) fn load(&self, ports: usize) -> anyhow::Result<Option<LoadedProfile>> {
        let Some(name) = self.profile.as_ref().filter(|_| self.is_given()) else {
            return Ok(None);
        };
        let (profile, folder) = find(name)?;
        let missing = if self.synthesise_missing { Missing::Synthesise } else { Missing::Refuse };
        let mut fault = None;
        let traffic = profile.bind(
            |name| {
                read_capture(name, &folder).unwrap_or_else(|error| {
                    fault.get_or_insert(error);
                    None
                })
            },
            missing,
        );
        fault.map_or(Ok(()), Err)?;
        let traffic = traffic?;
        let split = if self.is_parity { Split::Parity } else { Split::Side };
        let load = traffic.load(self.multiplier, split);
        if ports == 1 && load.ports[1].packets_per_second > 0.0 {
            bail!("{name} sends from two ports: name both, A,B");
        }
        let mut notes: Vec<_> = traffic.notes().iter().map(ToString::to_string).collect();
        let aging = traffic.aging_notes(self.multiplier);
        notes.extend(aging.iter().map(ToString::to_string));
        notes.push(self.describe(name, &traffic, split));
        let duration = profile.duration().map(|it| Duration::from_secs_f64(it.to_f64()));
        let probes = self.probe_specs(&traffic, ports)?;
        let multiplier = self.multiplier;
        let shares = self.shares;
        Ok(Some(LoadedProfile { traffic, multiplier, split, duration, probes, notes, shares }))
    }

    /// Describes the load of the profile: tuples or flows, and rates.
    fn describe(&self, name: &str, traffic: &Traffic, split: Split) -> String {
        let load = traffic.load(self.multiplier, split);
        let total = load.total();
        let tuples = match load.tuples {
            Some(tuples) => format!("{tuples} tuples"),
            None => format!("{:.0} flows a second", load.flows_per_second),
        };
        let mut line = format!(
            "{name}: {tuples}, {:.3} Mpps, {:.2} Gb/s on the wire",
            total.packets_per_second / 1e6,
            total.wire_bits_per_second / 1e9
        );
        let [a, b] = load.ports.map(|port| port.wire_bits_per_second / 1e9);
        if b > 0.0 {
            line += &format!(" ({a:.2} from port A, {b:.2} from port B)");
        }
        line
    }

    /// Makes a stream of probes for each port, like those of TRex: between the first client and the
    /// first server, from port 0x8044 to 0x0050, TTL 255, TOS 3.
    fn probe_specs(&self, traffic: &Traffic, ports: usize) -> anyhow::Result<Vec<StreamSpec>> {
        let Some(rate) = self.probes else { return Ok(Vec::new()) };
        let [client, server] = traffic.first_addresses().map(|address| address.to_string());
        let (protocol, size, ports_of) = match self.probe.as_str() {
            "sctp" => ("sctp-bare", 66, true),
            "icmp" => ("icmp", 66, false),
            "tcp" => ("tcp", 74, true),
            _ => ("udp", 66, true),
        };
        let sides = [("a", "A", &client, &server), ("b", "B", &server, &client)];
        let specs = sides.iter().take(ports).enumerate().map(|(number, (side, port, src, dst))| {
            let mut keys = vec![
                ("name", format!("probe {port}")),
                ("side", (*side).to_owned()),
                ("rate", format!("{rate}pps")),
                ("size", size.to_string()),
                ("src", (*src).clone()),
                ("dst", (*dst).clone()),
                ("proto", protocol.to_owned()),
                ("ttl", "255".to_owned()),
                ("tos", "3".to_owned()),
            ];
            if ports_of {
                keys.push(("sport", "0x8044".to_owned()));
                keys.push(("dport", "0x50".to_owned()));
            }
            let pairs = keys.into_iter().map(|(key, value)| (key.to_owned(), value));
            StreamSpec::from_pairs(number, pairs)
        });
        specs.collect::<Result<_, _>>().context("a probe")
    }
}

impl LoadedProfile {
    /// Returns notes on the profile for the user, if it is sent by `senders` senders.
    pub(super) fn notes(&self, senders: u16) -> impl Iterator<Item = String> {
        let plural = if senders == 1 { "" } else { "s" };
        let shares =
            self.shares.map(|shares| format!("{shares} shares on {senders} sender{plural}"));
        self.notes.iter().cloned().chain(shares)
    }

    /// Returns the source of a sender: its part of the profile, and `probes`, which are of the same
    /// part.
    pub(super) fn source(
        &self,
        probes: Streams,
        setup: &StreamSetup,
    ) -> anyhow::Result<ProbedReplay> {
        let (part, ramp_ns) = (setup.part, setup.ramp_ns);
        let options = Options {
            multiplier: self.multiplier,
            split: self.split,
            macs: setup.macs,
            side: part.side,
            ramp_ns,
            ..Options::default()
        };
        let traffic = self.traffic.share(part.share.into(), part.shares.into());
        Ok(ProbedReplay::new(probes, traffic.replay(&options)?))
    }

    /// Returns a predicate that is true for addresses of the profile.
    pub(super) fn addresses(&self) -> impl Fn(IpAddr) -> bool + Send + use<> {
        let traffic = self.traffic.clone();
        move |address| match address {
            IpAddr::V4(address) => traffic.has_address(address),
            IpAddr::V6(_) => false,
        }
    }

    /// Returns the first address that sends from port number `port`.
    pub(super) fn first_address(&self, port: usize) -> IpAddr {
        self.traffic.first_addresses()[port].into()
    }

    /// Returns the MTU that the longest frame needs.
    pub(super) fn mtu(&self) -> usize {
        self.traffic.longest_frame().saturating_sub(Ethernet::LEN)
    }
}

/// Returns a profile, and the folder of its captures. The name is that of a file or of a built-in
/// profile.
fn find(name: &str) -> anyhow::Result<(Profile, PathBuf)> {
    let path = Path::new(name);
    if path.is_file() {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        return Ok((Profile::parse(&text, name)?, folder));
    }
    match Profile::built_in(name) {
        Some(profile) => Ok((profile, PathBuf::new())),
        None => bail!(
            "there is no profile {name}: {}, and built in are {}",
            describe_no_file(path),
            Profile::BUILT_IN.join(", ")
        ),
    }
}

/// Describes what `path` is instead of a regular file.
fn describe_no_file(path: &Path) -> &'static str {
    let Ok(kind) = fs::metadata(path).map(|found| found.file_type()) else { return "no such file" };
    match () {
        () if kind.is_dir() => "it is a directory",
        () if kind.is_char_device() || kind.is_block_device() => "it is a device",
        () if kind.is_fifo() => "it is a pipe",
        () => "it is not a regular file",
    }
}

/// Reads a capture of a profile. Its name is relative to the folder of TRex's scripts, which is the
/// folder of the profile or its parent, or else to the current folder. `None` if there is no such
/// file.
fn read_capture(name: &str, folder: &Path) -> anyhow::Result<Option<Capture>> {
    let places = [folder.join(name), folder.join("..").join(name), PathBuf::from(name)];
    let Some(path) = places.iter().find(|path| path.is_file()) else { return Ok(None) };
    let shown = path.display().to_string();
    let file = File::open(path).with_context(|| format!("cannot read {shown}"))?;
    let mut capture = CaptureFile::new(&shown, file)?;
    let mut frames = Vec::new();
    let mut start = None;
    while let Some(packet) = capture.next()? {
        if frames.len() == FRAMES_MAX {
            bail!("{shown} has more than {FRAMES_MAX} packets, the maximum of a template");
        }
        let at_ns = packet.time_ns.saturating_sub(*start.get_or_insert(packet.time_ns));
        frames.push(CapturedFrame { at_ns, bytes: packet.bytes.to_vec() });
    }
    Ok(Some(Capture { frames }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_profile_is_named() {
        let refused = |name: &str| find(name).expect_err(name).to_string();
        assert!(refused(".").starts_with("there is no profile .: it is a directory, and built in"));
        assert!(refused("/dev/null").contains("/dev/null: it is a device, and built in are imix"));
        assert!(refused("/nowhere.yaml").contains("/nowhere.yaml: no such file, and built in are"));
    }
}
