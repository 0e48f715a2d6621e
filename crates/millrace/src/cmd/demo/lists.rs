// SPDX-License-Identifier: BSD-3-Clause
//! Runs the load of the article about VPP between two ports of the software NIC: without access
//! list, with lists in software, and with a list whose rules the NIC has.

use super::report::{ReportFile, tell_of_missing, write_all};
use super::stage::{Stage, StagePair, is_hugepage_shortage};
use super::twins::personalities;
use super::{DemoArgs, Depth};
use crate::demo::comparison::Played;
use crate::demo::list_comparison::{FLOWS, ListComparison, ListRun, ListTitle, page};
use crate::demo::load::{PROBES_ONLY, write_captures};
use crate::demo::readings::{Phases, Settling};
use crate::signals;
use acl::{AccessList, Action, parse_rule};
use anyhow::Context;
use config::plan::{OffloadPlan, engine_bytes};
use config::{MarkPolicy, Policy};
use doctor::host::{Memory, Processor};
use engine::{AccessLists, ListBinding, ListDirection, Side, Tracking};
use report::output::Command;
use report::records::RecordSink;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use traffic::{access_rules, article};

/// The NICs that the software NIC imitates, if the user names none.
const USUAL_PERSONALITIES: [&str; 2] = ["ideal", "cx5"];

/// Most rules of a list in a NIC: all of them.
const NIC_RULES_MAX: u32 = 2048;

pub(super) fn run(args: &DemoArgs, driver: PathBuf) -> anyhow::Result<ExitCode> {
    let personalities = personalities(&args.personality, &USUAL_PERSONALITIES)?;
    Memory::refuse_more_than_there_is(engine_bytes(&engine::Config::default()))?;
    let report = ReportFile::open(args.report.as_deref())?;
    let inputs: Vec<_> = report.iter().map(|report| report.path().to_owned()).collect();
    let (outputs, mut sink) = args.output.open(Command::Demo, &inputs)?;
    let interrupted = signals::interrupt_flag().context("cannot catch signals")?;
    let titles = titles(args.tracking, &personalities);
    let mut stage = Stage::new(driver, titles.len()).map_err(|error| {
        let cause = if is_hugepage_shortage(&error) { "hugepages are missing" } else { NO_TWIN };
        error.context(cause)
    })?;
    let mut comparison = describe(args, personalities);
    if outputs.report {
        // An error here is reported when the tables are printed. Files are written all the same.
        let _ = comparison.print_heading(&mut io::stdout().lock());
    }
    for title in titles {
        if !interrupted.load(Ordering::Relaxed) {
            let run = run_one((args, &mut stage), title, (&mut sink, &interrupted))?;
            comparison.runs.extend(run);
        }
    }
    comparison.interrupted = interrupted.load(Ordering::Relaxed);
    stage.end();
    let written = sink.finish().result;
    let out = &mut io::stdout().lock();
    write_all((outputs, report), &comparison, page, |comparison| comparison.print(out))?;
    let not_compared = comparison.not_compared();
    tell_of_missing(not_compared);
    let is_good = comparison.is_balanced() && not_compared == 0 && written.is_ok();
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

const NO_TWIN: &str = "the software NIC cannot be used, and lists are shown on it only; \
                       `make twin` builds it again";

/// Returns the runs: those without tracking, then those with, or those of one depth.
fn titles(depth: Option<Depth>, personalities: &[Played]) -> Vec<ListTitle> {
    let depths = match depth {
        None => vec![Tracking::Off, Tracking::Connections],
        Some(depth) => vec![depth.tracking()],
    };
    let of_depth = |depth| ListTitle::of_depth(depth, personalities);
    depths.into_iter().flat_map(of_depth).collect()
}

fn describe(args: &DemoArgs, personalities: Vec<Played>) -> ListComparison {
    ListComparison {
        version: env!("CARGO_PKG_VERSION"),
        dpdk: dpdk::version(),
        processor: Processor::name_of_this_host(),
        personalities,
        flows: FLOWS,
        seconds: args.duration.as_secs_f64(),
        seed: args.seed,
        interrupted: false,
        runs: Vec::new(),
    }
}

/// Returns a list of this many rules for packets that arrive at port A.
fn access(rules: u32) -> anyhow::Result<Option<Arc<AccessLists>>> {
    if rules == 0 {
        return Ok(None);
    }
    let rules = access_rules(rules).map(|rule| parse_rule(&rule, &|_| None));
    let rules = rules.collect::<Result<_, _>>()?;
    let list = Arc::new(AccessList { name: "demo".to_owned(), rules, default: Action::Deny });
    let binding = ListBinding { list, places: vec![(Side::A, ListDirection::In)] };
    Ok(Some(Arc::new(AccessLists::new(&[binding])?)))
}

/// Returns which rules the NIC gets: those of the list, and those of connections, which carry what
/// the list has decided.
fn plan(title: &ListTitle) -> OffloadPlan {
    let off = OffloadPlan { is_asked_for: true, ..OffloadPlan::off() };
    if title.personality.is_none() {
        return off;
    }
    OffloadPlan {
        policy: Policy::All,
        rules_max: off.rules_max.max(FLOWS),
        marks: MarkPolicy::Always,
        list_rules_max: NIC_RULES_MAX,
        ..off
    }
}

/// Returns a run, unless it was interrupted before it was measured.
fn run_one(
    (args, stage): (&DemoArgs, &mut Stage),
    title: ListTitle,
    outputs: (&mut RecordSink, &AtomicBool),
) -> anyhow::Result<Option<ListRun>> {
    stage.begin(format!("{} {}", title.list(), title.decided_by()));
    let pair = StagePair {
        personality: title.personality.as_deref().unwrap_or(USUAL_PERSONALITIES[0]),
        seed: args.seed,
        speeds: ["none", PROBES_ONLY],
        tracking: title.tracking,
        access: access(title.rules)?,
    };
    let load = |sink: &mut dyn FnMut(traffic::Side, &[u8])| {
        article::many_flows(args.seed, FLOWS, sink);
    };
    let wire = stage.open(pair, |paths| write_captures(paths, load))?;
    let settling = if title.personality.is_some() { Settling::Rules } else { Settling::Nothing };
    let plan = (plan(&title), Phases::of(args.duration, settling));
    let measured = stage.measure(wire, plan, |_| None, outputs)?.ok().flatten();
    Ok(measured.map(|(measured, summary)| ListRun::new(title, measured, summary)))
}
