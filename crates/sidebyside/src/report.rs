// SPDX-License-Identifier: BSD-3-Clause
//! Writes the report of all cases: Markdown tables, and JSON with the figures of all repetitions.

use crate::cases::{Load, Threshold};
use crate::churn::{self, Churn};
use crate::footprint::Footprint;
use crate::machine::Machine;
use crate::replay::{self, Replay};
use crate::results::{CaseResult, Repetition, Spread};
use crate::rules::{self, Rules};
use crate::{TwinResults, calibration, poll_gaps, table};
use serde::Serialize;
use std::fmt;
use traffic::scenario::SHORT_TCP_PACKETS;

/// Results of a run.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) commands: String,
    pub(crate) measured: Vec<CaseResult>,
    /// Speed of the machine, measured before each group.
    #[serde(rename = "yardsticks")]
    pub(crate) calibrations: Vec<calibration::Reading>,
    pub(crate) footprints: Option<[Footprint; 2]>,
    #[serde(flatten)]
    pub(crate) twins: TwinResults,
}

/// Thousands of short connections per second: required, and desired.
const CONNECTIONS: [f64; 2] = [650.0, 1_200.0];

/// Result of the comparison of a figure with its threshold.
pub(crate) enum Outcome {
    /// The figure has the desired value.
    Goal,
    /// The figure has the required value only.
    Must,
    /// The figure misses the required value.
    Missed,
}

impl Outcome {
    /// Returns the outcome of a figure that has, or misses, the required and the desired value.
    pub(crate) fn new(holds_must: bool, holds_goal: bool) -> Self {
        match (holds_must, holds_goal) {
            (_, true) => Outcome::Goal,
            (true, false) => Outcome::Must,
            (false, false) => Outcome::Missed,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Goal => "goal",
            Outcome::Must => "must",
            Outcome::Missed => "MISSED",
        })
    }
}

impl Report {
    /// Formats the report as Markdown.
    pub(crate) fn to_markdown(&self) -> String {
        let mut text = "# testpmd and Millrace side by side\n\n".to_owned();
        for (name, fact) in self.machine.facts() {
            text += &format!("- {name}: {fact}\n");
        }
        let cases: Vec<&CaseResult> =
            self.measured.iter().filter(|measured| !measured.repetitions.is_empty()).collect();
        if !cases.is_empty() {
            text += &floor_table(&cases);
            text += &before_table(&cases);
            text += &ratio_table(&cases);
            text += &stage_table(&cases);
            text += &noise(&cases);
            text += &calibration_table(&self.calibrations);
        }
        text += &self.problems();
        text += &self.footprints.as_ref().map(footprint_section).unwrap_or_default();
        let TwinResults { replays, rules, churn, poll_gaps } = &self.twins;
        text += &replay_table(replays);
        text += &rules.as_ref().map(rules_table).unwrap_or_default();
        text += &churn_section(churn);
        text += &poll_gaps::section(poll_gaps);
        let commands = without_home(self.commands.trim_end());
        text + &format!("\n## Commands\n\n```text\n{commands}\n```\n")
    }

    /// Formats the section on failed runs, and on runs that deviate from their case. Empty if there
    /// are none.
    fn problems(&self) -> String {
        let mut text = String::new();
        for CaseResult { case, repetitions, failures } in &self.measured {
            let deviations = repetitions.iter().flat_map(|r| &r.millrace.deviations);
            deviations.for_each(|deviation| {
                text += &format!("- {}, deviation: {deviation}\n", case.name)
            });
            failures.iter().for_each(|failure| text += &format!("- {}: {failure}\n", case.name));
        }
        if text.is_empty() { text } else { format!("\n## Problems\n\n{text}") }
    }
}

/// Replaces the home directory by `~`, because reports are published.
fn without_home(text: &str) -> String {
    let home = std::env::var("HOME").unwrap_or_default();
    if home.len() > 1 { text.replace(&format!("{home}/"), "~/") } else { text.to_owned() }
}

fn floor_table(cases: &[&CaseResult]) -> String {
    let head = [
        "case",
        "floor Mpps",
        "Mpps",
        "floor cycles",
        "cycles",
        "net min",
        "net median",
        "net max",
        "must / goal",
        "outcome",
    ];
    let rows: Vec<_> = cases.iter().map(|case| floor_row(case)).collect();
    let mut text = format!(
        "\n## Cycles per packet: testpmd io, Millrace, and the difference\n\n\
         Medians of {} repetitions. net: cycles of Millrace minus those of testpmd in the same \
         repetition, in turns on the same cpus.\n\n{}",
        cases[0].repetitions.len(),
        table::render(&head, &rows)
    );
    for measured in cases.iter().filter(|measured| measured.case.load == Load::PortReuse) {
        let mpps = measured.median(|r| r.millrace.figures.mpps);
        let connections = mpps * 1e3 / f64::from(SHORT_TCP_PACKETS);
        let (name, [must, goal]) = (&measured.case.name, CONNECTIONS);
        let outcome = Outcome::new(connections >= must, connections >= goal);
        text += &format!(
            "\n{name}: {connections:.0} thousand connections per second; must / goal {must:.0} / \
             {goal:.0}: {outcome}.\n"
        );
    }
    text
}

