// SPDX-License-Identifier: BSD-3-Clause
//! Implements `millrace bench conntrack`: measures connections per second of several devices, with
//! the profiles of the article about connection tracking in Open vSwitch.

mod device;
mod profile;
mod rows;

use super::cps::{self, Range};
use crate::signals;
use crate::tester::{Load, Tester, TesterStatistics};
use anyhow::Context;
use device::{Bench, Configuration, Dut, cpus_here};
use profile::Profile;
use report::output::{JsonFile, write_line};
use rows::{Figures, Results, Row};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Compare connections per second of devices, in the article's two profiles
///
/// Starts each device and a generator at its ports, searches for the most connections per second
/// that the device bears, and prints a table. Short-lived connections have one message of 20 bytes
/// each way; long-lived ones have 500, 50 ms apart. 1 % of both are UDP. The generator alone, over
/// a cable, comes first.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConntrackArgs {
    /// A device: cable or millrace; may be repeated
    #[arg(
        long = "dut",
        value_name = "DEVICE",
        value_enum,
        hide_possible_values = true,
        default_value = "millrace"
    )]
    duts: Vec<Dut>,
    /// Measure one profile only: short or long
    #[arg(long, value_name = "PROFILE", value_enum, hide_possible_values = true)]
    only: Option<Profile>,
    /// Measure N connections per second instead of searching; it may end in K or M
    #[arg(long, value_name = "N", value_parser = cps::rate)]
    cps: Option<f64>,
    /// Measure each rate for S seconds, 1 to 600
    #[arg(long, value_name = "S", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Bear with this share of failed connections and lost packets, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.02, value_parser = percent)]
    error_threshold: f64,
    /// Cpus of the device, one row for each number, as 1,2,4,8
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2,4,8",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus: Vec<u32>,
    /// Write the results as JSON to FILE or `-`. FILE must be new, empty or such results
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  millrace bench conntrack --only short --json conntrack.json
      Cable and Millrace, short-lived connections.
  millrace bench conntrack --cps 20k --only short --seconds 5
      Only one rate: are all its connections tracked?
  millrace bench conntrack --dut cable
      What the generator can do on this host.

Exit status: 0 every row that this host can run has a figure; 1 not; 2 wrong use.";

fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| "write a number from 0 to 100".to_owned())
}

pub(super) fn run(args: &ConntrackArgs) -> anyhow::Result<ExitCode> {
    let json = JsonFile::open(args.json.as_deref())?;
    let interrupted = signals::interrupt_flag().context("cannot catch signals")?;
    let is_interrupted = || interrupted.load(Ordering::Relaxed);
    let mut results = Results::new(args.seconds, args.error_threshold);
    for profile in Profile::ALL.into_iter().filter(|it| args.only.is_none_or(|only| only == *it)) {
        for configuration in args.configurations() {
            if is_interrupted() {
                break;
            }
            let mut row = Row::new(profile, configuration);
            row.lacks = configuration.lacks(cpus_here());
            if row.lacks.is_none() {
                let name = row.name();
                write_line(io::stderr(), format_args!("millrace: {name}"));
                let failed = args.measure(&mut row, &interrupted).err();
                if let Some(error) = failed.filter(|_| !is_interrupted()) {
                    let text = format!("{error:#}");
                    write_line(io::stderr(), format_args!("millrace: {name}: {text}"));
                    row.notes.push(text);
                }
            }
            results.rows.push(row);
        }
    }
    if is_interrupted() {
        let text = "millrace: interrupted; these are the results so far";
        write_line(io::stderr(), text);
    }
    results.compare();
    let printed = match json.is_stdout() {
        true => results.print(&mut io::stderr().lock()),
        false => results.print(&mut io::stdout().lock()),
    };
    json.write(&results)?;
    printed.context("cannot write the results")?;
    let is_whole = !is_interrupted() && results.rows.iter().all(Row::is_done);
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl ConntrackArgs {
    /// Returns the rows of a profile: the cable, then each device with and without tracking.
    fn configurations(&self) -> Vec<Configuration> {
        let cable = Configuration { dut: Dut::Cable, has_tracking: false, cpus: 1 };
        let mut configurations = vec![cable];
        for dut in self.duts.iter().copied().filter(|dut| *dut != Dut::Cable) {
            for has_tracking in [true, false] {
                let of = |cpus: &u32| Configuration { dut, has_tracking, cpus: *cpus };
                configurations.extend(self.cpus.iter().map(of));
            }
        }
        configurations
    }

    /// Finds the rate of a row, and measures its figures at that rate.
    fn measure(&self, row: &mut Row, interrupted: &AtomicBool) -> anyhow::Result<()> {
        let mut bench = Bench::start(row.configuration, interrupted)?;
        let mut tester = bench.tester()?;
        let load = row.profile.load();
        let cps = match self.cps {
            Some(cps) => {
                row.is_at_least = true;
                cps
            }
            None => {
                let [min_cps, max_cps] = row.profile.range();
                let (seconds, threshold_percent) = (self.seconds, self.error_threshold);
                let range = Range { min_cps, max_cps, seconds, threshold_percent };
                let finding = cps::find(&load, range, &mut tester, interrupted)?;
                row.notes.extend(finding.unlimited.clone());
                row.is_at_least = finding.unlimited.is_some();
                finding.cps.context("it did not bear the smallest rate that was tried")?
            }
        };
        let load = Load { cps, ..load };
        let figures = self.measure_rate(&load, (&mut tester, &mut bench), interrupted)?;
        row.notes.extend(figures.count_difference(&load, row.configuration));
        row.figures = Some(figures);
        Ok(())
    }

    /// Measures a rate, once connections end as fast as they begin.
    fn measure_rate(
        &self,
        load: &Load,
        (tester, bench): (&mut dyn Tester, &mut Bench),
        interrupted: &AtomicBool,
    ) -> anyhow::Result<Figures> {
        tester.start(load)?;
        let steady_s = f64::from(load.ramp_up_s) + load.connection_seconds();
        tester.wait(Duration::from_secs_f64(steady_s), interrupted)?;
        tester.clear()?;
        tester.wait(Duration::from_secs(self.seconds.into()), interrupted)?;
        // Both counts are of the same moment, as far as possible.
        let device_flows = bench.count()?;
        let active_flows = tester.statistics()?.client.active;
        tester.stop()?;
        let statistics: TesterStatistics = tester.statistics()?;
        anyhow::ensure!(!interrupted.load(Ordering::Relaxed), "interrupted");
        let faults = cps::faults(&statistics, load.cps, self.error_threshold);
        Ok(Figures::new(&statistics, [Some(active_flows), device_flows], faults))
    }
}
