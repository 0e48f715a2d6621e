// SPDX-License-Identifier: BSD-3-Clause
//! Measures flow rules of the software NIC: rules per second and bytes per rule with
//! dpdk-test-flow-perf, and the time of `millrace nic probe`.

use crate::Setup;
use crate::process::Process;
use anyhow::Context;
use serde::Serialize;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use twin::personality::NAMES;

/// Name for `--only`.
pub(crate) const NAME: &str = "twin-rules";
/// Required rate of installing rules, in thousands per second.
pub(crate) const MADE_MUST: f64 = 500.0;
/// Largest accepted memory of a rule, in bytes.
pub(crate) const BYTES_MUST: f64 = 200.0;
/// Longest accepted time of a probe that does not fill the table, in seconds.
pub(crate) const PROBE_MUST: f64 = 30.0;

const MANY: u32 = 1_000_000;
/// Rules of a smaller run. The difference of both runs excludes the memory of the program itself.
const FEW: u32 = 100_000;
/// Time between two readings of a process's memory.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Figures of each repetition.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Rules {
    /// Rules installed, in thousands per second.
    pub(crate) made: Vec<f64>,
    /// Rules removed, in thousands per second.
    pub(crate) destroyed: Vec<f64>,
    /// Bytes of memory per rule, including the program's own list.
    pub(crate) bytes: Vec<f64>,
    /// Seconds of the longest probe.
    pub(crate) probe: Vec<f64>,
}

/// Measures rules and probes `reps` times.
pub(crate) fn measure(setup: &Setup, driver: &Path, reps: u32) -> anyhow::Result<Rules> {
    let mut rules = Rules::default();
    for rep in 1..=reps {
        let few = make(setup, driver, FEW)?;
        let many = make(setup, driver, MANY)?;
        let bytes = many.bytes.saturating_sub(few.bytes) as f64 / f64::from(MANY - FEW);
        let probes = NAMES.iter().map(|personality| probe(setup, driver, personality));
        let probes: Vec<f64> = probes.collect::<anyhow::Result<_>>()?;
        let probe = probes.into_iter().fold(0.0, f64::max);
        let made = many.made;
        eprintln!("{rep}/{reps} {NAME}: {made:.0} k/s, {bytes:.0} bytes, probe {probe:.1} s");
        rules.made.push(made);
        rules.destroyed.push(many.destroyed);
        rules.bytes.push(bytes);
        rules.probe.push(probe);
    }
    Ok(rules)
}

/// Figures of one run of dpdk-test-flow-perf.
struct Run {
    /// Rules installed, in thousands per second.
    made: f64,
    /// Rules removed, in thousands per second.
    destroyed: f64,
    /// Largest resident memory of the process, in bytes.
    bytes: u64,
}

/// Installs `count` rules for one UDP flow each, and removes them.
fn make(setup: &Setup, driver: &Path, count: u32) -> anyhow::Result<Run> {
    let cpu = setup.worker_cpus[0];
    let mut process = Process::start(
        Command::new("stdbuf")
            .args(["-oL", "dpdk-test-flow-perf", "--no-pci", "--no-telemetry", "--no-huge"])
            .args(["--no-shconf", "-m512"])
            .arg(format!("--lcores=(0,1)@{cpu}"))
            .arg(format!("--file-prefix=millrace-rules-{}-{count}", std::process::id()))
            .arg(format!("-d{}", driver.display()))
            .args(["--vdev=net_twin0,wire=w", "--vdev=net_twin1,wire=w", "--", "--ingress"])
            .args(["--group=0", "--ether", "--ipv4", "--udp", "--queue", "--portmask=0x1"])
            .args(["--deletion-rate", "--rules-batch=100000"])
            .arg(format!("--rules-count={count}"))
            // The files that the program leaves are removed with the directory.
            .env("RUNTIME_DIRECTORY", &setup.dir),
    )?;
    let mut bytes = 0;
    let made = loop {
        bytes = bytes.max(peak_bytes(process.id()));
        let line = |line: &str| rate(line, "Total flows insertion rate -> ");
        if let Some(made) = process.find_line_before(Instant::now() + POLL_INTERVAL, line)? {
            break made;
        }
    };
    let destroyed =
        process.wait_for("the rate of deletions", |line| rate(line, "Total deletion rate -> "))?;
    process.finish().context("dpdk-test-flow-perf comes with Debian's dpdk-dev")?;
    Ok(Run { made, destroyed, bytes })
}

fn rate(line: &str, words: &str) -> Option<f64> {
    line.split_once(words)?.1.split_whitespace().next()?.parse().ok()
}

/// Returns the largest resident memory of a process so far, in bytes; 0 if it has ended.
fn peak_bytes(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
    kilobytes.unwrap_or(0) << 10
}

/// Returns the seconds that `millrace nic probe` takes for a personality.
fn probe(setup: &Setup, driver: &Path, personality: &str) -> anyhow::Result<f64> {
    let begin = Instant::now();
    let output = Command::new(&setup.millrace)
        .args(["nic", "probe"])
        .arg(format!("net_twin0,personality={personality}"))
        .env("MILLRACE_TWIN", driver)
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "the probe of {personality} failed: {errors}");
    Ok(begin.elapsed().as_secs_f64())
}
