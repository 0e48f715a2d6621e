// SPDX-License-Identifier: BSD-3-Clause
//! Measures Millrace beside testpmd and other programs: `make bench BENCH_ARGS=--help`.
//!
//! Each repetition runs testpmd in io mode and Millrace on the same virtual ports, with the same
//! memory, and in turns of 100 ms on the same worker cpus. The difference is the cost of Millrace.
//! With `--before`, an earlier build of Millrace takes turns with them. `bench/README.md` describes
//! the method.
//!
//! The program ends only its own children, gives hugepages back, and writes only below the
//! directory for temporary files and to the files of `--json` and `--save`.
#![forbid(unsafe_code)]

mod captures;
mod cases;
mod churn;
mod footprint;
mod heat;
mod hugepages;
mod kernel;
mod machine;
mod measured;
mod millrace;
mod ovs;
mod peers;
mod process;
mod replay;
mod report;
mod rules;
mod stopwatch;
mod table;
mod testpmd;
mod waits;
mod yardstick;

use anyhow::{Context, bail};
use captures::Traffic;
use cases::Case;
use clap::Parser;
use hugepages::Hugepages;
use machine::Machine;
use measured::Measured;
use report::Report;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use yardstick::Yardstick;

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
    /// Only the cases with NAME in their name; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Print the names of the cases and exit
    #[arg(long)]
    list: bool,
    /// Use no hugepages, even if there are some
    #[arg(long)]
    no_huge: bool,
    /// Cpus of the workers, the first one first; by default the last this process may use
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Write every single figure as JSON to FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report to bench/results/<date>-NAME.md; by default NAME is the processor
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

/// What every run has in common.
#[derive(Clone)]
struct Setup {
    /// Folder of captures and configurations.
    dir: PathBuf,
    /// The program that is measured.
    millrace: PathBuf,
    /// An earlier build of it, which is measured too.
    before: Option<PathBuf>,
    /// Length of one measurement.
    seconds: u32,
    /// Whether memory of DPDK is in hugepages.
    huge: bool,
    /// Bytes of packet in a buffer.
    mbuf_data_bytes: usize,
    /// Cpus of the workers: as many as any case needs, or as there are.
    worker_cpus: Vec<usize>,
    /// Cpus this process may use.
    cpus: Vec<usize>,
    /// Rate of the time-stamp counter.
    tsc_hz: f64,
}

/// Megabytes of DPDK and its ports besides packet buffers.
const DPDK_MB: usize = 160;

