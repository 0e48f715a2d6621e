// SPDX-License-Identifier: BSD-3-Clause
//! Measures Millrace beside testpmd and other programs: `make bench BENCH_ARGS=--help`.
//!
//! Each repetition runs testpmd in io mode and Millrace on the same virtual ports, with the same
//! memory, and in turns of 100 ms on the same worker cpus. The difference is the cost of Millrace.
//! With `--before`, an earlier build of Millrace takes turns with them. `bench/README.md` describes
//! the method.
//!
//! The program ends only its own children, and returns the hugepages that it reserves. It writes
//! only to the directory for temporary files and to the files of `--json` and `--save`.
#![forbid(unsafe_code)]

mod calibration;
mod captures;
mod cases;
mod choice;
mod churn;
mod figures;
mod footprint;
mod hugepages;
mod kernel;
mod lists;
mod machine;
mod millrace;
mod ovs;
mod peers;
mod poll_gaps;
mod process;
mod reloads;
mod replay;
mod report;
mod results;
mod rules;
mod table;
mod testpmd;
mod turns;

use anyhow::{Context, bail};
use calibration::Calibration;
use captures::Traffic;
use cases::{Case, NicRules, PacketSource};
use clap::Parser;
use hugepages::Hugepages;
use machine::Machine;
use report::Report;
use results::CaseResult;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Measure testpmd and Millrace side by side on the same virtual ports
#[derive(Parser)]
#[command(name = "sidebyside")]
struct Args {
    /// Program to measure; by default `millrace` in the folder of this program
    #[arg(long, value_name = "PATH")]
    millrace: Option<PathBuf>,
    /// An earlier build of Millrace, which takes turns with --millrace
    #[arg(long, value_name = "PATH", conflicts_with = "peers")]
    before: Option<PathBuf>,
    /// Number of repetitions; 5 by default, 3 with --peers
    #[arg(long, value_name = "N", value_parser = at_least_one())]
    reps: Option<u32>,
    /// Seconds that each program runs in a repetition; 3 by default, 2 with --peers
    #[arg(long, value_name = "S", value_parser = at_least_one())]
    seconds: Option<u32>,
    /// Measure Millrace beside Open vSwitch and Linux instead; needs root
    #[arg(long)]
    peers: bool,
    /// Run only cases whose name contains NAME, or is NAME if =NAME is given; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Print the names of the cases and exit
    #[arg(long)]
    list: bool,
    /// Use no hugepages
    #[arg(long)]
    no_huge: bool,
    /// Cpus of the workers, in order; by default the last ones that this process may use
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Write the figures of all repetitions to FILE, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report to bench/results/DATE-NAME.md; by default NAME is the processor
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    save: Option<String>,
}

impl Args {
    fn reps(&self) -> u32 {
        self.reps.unwrap_or(if self.peers { 3 } else { 5 })
    }

    fn seconds(&self) -> u32 {
        self.seconds.unwrap_or(if self.peers { 2 } else { 3 })
    }
}

fn at_least_one() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..)
}

/// Settings that all runs share.
#[derive(Clone)]
struct Setup {
    /// Directory of captures and configurations.
    dir: PathBuf,
    /// The build of Millrace that is measured.
    millrace: PathBuf,
    /// An earlier build of Millrace, measured beside it.
    before: Option<PathBuf>,
    /// Seconds that each program runs in one repetition.
    seconds: u32,
    /// True if DPDK's memory is in hugepages.
    huge: bool,
    /// Bytes of packet data that fit into one packet buffer.
    mbuf_data_bytes: usize,
    /// Cpus for workers; cases that need more are left out.
    worker_cpus: Vec<usize>,
    /// Cpus this process may use.
    cpus: Vec<usize>,
    /// Frequency of the time-stamp counter in Hz.
    tsc_hz: f64,
}

/// Megabytes of a worker for the rules of a NIC, beside its table.
const RULES_MB: usize = 64;
/// Megabytes that DPDK and its ports need in addition to packet buffers.
const DPDK_MB: usize = 160;

