// SPDX-License-Identifier: BSD-3-Clause
//! Millrace on the ports of the floor, measured from outside by the lines it prints every second.

use crate::Setup;
use crate::cases::{Case, From, Load};
use crate::heat::{Dut, Readings};
use crate::process::Process;
use crate::stopwatch::{Figures, Reading};
use serde::Serialize;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use traffic::scenario::SHORT_TCP_PACKETS;

/// What a run of Millrace comes to.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Run {
    #[serde(flatten)]
    pub(crate) figures: Figures,
    /// Cycles per packet in each stage, of the whole run, in packet order.
    pub(crate) stages: Vec<(String, f64)>,
    /// Why the figures are not those of the case.
    pub(crate) doubts: Vec<String>,
}

/// Megabytes of the tables of one worker, which take hugepages as well: three parts for each IP
/// version, each in pages of its own.
pub(crate) fn table_mb() -> usize {
    let engine = engine::Engine::new(&engine::Config::default());
    engine.memory_bytes().div_ceil(1 << 20) + 2 * 3 * 2
}

/// What is left of the timeouts where every packet is to make a new flow: less than the capture
/// takes to come round at any rate that can be hoped for.
const RENEWED_TIMEOUT_S: f64 = 0.05;
/// Many cases have packets of one direction only: all of them have room, and none goes for another.
pub(crate) const LIMITS: &str = "[limits]\nembryonic_percent = 100\nevict = \"nothing\"\n";
/// Flows in the table of [`Load::Overflows`].
const OVERFLOWING_CAPACITY: u32 = 1 << 16;
/// Rules that the NIC of every marked case has room for, however few of them the flows need.
const RULES_MAX: u32 = (1 << 20) + 1;

/// Lines in a row at least, from the first with all packets marked.
const SETTLED: u32 = 2;

/// Millrace, forwarding.
pub(crate) struct Millrace {
    process: Process,
    json: PathBuf,
    readings: Readings,
    /// When it printed its last line.
    line_at: Instant,
}

impl Millrace {
    /// Starts a build of Millrace for `case`, lets it warm up and stops it. `contenders` programs
    /// take turns.
    pub(crate) fn start(
        setup: &Setup,
        program: &Path,
        case: &Case,
        contenders: usize,
    ) -> anyhow::Result<Self> {
        let build = if Some(program) == setup.before.as_deref() { "before-" } else { "" };
        let config = setup.dir.join(format!("{build}{}.toml", case.name));
        let json = setup.dir.join(format!("{build}{}.json", case.name));
        fs::write(&config, configuration(setup, case, contenders))?;
        let mut process = Process::start(
            Command::new(program)
                .arg("run")
                .arg(&config)
                .arg(format!("--json={}", json.display()))
                .arg("--top=0"),
        )?;
        match case.from {
            // Its first second is its warm-up.
            From::Pcap => process.wait_for("its line of a second", kpps)?,
            From::Twin { is_marked } => {
                let is_warm = |line: &str| kpps(line).filter(|_| !is_marked || is_marked_all(line));
                // The first pass under new rules is the model's.
                (0..SETTLED).try_fold(0.0, |_, _| process.wait_for("its marks", is_warm))?
            }
        };
        let line_at = Instant::now();
        process.stand_still()?;
        Ok(Self { process, json, readings: Readings::default(), line_at })
    }

    /// Ends it.
    pub(crate) fn finish(self, setup: &Setup, case: &Case) -> anyhow::Result<Run> {
        let figures = self.readings.figures(setup, case.workers)?;
        self.process.interrupt()?;
        self.process.go_on()?;
        self.process.finish()?;
        let summary: Value = serde_json::from_slice(&fs::read(&self.json)?)?;
        Ok(Run { figures, stages: stages(&summary), doubts: doubts(&summary, case) })
    }
}

impl Dut for Millrace {
    fn process(&self) -> &Process {
        &self.process
    }

    fn turn(&mut self, end: Instant, ran: Duration) -> anyhow::Result<()> {
        let begin = Instant::now();
        // The rate in a line is that since the line before, turns of others included.
        while let Some(kpps) = self.process.line_before(end, kpps)? {
            let packets = kpps * 1e3 * self.line_at.elapsed().as_secs_f64();
            let before = self.readings.latest().map_or(0.0, |reading| reading.packets);
            let id = self.process.id();
            self.readings.add(Reading::take(id, before + packets, ran + begin.elapsed()));
            self.line_at = Instant::now();
        }
        Ok(())
    }
}

