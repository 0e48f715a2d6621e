// SPDX-License-Identifier: BSD-3-Clause
//! Implements `millrace gen`: sends streams of packets, and verifies those that come back.

mod csv_file;
mod figures;
mod metrics;
mod neighbours;
mod on_time;
mod outputs;
mod pcapng;
mod profile;
mod recording;
mod reflector_queries;
mod report;
mod run;
mod selftest;
mod serve;
mod sockets;
mod stateful;
mod steal;
mod stream_file;
mod tasks;
mod terminal;
mod trex_cfg;

use crate::backend::{Backend, SocketArgs};
use crate::cmd::in_process_tester::WorkerArgs;
use crate::cmd::run::{interval, seconds};
use crate::cpu_locks;
use crate::ports::{BurstArgs, DescriptorArgs, PortNames};
use anyhow::bail;
use clap::error::ErrorKind;
use config::MTU_RANGE;
use doctor::host::{CpuList, Cpus, format_cpus};
use std::collections::HashSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use traffic::DPDK_PROJECT_SEED;
use traffic::stream::{Rate, RateError, StreamSpec};

/// Runs the generator, or its self-test.
pub(crate) fn run(mut args: GenArgs) -> anyhow::Result<ExitCode> {
    args.refuse_contradictions(&cpu_locks::cpus_of_this_host()).unwrap_or_else(|fault| {
        clap::Error::raw(ErrorKind::ArgumentConflict, format!("{fault}\n")).exit()
    });
    let link = args.read_trex_cfg()?;
    if let Some(address) = args.serve.address() {
        let tasks = (args.workers, args.senders);
        let (cpus, gateways) = (args.cpus.clone(), args.gateways.clone());
        let workers = WorkerArgs::new(tasks, cpus, gateways, args.serve.ends());
        let ports = args.ports.as_ref().zip(Some(&workers));
        return serve::run(address, &args.serve, ports, &args.stateful);
    }
    if args.serve.ends().is_given() {
        bail!(
            "--clients, --servers, --rx-queues and --tx-queues need --daemon: leave them out; \
             --stateful has the addresses of its profile"
        );
    }
    if args.stateful.given_capacity().is_some() && !args.stateful.is_given() {
        bail!("--capacity needs --stateful or --daemon: leave it out");
    }
    if args.stateful.is_given() {
        return stateful::run(&args, &link);
    }
    run::run(&args, &link)
}