/// Formats the table that compares two builds of Millrace; empty if there is one build only.
fn before_table(cases: &[&CaseResult]) -> String {
    let cells = |ratio: fn(&Repetition) -> Option<f64>, measured: &CaseResult| {
        let ratios: Option<Vec<f64>> = measured.repetitions.iter().map(ratio).collect();
        ratios.map(|ratios| Spread::of(ratios).cells(3))
    };
    let row = |measured: &&CaseResult| {
        let before = |r: &Repetition| r.before.as_ref().map_or(f64::NAN, |run| run.figures.cycles);
        let cycles = [measured.median(before), measured.median(|r| r.millrace.figures.cycles)];
        let mut row = vec![measured.case.name.clone()];
        row.extend(cycles.map(|cycles| format!("{cycles:.1}")));
        row.extend(cells(Repetition::cycles_ratio, measured)?);
        row.extend(cells(Repetition::net_ratio, measured)?);
        Some(row)
    };
    let rows: Vec<_> = cases.iter().filter_map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let head =
        ["case", "before", "now", "ratio min", "median", "max", "net min", "net median", "net max"];
    format!(
        "\n## This build and the earlier one\n\nCycles per packet, medians. Ratios of this build \
         to the earlier one within a repetition: of all cycles, and of net cycles.\n\n{}",
        table::render(&head, &rows)
    )
}

fn floor_row(measured: &CaseResult) -> Vec<String> {
    let net = measured.spread(Repetition::net);
    let mut row = vec![measured.case.name.clone()];
    row.push(format!("{:.2}", measured.median(|r| r.floor.mpps)));
    row.push(format!("{:.2}", measured.median(|r| r.millrace.figures.mpps)));
    row.push(format!("{:.1}", measured.median(|r| r.floor.cycles)));
    row.push(format!("{:.1}", measured.median(|r| r.millrace.figures.cycles)));
    row.extend(net.cells(1));
    let held = measured.case.thresholds.iter().find_map(|threshold| match threshold {
        Threshold::NetAtMost { must, goal } => Some([
            format!("{must} / {goal}"),
            Outcome::new(net.median <= *must, net.median <= *goal).to_string(),
        ]),
        _ => None,
    });
    row.extend(held.unwrap_or_default());
    row
}

/// Formats the table of cases that are compared with other cases; empty if there are none.
fn ratio_table(cases: &[&CaseResult]) -> String {
    let rows_of = |case: &&CaseResult| -> Vec<_> {
        case.case
            .thresholds
            .iter()
            .flat_map(|threshold| ratio_rows(case, threshold, cases))
            .collect()
    };
    let rows: Vec<_> = cases.iter().flat_map(rows_of).collect();
    if rows.is_empty() {
        return String::new();
    }
    let head = ["case", "min", "median", "max", "must", "outcome"];
    format!(
        "\n## Ratios within one repetition\n\nFloods against a hash: cycles, divided by those of \
         random tuples. Two workers: Mpps, divided by the mean of one worker on each cpu. Marked \
         packets: net cycles of unmarked packets, divided by those of marked ones; Mpps, divided \
         by those of unmarked packets.\n\n{}",
        table::render(&head, &rows)
    )
}

fn ratio_rows(
    measured: &CaseResult,
    threshold: &Threshold,
    cases: &[&CaseResult],
) -> Vec<Vec<String>> {
    let find = |name: &String| cases.iter().copied().find(|other| other.case.name == *name);
    let row = |name: String, ratio: Spread, text: String, outcome: String| {
        [vec![name], ratio.cells(3).into(), vec![text, outcome]].concat()
    };
    let name = measured.case.name.clone();
    let text = threshold.to_string();
    let rows = match threshold {
        Threshold::NetAtMost { .. } => None,
        Threshold::NetRatioAtLeast { than, must, goal } => find(than).and_then(|other| {
            let ratio = other.ratio(&[measured], Repetition::net)?;
            let outcome = Outcome::new(ratio.median >= *must, ratio.median >= *goal);
            Some(vec![row(format!("{name}, net"), ratio, text, outcome.to_string())])
        }),
        Threshold::CyclesAtMost { than, must } => find(than).and_then(|other| {
            let ratio = measured.ratio(&[other], |r| r.millrace.figures.cycles)?;
            let outcome = Outcome::new(ratio.median <= *must, false);
            Some(vec![row(name, ratio, text, outcome.to_string())])
        }),
        Threshold::MppsAtLeast { than, must, goal } => {
            than.iter().map(find).collect::<Option<Vec<_>>>().and_then(|others| {
                let ratio = measured.ratio(&others, |r| r.millrace.figures.mpps)?;
                let is_goal = goal.is_some_and(|goal| ratio.median >= goal);
                let outcome = Outcome::new(ratio.median >= *must, is_goal);
                // testpmd's ratio shows how much faster two cpus of this machine are.
                let floor = measured.ratio(&others, |r| r.floor.mpps)?;
                let of_testpmd = format!("{name}, testpmd");
                let none = String::new;
                let rows = vec![
                    row(name, ratio, text, outcome.to_string()),
                    row(of_testpmd, floor, none(), none()),
                ];
                Some(rows)
            })
        }
    };
    rows.unwrap_or_default()
}

