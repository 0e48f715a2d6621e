// SPDX-License-Identifier: BSD-3-Clause
//! `millrace demo`: runs the bump in the wire without a NIC. If the driver of the software NIC was
//! built, two of its ports receive the loads of the article. Otherwise the ports are two rings in
//! memory.

mod lists;
mod report;
mod rings;
mod stage;
mod twins;

use crate::cmd::run::seconds;
use crate::cpu_locks;
use crate::demo::load::Load;
use crate::placement::describe_placement;
use crate::twin_driver;
use ::report::output::{OutputArgs, write_line};
use anyhow::Context;
use clap::error::ErrorKind;
use config::Policy;
use engine::Tracking;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;
use std::{env, io};

/// Measure the bump on a software NIC, without and with offload or access lists
///
/// Needs no NIC, no hugepages, no privilege and no configuration. The bump forwards between two
/// ports of the software NIC, which receive the three loads of the FlowTable article, and two more.
/// Each load runs without offload, then with marks of the NIC, then with packets that the NIC
/// forwards by itself, if it can, then as the worker chooses. Prints throughput, CPU utilisation
/// and cycles per packet beside the article's figures, and writes a report with plots.
///
/// With --acl, 20,000 UDP flows of 64-byte packets run as in the article about VPP: without access
/// list, with lists of 1, 100 and 10,000 rules in software, and with 100 rules that the NIC has.
///
/// Without the software NIC (`make twin` builds it), and with --rings or --capture, the bump
/// forwards between two rings in memory. A generator sends a mix of TCP, UDP and ICMP over IPv4 and
/// IPv6, with and without VLAN tags, as fast as it can, and takes every packet back.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoArgs {
    /// The NIC that the software NIC imitates: a name from `millrace nic personalities`, or a file.
    /// Several, separated by commas, have a table each. By default cx6dx; with --acl ideal,cx5
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    personality: Vec<String>,
    /// Run this load only; may be repeated
    #[arg(long, value_name = "NAME", value_enum)]
    load: Vec<Load>,
    /// Compare access lists instead of offload
    #[arg(long, conflicts_with_all = ["load", "offload", "speed", "rings", "capture"])]
    acl: bool,
    /// Depth of tracking of all loads, instead of that which fits each. With --acl, by default off,
    /// then connections
    #[arg(long, value_name = "DEPTH", value_enum)]
    tracking: Option<Depth>,
    /// Which connections get NIC rules in the runs with offload, as for `millrace run`
    #[arg(long, value_name = "POLICY", default_value = "after 8")]
    offload: Policy,
    /// Rate of each link, from 1M to 400G, or none for as fast as the worker takes it. By default
    /// 10G for the loads of IMIX, and none for those of 64-byte packets
    #[arg(long, value_name = "RATE", value_parser = rate)]
    speed: Option<String>,
    /// Write the report to FILE instead of millrace-demo.html; only a report is overwritten
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Join two rings in memory, without offload and report
    #[arg(long)]
    rings: bool,
    /// Send the packets of this capture over and over, through rings
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["personality", "load", "tracking", "offload", "speed", "report"])]
    capture: Option<PathBuf>,
    /// Seconds that are measured of each run; with rings, seconds of the only run
    #[arg(long, value_name = "S", default_value = "2", value_parser = seconds)]
    duration: Duration,
    /// Seed of the traffic: another seed makes other traffic
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
}

/// Depth of tracking, as in the configuration.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Depth {
    /// None: each packet is treated alone. Only with --acl
    Off,
    /// One record for both directions of a flow, without states
    Flows,
    /// Connections with states, whose packets are checked
    Connections,
}

impl DemoArgs {
    /// Returns the loads to run, in their order.
    fn loads(&self) -> Vec<Load> {
        let is_asked_for = |load: &Load| self.load.is_empty() || self.load.contains(load);
        Load::ALL.into_iter().filter(is_asked_for).collect()
    }