impl Setup {
    fn new(args: &Args, dir: PathBuf) -> anyhow::Result<Self> {
        let cpus = machine::allowed_cpus();
        let worker_cpus = match &args.cpus[..] {
            [] => cpus.iter().rev().copied().take(cases::WORKERS_MAX).collect(),
            chosen => chosen.to_vec(),
        };
        let tsc_hz = figures::measure_tsc_hz();
        let mbuf_data_bytes = if args.peers { peers::MBUF_DATA_BYTES } else { MBUF_DATA_BYTES };
        let seconds = args.seconds();
        let millrace = match &args.millrace {
            Some(path) => path.clone(),
            None => std::env::current_exe()?.with_file_name("millrace"),
        };
        for path in args.before.iter().chain([&millrace]) {
            anyhow::ensure!(
                path.is_file(),
                "there is no program {}: build it (`make build`), or name one with --millrace",
                path.display()
            );
        }
        let before = args.before.clone();
        let huge = false;
        let setup = Self {
            dir,
            millrace,
            before,
            seconds,
            huge,
            mbuf_data_bytes,
            worker_cpus,
            cpus,
            tsc_hz,
        };
        Ok(setup)
    }

    /// Returns the number of packet buffers of a program: the whole capture once per worker, if
    /// `net_pcap` holds it, and a reserve for packets in queues.
    fn mbufs(&self, case: &Case) -> usize {
        let held = if case.needs_twin() { 0 } else { case.traffic.packets() };
        case.workers * (held + 16_384)
    }

    /// Returns the megabytes that a program's DPDK memory needs. A packet buffer has a header of
    /// the pool, an `rte_mbuf`, headroom, data, and entries in rings.
    fn memory_mb(&self, case: &Case) -> usize {
        let one = 64 + 128 + 128 + self.mbuf_data_bytes + 2 * 2 * size_of::<usize>();
        DPDK_MB + (self.mbufs(case) * one).div_ceil(1 << 20)
    }

    /// Returns the megabytes that the programs of the largest group need together.
    fn largest_group_mb(&self, cases: &[Case]) -> usize {
        let table_mb = millrace::table_mb();
        let of_group = |group: &[Case]| -> usize {
            let floors = group.chunk_by(Case::has_same_floor).map(|cases| &cases[0]);
            let builds = 1 + usize::from(self.before.is_some());
            let rules_mb = |case: &Case| if case.rules() == NicRules::None { 0 } else { RULES_MB };
            let build_mb =
                |case: &Case| case.workers * table_mb + rules_mb(case) + self.memory_mb(case);
            let builds_mb: usize = builds * group.iter().map(build_mb).sum::<usize>();
            builds_mb + floors.map(|case| self.memory_mb(case)).sum::<usize>()
        };
        cases.chunk_by(|a, b| a.group == b.group).map(of_group).max().unwrap_or(0)
    }

    fn capture(&self, traffic: Traffic) -> PathBuf {
        self.dir.join(format!("{}.pcap", traffic.name()))
    }

    /// Returns the devargs of each pair of ports. Each worker has a queue that replays the capture
    /// without end, and one that discards packets. Without `no-rx`, `net_null` would also generate
    /// packets.
    fn pairs(&self, case: &Case) -> Vec<[String; 2]> {
        let queue = format!("rx_pcap={},", self.capture(case.traffic).display());
        let queues = queue.repeat(case.queues());
        let replay = self.capture(case.traffic);
        let source = |i| match case.source {
            PacketSource::Twin { personality, .. } => {
                let personality = personality.map(|name| format!(",personality={name}"));
                let personality = personality.unwrap_or_default();
                format!("net_twin{i},replay={},loops=forever{personality}", replay.display())
            }
            PacketSource::Pcap => format!("net_pcap{i},{queues}infinite_rx=1"),
        };
        let pair = |i| [source(i), format!("net_null{i},no-rx=1")];
        (0..case.pairs()).map(pair).collect()
    }
}

/// Bytes of packet data in a buffer. Frames have at most 76 bytes, and buffers for 2 M of them must
/// fit into memory.
const MBUF_DATA_BYTES: usize = 256;

