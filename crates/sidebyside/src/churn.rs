// SPDX-License-Identifier: BSD-3-Clause
//! What offload takes from forwarding where flows come and go: Millrace on the software NIC at a
//! rate that leaves room, without offload and with it.
//!
//! The NIC plays a link of a fixed rate and bridges a millisecond; what the worker comes too late
//! for is lost.

use crate::Setup;
use crate::millrace::{LIMITS, kpps};
use crate::process::Process;
use anyhow::Context;
use serde::Serialize;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::process::Command;
use traffic::PcapWriter;
use traffic::flood::{self, Target};

/// Who comes, and who gets rules.
pub(crate) struct Mix {
    /// Name for `--only`.
    pub(crate) name: &'static str,
    policy: &'static str,
    /// Packets of each of the flows that come.
    packets: u32,
    /// Flows that stay, and their packets in a second.
    busy_flows: u32,
    busy_pps: u32,
    bars: Targets,
}

/// Must and goal of what says that offload was measured, where it says that.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Targets {
    /// Thousands of rules made in a second, at least.
    pub(crate) rules: Option<(f64, f64)>,
    /// Percent of the packets that have no mark, the warm-up included, at most.
    pub(crate) unmarked: Option<(f64, f64)>,
}

pub(crate) const MIXES: [Mix; 2] = [
    // More rules than anybody needs: measured, flows as short as these would get none, and they
    // are gone when theirs are there.
    Mix {
        name: "offload-churn",
        policy: "after 8",
        packets: 20,
        busy_flows: 0,
        busy_pps: 0,
        bars: Targets { rules: Some((20.0, 40.0)), unmarked: None },
    },
    Mix {
        name: "offload-busy",
        policy: "measured",
        packets: 3,
        busy_flows: 5000,
        busy_pps: 1_700_000,
        bars: Targets { rules: None, unmarked: Some((30.0, 20.0)) },
    },
];

impl Mix {
    fn short_pps(&self) -> u32 {
        FLOWS_PER_SECOND * self.packets
    }

    fn pps(&self) -> u32 {
        self.short_pps() + self.busy_pps
    }
}

/// Microseconds that offload may add to the time between two polls.
pub(crate) const GAP_MUST: f64 = 20.0;
pub(crate) const GAP_GOAL: f64 = 5.0;
/// What two runs of the same may differ in: packets of a million.
pub(crate) const NOISE_PPM: f64 = 50.0;

/// Flows that come in a second.
const FLOWS_PER_SECOND: u32 = 100_000;
/// Seconds until the capture comes round: all its flows have ended by then and are new again.
const ROUND: u32 = 2;
/// Seconds of silence until a flow ends.
const TIMEOUT: u32 = 1;
/// Flows whose packets come in turns.
const AT_ONCE: usize = 1000;
/// Bytes of the wire that a frame of 60 takes, with check sequence, preamble and gap.
const WIRE_BYTES: u32 = 84;
/// Lines of the warm-up.
const WARM_UP: u32 = 2 + ROUND;

/// Figures of each repetition; of a pair, without and with offload.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Churn {
    pub(crate) name: &'static str,
    #[serde(skip)]
    pub(crate) bars: Targets,
    /// Packets of a million that were not received; below 0 by what a burst more or less makes.
    pub(crate) lost_ppm: [Vec<f64>; 2],
    /// Microseconds between two polls of a port that one in ten thousand exceeds.
    pub(crate) gap_us: [Vec<f64>; 2],
    /// The figure with offload, minus that without.
    pub(crate) added_us: Vec<f64>,
    /// Thousands of new flows in a second.
    pub(crate) flows: [Vec<f64>; 2],
    /// Thousands of rules made in a second.
    pub(crate) rules: Vec<f64>,
    /// Percent of the packets that had no mark, with offload.
    pub(crate) unmarked: Vec<f64>,
}

/// All of it `reps` times.
pub(crate) fn measure(setup: &Setup, driver: &Path, mix: &Mix, reps: u32) -> anyhow::Result<Churn> {
    let &Mix { name, bars, .. } = mix;
    write(&capture(setup, mix), mix)?;
    let mut churn = Churn { name, bars, ..Churn::default() };
    for rep in 1..=reps {
        let runs = ["off", mix.policy].map(|policy| Run::of(setup, driver, mix, policy));
        let [without, with] = runs;
        let runs = [without?, with?];
        for (i, run) in runs.iter().enumerate() {
            churn.lost_ppm[i].push(run.lost_ppm);
            churn.gap_us[i].push(run.gap_us);
            churn.flows[i].push(run.flows);
        }
        let [without, with] = runs;
        churn.added_us.push(with.gap_us - without.gap_us);
        churn.rules.push(with.rules);
        churn.unmarked.push(with.unmarked);
        eprintln!(
            "{rep}/{reps} {name}: {:.0} and {:.0} ppm lost, gaps of {:.1} and {:.1} us, \
             {:.1} k rules/s, {:.0} % of packets without a mark",
            without.lost_ppm, with.lost_ppm, without.gap_us, with.gap_us, with.rules, with.unmarked
        );
    }
    fs::remove_file(capture(setup, mix))?;
    Ok(churn)
}

