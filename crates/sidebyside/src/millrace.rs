// SPDX-License-Identifier: BSD-3-Clause
//! Runs Millrace on the same ports as testpmd, and measures it by the lines it prints every second.

use crate::Setup;
use crate::cases::{Case, Load, NicRules, PacketSource};
use crate::figures::{Figures, Reading};
use crate::lists::{RuleList, with_another_rule};
use crate::process::Process;
use crate::reloads::Reloads;
use crate::turns::{Dut, Readings};
use engine::Tracking;
use serde::Serialize;
use serde_json::Value;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use traffic::scenario::SHORT_TCP_PACKETS;

/// Figures of one run of Millrace.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Run {
    #[serde(flatten)]
    pub(crate) figures: Figures,
    /// Names of the stages, with their cycles per packet over the whole run.
    pub(crate) stages: Vec<(String, f64)>,
    /// Descriptions of what the run did otherwise than its case says.
    #[serde(rename = "doubts")]
    pub(crate) deviations: Vec<String>,
    /// What an automatic choice was at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) choice: Option<Choice>,
    /// How often its access lists were reloaded, if the case says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reloads: Option<u32>,
}

/// An automatic choice of marks, as the port of the software NIC reports it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Choice {
    /// `used`, `ignored` or `no_rules`.
    mark_use: String,
    /// How often it changed.
    switches: u64,
    /// Share of the packets of the whole run that had a mark.
    marked_share: f64,
}

impl Choice {
    fn of(summary: &Value) -> Self {
        let port = &summary["offload"]["ports"][0];
        Self {
            mark_use: port["mark_use"].as_str().unwrap_or_default().to_owned(),
            switches: port["mark_switches"].as_u64().unwrap_or_default(),
            marked_share: summary["offload"]["marked_share"].as_f64().unwrap_or_default(),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mark_use, switches, marked_share } = self;
        write!(f, "marks {mark_use}, {switches} switches, {:.0} % marked", marked_share * 100.0)
    }
}

/// Returns the megabytes of one worker's tables. They use hugepages too: three memory regions for
/// each IP version, each rounded up to whole pages of 2 MB.
pub(crate) fn table_mb() -> usize {
    let engine = engine::Engine::new(&engine::Config::default());
    engine.memory_bytes().div_ceil(1 << 20) + 2 * 3 * 2
}

/// Timeout in seconds where every packet is to begin a flow. At any achievable rate, the capture
/// takes longer to repeat.
const RENEWED_TIMEOUT_S: f64 = 0.05;
/// Limits that let embryonic connections fill the table and evict nothing, because many cases have
/// packets of one direction only.
pub(crate) const LIMITS: &str = "[limits]\nembryonic_percent = 100\nevict = \"nothing\"\n";
/// Capacity of the table for [`Load::TableFull`].
const OVERFLOWING_CAPACITY: u32 = 1 << 16;
/// Setting `rules_max` of the cases with marks: more than the largest of them needs.
const RULES_MAX: u32 = (2 << 20) + 1;

/// Number of lines to wait for in the warm-up; in cases with marks, of lines with all packets
/// marked.
const WARM_UP_LINES: u32 = 2;

/// Lines in a row with the same share of marked packets and as many rules, after which a choice has
/// settled. Marks that do not pay lose their rules before.
const SETTLED_LINES: u32 = 8;
/// Most lines to wait for that.
const SETTLING_LINES_MAX: u32 = 150;

/// A running Millrace.
pub(crate) struct Millrace {
    process: Process,
    json: PathBuf,
    readings: Readings,
    reloads: Option<Reloads>,
    /// Time at which its last line was read.
    line_at: Instant,
}

impl Millrace {
    /// Starts a build of Millrace for `case`, lets it warm up, and stops it (SIGSTOP). `programs`
    /// is the number of programs that take turns.
    pub(crate) fn start(
        setup: &Setup,
        program: &Path,
        case: &Case,
        programs: usize,
    ) -> anyhow::Result<Self> {
        let build = if Some(program) == setup.before.as_deref() { "before-" } else { "" };
        let config = setup.dir.join(format!("{build}{}.toml", case.name));
        let json = setup.dir.join(format!("{build}{}.json", case.name));
        let text = configuration(setup, case, programs);
        fs::write(&config, &text)?;
        let mut process = Process::start(&mut run_command(program, &config, &json))?;
        warm_up(&mut process, case)?;
        let is_reloaded = case.lists.is_some_and(|list| list.is_reloaded);
        let reloads = is_reloaded.then(|| {
            let other = config.with_extension("other.toml");
            fs::write(&other, with_another_rule(&text))?;
            Ok::<_, std::io::Error>(Reloads::start(program, process.id(), [other, config]))
        });
        let (reloads, line_at) = (reloads.transpose()?, Instant::now());
        process.pause()?;
        Ok(Self { process, json, readings: Readings::default(), reloads, line_at })
    }

