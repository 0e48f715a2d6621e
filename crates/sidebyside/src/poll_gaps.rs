// SPDX-License-Identifier: BSD-3-Clause
//! Measures the longest time between two polls of a worker while a million connections expire, are
//! listed, or are flushed. Millrace runs on the software NIC at a rate below its limit.
//!
//! A poll-mode program cannot poll while it does not have its cpu. So a loop that only reads the
//! clock runs on the same cpu for as long, right after each run. The longest time between two of
//! its readings affects every program on that cpu, also testpmd.
//!
//! The machine takes the cpu away at random, a few times in some seconds. So the operation happens
//! in each of several seconds, and the threshold applies to the median of their longest gaps. Gaps
//! that Millrace causes are in every second; random ones are not.

use crate::Setup;
use crate::millrace::{LIMITS, kpps, run_command};
use crate::process::{Process, run};
use crate::report::Outcome;
use crate::results::Spread;
use crate::table;
use anyhow::{Context, bail};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::Serialize;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use traffic::PcapWriter;
use traffic::flood::{self, Target};

/// Name for `--only`.
pub(crate) const NAME: &str = "worker-waits";
/// Largest accepted gap beyond that of the loop that reads the clock, in microseconds.
const MUST: f64 = 100.0;
/// Desired value of the same figure.
const GOAL: f64 = 20.0;

/// Connections of one packet each, at the start of the capture.
const FLOWS: u32 = 1_000_000;
/// Packets of other connections behind them.
const STEADY_PACKETS: u32 = 4_000_000;
/// Number of these other connections.
const STEADY_FLOWS: u32 = 1_000;
/// Rate in thousand packets per second. The capture repeats once a second.
const KPPS: u32 = 5_000;
/// Bytes on the wire of a frame of 60 bytes, with check sequence, preamble and gap.
const WIRE_BYTES: u32 = 84;
/// Timeout in seconds where connections are to expire.
const SHORT_S: f64 = 0.3;
/// Timeout in seconds where connections are to stay.
const LONG_S: f64 = 600.0;
/// Share of the connections that must exist when the operation begins.
const COMPLETE: f64 = 0.95;

/// Number of seconds that are measured. The operation happens, or continues, in each.
const SECONDS: usize = 6;

/// Operation on a million connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Operation {
    Nothing,
    Expire,
    List,
    Flush,
}

impl Operation {
    const ALL: [Self; 4] =
        [Operation::Nothing, Operation::Expire, Operation::List, Operation::Flush];

    fn name(self) -> &'static str {
        match self {
            Operation::Nothing => "begin and stay",
            Operation::Expire => "expire within a fifth of a second",
            Operation::List => "millrace ct list",
            Operation::Flush => "millrace ct flush --all",
        }
    }
}

/// Figures of each repetition; times in microseconds.
#[derive(Debug, Serialize)]
pub(crate) struct PollGaps {
    #[serde(rename = "what")]
    operation: Operation,
    /// Longest gap of a second: the median of all seconds.
    second_us: Vec<f64>,
    /// `second_us` of the loop that reads the clock.
    clock_second_us: Vec<f64>,
    /// Longest gap of the whole run.
    longest_us: Vec<f64>,
    /// `longest_us` of the loop that reads the clock.
    clock_us: Vec<f64>,
    /// One gap in ten thousand is longer.
    p99_99_us: Vec<f64>,
    /// Connections that expired, or were listed or flushed: the smallest number of all seconds. For
    /// expiry, the mean.
    connections: Vec<f64>,
}

/// Measures all operations `reps` times.
pub(crate) fn measure(setup: &Setup, driver: &Path, reps: u32) -> anyhow::Result<Vec<PollGaps>> {
    write(&capture(setup))?;
    let mut all = Operation::ALL.map(|operation| {
        let [second_us, clock_second_us, longest_us, clock_us, p99_99_us, connections] =
            Default::default();
        PollGaps {
            operation,
            second_us,
            clock_second_us,
            longest_us,
            clock_us,
            p99_99_us,
            connections,
        }
    });
    for rep in 1..=reps {
        for gaps in &mut all {
            gaps.repeat(setup, driver)?;
            let [second, clock, longest, connections] =
                [&gaps.second_us, &gaps.clock_second_us, &gaps.longest_us, &gaps.connections]
                    .map(|of| of[of.len() - 1]);
            eprintln!(
                "{rep}/{reps} {NAME}, {}: {second:.0} us per second, clock {clock:.0}, longest \
                 {longest:.0}, {connections:.0} connections",
                gaps.operation.name()
            );
        }
    }
    fs::remove_file(capture(setup))?;
    Ok(all.into())
}