    /// Returns the depth of tracking for a load.
    fn tracking(&self, load: Load) -> Tracking {
        match self.tracking {
            None => load.tracking(),
            Some(depth) => depth.tracking(),
        }
    }
}

impl Depth {
    fn tracking(self) -> Tracking {
        match self {
            Depth::Off => Tracking::Off,
            Depth::Flows => Tracking::Flows,
            Depth::Connections => Tracking::Connections,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  millrace demo
      The article's table in less than a minute, and millrace-demo.html.
  millrace demo --personality x710,ntacc --load stateless --load small-tcp --speed 25G
      Two other NICs, two loads, and faster links.
  millrace demo --acl
      The table of the article about VPP: access lists in software and in the NIC.
  millrace demo --capture office.pcapng --duration 3
      Three seconds of the packets of a capture, without the software NIC.

The figures compare Millrace without offload to Millrace with it, on a software NIC. They are not
those of a real NIC. With rings, the generator shares the machine with the worker.

Exit status: 0 good; 1 a run failed, a packet was lost, a ledger is not balanced, or other programs
took so much of the worker's cpu that a comparison is missing; 2 wrong use.";

pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    if args.acl {
        let driver = twin_driver::find().context("--acl needs the software NIC: `make twin`")?;
        twin_driver::check_place(&driver)?;
        return lists::run(args, driver);
    }
    if matches!(args.tracking, Some(Depth::Off)) {
        let reason = "--tracking off needs --acl: without connections there is nothing to offload";
        clap::Error::raw(ErrorKind::ArgumentConflict, format!("{reason}\n")).exit();
    }
    if args.rings || args.capture.is_some() {
        return rings::run(args);
    }
    match twin_driver::find() {
        Some(driver) => match twin_driver::check_place(&driver) {
            Ok(()) => twins::run(args, driver),
            Err(error) => {
                write_line(io::stderr(), format_args!("millrace: {error:#}"));
                write_line(io::stderr(), "millrace: the demo has no offload");
                rings::run(args)
            }
        },
        None => {
            write_line(
                io::stderr(),
                "millrace: no software NIC was built: the demo has no offload",
            );
            write_line(io::stderr(), "millrace: `make twin` builds one, for a demo with offload");
            rings::run(args)
        }
    }
}

/// Starts the demo again with rings, because the driver of the software NIC does not work. A
/// process can start DPDK only once, so this replaces the process. Returns only if that fails.
fn run_with_rings(reason: &anyhow::Error) -> io::Error {
    write_line(io::stderr(), format_args!("millrace: the software NIC cannot be used: {reason:#}"));
    write_line(io::stderr(), "millrace: `make twin` builds it again; the demo has no offload");
    let program = match env::current_exe() {
        Ok(program) => program,
        Err(error) => return error,
    };
    Command::new(program).args(env::args_os().skip(1)).arg("--rings").exec()
}

/// Chooses the cpu of the worker as `run` does. Returns it, and the line that describes it.
fn choose_cpu() -> (usize, String) {
    let cpus = cpu_locks::cpus_of_this_host();
    cpus.measure_load();
    let worker = cpus.by_preference().first().copied().unwrap_or_default();
    cpu_locks::lock_until_exit(&[worker]);
    (worker as usize, describe_placement(&[worker], &cpus, &[]))
}

/// Validates the rate of a link, in the form that the software NIC reads.
fn rate(text: &str) -> Result<String, String> {
    let of = |unit: char, mbps: f64| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * mbps);
    match of('G', 1e3).or_else(|| of('M', 1.0)) {
        Some(mbps) if (1.0..=400e3).contains(&mbps) => Ok(text.to_owned()),
        _ if text == "none" => Ok(text.to_owned()),
        _ => Err("must be a rate from 1M to 400G, such as 10G, or none".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_that_the_software_nic_takes() {
        for good in ["none", "1M", "2.5G", "400G"] {
            assert_eq!(rate(good).as_deref(), Ok(good));
        }
        for bad in ["", "G", "10", "10g", "0G", "0.9M", "401G", "1e3G", "-1G", "nanG", "infM"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }
}