fn capture(setup: &Setup, mix: &Mix) -> PathBuf {
    setup.dir.join(format!("{}.pcap", mix.name))
}

/// Some of the flows that come at a time, a packet of each in turn, and those that stay in between.
fn write(path: &Path, mix: &Mix) -> io::Result<()> {
    let mut capture = PcapWriter::new(BufWriter::new(File::create(path)?))?;
    let (short, busy) = (frames(1, ROUND * FLOWS_PER_SECOND), frames(2, mix.busy_flows));
    let turns = short.chunks(AT_ONCE).flat_map(|some| (0..mix.packets).flat_map(move |_| some));
    let mut busy = busy.iter().cycle();
    let mut due = 0;
    for frame in turns {
        capture.write(0, frame)?;
        due += mix.busy_pps;
        for frame in busy.by_ref().take((due / mix.short_pps()) as usize) {
            capture.write(0, frame)?;
        }
        due %= mix.short_pps();
    }
    capture.finish()?;
    Ok(())
}

/// One of each flow.
fn frames(seed: u64, count: u32) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    flood::packets(seed, Target::Random, count, |_, frame| frames.push(frame.to_vec()));
    frames
}

/// One run of Millrace.
struct Run {
    lost_ppm: f64,
    gap_us: f64,
    flows: f64,
    rules: f64,
    unmarked: f64,
}

impl Run {
    fn of(setup: &Setup, driver: &Path, mix: &Mix, policy: &str) -> anyhow::Result<Self> {
        let [config, json] = ["toml", "json"].map(|end| setup.dir.join(format!("run.{end}")));
        fs::write(&config, configuration(setup, mix, policy))?;
        let mut process = Process::start(
            Command::new(&setup.millrace)
                .arg("run")
                .arg(&config)
                .arg(format!("--json={}", json.display()))
                .arg("--top=0")
                .env("MILLRACE_TWIN", driver),
        )?;
        for _ in 0..WARM_UP {
            process.wait_for("its warm-up", kpps)?;
        }
        let begin = Account::of(setup, &process)?;
        for _ in 0..2 * setup.seconds {
            process.wait_for("its line of a second", kpps)?;
        }
        let end = Account::of(setup, &process)?;
        process.interrupt()?;
        process.finish()?;
        let summary: Value = serde_json::from_slice(&fs::read(&json)?)?;
        let number = |pointer| summary.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN);
        let per_second = 1e-3 / number("/duration_s");
        let offered = offered_per_cycle(mix, setup.tsc_hz);
        Ok(Run {
            // Whole ones, and none is not written as -0.
            lost_ppm: (1e6 * (1.0 - end.since(&begin) / offered)).round() + 0.0,
            gap_us: number("/workers/0/poll_gap_us/p99_99"),
            flows: number("/flows/created") * per_second,
            rules: number("/offload/admission/installed") * per_second,
            unmarked: 100.0 * (1.0 - number("/offload/marked_share")),
        })
    }
}

/// What a worker has received by its own account, and the cycles that went by.
struct Account {
    packets: f64,
    cycles: f64,
}

impl Account {
    /// At a moment between two bursts, while it runs.
    fn of(setup: &Setup, process: &Process) -> anyhow::Result<Self> {
        let instance = process.id().to_string();
        let mut stats = Command::new(&setup.millrace);
        let said = stats.args(["stats", "--json", "--instance", &instance]).output()?;
        let summary: Value = serde_json::from_slice(&said.stdout)
            .with_context(|| String::from_utf8_lossy(&said.stderr).into_owned())?;
        let worker = &summary["workers"][0];
        let number = |member: &str| {
            worker[member]
                .as_f64()
                .with_context(|| format!("the worker says no {member}: {worker}"))
        };
        let cycles = number("busy_cycles")? + number("idle_cycles")? + number("stalled_cycles")?;
        Ok(Self { packets: number("packets")?, cycles })
    }

    /// Packets per cycle since then.
    fn since(&self, begin: &Self) -> f64 {
        (self.packets - begin.packets) / (self.cycles - begin.cycles)
    }
}

/// What the link brings in a cycle. DPDK, by which the NIC keeps its rate, rounds the frequency of
/// the clock that it measures.
fn offered_per_cycle(mix: &Mix, tsc_hz: f64) -> f64 {
    const ROUNDED_TO: f64 = 10e6;
    f64::from(mix.pps()) / ((tsc_hz / ROUNDED_TO).round() * ROUNDED_TO)
}

fn configuration(setup: &Setup, mix: &Mix, policy: &str) -> String {
    let worker = setup.worker_cpus[0];
    let mbps = mix.pps() / 1000 * WIRE_BYTES * 8 / 1000;
    format!(
        "[eal]\nhuge = false\nmemory_mb = 256\nmbufs = 16384\n\
         [[pair]]\na = \"net_twin0,replay={},loops=forever,speed={mbps}M\"\n\
         b = \"net_null0,no-rx=1\"\nworkers = [{worker}]\n\
         {LIMITS}[offload]\npolicy = \"{policy}\"\n[timeouts]\nudp_first = {TIMEOUT}\n",
        capture(setup, mix).display()
    )
}
