// SPDX-License-Identifier: BSD-3-Clause
//! Runs the article's loads between two ports of the software NIC, each without and with offload.
//!
//! All runs are in one process. Each has new ports, tables and rules, but the same lcore and packet
//! buffers.

use super::report::ReportFile;
use super::{DemoArgs, choose_cpu, run_with_rings};
use crate::cmd::run::secret;
use crate::demo::comparison::{Comparison, LeftOut, Phases, Played, Readings, Run, RunTitle};
use crate::demo::load::{Mode, USUAL_SPEED};
use crate::live::{PortPair, Runtime};
use crate::signals;
use crate::start::start_eal;
use ::twin::Personality;
use anyhow::Context;
use config::plan::{OffloadPlan, engine_bytes};
use config::{Bypass, MarkPolicy, Policy};
use doctor::host::{Memory, Processor};
use dpdk::{Eal, EalConfig, EalError, Lcore, Mempool, Port};
use engine::{Evict, Tracking};
use indicatif::{ProgressBar, ProgressStyle};
use report::output::{Command, write_line};
use report::records::RecordSink;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Mbufs for the bursts of a worker and for the caches of the pool. One less than a power of two.
const MBUFS: u32 = 8191;
const DATA_BYTES: u16 = 2048;
const DESCRIPTORS: u16 = 1024;
/// Memory that DPDK needs beside the mbufs, in MB.
const EAL_MB: u32 = 64;
/// Number of readings of a run.
const STEPS: u32 = 100;
/// Least time between two readings.
const STEP_MIN: Duration = Duration::from_millis(20);
/// Packets after which a direction is bypassed in [`Mode::Bypass`], if the policy of rules names no
/// number.
const BYPASS_AFTER: u32 = 8;

pub(super) fn run(args: &DemoArgs, driver: PathBuf) -> anyhow::Result<ExitCode> {
    let personalities = personalities(&args.personality)?;
    Memory::refuse_more_than_there_is(engine_bytes(&engine::Config::default()))?;
    let report = ReportFile::open(args.report.as_deref())?;
    let inputs: Vec<_> = report.iter().map(|report| report.path().to_owned()).collect();
    let (outputs, mut sink) = args.output.open(Command::Demo, &inputs)?;
    let interrupted = signals::interrupt_flag().context("cannot catch signals")?;
    let mut stage = match Stage::new(args, driver) {
        Err(error) if !is_hugepage_shortage(&error) => {
            drop(report);
            return Err(run_with_rings(&error).into());
        }
        stage => stage?,
    };
    let mut comparison = describe(args, &personalities);
    if outputs.report {
        // An error here is reported when the tables are printed. Files are written all the same.
        let _ = comparison.print_heading(&mut io::stdout().lock());
    }
    stage.run_all(&mut comparison, &mut sink, &interrupted)?;
    let written = sink.finish().result;
    let is_printed = outputs.report;
    // Each output is tried, also after another one has failed.
    let json = outputs.finish_with(&comparison);
    let page = report.map(|report| report.write(&comparison)).transpose();
    let printed = if is_printed { comparison.print(&mut io::stdout().lock()) } else { Ok(()) };
    json?;
    if let (Some(path), true) = (page?, is_printed) {
        write_line(io::stdout(), format_args!("Report: {}", path.display()));
    }
    printed.context("cannot write the tables")?;
    let not_compared = comparison.not_compared();
    if not_compared > 0 {
        write_line(
            io::stderr(),
            format_args!(
                "millrace: other programs took the worker's cpu, so comparisons are missing \
                 ({not_compared}): repeat the demo while nothing else runs"
            ),
        );
    }
    let is_good = comparison.is_balanced() && not_compared == 0 && written.is_ok();
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn is_hugepage_shortage(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(EalError::NoHugepages { .. }))
}

/// Returns the personalities with these names, each once.
fn personalities(names: &[String]) -> anyhow::Result<Vec<Played>> {
    let mut personalities = Vec::new();
    for name in names {
        let Personality { title, .. } = Personality::named(name)?;
        let played = Played { name: name.clone(), title };
        if !personalities.contains(&played) {
            personalities.push(played);
        }
    }
    Ok(personalities)
}