fn stage_table(cases: &[&CaseResult]) -> String {
    let stages = &cases[0].repetitions[0].millrace.stages;
    let names = stages.iter().map(|(name, _)| name.as_str());
    let head: Vec<&str> = std::iter::once("case").chain(names).collect();
    let row = |case: &&CaseResult| {
        let stages = (0..stages.len()).map(|i| case.median(|r| r.millrace.stages[i].1));
        let cells = stages.map(|cycles| format!("{cycles:.1}"));
        std::iter::once(case.case.name.clone()).chain(cells).collect()
    };
    let rows: Vec<Vec<String>> = cases.iter().map(row).collect();
    format!(
        "\n## Stages of Millrace: cycles per packet\n\nMedians of Millrace's own counters, \
         sampled over the whole run, including its start.\n\n{}",
        table::render(&head, &rows)
    )
}

/// Formats the section on the noise of the measurement.
fn noise(cases: &[&CaseResult]) -> String {
    let on_cpu = cases.iter().flat_map(|m| m.repetitions.iter().map(Repetition::on_cpu));
    let on_cpu = Spread::of(on_cpu.map(|share| share * 100.0).collect());
    let mut text = format!(
        "\n## Noise\n\nShare of time that the workers had their cpus: {:.1} % in the median \
         repetition, {:.1} % in the worst.",
        on_cpu.median, on_cpu.min
    );
    let floors = cases.iter().filter(|case| case.repetitions.len() > 1);
    let floors: Vec<Spread> = floors.map(|case| case.spread(|r| r.floor.cycles)).collect();
    if floors.is_empty() {
        return text + " One repetition shows no spread.\n";
    }
    let cycles = Spread::of(floors.iter().map(|floor| floor.width()).collect());
    let percent = floors.iter().map(|floor| 100.0 * floor.width() / floor.median);
    let percent = Spread::of(percent.collect());
    text += &format!(
        " testpmd does the same work in each repetition. Its cycles vary by {:.0} ({:.0} %) in \
         the median case and by {:.0} ({:.0} %) in the worst. Smaller differences mean \
         nothing.\n",
        cycles.median, percent.median, cycles.max, percent.max
    );
    text
}

/// Formats the table of the machine's speed during the run.
fn calibration_table(readings: &[calibration::Reading]) -> String {
    if readings.is_empty() {
        return String::new();
    }
    let rows = calibration::NAMES.iter().enumerate().map(|(i, name)| {
        let spread = Spread::of(readings.iter().map(|reading| reading.0[i]).collect());
        let figures = [spread.min, spread.median, spread.max].map(|figure| format!("{figure:.1}"));
        [vec![(*name).to_owned()], figures.to_vec()].concat()
    });
    let rows: Vec<Vec<String>> = rows.collect();
    "\n## Calibration of the machine\n\nFixed loops, on the first worker's cpu before each group: \
     cycles of the time-stamp counter per step.\n\n"
        .to_owned()
        + &table::render(&["loop", "min", "median", "max"], &rows)
}

fn footprint_section(footprints: &[Footprint; 2]) -> String {
    let line = |footprint: &Footprint| {
        let &Footprint { ip_version, flows, resident_bytes_per_flow, engine_bytes_per_flow } =
            footprint;
        let [must, goal] = footprint.thresholds();
        let holds = |limit| resident_bytes_per_flow <= limit;
        let outcome = Outcome::new(holds(must), holds(goal));
        format!(
            "{flows} IPv{ip_version} flows in the table: {resident_bytes_per_flow:.1} bytes per \
             flow resident, {engine_bytes_per_flow:.1} by the engine's own counter; must / goal \
             {must} / {goal}: {outcome}.\n"
        )
    };
    format!("\n## Memory\n\n{}", footprints.each_ref().map(line).join("\n"))
}

