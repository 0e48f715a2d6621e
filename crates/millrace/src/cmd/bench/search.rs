// SPDX-License-Identifier: BSD-3-Clause
//! Implements `millrace bench search`: searches for the highest load that a device bears.

mod back_to_back;
mod calibration;
mod conduct;
mod generator;
mod goals;
mod loads;
mod measurement;

use super::testbed::this_program;
use crate::cmd::report::PageFile;
use crate::cmd::run::seconds;
use crate::ports::{PortNames, PortNamesError};
use crate::{cmd::generate, is_closed_pipe, signals};
use anyhow::Context;
use clap::error::ErrorKind;
use conduct::{Found, Plan};
use doctor::host::{Processor, Software};
use generator::Generator;
use goals::NamedGoal;
use loads::{Traffic, Unit};
use report::output::{JsonFile, refuse_to_overwrite, write_line};
use results::Host;
use results::search::{Calibration, KIND, LatencyMax, SearchResults};
use search::mlr::Limits;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};
use traffic::stream::Rate;

/// Search for the highest load that a device bears (MLRsearch)
///
/// Sends streams through the device and back, in many short trials, and verifies every packet.
/// Measures first what the tester itself bears, and never prints that as a figure of the device.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SearchArgs {
    /// Ports of the generator, as for `millrace gen`: A, or A,B
    #[arg(value_name = "PORTS", value_parser = ports)]
    ports: String,
    /// A stream, as for `millrace gen`, without rate; may be repeated
    #[arg(long = "stream", value_name = "STREAM", default_value = "",
          value_parser = generate::pairs)]
    streams: Vec<Vec<(String, String)>>,
    /// Goals: ndr, pdr, rfc2544, tst009, cps, quick
    ///
    /// Several are separated by commas or given one by one. A goal may be changed:
    /// "quick name=ci loss=0.5% exceed=50% width=2% initial=0.5 final=0.5 sum=3.5".
    #[arg(long = "goal", value_name = "GOAL", default_value = "ndr,pdr", value_delimiter = ',',
          value_parser = goals::goal)]
    goals: Vec<NamedGoal>,
    /// Smallest load of all streams together: 10kpps, 1Gbps (on the wire), 1Gbps-l2, 1%
    #[arg(long, value_name = "LOAD", value_parser = rate)]
    min_load: (Unit, f64),
    /// Largest load, in the same unit
    #[arg(long, value_name = "LOAD", value_parser = rate)]
    max_load: (Unit, f64),
    /// End each search after S seconds, with what is known by then
    #[arg(long, value_name = "S", default_value = "1200", value_parser = seconds)]
    duration_max: Duration,
    /// Count a trial with more latency as lost: p50, p90, p99, p999 or max, as p99=50us
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
    /// Seed of the first trial; each further one has the next seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write all trials as JSON to FILE or `-`. FILE must be new, empty or such results
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with plots to FILE, which must be new, empty or such a page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print no line per trial
    #[arg(long, short)]
    quiet: bool,
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

/// Options of `millrace gen` that a search may pass on, and whether a calibration with rings keeps
/// them.
const GENERATOR_OPTIONS: [(&str, bool); 13] = [
    ("--cpus", true),
    ("--gateway", false),
    ("--late", true),
    ("--mtu", false),
    ("--payload", true),
    ("--receivers", true),
    ("--rx-burst", true),
    ("--rx-descriptors", true),
    ("--send-on-time", false),
    ("--senders", true),
    ("--tx-burst", true),
    ("--tx-descriptors", true),
    ("--workers", true),
];

/// The ports of a calibration.
#[derive(Clone, Debug)]
enum CalibrationPorts {
    /// Rings in memory.
    Cable,
    None,
    Ports(String),
}

fn ports(text: &str) -> Result<String, PortNamesError> {
    text.parse::<PortNames>().map(|_| text.to_owned())
}

fn calibration_ports(text: &str) -> Result<CalibrationPorts, PortNamesError> {
    match text {
        "cable" => Ok(CalibrationPorts::Cable),
        "none" => Ok(CalibrationPorts::None),
        _ => ports(text).map(CalibrationPorts::Ports),
    }
}