/// Configuration for `case`, which takes turns with the others of `contenders`.
pub(crate) fn configuration(setup: &Setup, case: &Case, contenders: usize) -> String {
    let cpus = setup.worker_cpus[case.cpus()].chunks(case.queues());
    let pair = |([a, b], workers): ([String; 2], &[usize])| {
        format!("[[pair]]\na = {a:?}\nb = {b:?}\nworkers = {workers:?}\n")
    };
    let pairs: String = setup.pairs(case).into_iter().zip(cpus).map(pair).collect();
    let (huge, memory_mb, mbufs) = (setup.huge, setup.memory_mb(case), setup.mbufs(case));
    let mbuf_data_bytes = setup.mbuf_data_bytes;
    let offload = match case.from {
        From::Twin { is_marked: true } => {
            format!("policy = \"all\"\nrules_max = {RULES_MAX}\n")
        }
        _ => "policy = \"off\"\n".to_owned(),
    };
    let table = match case.load {
        Load::Overflows => format!("[table]\ncapacity = {OVERFLOWING_CAPACITY}\n"),
        Load::Stays | Load::Reused | Load::Renewed => String::new(),
    };
    // Each timer comes up once in a measurement, however short that is. The clock goes on while
    // others have their turn, and while they start, which takes longer with a capture.
    let turns = if matches!(case.from, From::Twin { .. }) { 2 * contenders } else { contenders };
    let idle_s = match case.load {
        Load::Renewed => RENEWED_TIMEOUT_S,
        Load::Stays | Load::Reused | Load::Overflows => f64::from(setup.seconds) * turns as f64,
    };
    let keys = ["tcp_syn_sent", "tcp_established", "udp_first", "udp_multiple"];
    let timeouts = keys.map(|key| format!("{key} = {idle_s}\n")).concat();
    format!(
        "[eal]\nhuge = {huge}\nmemory_mb = {memory_mb}\nmbufs = {mbufs}\n\
         mbuf_data_bytes = {mbuf_data_bytes}\n\
         {pairs}{table}{LIMITS}[offload]\n{offload}[timeouts]\n{timeouts}"
    )
}

/// The rate in a line that is printed every second; both directions.
pub(crate) fn kpps(line: &str) -> Option<f64> {
    let words: Vec<f64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    match words[..] {
        [_second, up_kpps, _up_mbps, down_kpps, _down_mbps, ..] => Some(up_kpps + down_kpps),
        _ => None,
    }
}

/// Whether a line says that all packets had a mark, but for those that are looked at.
fn is_marked_all(line: &str) -> bool {
    let marked = line.split_whitespace().nth(8).and_then(|word| word.parse::<f64>().ok());
    marked.is_some_and(|percent| percent > 99.8)
}

/// Sum over all workers of the number at `pointer` below each.
fn total(summary: &Value, pointer: &str) -> f64 {
    let workers = summary["workers"].as_array().into_iter().flatten();
    workers.filter_map(|worker| worker.pointer(pointer)?.as_f64()).sum()
}

/// Cycles per packet in each stage.
fn stages(summary: &Value) -> Vec<(String, f64)> {
    let packets = total(summary, "/packets");
    let stages = ["rx", "mark", "parse", "lookup", "track", "miss", "tx", "housekeeping"];
    let cycles = |stage| total(summary, &format!("/stage_cycles/{stage}")) / packets;
    stages.map(|stage| (stage.to_owned(), cycles(stage))).into()
}

/// What the flow table went through must be what the case is about.
fn doubts(summary: &Value, case: &Case) -> Vec<String> {
    let number = |pointer| summary.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN);
    let packets = number("/ledger/rx");
    let (created, full) = (number("/flows/created"), number("/flows/table_full"));
    let reused = number("/flows/ended/reuse");
    let flows = (case.traffic.flows() * case.workers) as f64;
    let connections = packets / f64::from(SHORT_TCP_PACKETS);
    let marked = summary.pointer("/offload/marked_share").and_then(Value::as_f64);
    let checks = [
        (
            case.from != From::Twin { is_marked: true } || marked > Some(0.5),
            format!("of all packets {marked:?} were marked"),
        ),
        (summary["ledger"]["balanced"] == true, "the ledger is not balanced".to_owned()),
        (number("/ledger/dropped") == 0.0, "packets were dropped".to_owned()),
        match case.load {
            Load::Stays => (
                created == flows && full == 0.0,
                format!("{created} flows were made of {flows}, {full} packets found no room"),
            ),
            Load::Reused => (
                reused > 0.9 * (connections - flows) && full == 0.0,
                format!("{reused} of {connections:.0} connections took the ports of another"),
            ),
            Load::Renewed => (
                created > 0.9 * packets && full == 0.0,
                format!("{created} flows were made of {packets} packets"),
            ),
            Load::Overflows => {
                (full > 0.8 * packets, format!("{full} of {packets} packets found no room"))
            }
        },
    ];
    checks.into_iter().filter(|(holds, _)| !holds).map(|(_, doubt)| doubt).collect()
}