impl Setup {
    fn new(args: &Args, dir: PathBuf) -> anyhow::Result<Self> {
        let cpus = machine::allowed_cpus();
        let worker_cpus = match &args.cpus[..] {
            [] => cpus.iter().rev().copied().take(cases::WORKERS_MAX).collect(),
            chosen => chosen.to_vec(),
        };
        let tsc_hz = stopwatch::measure_tsc_hz();
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

    /// Packet buffers for all of a capture, once for every worker, and for what is under way.
    fn mbufs(&self, case: &Case) -> usize {
        let held = if case.needs_twin() { 0 } else { case.traffic.packets() };
        case.workers * (held + 16_384)
    }

    /// Megabytes for them: header of the pool, `rte_mbuf`, headroom, data, places in rings.
    fn memory_mb(&self, case: &Case) -> usize {
        let one = 64 + 128 + 128 + self.mbuf_data_bytes + 2 * 2 * size_of::<usize>();
        DPDK_MB + (self.mbufs(case) * one).div_ceil(1 << 20)
    }

    /// Megabytes of all that run at once.
    fn largest_heat_mb(&self, cases: &[Case]) -> usize {
        let table_mb = millrace::table_mb();
        let of_heat = |heat: &[Case]| -> usize {
            let floors = heat.chunk_by(Case::same_floor).map(|cases| &cases[0]);
            let builds = 1 + usize::from(self.before.is_some());
            let of_build = |case: &Case| case.workers * table_mb + self.memory_mb(case);
            let of_builds: usize = builds * heat.iter().map(of_build).sum::<usize>();
            of_builds + floors.map(|case| self.memory_mb(case)).sum::<usize>()
        };
        cases.chunk_by(|a, b| a.heat == b.heat).map(of_heat).max().unwrap_or(0)
    }

    fn capture(&self, traffic: Traffic) -> PathBuf {
        self.dir.join(format!("{}.pcap", traffic.name()))
    }

    /// Devargs of each pair of ports: each worker has a queue that replays the capture for ever,
    /// and one that swallows packets. Without `no-rx` the other port would make packets as well.
    fn pairs(&self, case: &Case) -> Vec<[String; 2]> {
        let queue = format!("rx_pcap={},", self.capture(case.traffic).display());
        let queues = queue.repeat(case.queues());
        let replay = self.capture(case.traffic);
        let source = |i| match case.needs_twin() {
            true => format!("net_twin{i},replay={},loops=forever", replay.display()),
            false => format!("net_pcap{i},{queues}infinite_rx=1"),
        };
        let pair = |i| [source(i), format!("net_null{i},no-rx=1")];
        (0..case.pairs()).map(pair).collect()
    }
}

/// Bytes of packet in a buffer: the frames have up to 76, and 2 M of them must fit into memory.
const MBUF_DATA_BYTES: usize = 256;

fn main() -> ExitCode {
    run(&Args::parse()).unwrap_or_else(|error| {
        eprintln!("sidebyside: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let is_wanted = |name: &str| {
        args.only.is_empty() || args.only.iter().any(|part| name.contains(part.as_str()))
    };
    let mut cases = cases::all();
    cases.retain(|case| is_wanted(&case.name));
    let with_footprint = is_wanted(footprint::NAME);
    if args.peers {
        return run_peers(args, is_wanted);
    }
    if args.list {
        cases.iter().for_each(|case| println!("{}", case.name));
        [footprint::NAME].iter().chain(&TWINS).for_each(|name| println!("{name}"));
        return Ok(ExitCode::SUCCESS);
    }
    let wanted_twins = TWINS.map(is_wanted);
    if cases.is_empty() && !with_footprint && wanted_twins == [false; TWINS.len()] {
        bail!("no case has any of {:?} in its name; --list shows them", args.only);
    }

    let interrupted = interrupted()?;
    cases.retain(|case| {
        let is_possible = !case.needs_twin() || replay::driver().is_some();
        if !is_possible {
            eprintln!("{} is left out: make twin", case.name);
        }
        is_possible
    });
    let dir = TemporaryDir::new()?;
    let mut setup = Setup::new(args, dir.0.clone())?;
    cases.retain(|case| {
        let has_cpus = case.cpus().end <= setup.worker_cpus.len();
        if !has_cpus {
            eprintln!("{} is left out: it needs {} cpus", case.name, case.cpus().end);
        }
        has_cpus
    });
    let hugepages = (!args.no_huge && !cases.is_empty())
        .then(|| Hugepages::reserve(setup.largest_heat_mb(&cases)))
        .flatten();
    setup.huge = hugepages.is_some();

    let machine = Machine::new(&setup);
    let commands = commands(&setup, &cases);
    let mut yardsticks = Vec::new();
    let measured = measure(&setup, cases, args.reps(), &mut yardsticks, &interrupted)?;
    drop(hugepages);
    let footprints = with_footprint.then(footprint::measure);
    let twins = twins(&setup, args, wanted_twins, &interrupted)?;
    let machine = machine.finish();
    let report = Report { machine, commands, measured, yardsticks, footprints, twins };
    print!("{}", report.to_markdown());
    write_files(args, &report.machine, &report, &report.to_markdown())?;
    let is_whole = report.measured.iter().all(|measured| measured.failures.is_empty());
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Measures Millrace beside other programs that track connections.
fn run_peers(args: &Args, is_wanted: impl Fn(&str) -> bool) -> anyhow::Result<ExitCode> {
    if args.list {
        peers::names().iter().for_each(|name| println!("{name}"));
        return Ok(ExitCode::SUCCESS);
    }
    let interrupted = interrupted()?;
    let dir = TemporaryDir::new()?;
    let mut setup = Setup::new(args, dir.0.clone())?;
    let with_huge = !args.no_huge;
    let peers = peers::measure(&mut setup, args.reps(), with_huge, is_wanted, &interrupted)?;
    print!("{}", peers.to_markdown());
    write_files(args, &peers.machine, &peers, &peers.to_markdown())?;
    Ok(if peers.is_whole(args.reps()) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Set by Ctrl-C.
fn interrupted() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted)
}

/// What the software NIC can be measured by, if it was built.
const TWINS: [&str; 5] =
    [replay::NAME, rules::NAME, waits::NAME, churn::MIXES[0].name, churn::MIXES[1].name];

/// What it came to.
#[derive(Default, Serialize)]
pub(crate) struct Twins {
    replays: Vec<replay::Replay>,
    rules: Option<rules::Rules>,
    churn: Vec<churn::Churn>,
    waits: Vec<waits::Waits>,
}

fn twins(
    setup: &Setup,
    args: &Args,
    wanted: [bool; TWINS.len()],
    interrupted: &AtomicBool,
) -> anyhow::Result<Twins> {
    let [with_replay, with_rules, with_waits, with_churn @ ..] = wanted;
    let Some(driver) = replay::driver() else {
        let left_out = TWINS.iter().zip(wanted).filter(|(_, is_wanted)| *is_wanted);
        left_out.for_each(|(name, _)| eprintln!("{name} is left out: make twin"));
        return Ok(Twins::default());
    };
    let replays = match with_replay {
        true => replay::measure(setup, &driver, args.reps(), interrupted)?,
        false => Vec::new(),
    };
    let rules = with_rules.then(|| rules::measure(setup, &driver, args.reps())).transpose()?;
    let waits = match with_waits {
        true => waits::measure(setup, &driver, args.reps())?,
        false => Vec::new(),
    };
    let mixes = churn::MIXES.iter().zip(with_churn).filter(|(_, is_wanted)| *is_wanted);
    let churn = mixes.map(|(mix, _)| churn::measure(setup, &driver, mix, args.reps()));
    let churn = churn.collect::<anyhow::Result<_>>()?;
    Ok(Twins { replays, rules, churn, waits })
}

/// All repetitions of all cases, heat by heat, each after a look at the machine itself.
fn measure(
    setup: &Setup,
    cases: Vec<Case>,
    reps: u32,
    yardsticks: &mut Vec<yardstick::Reading>,
    interrupted: &AtomicBool,
) -> anyhow::Result<Vec<Measured>> {
    for traffic in cases.iter().map(|case| case.traffic) {
        let path = setup.capture(traffic);
        if !path.exists() {
            eprintln!("writing {} packets of {}", traffic.packets(), traffic.name());
            traffic.write(&path).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    let yardstick = setup.worker_cpus.first().map(|&cpu| Yardstick::new(cpu));
    let mut measured: Vec<Measured> = cases.into_iter().map(Measured::new).collect();
    for rep in 1..=reps {
        for group in measured.chunk_by_mut(|a, b| a.case.heat == b.case.heat) {
            let cases: Vec<&Case> = group.iter().map(|measured| &measured.case).collect();
            yardsticks.extend(yardstick.iter().map(Yardstick::read));
            let outcome = heat::run(setup, &cases, interrupted).map_err(|e| format!("{e:#}"));
            // A signal from the terminal has ended the children as well.
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

/// The root of the workspace.
fn root() -> &'static Path {
    let this_crate = Path::new(env!("CARGO_MANIFEST_DIR"));
    this_crate.ancestors().nth(2).unwrap_or(this_crate)
}

/// The command that makes this report again, and what it comes to in the first case.
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

/// A new directory, removed with its value.
struct TemporaryDir(PathBuf);

impl TemporaryDir {
    fn new() -> anyhow::Result<Self> {
        let dir = std::env::temp_dir().join(format!("millrace-bench-{}", std::process::id()));
        fs::create_dir(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        Ok(Self(dir))
    }
}

impl Drop for TemporaryDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("{} stays: {error}", self.0.display());
        }
    }
}
