// SPDX-License-Identifier: BSD-3-Clause
//! Implements `millrace bench search`: searches for the highest load that a device sustains.

mod back_to_back;
mod calibration;
mod conduct;
mod connection_args;
mod connections;
mod generator;
mod goals;
mod loads;
mod measurement;
mod outputs;
mod packets;

pub(super) use conduct::{Found, Plan, conduct};
pub(super) use connection_args::{
    CableOrPorts, ConnectionArgs, ConnectionSearch, OPENING_MAX_S, OpenTester, count, opening_rate,
    refuse_too_many,
};
pub(super) use connections::{ConnectionTrials, Held, LoadKind, run_command};
pub(super) use goals::{NamedGoal, share};
pub(super) use measurement::{Measurement, Tester};
pub(super) use outputs::{OutputArgs, results_of_now};

use super::generator_options::{CONNECTION_OPTIONS, PACKET_OPTIONS, refuse_other_options};
use super::testbed::this_program;
use crate::cmd::run::seconds;
use crate::ports::{PortNames, PortNamesError};
use crate::{cmd::generate, signals};
use anyhow::Context;
use clap::error::ErrorKind;
use loads::Unit;
use results::search::{Calibration, LatencyMax, SearchResults};
use search::mlr::Limits;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Search for the highest load that a device sustains (MLRsearch)
///
/// Sends streams through the device and back, in many short trials, and verifies every packet. A
/// load of connections is opened from port A to port B, and each connection counts. Measures first
/// what the tester itself sustains, and never prints that as a figure of the device.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SearchArgs {
    /// Ports of the generator, as for `millrace gen`: A, or A,B
    #[arg(value_name = "PORTS", value_parser = ports, required_unless_present = "simulate")]
    ports: Option<String>,
    /// A stream, as for `millrace gen`, without rate; may be repeated
    #[arg(long = "stream", value_name = "STREAM", value_parser = generate::pairs)]
    streams: Vec<Vec<(String, String)>>,
    /// Goals: ndr, pdr, rfc2544, tst009, cps, cps-robust, quick
    ///
    /// Several are separated by commas or given one by one. A goal may be changed:
    /// "quick name=ci loss=0.5% exceed=50% width=2% initial=0.5 final=0.5 sum=3.5".
    #[arg(long = "goal", value_name = "GOAL", default_value = "ndr,pdr", value_delimiter = ',',
          value_parser = goals::goal)]
    goals: Vec<NamedGoal>,
    /// Smallest load of all streams together: 10kpps, 1Gbps (on the wire), 1Gbps-l2, 1%; or
    /// connections: 1kcps (a second), 10kconn (at a time)
    #[arg(long, value_name = "LOAD", value_parser = Unit::read)]
    min_load: (Unit, f64),
    /// Largest load, in the same unit
    #[arg(long, value_name = "LOAD", value_parser = Unit::read)]
    max_load: (Unit, f64),
    /// End each search after S seconds, with what is known by then
    #[arg(long, value_name = "S", default_value = "1200", value_parser = seconds)]
    duration_max: Duration,
    /// Count a trial with more latency (connections: setup time) as lost: p50, p90, p99, p999 or
    /// max, as p99=50us
    #[arg(long, value_name = "LIMIT", value_parser = goals::latency_max)]
    latency_max: Option<LatencyMax>,
    /// Search with each of these frame sizes (with FCS), as 64,128,256,512,1024,1280,1518
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(64..=9600))]
    sizes: Vec<u32>,
    /// Search N times; `bench compare` needs two or more for a confidence interval
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Also measure N times the longest burst at --max-load without loss (RFC 2544, 26.4)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    back_to_back: Option<u32>,
    /// Measure the tester alone before: cable (rings in memory), none, or ports in a loop
    #[arg(long, value_name = "PORTS", default_value = "cable", value_parser = calibration_ports)]
    calibrate: CalibrationPorts,
    /// Length of the first trial, which does not count; 0 for none
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = warm_up)]
    warm_up: f64,
    /// Seed of the first trial with packets; each further one has the next seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    connections: ConnectionArgs,
    /// Open connections at this rate if the load is connections at a time; such as 50kcps
    #[arg(long, value_name = "CPS", default_value = "10kcps", value_parser = opening_rate,
          help_heading = "Connections")]
    opening_rate: f64,
    #[command(flatten)]
    outputs: OutputArgs,
    /// Options of `millrace gen`, after `--`
    #[arg(last = true, value_name = "GEN_OPTIONS")]
    generator_options: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  millrace bench search 18:00.0,18:00.1 --min-load 1% --max-load 100% --json device.json
      The highest load without loss (ndr) and with at most 0.5 % (pdr), of 64-byte frames.
  millrace bench search eth1,eth2 --min-load 1% --max-load 100% --goal rfc2544 --sizes 64,512,1518
      With 60-second trials, and one search for each frame size.
  millrace bench search eth1 --min-load 1kpps --max-load 2Mpps --latency-max p99=90us -- --late 2
      A reflector behind one port; the load above which the latency is too high.
  millrace bench search net_ring0 --min-load 10kpps --max-load 5Mpps --goal quick --calibrate none
      The generator alone, without hardware.

