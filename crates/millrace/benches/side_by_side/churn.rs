// SPDX-License-Identifier: BSD-3-Clause
//! What offload takes from forwarding where flows come and go: Millrace on the software NIC at a
//! rate that leaves room, with a rule for whoever has had some packets, and without any.
//!
//! The NIC plays a link of a fixed rate and bridges a millisecond; what the worker comes too late
//! for is lost.

use crate::Setup;
use crate::millrace::kpps;
use crate::process::Process;
use serde::Serialize;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::Path;
use std::process::Command;
use traffic::PcapWriter;
use traffic::flood::{self, Target};

/// Name for `--only`.
pub(crate) const NAME: &str = "offload-churn";
/// Microseconds that offload may add to the time between two polls.
pub(crate) const GAP_MUST: f64 = 20.0;
pub(crate) const GAP_GOAL: f64 = 5.0;
/// What two runs of the same may differ in: packets of a million.
pub(crate) const NOISE_PPM: f64 = 200.0;

/// Flows that come in a second, and packets of each.
const FLOWS_PER_SECOND: u32 = 100_000;
const PACKETS: u32 = 20;
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
    /// Packets of a million that were not received.
    pub(crate) lost_ppm: [Vec<f64>; 2],
    /// Microseconds between two polls of a port that one in ten thousand exceeds.
    pub(crate) gap_us: [Vec<f64>; 2],
    /// The same with offload, less that without.
    pub(crate) added_us: Vec<f64>,
    /// Thousands of new flows in a second.
    pub(crate) flows: [Vec<f64>; 2],
    /// Thousands of rules made in a second.
    pub(crate) rules: Vec<f64>,
}

/// All of it `reps` times.
pub(crate) fn measure(setup: &Setup, driver: &Path, reps: u32) -> anyhow::Result<Churn> {
    let capture = setup.dir.join(format!("{NAME}.pcap"));
    write(&capture)?;
    let mut churn = Churn::default();
    for rep in 1..=reps {
        // Measured, flows as short as these would get none.
        let policies = ["off", "after 8"];
        let runs = policies.map(|policy| Run::of(setup, driver, &capture, policy));
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
        eprintln!(
            "{rep}/{reps} {NAME}: {:.0} and {:.0} ppm lost, gaps of {:.1} and {:.1} us, \
             {:.0} k rules/s",
            without.lost_ppm, with.lost_ppm, without.gap_us, with.gap_us, with.rules
        );
    }
    Ok(churn)
}

/// Some flows at a time, a packet of each in turn.
fn write(path: &Path) -> io::Result<()> {
    let mut capture = PcapWriter::new(BufWriter::new(File::create(path)?))?;
    let mut frames: Vec<Vec<u8>> = Vec::new();
    flood::packets(1, Target::Random, ROUND * FLOWS_PER_SECOND, |_, frame| {
        frames.push(frame.to_vec());
    });
    for some in frames.chunks(AT_ONCE) {
        for frame in (0..PACKETS).flat_map(|_| some) {
            capture.write(0, frame)?;
        }
    }
    capture.finish()?;
    Ok(())
}

/// One run of Millrace.
struct Run {
    lost_ppm: f64,
    gap_us: f64,
    flows: f64,
    rules: f64,
}

impl Run {
    fn of(setup: &Setup, driver: &Path, capture: &Path, policy: &str) -> anyhow::Result<Self> {
        let config = setup.dir.join(format!("{NAME}.toml"));
        let json = setup.dir.join(format!("{NAME}.json"));
        fs::write(&config, configuration(setup, capture, policy))?;
        let mut process = Process::start(
            Command::new(env!("CARGO_BIN_EXE_millrace"))
                .arg("run")
                .arg(&config)
                .arg(format!("--json={}", json.display()))
                .arg("--top=0")
                .env("MILLRACE_TWIN", driver),
        )?;
        for _ in 0..WARM_UP {
            process.wait_for("its warm-up", kpps)?;
        }
        let lines = 2 * setup.seconds;
        let mut received = 0.0;
        for _ in 0..lines {
            received += process.wait_for("its line of a second", kpps)?;
        }
        process.interrupt()?;
        process.finish()?;
        let summary: Value = serde_json::from_slice(&fs::read(&json)?)?;
        let number = |pointer| summary.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN);
        let offered = f64::from(lines * FLOWS_PER_SECOND * PACKETS) / 1e3;
        let per_second = 1e-3 / number("/duration_s");
        Ok(Run {
            lost_ppm: (1e6 * (1.0 - received / offered)).max(0.0),
            gap_us: number("/workers/0/poll_gap_us/p99_99"),
            flows: number("/flows/created") * per_second,
            rules: number("/offload/admission/installed") * per_second,
        })
    }
}

fn configuration(setup: &Setup, capture: &Path, policy: &str) -> String {
    let worker = setup.worker_cpus[0];
    let mbps = FLOWS_PER_SECOND * PACKETS / 1000 * WIRE_BYTES * 8 / 1000;
    format!(
        "[eal]\nhuge = false\nmemory_mb = 256\nmbufs = 16384\n\
         [[pair]]\na = \"net_twin0,replay={},loops=forever,speed={mbps}M\"\n\
         b = \"net_null0,no-rx=1\"\nworkers = [{worker}]\n\
         [offload]\npolicy = \"{policy}\"\n[timeouts]\nudp_first = {TIMEOUT}\n",
        capture.display()
    )
}
