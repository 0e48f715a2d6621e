// SPDX-License-Identifier: BSD-3-Clause
//! How long a worker leaves its queues alone while a million connections end at once, are listed,
//! or are ended by command: Millrace on the software NIC at a rate that leaves room.
//!
//! A poll-mode program waits as long as it is not on its cpu, whatever it does. So a loop that
//! reads the clock and does nothing else has the same cpu for as long, right after each run: the
//! longest time between two of its readings is what no program there is spared, testpmd neither.

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
    longest_us: Vec<f64>,
    /// What one poll in ten thousand exceeds.
    p99_99_us: Vec<f64>,
    /// The longest wait of the loop that reads the clock.
    clock_us: Vec<f64>,
    /// Connections that ended, or were listed.
    connections: Vec<f64>,
}

/// All of it `reps` times.
pub(crate) fn measure(setup: &Setup, driver: &Path, reps: u32) -> anyhow::Result<Vec<Waits>> {
    write(&capture(setup))?;
    let mut all = What::ALL.map(|what| {
        let [longest_us, p99_99_us, clock_us, connections] = Default::default();
        Waits { what, longest_us, p99_99_us, clock_us, connections }
    });
    for rep in 1..=reps {
        for waits in &mut all {
            waits.repeat(setup, driver)?;
            let Waits { what, longest_us, p99_99_us, clock_us, connections } = &*waits;
            let [longest, clock, p99_99, connections] =
                [longest_us, clock_us, p99_99_us, connections].map(|of| of[of.len() - 1]);
            eprintln!(
                "{rep}/{reps} {NAME}, {}: longest {longest:.0} us, {clock:.0} of the clock, one in \
                 10000 {p99_99:.1}, {connections:.0} connections",
                what.name()
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
            Command::new(env!("CARGO_BIN_EXE_millrace"))
                .arg("run")
                .arg(&config)
                .arg(format!("--json={}", json.display()))
                .arg("--top=0")
                .env("MILLRACE_TWIN", driver),
        )?;
        let is_full = |line: &str| flows(line).filter(|flows| *flows > MOST * f64::from(FLOWS));
        if self.what != What::Expire {
            process.wait_for("its connections", is_full)?;
        }
        let (what, instance) = (self.what, process.id());
        let act = move || {
            // A worker's cpu is its own, where somebody asks as well.
            pin(setup.cpus.iter().copied().filter(|cpu| *cpu != setup.worker_cpus[0]));
            act(what, instance)
        };
        let mut connections =
            std::thread::scope(|scope| scope.spawn(act).join()).expect("it does not panic")?;
        for _ in 0..2 * setup.seconds {
            process.wait_for("its line of a second", kpps)?;
        }
        process.interrupt()?;
        process.finish()?;
        let ran = begin.elapsed();
        let summary: Value = serde_json::from_slice(&fs::read(&json)?)?;
        let number = |pointer| summary.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN);
        if self.what == What::Expire {
            connections = number("/flows/ended/idle");
        }
        let are_most = connections >= MOST * f64::from(FLOWS);
        if !are_most {
            bail!("{NAME}, {}: {connections} connections only", self.what.name());
        }
        self.longest_us.push(number("/workers/0/poll_gap_us/max"));
        self.p99_99_us.push(number("/workers/0/poll_gap_us/p99_99"));
        self.clock_us.push(longest_of_clock(setup, ran));
        self.connections.push(connections);
        Ok(())
    }
}

/// Does it, and says to how many connections.
fn act(what: What, instance: u32) -> anyhow::Result<f64> {
    let mut ct = Command::new(env!("CARGO_BIN_EXE_millrace"));
    ct.arg("ct");
    let words: &[&str] = match what {
        What::Nothing | What::Expire => return Ok(f64::from(FLOWS)),
        What::List => &["list"],
        What::Flush => &["flush", "--all", "--json"],
    };
    ct.args(words).args(["--instance", &instance.to_string()]);
    if what == What::List {
        let mut list = ct.stdout(Stdio::piped()).spawn().context("cannot list")?;
        let lines = list.stdout.take().context("a list has no end to read")?;
        let count = BufReader::new(lines).lines().count();
        let status = list.wait()?;
        if !status.success() {
            bail!("millrace ct list: {status}");
        }
        return Ok(count as f64);
    }
    let said: Value = serde_json::from_str(&run(&mut ct)?)?;
    said["flushed"].as_f64().with_context(|| format!("a flush says {said}"))
}

/// Connections in a line that is printed every second.
fn flows(line: &str) -> Option<f64> {
    kpps(line)?;
    line.split_whitespace().nth(7)?.replace('_', "").parse().ok()
}

/// This thread, and what it starts, to these cpus.
fn pin(to: impl Iterator<Item = usize>) {
    let mut cpus = CpuSet::new();
    to.for_each(|cpu| cpus.set(cpu));
    // Elsewhere it is some cpu of the same machine.
    let _ = sched_setaffinity(None, &cpus);
}

/// The longest time between two readings of the clock, in microseconds.
fn longest_of_clock(setup: &Setup, time: Duration) -> f64 {
    let look = || {
        pin([setup.worker_cpus[0]].into_iter());
        let cycles = (time.as_secs_f64() * setup.tsc_hz) as u64;
        let begin = dpdk::tsc();
        let (mut last, mut longest) = (begin, 0);
        while last - begin < cycles {
            let now = dpdk::tsc();
            (last, longest) = (now, longest.max(now - last));
        }
        longest as f64 / setup.tsc_hz * 1e6
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
        "\n## How long queues wait\n\nMicroseconds from one poll to the next, at {} Mpps: the \
         longest of a run, above the longest of a loop that reads the clock on the same cpu for \
         as long; and what one poll in ten thousand exceeds. What takes the cpu away, above all a \
         hypervisor, makes the longest longer and never shorter: where the loop's differ by \
         milliseconds, the least of both say more of the program than the verdict.\n\n{}",
        KPPS / 1000,
        table::render(&head, &rows)
    )
}

impl Waits {
    fn rows(&self) -> [Vec<String>; 4] {
        let row = |what: &str, values: &[f64], decimals| {
            let spread = Spread::of(values.to_vec());
            let name = format!("{}: {what}", self.what.name());
            [vec![name], spread.cells(decimals).into(), vec![String::new(); 2]].concat()
        };
        let above: Vec<f64> =
            self.longest_us.iter().zip(&self.clock_us).map(|(all, clock)| all - clock).collect();
        let median = Spread::of(above.clone()).median;
        let mut held = row("longest, above the clock's", &above, 0);
        held[4] = format!("{MUST:.0} / {GOAL:.0}");
        held[5] = Verdict::new(median <= MUST, median <= GOAL).to_string();
        [
            row("longest", &self.longest_us, 0),
            row("longest of the clock", &self.clock_us, 0),
            held,
            row("one in ten thousand", &self.p99_99_us, 1),
        ]
    }
}