fn replay_table(replays: &[Replay]) -> String {
    if replays.is_empty() {
        return String::new();
    }
    let row = |replay: &Replay| {
        let cycles = Spread::of(replay.figures.iter().map(|figures| figures.cycles).collect());
        let mpps = Spread::of(replay.figures.iter().map(|figures| figures.mpps).collect());
        let held = match replay.is_twin {
            true => {
                let outcome = Outcome::new(cycles.median <= replay::MUST, false);
                vec![format!("{:.0}", replay::MUST), outcome.to_string()]
            }
            false => vec![String::new(); 2],
        };
        let figures = [vec![format!("{:.2}", mpps.median)], cycles.cells(1).into()].concat();
        [vec![replay.name.clone()], figures, held].concat()
    };
    let head = ["packets of", "Mpps", "min", "median", "max", "must", "outcome"];
    let rows: Vec<Vec<String>> = replays.iter().map(row).collect();
    format!(
        "\n## The software NIC: replay of a capture\n\ntestpmd in io mode between two of its ports \
         on one core, 64 bytes, in turns: cycles to receive and send one packet.\n\n{}",
        table::render(&head, &rows)
    )
}

fn rules_table(rules: &Rules) -> String {
    let Rules { made, destroyed, bytes, probe } = rules;
    let row = |name: &str, values: &[f64], decimals, must: Option<(f64, bool)>| {
        let spread = Spread::of(values.to_vec());
        let held = must.map_or_else(Default::default, |(must, at_least)| {
            let is_held = if at_least { spread.median >= must } else { spread.median <= must };
            [format!("{must:.0}"), Outcome::new(is_held, false).to_string()]
        });
        [vec![name.to_owned()], spread.cells(decimals).into(), held.into()].concat()
    };
    let rows = [
        row("installed, thousands per second", made, 0, Some((rules::MADE_MUST, true))),
        row("removed, thousands per second", destroyed, 0, None),
        row("bytes per rule", bytes, 0, Some((rules::BYTES_MUST, false))),
        row("longest probe, seconds", probe, 1, Some((rules::PROBE_MUST, false))),
    ];
    let head = ["rules", "min", "median", "max", "must", "outcome"];
    format!(
        "\n## The software NIC: flow rules\n\ndpdk-test-flow-perf installs 1 M rules of eth, ipv4 \
         and udp, and removes them. `millrace nic probe` probes each personality without filling \
         its table.\n\n{}",
        table::render(&head, &rows)
    )
}

fn churn_section(churns: &[Churn]) -> String {
    if churns.is_empty() {
        return String::new();
    }
    let tables: Vec<_> = churns.iter().map(churn_table).collect();
    format!(
        "\n## Offload while flows begin and end\n\nMillrace without and with offload behind a \
         software NIC at a fixed rate, which buffers one millisecond. Lost: packets that the link \
         could carry and the worker did not receive. Gap: time between two polls that one gap in \
         ten thousand exceeds.\n{}",
        tables.concat()
    )
}

fn churn_table(churn: &Churn) -> String {
    let Churn { lost_ppm: [lost, lost_with], gap_us: [gap, gap_with], added_us, .. } = churn;
    let row = |name: &str, values: &[f64], decimals, thresholds: Option<(f64, f64)>| {
        let spread = Spread::of(values.to_vec());
        let held = thresholds.map_or_else(Default::default, |(must, goal)| {
            // If the desired value is above the required one, more is better.
            let sign = if must < goal { -1.0 } else { 1.0 };
            let holds = |limit: f64| sign * spread.median <= sign * limit;
            let outcome = Outcome::new(holds(must), holds(goal));
            [format!("{must:.0} / {goal:.0}"), outcome.to_string()]
        });
        [vec![name.to_owned()], spread.cells(decimals).into(), held.into()].concat()
    };
    let thresholds = Some((churn::GAP_MUST, churn::GAP_GOAL));
    // With offload, no more packets may be lost than without it, except for noise.
    let most = Spread::of(lost.clone()).max + churn::NOISE_PPM;
    let [flows, flows_with] = &churn.flows;
    let rows = [
        row("lost, per million, without", lost, 0, None),
        row("lost, per million, with", lost_with, 0, Some((most, most))),
        row("gap, us, without", gap, 1, None),
        row("gap, us, with", gap_with, 1, None),
        row("added to the gap, us", added_us, 1, thresholds),
        row("new flows, thousands per second, without", flows, 0, None),
        row("new flows, thousands per second, with", flows_with, 0, None),
        row("rules installed, thousands per second", &churn.rules, 1, churn.thresholds.rules),
        row("packets without a mark, percent, with", &churn.unmarked, 0, churn.thresholds.unmarked),
    ];
    let head = [churn.name, "min", "median", "max", "must / goal", "outcome"];
    format!("\n{}", table::render(&head, &rows))
}