Exit status: 0 every goal has an answer of the device; 1 not, or the search failed; 2 wrong use.";

/// The ports of a calibration.
#[derive(Clone, Debug)]
enum CalibrationPorts {
    /// Rings in memory.
    Cable,
    None,
    Ports(String),
}

/// Fails if there is one port only, where clients and servers need one each.
pub(super) fn refuse_one_port(ports: &str) -> Result<(), String> {
    match ports.parse::<PortNames>().map(|names| names.count()) {
        Ok(1) => Err("connections need two ports, A,B: clients at A, servers at B".to_owned()),
        _ => Ok(()),
    }
}

pub(super) fn ports(text: &str) -> Result<String, PortNamesError> {
    text.parse::<PortNames>().map(|_| text.to_owned())
}

fn calibration_ports(text: &str) -> Result<CalibrationPorts, PortNamesError> {
    match text {
        "cable" => Ok(CalibrationPorts::Cable),
        "none" => Ok(CalibrationPorts::None),
        _ => ports(text).map(CalibrationPorts::Ports),
    }
}

fn warm_up(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|it| *it == 0.0 || (0.05..=600.0).contains(it));
    seconds.ok_or_else(|| "write seconds from 0.05 to 600, or 0 for no warm-up".to_owned())
}

pub(super) fn run(args: &SearchArgs) -> anyhow::Result<ExitCode> {
    args.refuse_contradictions().unwrap_or_else(|fault| {
        clap::Error::raw(ErrorKind::ArgumentConflict, format!("{fault}\n")).exit()
    });
    let outputs = args.outputs.open()?;
    let interrupted = signals::interrupt_flag().context("cannot catch signals")?;
    this_program()?;
    let mut results = args.empty_results();
    let error = args.search_all(&mut results, &interrupted).err();
    results.is_interrupted = interrupted.load(Ordering::Relaxed);
    outputs.finish(&results, error)
}

impl SearchArgs {
    /// Returns the ports; nothing if the device is simulated.
    fn ports(&self) -> &str {
        self.ports.as_deref().unwrap_or_default()
    }