impl PollGaps {
    fn repeat(&mut self, setup: &Setup, driver: &Path) -> anyhow::Result<()> {
        let [config, json] = ["toml", "json"].map(|end| setup.dir.join(format!("gaps.{end}")));
        fs::write(&config, configuration(setup, self.operation))?;
        let begin = Instant::now();
        let mut process = Process::start(
            run_command(&setup.millrace, &config, &json).env("MILLRACE_TWIN", driver),
        )?;
        let (seconds, connections) = self.watch(setup, &mut process)?;
        process.interrupt()?;
        process.finish()?;
        let ran = begin.elapsed();
        let summary: Value = serde_json::from_slice(&fs::read(&json)?)?;
        let number = |pointer| summary.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN);
        let connections = match self.operation {
            Operation::Expire => number("/flows/ended/idle") / SECONDS as f64,
            _ => connections,
        };
        let is_complete = connections >= COMPLETE * f64::from(FLOWS);
        if !is_complete {
            bail!("{NAME}, {}: only {connections} connections", self.operation.name());
        }
        let clock = clock_gaps(setup, ran);
        let longest = |gaps: &[f64]| gaps.iter().copied().fold(0.0, f64::max);
        self.second_us.push(Spread::of(seconds).median);
        self.longest_us.push(number("/workers/0/poll_gap_us/max"));
        self.p99_99_us.push(number("/workers/0/poll_gap_us/p99_99"));
        self.clock_us.push(longest(&clock));
        self.clock_second_us.push(Spread::of(clock).median);
        self.connections.push(connections);
        Ok(())
    }

    /// Does the operation while Millrace runs. Returns the longest gap of each second, and the
    /// smallest number of connections that an operation applied to.
    fn watch(&self, setup: &Setup, process: &mut Process) -> anyhow::Result<(Vec<f64>, f64)> {
        let instance = process.id();
        if self.operation == Operation::Expire {
            // In the first two seconds, the first connections begin and expire.
            process.wait_for("a line per second", poll_gap)?;
            process.wait_for("a line per second", poll_gap)?;
        } else {
            process.wait_for("a line with all connections", is_full)?;
        }
        let is_done = AtomicBool::new(self.operation != Operation::List);
        std::thread::scope(|scope| {
            let lister = scope.spawn(|| {
                pin_away_from_worker(setup);
                list_repeatedly(setup, instance, &is_done)
            });
            let watched = self.seconds(setup, process);
            is_done.store(true, Ordering::Relaxed);
            let listed = lister.join().expect("it does not panic")?;
            let (seconds, ended) = watched?;
            Ok((seconds, ended.min(listed)))
        })
    }

    /// Returns the longest gap of each second. With [`Operation::Flush`], also flushes in each
    /// second and returns the smallest number flushed; otherwise the number is [`FLOWS`].
    fn seconds(&self, setup: &Setup, process: &mut Process) -> anyhow::Result<(Vec<f64>, f64)> {
        let (mut seconds, mut fewest, instance) = (Vec::new(), f64::from(FLOWS), process.id());
        while seconds.len() < SECONDS {
            if self.operation == Operation::Flush {
                process.wait_for("a line with all connections", is_full)?;
                let flush = || {
                    pin_away_from_worker(setup);
                    flush(setup, instance)
                };
                let flushed = std::thread::scope(|scope| scope.spawn(flush).join());
                fewest = fewest.min(flushed.expect("it does not panic")?);
            }
            seconds.push(process.wait_for("a line per second", poll_gap)?);
        }
        Ok((seconds, fewest))
    }
}

/// Lists all connections repeatedly until `is_done`. Returns the smallest number listed.
fn list_repeatedly(setup: &Setup, instance: u32, is_done: &AtomicBool) -> anyhow::Result<f64> {
    let mut fewest = f64::INFINITY;
    while !is_done.load(Ordering::Relaxed) {
        let mut ct = ct(setup, &["list"], instance);
        let mut list =
            ct.stdout(Stdio::piped()).spawn().context("cannot start millrace ct list")?;
        let lines = list.stdout.take().context("millrace ct list has no pipe")?;
        let count = BufReader::new(lines).lines().count();
        let status = list.wait()?;
        if !status.success() {
            bail!("millrace ct list: {status}");
        }
        fewest = fewest.min(count as f64);
    }
    Ok(fewest)
}

/// Flushes all connections. Returns their number.
fn flush(setup: &Setup, instance: u32) -> anyhow::Result<f64> {
    let reply: Value =
        serde_json::from_str(&run(&mut ct(setup, &["flush", "--all", "--json"], instance))?)?;
    reply["flushed"]
        .as_f64()
        .with_context(|| format!("unexpected reply of millrace ct flush: {reply}"))
}

fn ct(setup: &Setup, words: &[&str], instance: u32) -> Command {
    let mut ct = Command::new(&setup.millrace);
    ct.arg("ct").args(words).args(["--instance", &instance.to_string()]);
    ct
}

/// Returns the longest gap of a second, from a line that Millrace prints every second; `None` for
/// other lines.
fn poll_gap(line: &str) -> Option<f64> {
    kpps(line)?;
    line.split_whitespace().last()?.replace('_', "").parse().ok()
}

/// Returns `Some` if a line says that nearly all connections exist.
fn is_full(line: &str) -> Option<()> {
    kpps(line)?;
    let flows: f64 = line.split_whitespace().nth(7)?.replace('_', "").parse().ok()?;
    (flows > COMPLETE * f64::from(FLOWS)).then_some(())
}