    /// Ends Millrace and returns its figures.
    pub(crate) fn finish(self, setup: &Setup, case: &Case) -> anyhow::Result<Run> {
        let figures = self.readings.figures(setup, case.workers)?;
        let reloads = self.reloads.map(|reloads| {
            self.process.resume()?;
            reloads.finish()
        });
        let reloads = reloads.transpose()?;
        self.process.interrupt()?;
        self.process.resume()?;
        self.process.finish()?;
        let summary: Value = serde_json::from_slice(&fs::read(&self.json)?)?;
        let choice = (case.rules() == NicRules::Automatic).then(|| Choice::of(&summary));
        let (stages, deviations) = (stages(&summary), deviations(&summary, case));
        Ok(Run { figures, stages, deviations, choice, reloads })
    }
}

/// Waits until the run of a case is as it will be measured.
fn warm_up(process: &mut Process, case: &Case) -> anyhow::Result<()> {
    let has_marks = case.has_marks();
    let lines = match case.source {
        PacketSource::Pcap => 1,
        // In the first pass of the capture after new rules, the model matches each packet.
        PacketSource::Twin { .. } => WARM_UP_LINES,
    };
    for _ in 0..lines {
        let is_warm = |line: &str| kpps(line).filter(|_| !has_marks || marked(line) > Some(99.8));
        process.wait_for("a line of a warm run", is_warm)?;
    }
    if case.rules() == NicRules::Automatic { settle(process) } else { Ok(()) }
}

/// Waits until an automatic choice has settled: the share of marked packets and the number of rules
/// stay the same.
fn settle(process: &mut Process) -> anyhow::Result<()> {
    let (mut same, mut before) = (0, (f64::NAN, f64::NAN));
    for _ in 0..SETTLING_LINES_MAX {
        let figures = |line: &str| Some((marked(line)?, rules(line)?));
        let (share, rules) = process.wait_for("a line per second", figures)?;
        let is_same = (share - before.0).abs() < 1.0 && (rules - before.1).abs() <= 0.002 * rules;
        same = if is_same { same + 1 } else { 0 };
        if same == SETTLED_LINES {
            return Ok(());
        }
        before = (share, rules);
    }
    Ok(())
}

impl Dut for Millrace {
    fn process(&self) -> &Process {
        &self.process
    }

    fn turn(&mut self, end: Instant, ran: Duration) -> anyhow::Result<()> {
        let begin = Instant::now();
        // The rate in a line is the mean since the line before, including turns of others.
        while let Some(kpps) = self.process.find_line_before(end, kpps)? {
            let packets = kpps * 1e3 * self.line_at.elapsed().as_secs_f64();
            let before = self.readings.latest().map_or(0.0, |reading| reading.packets);
            let id = self.process.id();
            self.readings.add(Reading::take(id, before + packets, ran + begin.elapsed()));
            self.line_at = Instant::now();
        }
        Ok(())
    }
}

/// Returns the command of a run that writes its summary to `json`.
pub(crate) fn run_command(program: &Path, config: &Path, json: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("run").arg(config).arg(format!("--json={}", json.display())).arg("--top=0");
    command
}