fn rate(text: &str) -> Result<(Unit, f64), String> {
    let rate = Rate::parse(text).map_err(|error| error.to_string())?;
    Unit::of(rate).ok_or_else(|| "a search needs a number: write 10Mpps, 10Gbps or 100%".to_owned())
}

fn warm_up(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|it| *it == 0.0 || (0.05..=600.0).contains(it));
    seconds.ok_or_else(|| "write seconds from 0.05 to 600, or 0 for no warm-up".to_owned())
}

pub(super) fn run(args: &SearchArgs) -> anyhow::Result<ExitCode> {
    args.refuse_contradictions().unwrap_or_else(|fault| {
        clap::Error::raw(ErrorKind::ArgumentConflict, format!("{fault}\n")).exit()
    });
    refuse_to_overwrite(&[("--json", args.json.as_deref()), ("--html", args.html.as_deref())], &[]);
    let json = JsonFile::open(args.json.as_deref())?;
    let page = PageFile::open(args.html.as_deref())?;
    let interrupted = signals::interrupt_flag().context("cannot catch signals")?;
    this_program()?;
    let mut results = args.empty_results();
    let error = args.search_all(&mut results, &interrupted).err();
    results.is_interrupted = interrupted.load(Ordering::Relaxed);
    if results.is_empty() {
        // Earlier results stay in the files.
        return Err(error.unwrap_or_else(|| anyhow::anyhow!("nothing was measured")));
    }
    if results.is_interrupted {
        write_line(io::stderr(), "millrace: interrupted; these are the results so far");
    }
    let is_stdout = json.is_stdout();
    // Files come first: the reader of the table may close the pipe before its end.
    let page = page.write_page(|| results::search::page(&results));
    let json = json.write(&results);
    let table = match is_stdout {
        true => Ok(()),
        false => results::search::print(&results, &mut io::stdout().lock())
            .context("cannot write to standard output"),
    };
    page?;
    for (written, is_stdout) in [(json, is_stdout), (table, true)] {
        written.or_else(|error| match is_stdout && is_closed_pipe(&error) {
            true => Ok(()),
            false => Err(error),
        })?;
    }
    match error {
        Some(error) if !results.is_interrupted => Err(error),
        _ if results.is_complete() => Ok(ExitCode::SUCCESS),
        _ => Ok(ExitCode::FAILURE),
    }
}

