// SPDX-License-Identifier: BSD-3-Clause
//! How long a worker leaves its queues alone while a million connections end at once, are listed,
//! or are ended by command: Millrace on the software NIC at a rate that leaves room.
//!
//! A poll-mode program waits as long as it is not on its cpu, whatever it does. So a loop that
//! reads the clock and does nothing else has the same cpu for as long, right after each run: the
//! longest time between two of its readings is what no program there is spared, testpmd neither.
//!
//! What takes a cpu away does so a few times in some seconds, and by chance. So it is done to all
//! connections in each of several seconds, and what is compared is the median of the longest waits
//! of those: what the program adds is in every one of them, and what comes now and then is not.

use crate::Setup;
use crate::measured::Spread;
use crate::millrace::{LIMITS, kpps};
use crate::process::{Process, run};
use crate::report::Verdict;
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
/// Microseconds above the loop that reads the clock.
const MUST: f64 = 100.0;
const GOAL: f64 = 20.0;

/// Connections of one packet, which come one behind the other.
const FLOWS: u32 = 1_000_000;
/// Packets of others behind them, and how many others there are.
const CALM: u32 = 4_000_000;
const CALM_FLOWS: u32 = 1_000;
/// Thousands of packets in a second: the capture comes round once in a second.
const KPPS: u32 = 5_000;
/// Bytes of the wire that a frame of 60 takes, with check sequence, preamble and gap.
const WIRE_BYTES: u32 = 84;
/// Seconds of silence until a connection ends, where they are to end, and where not.
const SHORT_S: f64 = 0.3;
const LONG_S: f64 = 600.0;
/// Share of the connections that has to be there when something is done to all.
const MOST: f64 = 0.95;

/// Seconds that are looked at, in each of which it is done, or goes on.
const SECONDS: usize = 6;

/// What happens to a million connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum What {
    Nothing,
    Expire,
    List,
    Flush,
}

impl What {
    const ALL: [Self; 4] = [What::Nothing, What::Expire, What::List, What::Flush];

    fn name(self) -> &'static str {
        match self {
            What::Nothing => "they come, and stay",
            What::Expire => "their time is over, in a fifth of a second",
            What::List => "millrace ct list",
            What::Flush => "millrace ct flush --all",
        }
    }
}

/// Of each repetition, in microseconds.
#[derive(Debug, Serialize)]
pub(crate) struct Waits {
    what: What,
    /// The longest wait of a second: the median of the seconds. Then of the loop that reads the
    /// clock.
    second_us: Vec<f64>,
    clock_second_us: Vec<f64>,
    /// Of the whole run.
    longest_us: Vec<f64>,
    clock_us: Vec<f64>,
    /// What one poll in ten thousand exceeds.
    p99_99_us: Vec<f64>,
    /// Connections that ended, or were listed, at the least.
    connections: Vec<f64>,
}

/// All of it `reps` times.
pub(crate) fn measure(setup: &Setup, driver: &Path, reps: u32) -> anyhow::Result<Vec<Waits>> {
    write(&capture(setup))?;
    let mut all = What::ALL.map(|what| {
        let [second_us, clock_second_us, longest_us, clock_us, p99_99_us, connections] =
            Default::default();
        Waits { what, second_us, clock_second_us, longest_us, clock_us, p99_99_us, connections }
    });
    for rep in 1..=reps {
        for waits in &mut all {
            waits.repeat(setup, driver)?;
            let [second, clock, longest, connections] =
                [&waits.second_us, &waits.clock_second_us, &waits.longest_us, &waits.connections]
                    .map(|of| of[of.len() - 1]);
            eprintln!(
                "{rep}/{reps} {NAME}, {}: {second:.0} us in a second, {clock:.0} of the clock, \
                 longest {longest:.0}, {connections:.0} connections",
                waits.what.name()
            );
        }
    }
    fs::remove_file(capture(setup))?;
    Ok(all.into())
}