/// Send streams of packets from one port or two, and verify what arrives
///
/// Sends from port A, or from A and B, and receives on both. Prints a line per second. Ctrl-C stops
/// sending; the run then waits for packets on their way (--late) and prints its results.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GenArgs {
    /// Port A, or A,B: Linux interfaces (eth1), PCI addresses (0000:18:00.0), vdevs (net_...), or
    /// mac=aa:bb:cc:dd:ee:ff for the interface with that MAC address
    #[arg(value_name = "PORTS", required_unless_present_any =
          ["selftest", "trex_cfg", "backend", "simulate"])]
    ports: Option<PortNames>,
    /// A stream: KEY=VALUE pairs separated by spaces; may be repeated
    ///
    /// Keys: name, side (a or b), rate, size, count, burst, flows, arrivals (even, poisson), on,
    /// off, start, src_mac, dst_mac, outer_vlan, vlan, src, dst, proto (udp, tcp, icmp, sctp,
    /// sctp-bare), sport, dport, ttl, tos, flags, seq, ack, window, tunnel (vxlan, gtpu), vni,
    /// teid, tunnel_src, tunnel_dst, tunnel_sport. A capture as it is: pcap=FILE, with speed or
    /// rate, and loops or count. Values: 80, 1024-2047, 1024-2047+16, 53,80,443, 198.18.0.0/16,
    /// and random: before any of them. Sizes are those of frames with FCS: 64, 64-1518+2, imix,
    /// 64*7,594*4,1518*1, genome:aaafg.
    #[arg(long = "stream", value_name = "STREAM", default_value = "", value_parser = pairs)]
    streams: Vec<Vec<(String, String)>>,
    /// Rate of each stream that names none: 1Mpps (the default), 10Gbps (on the wire), 5Gbps-l2,
    /// 50%, max
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<String>,
    /// Let the ports send each packet at its time, by the clock of the port
    ///
    /// Each packet goes to the port up to 50 us before its time. Ports that cannot do this are
    /// refused, and so is rate max.
    #[arg(long)]
    send_on_time: bool,
    #[command(flatten)]
    profile: profile::ProfileArgs,
    #[command(flatten)]
    stateful: stateful::StatefulArgs,
    #[command(flatten)]
    backend: SocketArgs,
    /// Stamp and check every packet: loss, order, duplicates, damage, latency
    #[arg(long)]
    verify: bool,
    /// Query `millrace reflect` at the far end for its counters, to find where packets were lost
    ///
    /// A few UDP packets of 138 bytes or more go to the reflector before and after the run. They go
    /// from the first address and port of a stream to its first destination.
    #[arg(long)]
    reflector: bool,
    /// Statistics: off (totals only), basic, or full, which is --verify
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = Stats::Basic)]
    stats: Stats,
    /// Send through a gateway: resolve its MAC address by ARP or neighbour discovery
    ///
    /// ADDRESS is the gateway of port A, ADDRESS,ADDRESS those of both ports. A host on the same
    /// network is its own gateway. Streams with dst_mac keep theirs.
    #[arg(long = "gateway", value_name = "ADDRESS", value_delimiter = ',')]
    gateways: Vec<IpAddr>,
    /// Payload with --verify: stamped (Millrace's format), or dpdk-project (that program's)
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Payload::Stamped)]
    payload: Payload,
    /// Stop after S seconds (a positive decimal number)
    #[arg(long, short, value_name = "S", value_parser = seconds)]
    duration: Option<Duration>,
    /// Raise the rate of each stream linearly from 0 in its first S seconds
    #[arg(long, value_name = "S", value_parser = seconds)]
    ramp: Option<Duration>,
    /// Send with N senders, each with a transmit queue of each port and 1/N of every stream
    ///
    /// By default 1; with -c the number of -c, or fewer if there are fewer cpus. With --stateful,
    /// each end has N tasks, each with a queue of its port and 1/N of the connections.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    senders: Option<u16>,
    /// Receive with N receivers, each with a receive queue of each port; 0 receives nothing
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(0..=64))]
    receivers: u16,
    /// Run senders and receivers on N cpus; by default one for each while free cpus remain
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=128))]
    workers: Option<u8>,
    /// Run senders and receivers on these cpus, such as 2,4-6, senders first
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,
    #[command(flatten)]
    descriptors: DescriptorArgs,
    #[command(flatten)]
    bursts: BurstArgs,
    /// Take ports, MAC addresses, cpus and descriptors from a trex_cfg.yaml
    ///
    /// Options of the command line replace those of the file.
    #[arg(long, value_name = "FILE")]
    trex_cfg: Option<PathBuf>,
    /// In intervals, count a packet as lost if it arrives more than S seconds after it was sent
    ///
    /// At its end, the run waits up to S seconds for packets on their way.
    #[arg(long, value_name = "S", default_value = "0.5", value_parser = seconds)]
    late: Duration,
    /// Seed of random field values and payload: by default 1, with --payload dpdk-project that
    /// program's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Set the MTU of the ports
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(MTU_RANGE))]
    mtu: Option<u16>,
    /// Write the results as JSON to FILE or `-`. FILE must be new, empty or such results
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Serve metrics (OpenMetrics) at http://ADDRESS/metrics: PORT, on loopback, or IP:PORT
    ///
    /// Port 0 means any free port. There is no access control.
    #[arg(long, value_name = "ADDRESS", value_parser = metrics::address)]
    metrics: Option<std::net::SocketAddr>,
    /// Redraw rates, losses and latency on the terminal after each interval; q ends the run
    #[arg(long, conflicts_with = "quiet")]
    live: bool,
    /// Write a page with plots over time to FILE, which must be new, empty or such a page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Test the generator: send through a simulated lossy wire and compare counters
    #[arg(long, conflicts_with_all = [
        "ports", "streams", "json", "html", "csv", "metrics", "live", "duration", "ramp", "rate",
        "profile", "backend", "verify", "reflector", "stats", "gateways", "payload", "senders",
        "receivers", "workers", "cpus", "rx_descriptors", "tx_descriptors", "rx_burst", "tx_burst",
        "trex_cfg", "late", "mtu", "pcapng", "interval", "send_on_time",
    ])]
    selftest: bool,
    /// Write a line for each interval as CSV to FILE, which must be new, empty or such a file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    #[command(flatten)]
    pcapng: pcapng::PcapngArgs,
    /// Length of an interval in seconds, at least 0.05: of a line on the terminal and in the CSV
    #[arg(long, value_name = "S", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// Print no line per interval
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    serve: serve::ServeArgs,
}