/// Pins this thread, and the processes it starts, to cpus without a worker, as clients of a real
/// instance should be.
fn pin_away_from_worker(setup: &Setup) {
    pin(setup.cpus.iter().copied().filter(|cpu| *cpu != setup.worker_cpus[0]));
}

/// Pins this thread, and the processes it starts, to these cpus.
fn pin(to: impl Iterator<Item = usize>) {
    let mut cpus = CpuSet::new();
    to.for_each(|cpu| cpus.set(cpu));
    // On failure the thread runs on any cpu of the machine.
    let _ = sched_setaffinity(None, &cpus);
}

/// Reads the clock in a loop for `time`. Returns the longest time between two readings, in
/// microseconds, of each whole second.
fn clock_gaps(setup: &Setup, time: Duration) -> Vec<f64> {
    let second = || {
        let begin = dpdk::tsc();
        let (mut last, mut longest) = (begin, 0);
        while ((last - begin) as f64) < setup.tsc_hz {
            let now = dpdk::tsc();
            (last, longest) = (now, longest.max(now - last));
        }
        longest as f64 / setup.tsc_hz * 1e6
    };
    let measure = || {
        pin([setup.worker_cpus[0]].into_iter());
        (0..time.as_secs().max(1)).map(|_| second()).collect()
    };
    std::thread::scope(|scope| scope.spawn(measure).join()).expect("a loop does not panic")
}

fn capture(setup: &Setup) -> PathBuf {
    setup.dir.join(format!("{NAME}.pcap"))
}

fn write(path: &Path) -> io::Result<()> {
    let mut capture = PcapWriter::new(BufWriter::new(File::create(path)?))?;
    let mut written = Ok(());
    flood::packets(1, Target::Random, FLOWS, |_, frame| {
        if written.is_ok() {
            written = capture.write(0, frame);
        }
    });
    written?;
    let mut steady = Vec::new();
    flood::packets(2, Target::Random, STEADY_FLOWS, |_, frame| steady.push(frame.to_vec()));
    for frame in steady.iter().cycle().take(STEADY_PACKETS as usize) {
        capture.write(0, frame)?;
    }
    capture.finish()?;
    Ok(())
}

fn configuration(setup: &Setup, operation: Operation) -> String {
    let worker = setup.worker_cpus[0];
    let mbps = KPPS * WIRE_BYTES * 8 / 1000;
    let timeout = if operation == Operation::Expire { SHORT_S } else { LONG_S };
    format!(
        "[eal]\nhuge = false\nmemory_mb = 256\nmbufs = 16384\n\
         [[pair]]\na = \"net_twin0,replay={},loops=forever,speed={mbps}M\"\n\
         b = \"net_null0,no-rx=1\"\nworkers = [{worker}]\n\
         {LIMITS}[offload]\npolicy = \"off\"\n[table]\ncapacity = 2_000_000\n\
         [timeouts]\nudp_first = {timeout}\nudp_single = {timeout}\n",
        capture(setup).display()
    )
}

/// Formats the section of the report; empty without figures.
pub(crate) fn section(gaps: &[PollGaps]) -> String {
    if gaps.is_empty() {
        return String::new();
    }
    let rows: Vec<_> = gaps.iter().flat_map(PollGaps::rows).collect();
    let head = ["a million connections", "min", "median", "max", "must / goal", "outcome"];
    format!(
        "\n## Gaps between polls\n\nMicroseconds between two polls, at {} Mpps. The threshold \
         applies to the longest gap of a second in which the operation happens: the median of \
         {SECONDS} seconds, minus that of a loop that reads the clock on the same cpu. The longest \
         gap of the whole run depends on when the hypervisor takes the cpu away. One gap in ten \
         thousand is longer than the last figure.\n\n{}",
        KPPS / 1000,
        table::render(&head, &rows)
    )
}

impl PollGaps {
    fn rows(&self) -> [Vec<String>; 6] {
        let row = |figure: &str, values: &[f64], decimals| {
            let spread = Spread::of(values.to_vec());
            let name = format!("{}: {figure}", self.operation.name());
            [vec![name], spread.cells(decimals).into(), vec![String::new(); 2]].concat()
        };
        let pairs = self.second_us.iter().zip(&self.clock_second_us);
        let above: Vec<f64> = pairs.map(|(all, clock)| all - clock).collect();
        let median = Spread::of(above.clone()).median;
        let mut above_clock = row("longest of a second, minus clock", &above, 0);
        above_clock[4] = format!("{MUST:.0} / {GOAL:.0}");
        above_clock[5] = Outcome::new(median <= MUST, median <= GOAL).to_string();
        [
            row("longest of a second", &self.second_us, 0),
            row("longest of a second, clock", &self.clock_second_us, 0),
            above_clock,
            row("longest of the run", &self.longest_us, 0),
            row("longest of the run, clock", &self.clock_us, 0),
            row("99.99th percentile", &self.p99_99_us, 1),
        ]
    }
}
