// SPDX-License-Identifier: BSD-3-Clause
//! Implements `millrace bench conntrack`: measures connections per second of several devices, with
//! the profiles of the article about connection tracking in Open vSwitch.

mod device;
mod kernel;
mod measurement;
mod millrace;
mod ovs;
mod profile;

use super::cps;
use super::generator_options::{CONNECTION_OPTIONS, refuse_other_options};
use crate::cmd::origin::origin_of_now;
use crate::cmd::report::PageFile;
use crate::ports::PortNames;
use crate::signals;
use anyhow::Context;
use clap::error::ErrorKind;
use device::{Configuration, Device, Dut};
use measurement::Runner;
use ovs::Installation;
use report::output::{JsonFile, refuse_to_overwrite, write_line};
use results::conntrack::{self, ConntrackResults, Lifetime};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Compare connections per second of devices, with short-lived and long-lived connections
///
/// Starts each device and a generator at its ports, searches for the most connections per second
/// that the device sustains, and prints a table. Short-lived connections have one message of 20
/// bytes each way; long-lived ones have 500, 50 ms apart. 1 % of both are UDP. The generator alone,
/// over a cable, comes first. Both kinds of connection are those of Red Hat's article about
/// connection tracking in Open vSwitch 3.0.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConntrackArgs {
    /// A device: cable, millrace, ovs, kernel or external; may be repeated
    #[arg(
        long = "dut",
        value_name = "DEVICE",
        value_enum,
        hide_possible_values = true,
        default_value = "millrace"
    )]
    duts: Vec<Dut>,
    /// The ovs-vswitchd of --dut ovs, built with DPDK; given twice, two versions are compared
    #[arg(long, value_name = "PATH")]
    ovs: Vec<PathBuf>,
    /// Ports A,B of the generator, with your device between them: for --dut external
    #[arg(long, value_name = "A,B", value_parser = ports)]
    ports: Option<String>,
    /// Measure one profile only: short or long
    #[arg(long, value_name = "PROFILE", value_parser = lifetime)]
    only: Option<Lifetime>,
    #[command(flatten)]
    rates: RateArgs,
    /// Cpus of the device, one row for each number, as 1,2,4,8
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2,4,8",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus: Vec<u32>,
    /// Queues of each port of the device; by default the numbers of --cpus. Only Open vSwitch can
    /// have fewer queues than cpus
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=64))]
    queues: Vec<u32>,
    /// Measure devices with tracking only, or without only: on or off
    #[arg(long, value_name = "STATE", value_parser = state)]
    tracking: Option<bool>,
    /// Leave out the cable: what the generator sustains alone is then not known
    #[arg(long)]
    no_cable: bool,
    /// Write the results as JSON to FILE or `-`. FILE must be new, empty or such results
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with charts to FILE, which must be new, empty or such a page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Add the article's figures, which are of other hardware, to the table and the charts
    #[arg(long)]
    with_article: bool,
    /// Options of `millrace gen --daemon` for --dut external, such as --gateway, after `--`
    #[arg(last = true, value_name = "GEN_OPTIONS")]
    generator_options: Vec<String>,
}

/// Which rates are measured, and how.
#[derive(clap::Args)]
struct RateArgs {
    /// Measure N connections per second instead of searching; it may end in K or M
    #[arg(long, value_name = "N", value_parser = cps::rate)]
    cps: Option<f64>,
    /// Search from N connections per second on; by default 1000, for long-lived ones 100
    #[arg(long, value_name = "N", value_parser = cps::rate, conflicts_with = "cps")]
    min_cps: Option<f64>,
    /// Search up to N connections per second; by default 2M, for long-lived ones 10k
    #[arg(long, value_name = "N", value_parser = cps::rate, conflicts_with = "cps")]
    max_cps: Option<f64>,
    /// Measure at most N rates, and N more each time the result is refuted; by default until the
    /// rate is known to 0.5 %
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..),
          conflicts_with = "cps")]
    max_iterations: Option<u32>,
    /// Search N times in each row, for confidence intervals
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Measure each rate for S seconds, 1 to 600
    #[arg(long, value_name = "S", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Accept a rate if at most this share of connections fails, and of packets is lost, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.02, value_parser = percent)]
    error_threshold: f64,
}

const EXAMPLES: &str = "\
Examples:
  millrace bench conntrack --dut ovs --dut millrace --only short --json conntrack.json
      Open vSwitch and Millrace, short-lived connections; how much more does Millrace sustain?
  millrace bench conntrack --cps 20k --only short --seconds 5
      Only one rate: are all its connections tracked?
  millrace bench conntrack --dut cable
      What the generator can do on this host.
  millrace bench conntrack --dut external --ports 18:00.0,18:00.1 --repeat 3 --html device.html
      Your own device between two ports, with confidence intervals and charts.

Exit status: 0 every row that this host can run has a figure; 1 not; 2 wrong use.";

fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| "write a number from 0 to 100".to_owned())
}

fn lifetime(text: &str) -> Result<Lifetime, String> {
    match text {
        "short" => Ok(Lifetime::Short),
        "long" => Ok(Lifetime::Long),
        _ => Err("write short or long".to_owned()),
    }
}

fn state(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("write on or off".to_owned()),
    }
}