/// What a run measures; `off` shows the cost of the other levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Stats {
    /// Packets in total.
    Off,
    /// Also intervals and pacing.
    Basic,
    /// Also each packet, as with --verify.
    Full,
}

/// Payload of packets with `--verify`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Payload {
    Stamped,
    DpdkProject,
}

const EXAMPLES: &str = "\
Examples:
  millrace gen --selftest
      Checks that every loss, duplicate, reordering and damage is found; needs no hardware.
  millrace gen net_null0 --rate max --duration 5
      The highest rate of one sender, 64-byte packets.
  millrace gen eth1,eth2 --verify --stream \"size=imix rate=1Gbps src=198.18.0.1-198.18.3.232\"
      1000 flows from eth1 through a device to eth2, each packet verified.
  millrace gen eth1,eth2 --stateful profiles/article-tcp.toml --cps 10k --duration 10
      10,000 TCP connections a second through a device: clients at eth1, servers at eth2.
  millrace gen eth1,eth2 --stateful profiles/article.py --tunable num-messages=500
      The same kind of traffic by a profile in Python for TRex (ASTF), with 500 messages each.
  millrace gen 18:00.0,18:00.1 -f cap2/imix_fast_1g.yaml -m 20 -p -c 3 -d 20 -l 1000
      TRex's IMIX profile with TRex's flags, and 1000 latency probes per second from each port.
  millrace gen --backend sockets --verify --stream \"dst=192.0.2.7 dport=7 rate=100kpps\"
      UDP over the kernel's sockets, to a reflector there.
  millrace gen 18:00.0,18:00.1 --daemon 192.0.2.7:4501
      Open connections as `millrace bench cps -S 192.0.2.7` asks, on another host.
  millrace gen 18:00.0 --verify --stream \"count=1000000 rate=10%\" --json results.json
      A million packets to a reflector and back.

Exit status: 0 good; 1 packets of streams were lost or not sent, a connection failed or none was
answered, or the run failed; 2 wrong use.";

/// Splits a value of `--stream` into keys and values; fails if they are no valid stream.
pub(in crate::cmd) fn pairs(text: &str) -> Result<Vec<(String, String)>, String> {
    let split = |word: &str| match word.split_once('=') {
        Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
        None => Err(format!("{word:?} is not KEY=VALUE")),
    };
    let pairs: Vec<_> = text.split_whitespace().map(split).collect::<Result<_, _>>()?;
    StreamSpec::from_pairs(0, pairs.clone()).map_err(|error| error.to_string())?;
    Ok(pairs)
}

fn rate(text: &str) -> Result<String, RateError> {
    Rate::parse(text).map(|_| text.to_owned())
}

/// Fails if a stream of UDP sockets goes to address 0 or port 0, which have no receiver.
fn refuse_no_receiver(spec: &StreamSpec) -> anyhow::Result<()> {
    let name = &spec.name;
    match spec.key_without_receiver() {
        Some(key @ "dst") => bail!("stream {name}: {key}: address 0 has no receiver: name another"),
        Some(key) => bail!("stream {name}: {key}: port 0 has no receiver: name 1 to 65535"),
        None => Ok(()),
    }
}

impl GenArgs {
    /// True if every packet is verified.
    fn is_verified(&self) -> bool {
        self.verify || self.stats == Stats::Full
    }

    fn has_profile(&self) -> bool {
        self.profile.is_given()
    }

    /// Returns the rate of streams that name none.
    fn rate(&self) -> &str {
        self.rate.as_deref().unwrap_or("1Mpps")
    }

