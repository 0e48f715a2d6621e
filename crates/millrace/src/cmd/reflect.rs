// SPDX-License-Identifier: BSD-3-Clause
//! Implements `millrace reflect`: sends every packet back to its sender.

mod ports;
mod sockets;

use crate::backend::{Backend, SocketArgs};
use crate::cmd::origin::origin_of_now;
use crate::cmd::run::seconds;
use crate::ports::{BurstArgs, DescriptorArgs, PortNames, PortNamesError};
use anyhow::{Context, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, ValueEnum};
use config::MTU_RANGE;
use doctor::host::CpuList;
use report::output::{JsonFile, write_line_at_once};
use results::workers::{self, WorkerResult};
use results::{Host, Origin, units};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use traffic::{KeptPorts, Swap};

/// Send every packet back through the port that received it, with addresses and ports exchanged
///
/// Prints a line per second. Ctrl-C ends the run, which then prints its counters.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, mut_arg("backend", three_backends))]
pub(crate) struct ReflectArgs {
    /// Port A, or A,B: Linux interfaces (eth1), PCI addresses (0000:18:00.0), vdevs (net_...), or
    /// mac=aa:bb:cc:dd:ee:ff for the interface with that MAC address; with --backend sockets or
    /// io-uring [ADDRESS:]PORT, where port 0 means any free port
    #[arg(value_name = "PORTS")]
    place: Place,
    #[command(flatten)]
    backend: SocketArgs,
    /// What to exchange: ports (and addresses), ip (and MAC addresses), mac, or none
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = SwapArg::Ports)]
    swap: SwapArg,
    /// Offer a packet to a full TX queue up to N more times before dropping it
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    tries: u32,
    /// Stop after S seconds (a positive decimal number)
    #[arg(long, short, value_name = "S", value_parser = seconds)]
    duration: Option<Duration>,
    /// Reflect with N receive and N transmit queues of each port, each pair on its own cpu
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=64))]
    queues: u16,
    /// Answer ARP and neighbour discovery for these addresses, separated by commas
    #[arg(long = "address", value_name = "ADDRESS", value_delimiter = ',')]
    addresses: Vec<IpAddr>,
    /// Run the workers on these cpus
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,
    #[command(flatten)]
    descriptors: DescriptorArgs,
    #[command(flatten)]
    bursts: BurstArgs,
    /// Set the MTU of the ports
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(MTU_RANGE))]
    mtu: Option<u16>,
    /// Write the counters as JSON to FILE or `-`. FILE must be new, empty or such counters
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print no line per second
    #[arg(long, short)]
    quiet: bool,
}

/// Limits `--backend` to the three backends of a reflector.
fn three_backends(arg: Arg) -> Arg {
    let names = [Backend::Dpdk, Backend::Sockets, Backend::IoUring].map(Backend::name);
    let parser = PossibleValuesParser::new(names).try_map(|name| Backend::from_str(&name, false));
    arg.value_parser(parser)
        .help("What carries packets: DPDK, or UDP sockets of Linux, also by io_uring")
}

/// Where the reflector receives packets.
#[derive(Clone, Debug)]
enum Place {
    Ports(PortNames),
    Address(SocketAddr),
}

impl FromStr for Place {
    type Err = PortNamesError;