impl Waits {
    fn repeat(&mut self, setup: &Setup, driver: &Path) -> anyhow::Result<()> {
        let [config, json] = ["toml", "json"].map(|end| setup.dir.join(format!("waits.{end}")));
        fs::write(&config, configuration(setup, self.what))?;
        let begin = Instant::now();
        let mut process = Process::start(
            Command::new(&setup.millrace)
                .arg("run")
                .arg(&config)
                .arg(format!("--json={}", json.display()))
                .arg("--top=0")
                .env("MILLRACE_TWIN", driver),
        )?;
        let (seconds, connections) = self.watch(setup, &mut process)?;
        process.interrupt()?;
        process.finish()?;
        let ran = begin.elapsed();
        let summary: Value = serde_json::from_slice(&fs::read(&json)?)?;
        let number = |pointer| summary.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN);
        let connections = match self.what {
            What::Expire => number("/flows/ended/idle") / SECONDS as f64,
            _ => connections,
        };
        let are_most = connections >= MOST * f64::from(FLOWS);
        if !are_most {
            bail!("{NAME}, {}: {connections} connections only", self.what.name());
        }
        let clock = waits_of_clock(setup, ran);
        let longest = |waits: &[f64]| waits.iter().copied().fold(0.0, f64::max);
        self.second_us.push(Spread::of(seconds).median);
        self.longest_us.push(number("/workers/0/poll_gap_us/max"));
        self.p99_99_us.push(number("/workers/0/poll_gap_us/p99_99"));
        self.clock_us.push(longest(&clock));
        self.clock_second_us.push(Spread::of(clock).median);
        self.connections.push(connections);
        Ok(())
    }

    /// The longest wait of each second in which it is done, and to how many connections it was at
    /// the least.
    fn watch(&self, setup: &Setup, process: &mut Process) -> anyhow::Result<(Vec<f64>, f64)> {
        let instance = process.id();
        if self.what == What::Expire {
            // Until the first ones have come and gone.
            process.wait_for("its start", wait)?;
            process.wait_for("its first connections", wait)?;
        } else {
            process.wait_for("its connections", is_full)?;
        }
        let is_over = AtomicBool::new(self.what != What::List);
        std::thread::scope(|scope| {
            let lists = scope.spawn(|| {
                pin_aside(setup);
                lists(setup, instance, &is_over)
            });
            let watched = self.seconds(setup, process);
            is_over.store(true, Ordering::Relaxed);
            let listed = lists.join().expect("it does not panic")?;
            let (seconds, ended) = watched?;
            Ok((seconds, ended.min(listed)))
        })
    }

    fn seconds(&self, setup: &Setup, process: &mut Process) -> anyhow::Result<(Vec<f64>, f64)> {
        let (mut seconds, mut least, instance) = (Vec::new(), f64::from(FLOWS), process.id());
        while seconds.len() < SECONDS {
            if self.what == What::Flush {
                process.wait_for("its connections", is_full)?;
                let flush = || {
                    pin_aside(setup);
                    flush(setup, instance)
                };
                let flushed = std::thread::scope(|scope| scope.spawn(flush).join());
                least = least.min(flushed.expect("it does not panic")?);
            }
            seconds.push(process.wait_for("its line of a second", wait)?);
        }
        Ok((seconds, least))
    }
}

/// Lists all connections again and again; how many there were at the least.
fn lists(setup: &Setup, instance: u32, is_over: &AtomicBool) -> anyhow::Result<f64> {
    let mut least = f64::INFINITY;
    while !is_over.load(Ordering::Relaxed) {
        let mut ct = ct(setup, &["list"], instance);
        let mut list = ct.stdout(Stdio::piped()).spawn().context("cannot list")?;
        let lines = list.stdout.take().context("a list has no end to read")?;
        let count = BufReader::new(lines).lines().count();
        let status = list.wait()?;
        if !status.success() {
            bail!("millrace ct list: {status}");
        }
        least = least.min(count as f64);
    }
    Ok(least)
}

/// Ends all connections; how many there were.
fn flush(setup: &Setup, instance: u32) -> anyhow::Result<f64> {
    let said: Value =
        serde_json::from_str(&run(&mut ct(setup, &["flush", "--all", "--json"], instance))?)?;
    said["flushed"].as_f64().with_context(|| format!("a flush says {said}"))
}

fn ct(setup: &Setup, words: &[&str], instance: u32) -> Command {
    let mut ct = Command::new(&setup.millrace);
    ct.arg("ct").args(words).args(["--instance", &instance.to_string()]);
    ct
}

/// In a line that is printed every second: the longest wait of that second.
fn wait(line: &str) -> Option<f64> {
    kpps(line)?;
    line.split_whitespace().last()?.replace('_', "").parse().ok()
}

/// Nothing, unless it says that nearly all connections are there.
fn is_full(line: &str) -> Option<()> {
    kpps(line)?;
    let flows: f64 = line.split_whitespace().nth(7)?.replace('_', "").parse().ok()?;
    (flows > MOST * f64::from(FLOWS)).then_some(())
}