fn describe(args: &DemoArgs, personalities: &[Played]) -> Comparison {
    let Played { name, title } = personalities[0].clone();
    Comparison {
        version: env!("CARGO_PKG_VERSION"),
        dpdk: dpdk::version(),
        processor: Processor::name_of_this_host(),
        personality: name,
        title,
        personalities: personalities.to_vec(),
        speed: args.speed.clone().unwrap_or_else(|| USUAL_SPEED.to_owned()),
        is_speed_of_all: args.speed.is_some(),
        policy: args.offload.to_string(),
        seconds: args.duration.as_secs_f64(),
        seed: args.seed,
        interrupted: false,
        left_out: Vec::new(),
        runs: Vec::new(),
    }
}

/// Returns the word for a depth of tracking, as in the configuration.
fn depth_name(tracking: Tracking) -> &'static str {
    match tracking {
        Tracking::Off => "off",
        Tracking::Flows => "flows",
        Tracking::Connections => "connections",
    }
}

/// Returns which connections get rules in a run.
fn plan(policy: Policy, RunTitle { load, mode, .. }: &RunTitle<'_>) -> OffloadPlan {
    // Ports that take no rules say so.
    let off = OffloadPlan { is_asked_for: true, ..OffloadPlan::off() };
    let bypass = match (policy, mode) {
        (_, Mode::Automatic) => Bypass::Auto,
        (Policy::After(packets), _) => Bypass::After(packets),
        _ => Bypass::After(BYPASS_AFTER),
    };
    let rules_max = off.rules_max.max(load.directions());
    let policy = load.policy().unwrap_or(policy);
    match mode {
        Mode::Off => off,
        Mode::Marks => OffloadPlan { policy, rules_max, marks: MarkPolicy::Always, ..off },
        Mode::Bypass | Mode::Automatic => {
            let is_auto = *mode == Mode::Automatic;
            let marks = if is_auto { MarkPolicy::Auto } else { MarkPolicy::Always };
            OffloadPlan { policy, rules_max, marks, bypass, bypass_tcp: bypass, ..off }
        }
    }
}

/// Returns why a port does not forward by itself, if a run in `mode` needs that.
fn no_bypass(live: &Runtime, mode: Mode) -> Option<String> {
    let bypass = live.without_bypass().into_iter().map(|(_, _, reason)| reason);
    let mut reasons = live.without_rules().into_iter().map(|(_, reason)| reason).chain(bypass);
    reasons.next().filter(|_| mode == Mode::Bypass)
}

/// How a run ended.
enum Outcome {
    /// It was measured, unless it was interrupted before.
    Measured(Option<Box<Run>>),
    /// The ports do not forward by themselves, for this reason.
    NoBypass(String),
}

/// The state that all runs share.
struct Stage<'a> {
    args: &'a DemoArgs,
    eal: Eal,
    mempool: Mempool,
    /// The worker's lcore; empty during a run.
    lcores: Vec<Lcore>,
    bar: ProgressBar,
}

impl<'a> Stage<'a> {
    /// Starts DPDK. Fails if the driver of the software NIC does not work.
    fn new(args: &'a DemoArgs, driver: PathBuf) -> anyhow::Result<Self> {
        let (worker, placement) = choose_cpu();
        // Without hugepages a page holds one mbuf only.
        let memory_mb = EAL_MB + MBUFS.div_ceil((1 << 20) / 4096);
        let no_huge = Memory::free_hugepages_mb_of_this_host() < u64::from(memory_mb);
        let drivers = vec![driver];
        let config =
            EalConfig { lcores: vec![worker], no_huge, memory_mb, drivers, ..EalConfig::default() };
        let mut eal = start_eal(&config)?;
        drop(Port::probe(&eal, "net_twin0")?);
        write_line(io::stderr(), placement);
        let mempool = Mempool::new(&eal, "demo", MBUFS, DATA_BYTES, None)?;
        let lcores = eal.take_lcores();
        let style = ProgressStyle::with_template("{prefix:16} {bar:30} {msg}");
        let runs = args.personality.len() * args.loads().len() * Mode::ALL.len();
        let bar = ProgressBar::new(u64::from(STEPS) * runs as u64);
        let bar = bar.with_style(style.expect("the template is right"));
        Ok(Self { args, eal, mempool, lcores, bar })
    }