fn ports(text: &str) -> Result<String, String> {
    match text.parse::<PortNames>() {
        Ok(names) if names.count() == 2 => Ok(text.to_owned()),
        Ok(_) => Err("name two ports, A,B".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

pub(super) fn run(args: &ConntrackArgs) -> anyhow::Result<ExitCode> {
    args.refuse_contradictions().unwrap_or_else(|fault| {
        clap::Error::raw(ErrorKind::ArgumentConflict, format!("{fault}\n")).exit()
    });
    refuse_to_overwrite(&[("--json", args.json.as_deref()), ("--html", args.html.as_deref())], &[]);
    let devices = args.devices();
    devices.iter().try_for_each(Device::require)?;
    let json = JsonFile::open(args.json.as_deref())?;
    let page = PageFile::open(args.html.as_deref())?;
    let interrupted = signals::interrupt_flag().context("cannot catch signals")?;
    let mut results = args.empty_results();
    args.measure_all(&devices, &mut results, &interrupted);
    results.compare_devices();
    results.is_interrupted = interrupted.load(Ordering::Relaxed);
    if results.is_interrupted {
        let text = "millrace: interrupted; these are the results so far";
        write_line(io::stderr(), text);
    }
    let is_stdout = json.is_stdout();
    // Files come first: the reader of the table may close the pipe before its end.
    let page = page.write_page(|| conntrack::page(&results, args.with_article));
    let json = json.write(&results);
    let printed = match is_stdout {
        true => results.print(args.with_article, &mut io::stderr().lock()),
        false => results.print(args.with_article, &mut io::stdout().lock()),
    };
    page?;
    json?;
    printed.context("cannot write the results")?;
    let is_whole = !results.is_interrupted && results.rows.iter().all(|row| row.is_done());
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl ConntrackArgs {
    fn refuse_contradictions(&self) -> Result<(), String> {
        let has = |dut| self.duts.contains(&dut);
        match (has(Dut::External), &self.ports) {
            (true, None) => return Err("--dut external needs --ports A,B".to_owned()),
            (false, Some(_)) => return Err("--ports needs --dut external".to_owned()),
            _ => {}
        }
        if !self.generator_options.is_empty() && !has(Dut::External) {
            return Err(
                "options after -- need --dut external: the generator at other devices has \
                        its own"
                    .to_owned(),
            );
        }
        refuse_other_options(&self.generator_options, CONNECTION_OPTIONS)?;
        if !self.ovs.is_empty() && !has(Dut::Ovs) {
            return Err("--ovs needs --dut ovs".to_owned());
        }
        let devices = self.devices();
        if devices.is_empty() {
            return Err("--no-cable leaves nothing to measure: name a device with --dut".to_owned());
        }
        for device in devices {
            if self.configurations(&device).next().is_none() {
                return Err(
                    "no number of --cpus has a fitting one of --queues: a device has as many \
                     queues as cpus; Open vSwitch may have fewer"
                        .to_owned(),
                );
            }
        }
        for profile in self.profiles() {
            let [min, max] = self.rates.range(profile);
            if min >= max {
                let name = profile.name();
                return Err(format!(
                    "--min-cps must be below --max-cps: they are {min} and {max} for {name} \
                     connections"
                ));
            }
        }
        Ok(())
    }

    fn profiles(&self) -> impl Iterator<Item = Lifetime> {
        Lifetime::ALL.into_iter().filter(|it| self.only.is_none_or(|only| only == *it))
    }

    /// Returns the devices: the cable, then those that the command line names, each once.
    fn devices(&self) -> Vec<Device> {
        let of = |dut: &Dut| match dut {
            Dut::Cable => vec![],
            Dut::Millrace => vec![Device::Millrace],
            Dut::Ovs => Installation::all(&self.ovs).into_iter().map(Device::Ovs).collect(),
            Dut::Kernel => vec![Device::Kernel],
            Dut::External => {
                let options = &self.generator_options;
                let of = |ports| Device::External { ports, options: options.clone() };
                self.ports.clone().map(of).into_iter().collect()
            }
        };
        let mut devices = if self.no_cable { vec![] } else { vec![Device::Cable] };
        for device in self.duts.iter().flat_map(of) {
            if !devices.contains(&device) {
                devices.push(device);
            }
        }
        devices
    }

    /// Returns the configurations of a device that the command line names.
    fn configurations(&self, device: &Device) -> impl Iterator<Item = Configuration> {
        let queues = if self.queues.is_empty() { &self.cpus } else { &self.queues };
        let all = Configuration::all(device, &self.cpus, queues).into_iter();
        let wanted = self.tracking.filter(|_| device.is_ours());
        all.filter(move |it| wanted.is_none_or(|wanted| it.has_tracking == wanted))
    }

    fn empty_results(&self) -> ConntrackResults {
        let RateArgs { seconds, error_threshold, repeat, .. } = self.rates;
        ConntrackResults::new(origin_of_now(), seconds, error_threshold, repeat)
    }

    /// Measures all rows, until a signal comes.
    fn measure_all(
        &self,
        devices: &[Device],
        results: &mut ConntrackResults,
        interrupted: &AtomicBool,
    ) {
        let runner = Runner { rates: &self.rates, interrupted };
        for profile in self.profiles() {
            for device in devices {
                for configuration in self.configurations(device) {
                    if interrupted.load(Ordering::Relaxed) {
                        return;
                    }
                    runner.measure_row(&configuration, profile, results);
                }
            }
        }
    }
}

impl RateArgs {
    /// Returns the smallest and the largest rate of a search.
    fn range(&self, profile: Lifetime) -> [f64; 2] {
        let [min, max] = profile::range(profile);
        [self.min_cps.unwrap_or(min), self.max_cps.unwrap_or(max)]
    }
}