impl SearchArgs {
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
        let known = |word: &&String| {
            let name = word.split('=').next().unwrap_or_default();
            !word.starts_with('-') || GENERATOR_OPTIONS.iter().any(|(known, _)| *known == name)
        };
        match self.generator_options.iter().find(|word| !known(word)) {
            Some(word) => {
                let names = GENERATOR_OPTIONS.map(|(name, _)| name).join(", ");
                Err(format!("{word}: a search passes on only these options of gen: {names}"))
            }
            None => Ok(()),
        }
    }

    /// Returns the results before the first search.
    fn empty_results(&self) -> SearchResults {
        let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let pairs = |stream: &Vec<(String, String)>| {
            let pairs = stream.iter().map(|(key, value)| format!("{key}={value}"));
            pairs.collect::<Vec<_>>().join(" ")
        };
        SearchResults {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            kind: KIND.to_owned(),
            dpdk: dpdk::version(),
            started_unix_s: started.as_millis() as f64 / 1e3,
            command: std::env::args_os().map(|word| word.to_string_lossy().into()).collect(),
            host: Host {
                cpu: Processor::name_of_this_host(),
                kernel: Software::kernel_of_this_host(),
            },
            ports: self.ports.clone(),
            streams: self.streams.iter().map(pairs).collect(),
            generator_options: self.generator_options.clone(),
            unit: self.min_load.0.name().to_owned(),
            min_load: self.min_load.1,
            max_load: self.max_load.1,
            duration_max_s: self.duration_max.as_secs_f64(),
            latency_max: self.latency_max.clone(),
            goals: self.goals.iter().map(NamedGoal::shown).collect(),
            searches: Vec::new(),
            is_interrupted: false,
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
        let mut seed = self.seed;
        let sizes = self.sizes.iter().map(|size| Some(*size));
        let sizes: Vec<_> = if self.sizes.is_empty() { vec![None] } else { sizes.collect() };
        // Streams that are refused are refused before the first trial.
        let traffic = sizes
            .into_iter()
            .map(|size| Ok((size, Traffic::new(self.min_load.0, &self.streams, size)?)));
        let traffic = traffic.collect::<anyhow::Result<Vec<_>>>()?;
        for (size, traffic) in &traffic {
            let mut generator = Generator {
                ports: &self.ports,
                traffic,
                options: &self.generator_options,
                seed,
                links: [None; 2],
                interrupted,
            };
            if self.min_load.0 == Unit::LinkPercent {
                generator.learn_links()?;
            }
            let calibration = self.calibrate(&generator, *size)?;
            for number in 1..=self.repeat {
                let progress = |line: &str| self.report(*size, line);
                let found =
                    conduct::conduct(self.plan(), &mut generator, calibration.clone(), &progress);
                let Found { mut search, mut error } = found;
                (search.size, search.number) = (*size, number);
                if let (Some(times), None) = (self.back_to_back, &error) {
                    self.report(*size, "searching for the longest burst");
                    let max_load = self.max_load.1;
                    match back_to_back::back_to_back(max_load, times, &mut generator) {
                        Ok(found) => search.back_to_back = Some(found),
                        Err(failed) => error = Some(failed),
                    }
                }
                results.searches.push(search);
                error.map_or(Ok(()), Err)?;
            }
            seed = generator.seed;
        }
        Ok(())
    }

    /// Measures what the tester bears without the device, with the streams of `generator`.
    fn calibrate(
        &self,
        generator: &Generator,
        size: Option<u32>,
    ) -> anyhow::Result<Option<Calibration>> {
        let kept = self.options_of_rings();
        let (ports, options) = match &self.calibrate {
            CalibrationPorts::None => return Ok(None),
            CalibrationPorts::Ports(ports) => (ports.as_str(), &self.generator_options),
            CalibrationPorts::Cable if self.ports.parse::<PortNames>()?.count() == 2 => {
                ("net_ring0,net_ring1", &kept)
            }
            CalibrationPorts::Cable => ("net_ring0", &kept),
        };
        let mut tester = Generator { ports, options, ..*generator };
        let progress = |line: &str| self.report(size, line);
        let calibration = calibration::calibrate(self.plan(), ports, &mut tester, &progress);
        calibration.context("--calibrate").map(Some)
    }

    /// Returns the options of the generator that work with rings in memory.
    fn options_of_rings(&self) -> Vec<String> {
        let mut is_kept = true;
        let options = self.generator_options.iter().filter(|word| {
            if word.starts_with('-') {
                let name = word.split('=').next().unwrap_or_default();
                is_kept = GENERATOR_OPTIONS.contains(&(name, true));
            }
            is_kept
        });
        options.cloned().collect()
    }

    fn report(&self, size: Option<u32>, line: &str) {
        if !self.quiet {
            let size = size.map_or(String::new(), |size| format!("{size} bytes: "));
            write_line(io::stderr(), format_args!("millrace: {size}{line}"));
        }
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(args.options_of_rings(), ["--senders", "2", "--late=2"]);
    }

    #[test]
    fn options_that_a_search_sets_itself_are_refused() {
        for words in [&["--", "--rate=1pps"][..], &["--", "-d", "1"], &["--", "--", "x", "-v"]] {
            let refused = args(words).refuse_contradictions().unwrap_err();
            assert!(refused.contains("passes on only these options"), "{words:?}: {refused}");
        }
        assert!(args(&["--goal", "ndr,pdr,ndr"]).refuse_contradictions().is_err());
        assert!(args(&["--sizes", "64,128,64"]).refuse_contradictions().is_err());
        let goals = args(&["--goal", "ndr,quick width=5%", "--goal", "cps"]).goals;
        let names: Vec<_> = goals.iter().map(|goal| goal.name.as_str()).collect();
        assert_eq!(names, ["ndr", "quick width=5%", "cps"]);
    }
}