fn main() -> ExitCode {
    run(&Args::parse()).unwrap_or_else(|error| {
        eprintln!("sidebyside: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let is_selected = |name: &str| {
        let matches = |only: &String| match only.strip_prefix('=') {
            Some(whole) => name == whole,
            None => name.contains(only.as_str()),
        };
        args.only.is_empty() || args.only.iter().any(matches)
    };
    let mut cases = cases::all();
    cases.retain(|case| is_selected(&case.name));
    let with_footprint = is_selected(footprint::NAME);
    if args.peers {
        return run_peers(args, is_selected);
    }
    if args.list {
        cases.iter().for_each(|case| println!("{}", case.name));
        let others = [footprint::NAME].into_iter().chain(TWIN_CASES);
        others.filter(|name| is_selected(name)).for_each(|name| println!("{name}"));
        return Ok(ExitCode::SUCCESS);
    }
    let selected_twins = TWIN_CASES.map(is_selected);
    if cases.is_empty() && !with_footprint && selected_twins == [false; TWIN_CASES.len()] {
        bail!("no case is meant by --only {:?}; --list prints all names", args.only);
    }

    let interrupted = interrupted()?;
    cases.retain(|case| {
        let is_possible = !case.needs_twin() || replay::driver().is_some();
        if !is_possible {
            eprintln!("{} is skipped: it needs the software NIC (make twin)", case.name);
        }
        is_possible
    });
    let dir = TempDir::new()?;
    let mut setup = Setup::new(args, dir.0.clone())?;
    cases.retain(|case| {
        let has_cpus = case.cpus().end <= setup.worker_cpus.len();
        if !has_cpus {
            eprintln!("{} is skipped: it needs {} cpus", case.name, case.cpus().end);
        }
        has_cpus
    });
    let hugepages = (!args.no_huge && !cases.is_empty())
        .then(|| Hugepages::reserve(setup.largest_group_mb(&cases)))
        .flatten();
    setup.huge = hugepages.is_some();

    let machine = Machine::new(&setup);
    let commands = commands(&setup, &cases);
    let mut calibrations = Vec::new();
    let measured = measure(&setup, cases, args.reps(), &mut calibrations, &interrupted)?;
    drop(hugepages);
    let footprints = with_footprint.then(footprint::measure);
    let twins = twins(&setup, args, selected_twins, &interrupted)?;
    let machine = machine.finish();
    let report = Report { machine, commands, measured, calibrations, footprints, twins };
    print!("{}", report.to_markdown());
    write_files(args, &report.machine, &report, &report.to_markdown())?;
    let is_whole = report.measured.iter().all(|measured| measured.failures.is_empty());
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Measures Millrace beside Open vSwitch and Linux; prints the report.
fn run_peers(args: &Args, is_selected: impl Fn(&str) -> bool) -> anyhow::Result<ExitCode> {
    if args.list {
        peers::names().iter().for_each(|name| println!("{name}"));
        return Ok(ExitCode::SUCCESS);
    }
    let interrupted = interrupted()?;
    let dir = TempDir::new()?;
    let mut setup = Setup::new(args, dir.0.clone())?;
    let with_huge = !args.no_huge;
    let peers = peers::measure(&mut setup, args.reps(), with_huge, is_selected, &interrupted)?;
    print!("{}", peers.to_markdown());
    write_files(args, &peers.machine, &peers, &peers.to_markdown())?;
    Ok(if peers.is_whole(args.reps()) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns a flag that SIGINT and SIGTERM set.
fn interrupted() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted)
}

/// Names of the cases that measure the software NIC, or Millrace on it, without a floor.
const TWIN_CASES: [&str; 5] =
    [replay::NAME, rules::NAME, poll_gaps::NAME, churn::MIXES[0].name, churn::MIXES[1].name];

/// Figures of the cases in [`TWIN_CASES`].
#[derive(Default, Serialize)]
pub(crate) struct TwinResults {
    replays: Vec<replay::Replay>,
    rules: Option<rules::Rules>,
    churn: Vec<churn::Churn>,
    #[serde(rename = "waits")]
    poll_gaps: Vec<poll_gaps::PollGaps>,
}

fn twins(
    setup: &Setup,
    args: &Args,
    selected: [bool; TWIN_CASES.len()],
    interrupted: &AtomicBool,
) -> anyhow::Result<TwinResults> {
    let [with_replay, with_rules, with_waits, with_churn @ ..] = selected;
    let Some(driver) = replay::driver() else {
        let skipped = TWIN_CASES.iter().zip(selected).filter(|(_, is_selected)| *is_selected);
        skipped.for_each(|(name, _)| {
            eprintln!("{name} is skipped: it needs the software NIC (make twin)");
        });
        return Ok(TwinResults::default());
    };
    let replays = match with_replay {
        true => replay::measure(setup, &driver, args.reps(), interrupted)?,
        false => Vec::new(),
    };
    let rules = with_rules.then(|| rules::measure(setup, &driver, args.reps())).transpose()?;
    let poll_gaps = match with_waits {
        true => poll_gaps::measure(setup, &driver, args.reps())?,
        false => Vec::new(),
    };
    let mixes = churn::MIXES.iter().zip(with_churn).filter(|(_, is_selected)| *is_selected);
    let churn = mixes.map(|(mix, _)| churn::measure(setup, &driver, mix, args.reps()));
    let churn = churn.collect::<anyhow::Result<_>>()?;
    Ok(TwinResults { replays, rules, churn, poll_gaps })
}

/// Runs all repetitions of all cases, group by group. Measures the machine before each group.
fn measure(
    setup: &Setup,
    cases: Vec<Case>,
    reps: u32,
    calibrations: &mut Vec<calibration::Reading>,
    interrupted: &AtomicBool,
) -> anyhow::Result<Vec<CaseResult>> {
    for traffic in cases.iter().map(|case| case.traffic) {
        let path = setup.capture(traffic);
        if !path.exists() {
            eprintln!("writing {} packets of {}", traffic.packets(), traffic.name());
            traffic.write(&path).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    let calibration = setup.worker_cpus.first().map(|&cpu| Calibration::new(cpu));
    let mut measured: Vec<CaseResult> = cases.into_iter().map(CaseResult::new).collect();
    for rep in 1..=reps {
        for group in measured.chunk_by_mut(|a, b| a.case.group == b.case.group) {
            let cases: Vec<&Case> = group.iter().map(|measured| &measured.case).collect();
            calibrations.extend(calibration.iter().map(Calibration::read));
            let outcome = turns::run(setup, &cases, interrupted).map_err(|e| format!("{e:#}"));
            // Ctrl-C in a terminal also ends the children, so `outcome` is an error then.
            if interrupted.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            for (i, measured) in group.iter_mut().enumerate() {
                let runs = outcome.as_ref().map(|runs| runs[i].clone()).map_err(String::clone);
                let line = measured.add(rep, runs);
                eprintln!("{rep}/{reps} {:<24} {line}", measured.case.name);
            }
        }
    }
    Ok(measured)
}

fn write_files(
    args: &Args,
    machine: &Machine,
    report: &impl Serialize,
    markdown: &str,
) -> anyhow::Result<()> {
    if let Some(path) = &args.json {
        let json = serde_json::to_string_pretty(report)? + "\n";
        fs::write(path, json).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(name) = &args.save {
        let results = root().join("bench/results");
        fs::create_dir_all(&results)?;
        let name = if name.is_empty() { machine.slug() } else { name.clone() };
        let what = if args.peers { "peers-" } else { "" };
        let path = results.join(format!("{}-{what}{name}.md", machine.date()));
        fs::write(&path, markdown).with_context(|| format!("cannot write {}", path.display()))?;
        eprintln!("written: {}", path.display());
    }
    Ok(())
}

/// Returns the root of the workspace.
fn root() -> &'static Path {
    let this_crate = Path::new(env!("CARGO_MANIFEST_DIR"));
    this_crate.ancestors().nth(2).unwrap_or(this_crate)
}

/// Returns the command of this run, then commands and configuration of its first case.
fn commands(setup: &Setup, cases: &[Case]) -> String {
    let mut commands = command();
    if let Some(case) = cases.first() {
        let testpmd = testpmd::arguments(setup, case).join(" ");
        let config = millrace::configuration(setup, case, 2);
        commands += &format!("\n\n# {}\ndpdk-testpmd {testpmd}\n\n", case.name);
        commands += &format!("millrace run millrace.toml\n\n# millrace.toml\n{config}");
    }
    commands
}

/// Returns the command line of this run.
fn command() -> String {
    let args: Vec<String> = std::env::args().skip(1).collect();
    ["sidebyside"].into_iter().chain(args.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")
}

/// A new directory for temporary files, removed on drop.
struct TempDir(PathBuf);

impl TempDir {
    fn new() -> anyhow::Result<Self> {
        let dir = std::env::temp_dir().join(format!("millrace-bench-{}", std::process::id()));
        fs::create_dir(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        Ok(Self(dir))
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("cannot remove {}: {error}", self.0.display());
        }
    }
}
