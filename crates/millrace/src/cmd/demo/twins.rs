// SPDX-License-Identifier: BSD-3-Clause
//! Runs the article's loads between two ports of the software NIC, each without and with offload.

use super::report::{ReportFile, tell_of_missing, write_all};
use super::stage::{Stage, StagePair, is_hugepage_shortage};
use super::{DemoArgs, run_with_rings};
use crate::demo::comparison::{Comparison, LeftOut, Played, Run, RunTitle, page};
use crate::demo::load::{Mode, USUAL_SPEED, depth_name};
use crate::demo::readings::Phases;
use crate::live::Runtime;
use crate::signals;
use ::twin::Personality;
use anyhow::Context;
use config::plan::{OffloadPlan, engine_bytes};
use config::{Bypass, MarkPolicy, Policy};
use doctor::host::{Memory, Processor};
use report::output::Command;
use report::records::RecordSink;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Packets after which a direction is bypassed in [`Mode::Bypass`], if the policy of rules names no
/// number.
const BYPASS_AFTER: u32 = 8;

/// The NIC that the software NIC imitates, if the user names none.
const USUAL_PERSONALITY: &str = "cx6dx";

pub(super) fn run(args: &DemoArgs, driver: PathBuf) -> anyhow::Result<ExitCode> {
    let personalities = personalities(&args.personality, &[USUAL_PERSONALITY])?;
    Memory::refuse_more_than_there_is(engine_bytes(&engine::Config::default()))?;
    let report = ReportFile::open(args.report.as_deref())?;
    let inputs: Vec<_> = report.iter().map(|report| report.path().to_owned()).collect();
    let (outputs, mut sink) = args.output.open(Command::Demo, &inputs)?;
    let interrupted = signals::interrupt_flag().context("cannot catch signals")?;
    let runs = personalities.len() * args.loads().len() * Mode::ALL.len();
    let mut stage = match Stage::new(driver, runs) {
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
    run_all((args, &mut stage), &mut comparison, (&mut sink, &interrupted))?;
    let written = sink.finish().result;
    let out = &mut io::stdout().lock();
    write_all((outputs, report), &comparison, page, |comparison| comparison.print(out))?;
    let not_compared = comparison.not_compared();
    tell_of_missing(not_compared);
    let is_good = comparison.is_balanced() && not_compared == 0 && written.is_ok();
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the personalities that the user names, or else the usual ones, each once.
pub(super) fn personalities(named: &[String], usual: &[&str]) -> anyhow::Result<Vec<Played>> {
    let named = named.iter().map(String::as_str);
    let usual = usual.iter().copied().filter(|_| named.len() == 0);
    let mut personalities = Vec::new();
    for name in named.clone().chain(usual) {
        let Personality { title, .. } = Personality::named(name)?;
        let played = Played { name: name.to_owned(), title };
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

/// Runs each load in each mode with each personality, until `interrupted` is set.
fn run_all(
    (args, stage): (&DemoArgs, &mut Stage),
    comparison: &mut Comparison,
    (sink, interrupted): (&mut RecordSink, &AtomicBool),
) -> anyhow::Result<()> {
    for Played { name, .. } in &comparison.personalities.clone() {
        let mut modes = Mode::ALL.to_vec();
        for load in args.loads() {
            for mode in modes.clone() {
                let tracking = depth_name(args.tracking(load));
                let title = RunTitle { personality: name, load, mode, tracking };
                if interrupted.load(Ordering::Relaxed) {
                    continue;
                }
                if mode == Mode::Bypass && !load.is_answered() {
                    let reason = "only connections that are answered are bypassed";
                    comparison.left_out.push(LeftOut::of(&title, Some(load), reason));
                    continue;
                }
                match run_one((args, stage), &title, (sink, interrupted))? {
                    Ok(run) => comparison.runs.extend(run),
                    Err(no_bypass) => {
                        modes.retain(|mode| *mode != Mode::Bypass);
                        comparison.left_out.push(LeftOut::of(&title, None, &no_bypass));
                    }
                }
            }
        }
    }
    comparison.interrupted = interrupted.load(Ordering::Relaxed);
    stage.end();
    Ok(())
}

/// Returns a run, unless it was interrupted before it was measured; or the reason why the ports do
/// not forward by themselves, if it needs that.
fn run_one(
    (args, stage): (&DemoArgs, &mut Stage),
    title: &RunTitle<'_>,
    outputs: (&mut RecordSink, &AtomicBool),
) -> anyhow::Result<Result<Option<Run>, String>> {
    let RunTitle { personality, load, mode, .. } = *title;
    stage.begin(format!("{}, {}", load.name(), mode.name()));
    let pair = StagePair {
        personality,
        seed: args.seed,
        speeds: load.speeds(args.speed.as_deref()),
        tracking: args.tracking(load),
        access: None,
    };
    let wire = stage.open(pair, |paths| load.write(args.seed, paths))?;
    let phases = Phases::of(args.duration, mode.settling());
    let plan = (plan(args.offload, title), phases);
    let measured = stage.measure(wire, plan, |live| no_bypass(live, mode), outputs)?;
    Ok(measured.map(|run| run.map(|(measured, summary)| Run::new(title, measured, summary))))
}