/// Returns the configuration for `case`. `programs` is the number of programs that take turns.
pub(crate) fn configuration(setup: &Setup, case: &Case, programs: usize) -> String {
    let cpus = setup.worker_cpus[case.cpus()].chunks(case.queues());
    let pair = |([a, b], workers): ([String; 2], &[usize])| {
        format!("[[pair]]\na = {a:?}\nb = {b:?}\nworkers = {workers:?}\n")
    };
    let pairs: String = setup.pairs(case).into_iter().zip(cpus).map(pair).collect();
    let (huge, memory_mb, mbufs) = (setup.huge, setup.memory_mb(case), setup.mbufs(case));
    let mbuf_data_bytes = setup.mbuf_data_bytes;
    let offload = match case.rules() {
        NicRules::Marks => {
            format!("policy = \"all\"\nmarks = \"always\"\nrules_max = {RULES_MAX}\n")
        }
        NicRules::Automatic => "policy = \"measured\"\n".to_owned(),
        NicRules::None => "policy = \"off\"\n".to_owned(),
    };
    let lists = case.lists.map(RuleList::configuration).unwrap_or_default();
    let table = match case.load {
        Load::TableFull => format!("[table]\ncapacity = {OVERFLOWING_CAPACITY}\n"),
        Load::Stable | Load::PortReuse | Load::NewFlows => String::new(),
    };
    let policy = match case.tracking {
        Tracking::Connections => "",
        Tracking::Flows => "[policy]\ntracking = \"flows\"\n",
        Tracking::Off => "[policy]\ntracking = \"off\"\n",
    };
    // The timeouts are as long as the measurement, so each flow's timer fires once. Millrace's
    // clock also runs during turns of others, and while they start, which takes longer with the
    // software NIC.
    let turns =
        if matches!(case.source, PacketSource::Twin { .. }) { 2 * programs } else { programs };
    let idle_s = match case.load {
        Load::NewFlows => RENEWED_TIMEOUT_S,
        Load::Stable | Load::PortReuse | Load::TableFull => f64::from(setup.seconds) * turns as f64,
    };
    let mut keys = vec!["tcp_syn_sent", "tcp_established", "udp_first", "udp_multiple"];
    if case.tracking == Tracking::Flows {
        keys.extend(["flow_first", "flow_multiple"]);
    }
    let keys = keys.into_iter();
    let timeouts: String = keys.map(|key| format!("{key} = {idle_s}\n")).collect();
    format!(
        "[eal]\nhuge = {huge}\nmemory_mb = {memory_mb}\nmbufs = {mbufs}\n\
         mbuf_data_bytes = {mbuf_data_bytes}\n\
         {pairs}{table}{policy}{LIMITS}[offload]\n{offload}[timeouts]\n{timeouts}{lists}"
    )
}

/// Returns the rate of both directions in a line that Millrace prints every second, in thousand
/// packets per second. `None` for other lines.
pub(crate) fn kpps(line: &str) -> Option<f64> {
    let words: Vec<f64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    match words[..] {
        [_second, up_kpps, _up_mbps, down_kpps, _down_mbps, ..] => Some(up_kpps + down_kpps),
        _ => None,
    }
}

/// Returns the percentage of packets that were counted by their mark, from a line that Millrace
/// prints every second.
fn marked(line: &str) -> Option<f64> {
    kpps(line)?;
    line.split_whitespace().nth(8)?.parse().ok()
}

/// Returns the number of rules, from a line that Millrace prints every second.
fn rules(line: &str) -> Option<f64> {
    kpps(line)?;
    line.split_whitespace().nth(9)?.replace('_', "").parse().ok()
}

/// Returns the sum over all workers of the number at `pointer` in each worker's object.
fn total(summary: &Value, pointer: &str) -> f64 {
    let workers = summary["workers"].as_array().into_iter().flatten();
    workers.filter_map(|worker| worker.pointer(pointer)?.as_f64()).sum()
}

/// Returns the stages with their cycles per packet.
fn stages(summary: &Value) -> Vec<(String, f64)> {
    let packets = total(summary, "/packets");
    let stages = ["rx", "mark", "parse", "lookup", "track", "miss", "tx", "housekeeping"];
    let cycles = |stage| total(summary, &format!("/stage_cycles/{stage}")) / packets;
    stages.map(|stage| (stage.to_owned(), cycles(stage))).into()
}

/// Compares the summary with the load of the case; returns a description of each deviation.
fn deviations(summary: &Value, case: &Case) -> Vec<String> {
    let number = |pointer| summary.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN);
    let packets = number("/ledger/rx");
    let (created, full) = (number("/flows/created"), number("/flows/table_full"));
    let reused = number("/flows/ended/reuse");
    let flows = match case.tracking {
        Tracking::Off => 0.0,
        Tracking::Flows | Tracking::Connections => (case.traffic.flows() * case.workers) as f64,
    };
    let connections = packets / f64::from(SHORT_TCP_PACKETS);
    let marked = summary.pointer("/offload/marked_share").and_then(Value::as_f64);
    let checks = [
        (
            !case.has_marks() || marked > Some(0.5),
            format!("share of packets with a mark: {marked:?}"),
        ),
        (summary["ledger"]["balanced"] == true, "the ledger is not balanced".to_owned()),
        (number("/ledger/dropped") == 0.0, "packets were dropped".to_owned()),
        match case.load {
            Load::Stable => (
                created == flows && full == 0.0,
                format!("{created} of {flows} flows created, {full} packets found no room"),
            ),
            Load::PortReuse => (
                reused > 0.9 * (connections - flows) && full == 0.0,
                format!("{reused} of {connections:.0} connections reused the ports of another"),
            ),
            Load::NewFlows => (
                created > 0.9 * packets && full == 0.0,
                format!("{created} flows created by {packets} packets"),
            ),
            Load::TableFull => {
                (full > 0.8 * packets, format!("{full} of {packets} packets found no room"))
            }
        },
    ];
    checks.into_iter().filter(|(holds, _)| !holds).map(|(_, deviation)| deviation).collect()
}