    /// Parses ports, or an address and UDP port. A number alone is a UDP port at all addresses.
    fn from_str(text: &str) -> Result<Self, PortNamesError> {
        let at_all = |port: u16| SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
        let address = text.parse().ok().or_else(|| text.parse().ok().map(at_all));
        match address {
            Some(address) => Ok(Self::Address(address)),
            None => Ok(Self::Ports(text.parse()?)),
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  millrace reflect eth1
      A reflector on a Linux interface; `millrace gen` at the other end measures the round trip.
  millrace reflect 18:00.0,18:00.1 --swap mac
      Two ports of a NIC, each reflecting its own packets; swapping MAC addresses costs least.
  millrace reflect --backend sockets 7 --sockets 4
      UDP port 7 of the kernel, with four sockets; with --backend io-uring by io_uring.

Exit status: 0 good; 1 the run failed; 2 wrong use.";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SwapArg {
    Ports,
    Ip,
    Mac,
    None,
}

impl From<SwapArg> for Swap {
    fn from(arg: SwapArg) -> Self {
        match arg {
            SwapArg::Ports => Self::Ports,
            SwapArg::Ip => Self::Ip,
            SwapArg::Mac => Self::Mac,
            SwapArg::None => Self::None,
        }
    }
}

/// Counters of a reflector.
#[derive(Default, Serialize)]
struct Counters {
    version: &'static str,
    /// [`KIND`], which tells this JSON from other results.
    kind: &'static str,
    dpdk: String,
    started_unix_s: f64,
    command: Vec<String>,
    host: Host,
    /// Time from the start to the end of the run, in seconds.
    duration_s: f64,
    received: u64,
    /// Bytes without FCS.
    received_bytes: u64,
    reflected: u64,
    /// Queries and requests of neighbours that were answered. They also count as received and
    /// reflected.
    answered: u64,
    /// Packets that were not reflected, by reason. `port_full`: the port had no room for them.
    dropped: BTreeMap<&'static str, u64>,
    /// Packets whose addresses were exchanged, but not their ports, by reason.
    without_ports: BTreeMap<&'static str, u64>,
    /// Longest time between two polls of a worker, in nanoseconds.
    longest_gap_ns: u64,
    /// Cycles of each worker.
    workers: Vec<WorkerResult>,
    /// Packets that the ports themselves lost; empty with sockets.
    ports: Vec<PortLosses>,
}

/// Packets that a port lost.
#[derive(Serialize)]
struct PortLosses {
    name: String,
    imissed: u64,
    ierrors: u64,
    rx_nombuf: u64,
    oerrors: u64,
}

const KIND: &str = "millrace-reflect";
const INTERVAL: Duration = Duration::from_secs(1);
const REPORT_NS: u64 = INTERVAL.as_nanos() as u64 / 10;
const TURN: Duration = Duration::from_millis(20);

pub(crate) fn run(args: &ReflectArgs) -> anyhow::Result<ExitCode> {
    args.backend.refuse_contradictions()?;
    match (&args.place, args.backend.backend) {
        (Place::Ports(names), Backend::Dpdk) => ports::run(args, names),
        (Place::Address(address), Backend::Dpdk) => {
            bail!("{address} is not a DPDK port: for a UDP port, use --backend sockets")
        }
        (Place::Address(address), _) => sockets::run(args, *address),
        (Place::Ports(_), backend) => {
            let name = backend.name();
            bail!("--backend {name} needs [ADDRESS:]PORT, such as 7, 192.0.2.1:7 or [::1]:7")
        }
    }
}

impl Counters {
    /// Makes counters that are 0, with these reasons to drop.
    fn new(reasons: impl IntoIterator<Item = &'static str>) -> Self {
        let reasons = reasons.into_iter().chain(["port_full"]);
        let dropped = reasons.map(|reason| (reason, 0)).collect();
        let without_ports = KeptPorts::ALL.map(|reason| (reason.name(), 0)).into();
        let Origin { millrace: _, dpdk, started_unix_s, command, hostname: _, host } =
            origin_of_now();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            kind: KIND,
            dpdk,
            started_unix_s,
            command,
            host,
            dropped,
            without_ports,
            ..Self::default()
        }
    }

    /// Takes reports and prints a line per second until the run ends.
    fn watch(
        &mut self,
        (duration, is_printed): (Option<Duration>, bool),
        interrupted: &AtomicBool,
        mut take: impl FnMut(&mut Self),
    ) {
        let (begun, mut printed_s) = (Instant::now(), 0);
        let is_over = |elapsed| duration.is_some_and(|duration| elapsed >= duration);
        while !interrupted.load(Ordering::Relaxed) && !is_over(begun.elapsed()) {
            std::thread::sleep(TURN);
            take(self);
            if is_printed && begun.elapsed().as_secs() > printed_s {
                printed_s = begun.elapsed().as_secs();
                write_line_at_once(self.line(printed_s));
            }
        }
        take(self);
        self.duration_s = begun.elapsed().as_secs_f64();
    }

    /// Writes the counters as JSON, then prints them. The file is written even if standard output
    /// is closed.
    fn write_results(&self, json: JsonFile) -> anyhow::Result<ExitCode> {
        let is_printed = !json.is_stdout();
        let written = json.write(self);
        if is_printed {
            let printed = self.print(&mut io::stdout().lock());
            written.and(printed.context("cannot write the counters"))?;
        } else {
            written?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn line(&self, second: u64) -> String {
        let [received, reflected] = [self.received, self.reflected].map(units::thousands);
        format!("{second:6}  received {received:>14}  reflected {reflected:>14}")
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let [received, reflected] = [self.received, self.reflected].map(units::thousands);
        writeln!(out, "\nreceived {received}, reflected {reflected}")?;
        for (reason, count) in self.dropped.iter().filter(|(_, count)| **count > 0) {
            writeln!(out, "  dropped, {reason}: {}", units::thousands(*count))?;
        }
        for (reason, count) in self.without_ports.iter().filter(|(_, count)| **count > 0) {
            writeln!(out, "  reflected without ports, {reason}: {}", units::thousands(*count))?;
        }
        for port in &self.ports {
            let losses = [
                ("imissed", port.imissed),
                ("ierrors", port.ierrors),
                ("rx_nombuf", port.rx_nombuf),
                ("oerrors", port.oerrors),
            ];
            for (arg, count) in losses.into_iter().filter(|(_, count)| *count > 0) {
                writeln!(out, "  port {}, {arg}: {}", port.name, units::thousands(count))?;
            }
        }
        workers::print(&self.workers, out)
    }
}