    fn refuse_contradictions(&self) -> Result<(), String> {
        let ((unit, min), (of_max, max)) = (self.min_load, self.max_load);
        if unit != of_max {
            let (min, max) = (unit.name(), of_max.name());
            return Err(format!(
                "--min-load is in {min}, --max-load in {max}: write both in the same unit"
            ));
        }
        if min >= max {
            return Err("--min-load must be below --max-load".to_owned());
        }
        let mut sizes = self.sizes.clone();
        sizes.sort_unstable();
        if sizes.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("--sizes names a size twice".to_owned());
        }
        for (number, goal) in self.goals.iter().enumerate() {
            if self.goals[..number].contains(goal) {
                return Err(format!("--goal {} is given twice", goal.name));
            }
        }
        if unit.is_connections() {
            self.refuse_options_of_packets()?;
        }
        let known = if unit.is_connections() { CONNECTION_OPTIONS } else { PACKET_OPTIONS };
        refuse_other_options(&self.generator_options, known)
    }

    /// Fails if an option has no meaning for a load of connections.
    fn refuse_options_of_packets(&self) -> Result<(), String> {
        let given = [
            ("--stream", !self.streams.is_empty()),
            ("--sizes", !self.sizes.is_empty()),
            ("--back-to-back", self.back_to_back.is_some()),
        ];
        if let Some((option, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
            return Err(format!("{option} is for packets: leave it out, or search in pps or bps"));
        }
        if self.latency_max.as_ref().is_some_and(|limit| limit.of == "p90") {
            return Err("--latency-max: connections have p50, p99, p999 and max".to_owned());
        }
        if self.latency_max.is_some() && self.connections.is_udp_only() {
            return Err("--latency-max: only TCP has a setup time: lower --udp-percent".to_owned());
        }
        if self.min_load.0 == Unit::Connections {
            refuse_too_many(self.max_load.1, self.opening_rate, "--max-load")?;
        }
        refuse_one_port(self.ports())
    }

    /// Returns the results before the first search.
    fn empty_results(&self) -> SearchResults {
        let pairs = |stream: &Vec<(String, String)>| {
            let pairs = stream.iter().map(|(key, value)| format!("{key}={value}"));
            pairs.collect::<Vec<_>>().join(" ")
        };
        SearchResults {
            ports: self.ports().to_owned(),
            streams: match self.min_load.0 {
                Unit::Connections => {
                    let (carried, cps) = (self.connections.describe(), self.opening_rate);
                    vec![format!("{carried} opening-rate={cps}cps")]
                }
                unit if unit.is_connections() => vec![self.connections.describe()],
                _ => self.streams_or_default().iter().map(pairs).collect(),
            },
            generator_options: self.generator_options.clone(),
            unit: self.min_load.0.name().to_owned(),
            min_load: self.min_load.1,
            max_load: self.max_load.1,
            duration_max_s: self.duration_max.as_secs_f64(),
            latency_max: self.latency_max.clone(),
            goals: self.goals.iter().map(NamedGoal::shown).collect(),
            ..results_of_now()
        }
    }

    /// Returns the streams; a stream with all defaults if none is given.
    fn streams_or_default(&self) -> Vec<Vec<(String, String)>> {
        match self.streams.is_empty() {
            true => vec![Vec::new()],
            false => self.streams.clone(),
        }
    }

    fn plan(&self) -> Plan<'_> {
        Plan {
            goals: &self.goals,
            limits: Limits {
                min_load: self.min_load.1,
                max_load: self.max_load.1,
                duration_max: self.duration_max.as_secs_f64(),
            },
            unit: self.min_load.0.name(),
            latency_max: self.latency_max.as_ref(),
            warm_up_s: self.warm_up,
        }
    }

    /// Searches with all sizes. After an error, `results` have what was found before.
    fn search_all(
        &self,
        results: &mut SearchResults,
        interrupted: &AtomicBool,
    ) -> anyhow::Result<()> {
        match self.min_load.0 {
            Unit::ConnectionRate => self.search_connections(LoadKind::Rate, results, interrupted),
            Unit::Connections => {
                let kind = LoadKind::Held { cps: self.opening_rate };
                self.search_connections(kind, results, interrupted)
            }
            _ => self.search_packets(results, interrupted),
        }
    }

    fn search_connections(
        &self,
        kind: LoadKind,
        results: &mut SearchResults,
        interrupted: &AtomicBool,
    ) -> anyhow::Result<()> {
        let args = &self.connections;
        let search = ConnectionSearch { args, options: &self.generator_options, interrupted };
        let ports = match &self.calibrate {
            CalibrationPorts::None => None,
            CalibrationPorts::Cable => Some(CableOrPorts::Cable),
            CalibrationPorts::Ports(ports) => Some(CableOrPorts::Ports(ports)),
        };
        let progress = |line: &str| self.report(None, line);
        let calibrate = |ports| search.calibrate((self.plan(), kind), ports, &progress);
        let calibration = ports.map(calibrate).transpose()?;
        let mut tester = search.open(self.ports())?;
        if tester.is_simulated() {
            progress("the device is simulated: these are no measurements");
        }
        let mut trials = search.trials(&mut tester, kind);
        self.search_repeatedly(&mut trials, (None, calibration), results)
    }

    /// Searches `--repeat` times with frames of one size.
    fn search_repeatedly(
        &self,
        tester: &mut dyn Tester,
        (size, calibration): (Option<u32>, Option<Calibration>),
        results: &mut SearchResults,
    ) -> anyhow::Result<()> {
        for number in 1..=self.repeat {
            let progress = |line: &str| self.report(size, line);
            let found = conduct(self.plan(), tester, calibration.clone(), &progress);
            let Found { mut search, mut error } = found;
            (search.size, search.number) = (size, number);
            if let (Some(times), None) = (self.back_to_back, &error) {
                progress("searching for the longest burst");
                match back_to_back::back_to_back(self.max_load.1, times, tester) {
                    Ok(found) => search.back_to_back = Some(found),
                    Err(failed) => error = Some(failed),
                }
            }
            results.searches.push(search);
            error.map_or(Ok(()), Err)?;
        }
        Ok(())
    }

    fn report(&self, size: Option<u32>, line: &str) {
        let size = size.map_or(String::new(), |size| format!("{size} bytes: "));
        self.outputs.report(format_args!("{size}{line}"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::generator_options::kept_by_cable;
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: SearchArgs,
    }

    fn args(words: &[&str]) -> SearchArgs {
        let fixed = ["search", "net_ring0", "--min-load", "1kpps", "--max-load", "1Mpps"];
        Line::parse_from(fixed.iter().chain(words)).args
    }

    #[test]
    fn rings_get_only_options_that_work_with_them() {
        let options = ["--", "--gateway", "198.18.0.1", "--senders", "2", "--mtu=9000", "--late=2"];
        let args = args(&options);
        assert_eq!(args.refuse_contradictions(), Ok(()));
        let kept = kept_by_cable(&args.generator_options, PACKET_OPTIONS);
        assert_eq!(kept, ["--senders", "2", "--late=2"]);
    }

    #[test]
    fn options_that_a_search_sets_itself_are_refused() {
        for words in [&["--", "--rate=1pps"][..], &["--", "-d", "1"], &["--", "--", "x", "-v"]] {
            let refused = args(words).refuse_contradictions().unwrap_err();
            assert!(refused.contains("only these options of gen"), "{words:?}: {refused}");
        }
        assert!(args(&["--goal", "ndr,pdr,ndr"]).refuse_contradictions().is_err());
        assert!(args(&["--sizes", "64,128,64"]).refuse_contradictions().is_err());
        let goals = args(&["--goal", "ndr,quick width=5%", "--goal", "cps"]).goals;
        let names: Vec<_> = goals.iter().map(|goal| goal.name.as_str()).collect();
        assert_eq!(names, ["ndr", "quick width=5%", "cps"]);
    }
}