    /// Runs each load in each mode with each personality, until `interrupted` is set.
    fn run_all(
        &mut self,
        comparison: &mut Comparison,
        sink: &mut RecordSink,
        interrupted: &AtomicBool,
    ) -> anyhow::Result<()> {
        for Played { name, .. } in &comparison.personalities.clone() {
            let mut modes = Mode::ALL.to_vec();
            for load in self.args.loads() {
                for mode in modes.clone() {
                    let tracking = depth_name(self.args.tracking(load));
                    let title = RunTitle { personality: name, load, mode, tracking };
                    if interrupted.load(Ordering::Relaxed) {
                        continue;
                    }
                    if mode == Mode::Bypass && !load.is_answered() {
                        let reason = "only connections that are answered are bypassed";
                        comparison.left_out.push(LeftOut::of(&title, Some(load), reason));
                        continue;
                    }
                    match self.run(&title, sink, interrupted)? {
                        Outcome::Measured(run) => comparison.runs.extend(run.map(|run| *run)),
                        Outcome::NoBypass(reason) => {
                            modes.retain(|mode| *mode != Mode::Bypass);
                            comparison.left_out.push(LeftOut::of(&title, None, &reason));
                        }
                    }
                }
            }
        }
        comparison.interrupted = interrupted.load(Ordering::Relaxed);
        self.bar.finish_and_clear();
        Ok(())
    }

    fn run(
        &mut self,
        title: &RunTitle<'_>,
        sink: &mut RecordSink,
        interrupted: &AtomicBool,
    ) -> anyhow::Result<Outcome> {
        self.bar.set_prefix(format!("{}, {}", title.load.name(), title.mode.name()));
        let wire = self.wire(title)?;
        let config = engine::Config {
            secret: secret()?,
            // Flows that are never answered may fill the table.
            embryonic_percent: 100,
            evict: Evict::Nothing,
            ..engine::Config::default()
        };
        let plan = plan(self.args.offload, title);
        let mut live =
            Runtime::start(&self.eal, vec![wire], (&config, plan), Default::default(), None)?;
        let no_bypass = no_bypass(&live, title.mode);
        let mut readings = Readings::new(Phases::of(self.args.duration, title.mode));
        let step = (self.args.duration / STEPS).max(STEP_MIN);
        let mut next = Duration::ZERO;
        while no_bypass.is_none() {
            let now = live.elapsed();
            let is_over =
                readings.end().is_some_and(|end| now >= end) || interrupted.load(Ordering::Relaxed);
            if now >= next || is_over {
                readings.push(live.totals());
                self.show(&readings);
                next = now + step;
            }
            if is_over {
                break;
            }
            live.turn(sink);
        }
        let finished = live.finish(sink);
        self.lcores = finished.lcores;
        sink.take_time();
        Ok(match no_bypass {
            Some(reason) => Outcome::NoBypass(reason),
            None => Outcome::Measured(readings.finish(title, finished.summary).map(Box::new)),
        })
    }

    /// Opens two ports that receive a load, with the worker between them.
    fn wire(&mut self, title: &RunTitle<'_>) -> anyhow::Result<PortPair> {
        let DemoArgs { speed, seed, .. } = self.args;
        let RunTitle { personality, load, .. } = title;
        let folder = tempfile::tempdir().context("cannot make a folder for captures")?;
        let paths = ["a.pcap", "b.pcap"].map(|name| folder.path().join(name));
        load.write(*seed, &paths).context("cannot write a capture")?;
        let speeds = load.speeds(speed.as_deref());
        // The driver reads the captures in probe, so they may be removed after it.
        let port = |number: usize| {
            let (capture, speed) = (paths[number].display(), speeds[number]);
            let devargs = format!(
                "net_twin{number},replay={capture},loops=forever,speed={speed},switch=demo,\
                 personality={personality},seed={seed}"
            );
            Port::probe(&self.eal, &devargs)
        };
        Ok(PortPair {
            a: port(0)?,
            b: port(1)?,
            workers: std::mem::take(&mut self.lcores),
            mempool: self.mempool,
            rx_descriptors: DESCRIPTORS,
            tx_descriptors: DESCRIPTORS,
            zone: engine::ZoneSource::OuterVlan,
            deepest: self.args.tracking(*load),
            access: None,
            mtu: [None; 2],
            read_beside: [None, None],
            interface_mtu: [None; 2],
            cuts_from: [None; 2],
        })
    }

    fn show(&self, readings: &Readings) {
        let Some(rates) = readings.latest() else { return };
        self.bar.inc(1);
        self.bar.set_message(format!(
            "{:.1} Gb/s, cpu {:.0} %, {:.0} % marked, {:.0} % bypassed",
            (rates.up_mbps + rates.down_mbps) / 1e3,
            rates.cpu_percent,
            rates.marked_percent,
            rates.bypassed_percent
        ));
    }
}
