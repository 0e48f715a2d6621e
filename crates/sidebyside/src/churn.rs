// SPDX-License-Identifier: BSD-3-Clause
//! Measures what offload costs forwarding while flows begin and end: Millrace on the software NIC,
//! without and with offload, at a rate below its limit.
//!
//! The NIC imitates a link with a fixed rate, and buffers packets for one millisecond. Packets that
//! the worker does not receive in time are lost.

use crate::Setup;
use crate::millrace::{LIMITS, kpps, run_command};
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

/// A mix of short and long flows, and the offload policy.
pub(crate) struct Mix {
    /// Name for `--only`.
    pub(crate) name: &'static str,
    policy: &'static str,
    /// Packets of each short flow.
    packets: u32,
    /// Number of long flows.
    busy_flows: u32,
    /// Packets per second of all long flows together.
    busy_pps: u32,
    thresholds: Thresholds,
}

/// Thresholds that fail if offload was not active: required and desired value. `None` if a mix has
/// no such threshold.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Thresholds {
    /// Lower limits of the rules installed, in thousands per second.
    pub(crate) rules: Option<(f64, f64)>,
    /// Upper limits of the share of packets without a mark, in percent, including the warm-up.
    pub(crate) unmarked: Option<(f64, f64)>,
}

pub(crate) const MIXES: [Mix; 2] = [
    // A stress test of rules that bring nothing. The `measured` policy would give flows as short as
    // these no rules. Most flows have ended when their rules are installed.
    Mix {
        name: "offload-churn",
        policy: "after 8",
        packets: 20,
        busy_flows: 0,
        busy_pps: 0,
        thresholds: Thresholds { rules: Some((20.0, 40.0)), unmarked: None },
    },
    Mix {
        name: "offload-busy",
        policy: "measured",
        packets: 3,
        busy_flows: 5000,
        busy_pps: 1_700_000,
        thresholds: Thresholds { rules: None, unmarked: Some((30.0, 20.0)) },
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

/// Largest accepted microseconds that offload adds to the time between two polls.
pub(crate) const GAP_MUST: f64 = 20.0;
/// The desired value of the same figure.
pub(crate) const GAP_GOAL: f64 = 5.0;
/// Noise of the packets lost, per million: two equal runs may differ by it.
pub(crate) const NOISE_PPM: f64 = 50.0;

/// Short flows that begin in a second.
const FLOWS_PER_SECOND: u32 = 100_000;
/// Seconds until the capture repeats. By then all its short flows have expired, so they are new.
const ROUND: u32 = 2;
/// Timeout of a short flow, in seconds.
const TIMEOUT: u32 = 1;
/// Number of short flows that are active at a time.
const AT_ONCE: usize = 1000;
/// Bytes on the wire of a frame of 60 bytes, with check sequence, preamble and gap.
const WIRE_BYTES: u32 = 84;
/// Lines per second that Millrace prints during the warm-up.
const WARM_UP: u32 = 2 + ROUND;

/// Figures of each repetition. Pairs are without and with offload.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Churn {
    pub(crate) name: &'static str,
    #[serde(skip)]
    pub(crate) thresholds: Thresholds,
    /// Packets per million that were not received. May be negative by the length of a burst.
    pub(crate) lost_ppm: [Vec<f64>; 2],
    /// Microseconds between two polls of a port; one gap in ten thousand is longer.
    pub(crate) gap_us: [Vec<f64>; 2],
    /// `gap_us` with offload, minus `gap_us` without.
    pub(crate) added_us: Vec<f64>,
    /// New flows, in thousands per second.
    pub(crate) flows: [Vec<f64>; 2],
    /// Rules installed, in thousands per second.
    pub(crate) rules: Vec<f64>,
    /// Share of packets without a mark, in percent, with offload.
    pub(crate) unmarked: Vec<f64>,
}

/// Measures a mix `reps` times, each time without and then with offload.
pub(crate) fn measure(setup: &Setup, driver: &Path, mix: &Mix, reps: u32) -> anyhow::Result<Churn> {
    let &Mix { name, thresholds, .. } = mix;
    write(&capture(setup, mix), mix)?;
    let mut churn = Churn { name, thresholds, ..Churn::default() };
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

/// Writes the capture of a mix. The short flows come in groups of [`AT_ONCE`], which send one
/// packet after the other in turn. Packets of long flows are spread evenly between them.
fn write(path: &Path, mix: &Mix) -> io::Result<()> {
    let mut capture = PcapWriter::new(BufWriter::new(File::create(path)?))?;
    let (short, busy) = (frames(1, ROUND * FLOWS_PER_SECOND), frames(2, mix.busy_flows));
    let rounds = short.chunks(AT_ONCE).flat_map(|some| (0..mix.packets).flat_map(move |_| some));
    let mut busy = busy.iter().cycle();
    let mut due = 0;
    for frame in rounds {
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

/// Returns one frame of each of `count` flows.
fn frames(seed: u64, count: u32) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    flood::packets(seed, Target::Random, count, |_, frame| frames.push(frame.to_vec()));
    frames
}

/// Figures of one run of Millrace; units as in [`Churn`].
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
            run_command(&setup.millrace, &config, &json).env("MILLRACE_TWIN", driver),
        )?;
        for _ in 0..WARM_UP {
            process.wait_for("a line per second", kpps)?;
        }
        let begin = WorkerCounters::of(setup, &process)?;
        for _ in 0..2 * setup.seconds {
            process.wait_for("a line per second", kpps)?;
        }
        let end = WorkerCounters::of(setup, &process)?;
        process.interrupt()?;
        process.finish()?;
        let summary: Value = serde_json::from_slice(&fs::read(&json)?)?;
        let number = |pointer| summary.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN);
        let per_second = 1e-3 / number("/duration_s");
        let offered = offered_per_cycle(mix, setup.tsc_hz);
        Ok(Run {
            // Rounded; adding 0 turns -0 into 0.
            lost_ppm: (1e6 * (1.0 - end.since(&begin) / offered)).round() + 0.0,
            gap_us: number("/workers/0/poll_gap_us/p99_99"),
            flows: number("/flows/created") * per_second,
            rules: number("/offload/admission/installed") * per_second,
            unmarked: 100.0 * (1.0 - number("/offload/marked_share")),
        })
    }
}

/// A worker's counters at one moment: packets received, and cycles since its start.
struct WorkerCounters {
    packets: f64,
    cycles: f64,
}

impl WorkerCounters {
    /// Reads the counters of a running Millrace with `millrace stats`.
    fn of(setup: &Setup, process: &Process) -> anyhow::Result<Self> {
        let instance = process.id().to_string();
        let mut stats = Command::new(&setup.millrace);
        let output = stats.args(["stats", "--json", "--instance", &instance]).output()?;
        let summary: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
        let worker = &summary["workers"][0];
        let number = |member: &str| {
            worker[member]
                .as_f64()
                .with_context(|| format!("the worker's statistics have no {member}: {worker}"))
        };
        let cycles = number("busy_cycles")? + number("idle_cycles")? + number("stalled_cycles")?;
        Ok(Self { packets: number("packets")?, cycles })
    }

    /// Returns the packets per cycle since `begin`.
    fn since(&self, begin: &Self) -> f64 {
        (self.packets - begin.packets) / (self.cycles - begin.cycles)
    }
}

/// Returns the packets per cycle of the time-stamp counter that the link carries. The NIC paces by
/// the frequency that DPDK reports, which DPDK rounds to 10 MHz.
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