/// This thread, and what it starts, to where no worker is: a worker's cpu is its own, where
/// somebody asks as well.
fn pin_aside(setup: &Setup) {
    pin(setup.cpus.iter().copied().filter(|cpu| *cpu != setup.worker_cpus[0]));
}

/// This thread, and what it starts, to these cpus.
fn pin(to: impl Iterator<Item = usize>) {
    let mut cpus = CpuSet::new();
    to.for_each(|cpu| cpus.set(cpu));
    // Elsewhere it is some cpu of the same machine.
    let _ = sched_setaffinity(None, &cpus);
}

/// The longest time between two readings of the clock, in microseconds, of each whole second.
fn waits_of_clock(setup: &Setup, time: Duration) -> Vec<f64> {
    let second = || {
        let begin = dpdk::tsc();
        let (mut last, mut longest) = (begin, 0);
        while ((last - begin) as f64) < setup.tsc_hz {
            let now = dpdk::tsc();
            (last, longest) = (now, longest.max(now - last));
        }
        longest as f64 / setup.tsc_hz * 1e6
    };
    let look = || {
        pin([setup.worker_cpus[0]].into_iter());
        (0..time.as_secs().max(1)).map(|_| second()).collect()
    };
    std::thread::scope(|scope| scope.spawn(look).join()).expect("a loop does not panic")
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
    let mut calm = Vec::new();
    flood::packets(2, Target::Random, CALM_FLOWS, |_, frame| calm.push(frame.to_vec()));
    for frame in calm.iter().cycle().take(CALM as usize) {
        capture.write(0, frame)?;
    }
    capture.finish()?;
    Ok(())
}

fn configuration(setup: &Setup, what: What) -> String {
    let worker = setup.worker_cpus[0];
    let mbps = KPPS * WIRE_BYTES * 8 / 1000;
    let timeout = if what == What::Expire { SHORT_S } else { LONG_S };
    format!(
        "[eal]\nhuge = false\nmemory_mb = 256\nmbufs = 16384\n\
         [[pair]]\na = \"net_twin0,replay={},loops=forever,speed={mbps}M\"\n\
         b = \"net_null0,no-rx=1\"\nworkers = [{worker}]\n\
         {LIMITS}[offload]\npolicy = \"off\"\n[table]\ncapacity = 2_000_000\n\
         [timeouts]\nudp_first = {timeout}\nudp_single = {timeout}\n",
        capture(setup).display()
    )
}

/// The report for people.
pub(crate) fn section(waits: &[Waits]) -> String {
    if waits.is_empty() {
        return String::new();
    }
    let rows: Vec<_> = waits.iter().flat_map(Waits::rows).collect();
    let head = ["a million connections", "min", "median", "max", "must / goal", "verdict"];
    format!(
        "\n## How long queues wait\n\nMicroseconds from one poll to the next, at {} Mpps. Held \
         against the bar: the longest of a second in which it is done to all connections, the \
         median of {SECONDS} of them, above that of a loop that reads the clock on the same cpu. \
         Then the longest of each whole run, which is what took the cpu away once in so many \
         seconds, a hypervisor above all; and what one poll in ten thousand exceeds.\n\n{}",
        KPPS / 1000,
        table::render(&head, &rows)
    )
}

impl Waits {
    fn rows(&self) -> [Vec<String>; 6] {
        let row = |what: &str, values: &[f64], decimals| {
            let spread = Spread::of(values.to_vec());
            let name = format!("{}: {what}", self.what.name());
            [vec![name], spread.cells(decimals).into(), vec![String::new(); 2]].concat()
        };
        let pairs = self.second_us.iter().zip(&self.clock_second_us);
        let above: Vec<f64> = pairs.map(|(all, clock)| all - clock).collect();
        let median = Spread::of(above.clone()).median;
        let mut held = row("of a second, above the clock's", &above, 0);
        held[4] = format!("{MUST:.0} / {GOAL:.0}");
        held[5] = Verdict::new(median <= MUST, median <= GOAL).to_string();
        [
            row("longest of a second", &self.second_us, 0),
            row("longest of a second, the clock", &self.clock_second_us, 0),
            held,
            row("longest of all", &self.longest_us, 0),
            row("longest of all, the clock", &self.clock_us, 0),
            row("one in ten thousand", &self.p99_99_us, 1),
        ]
    }
}