    /// Fails if options contradict each other, or name cpus that this host does not have.
    fn refuse_contradictions(&self, cpus: &Cpus) -> Result<(), String> {
        if self.rate.is_some() && self.has_profile() {
            return Err("--rate is for streams; a TRex profile has its own rates: \
                        multiply them with -m M"
                .to_owned());
        }
        if self.stats == Stats::Off && self.verify {
            return Err("--stats off contradicts --verify: leave one of them out".to_owned());
        }
        let CpuList(named) = self.cpus.as_ref().unwrap_or(const { &CpuList(Vec::new()) });
        let mut seen = HashSet::new();
        if let Some(again) = named.iter().find(|cpu| !seen.insert(**cpu)) {
            return Err(format!("--cpus: cpu {again} is named twice"));
        }
        let usable = cpus.usable();
        let missing: Vec<u32> = named.iter().copied().filter(|cpu| !usable.contains(cpu)).collect();
        if !missing.is_empty() {
            let (missing, usable) = (format_cpus(&missing), format_cpus(&usable));
            return Err(format!("--cpus: there is no cpu {missing}; the cpus here are {usable}"));
        }
        Ok(())
    }

    /// Returns the time in which rates grow to their values, in nanoseconds; 0 without `--ramp`.
    fn ramp_ns(&self) -> u64 {
        self.ramp.map_or(0, |it| u64::try_from(it.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Returns the keys and values of the streams, from the file or the command line.
    fn pairs(&self) -> anyhow::Result<Vec<Vec<(String, String)>>> {
        let of_file = self.profile.stream_file().map(stream_file::read).transpose()?;
        Ok(of_file.unwrap_or_else(|| self.streams.clone()))
    }

    /// Fails if an option is given that sockets do not support.
    fn refuse_unsupported_by_sockets(&self) -> anyhow::Result<()> {
        self.profile.refuse_contradictions(self.is_verified())?;
        let backend = self.backend.backend;
        let name = backend.name();
        if self.ports.is_some() && backend != Backend::Packet {
            bail!("--backend {name} takes no PORTS: each stream sends to its dst");
        }
        self.backend.refuse_contradictions()?;
        if backend == Backend::Packet && (self.backend.gso || self.backend.gro) {
            bail!("--gso and --gro are for --backend sockets");
        }
        if self.has_profile() {
            bail!("--backend {name} cannot send a TRex profile, only streams");
        }
        let is_given = [
            ("--gateway", !self.gateways.is_empty()),
            ("--mtu", self.mtu.is_some()),
            ("--pcapng", self.pcapng.is_given()),
            ("--reflector", self.reflector && backend == Backend::Packet),
            ("--rx-descriptors", self.descriptors.rx_descriptors.is_some()),
            ("--send-on-time", self.send_on_time),
            ("--tx-descriptors", self.descriptors.tx_descriptors.is_some()),
            ("--rx-burst", self.bursts.rx_burst.is_some()),
            ("--tx-burst", self.bursts.tx_burst.is_some()),
        ];
        if let Some((option, _)) = is_given.iter().find(|(_, is_given)| *is_given) {
            bail!(
                "--backend {name} does not support {option}: leave it out, or use --backend dpdk"
            );
        }
        Ok(())
    }

    fn seed(&self) -> u64 {
        self.seed.unwrap_or(match self.payload {
            Payload::Stamped => 1,
            Payload::DpdkProject => DPDK_PROJECT_SEED,
        })
    }

    /// Returns the streams, with their rates and the captures that they replay.
    fn specs(&self) -> anyhow::Result<Vec<StreamSpec>> {
        let specs = self.pairs()?.into_iter().enumerate().map(|(number, mut pairs)| {
            // A capture has its own rate.
            if !pairs.iter().any(|(key, _)| key == "rate" || key == "pcap") {
                pairs.push(("rate".to_owned(), self.rate().to_owned()));
            }
            StreamSpec::from_pairs(number, pairs)
        });
        let mut specs: Vec<_> = specs.collect::<Result<_, _>>()?;
        let mut names = HashSet::new();
        if let Some(again) = specs.iter().find(|spec| !names.insert(spec.name.clone())) {
            bail!("stream {}: name: another stream has that name, too", again.name);
        }
        let folder = self.profile.stream_file().and_then(Path::parent);
        recording::read_all(&mut specs, folder.unwrap_or(Path::new("")))?;
        Ok(specs)
    }
}

#[cfg(test)]
mod tests;
