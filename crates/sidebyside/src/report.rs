// SPDX-License-Identifier: BSD-3-Clause
//! What was measured, as Markdown for people and as JSON with every single figure.

use crate::cases::{Bar, Load};
use crate::churn::{self, Churn};
use crate::footprint::Footprint;
use crate::machine::Machine;
use crate::measured::{Measured, Repetition, Spread};
use crate::replay::{self, Replay};
use crate::rules::{self, Rules};
use crate::{Twins, table, waits, yardstick};
use serde::Serialize;
use std::fmt;
use traffic::scenario::SHORT_TCP_PACKETS;

/// Everything that is known in the end.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) commands: String,
    pub(crate) measured: Vec<Measured>,
    /// The machine itself, before every heat.
    pub(crate) yardsticks: Vec<yardstick::Reading>,
    pub(crate) footprints: Option<[Footprint; 2]>,
    #[serde(flatten)]
    pub(crate) twins: Twins,
}

/// Thousands of short connections in a second that must be, and that are the goal.
const CONNECTIONS: [f64; 2] = [650.0, 1_200.0];

/// How a figure stands to its bar.
pub(crate) enum Verdict {
    Goal,
    Must,
    Missed,
}

impl Verdict {
    /// By whether either bar is held.
    pub(crate) fn new(holds_must: bool, holds_goal: bool) -> Self {
        match (holds_must, holds_goal) {
            (_, true) => Verdict::Goal,
            (true, false) => Verdict::Must,
            (false, false) => Verdict::Missed,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Goal => "goal",
            Verdict::Must => "must",
            Verdict::Missed => "MISSED",
        })
    }
}

impl Report {
    /// The report for people.
    pub(crate) fn to_markdown(&self) -> String {
        let mut text = "# testpmd and Millrace side by side\n\n".to_owned();
        for (name, fact) in self.machine.facts() {
            text += &format!("- {name}: {fact}\n");
        }
        let cases: Vec<&Measured> =
            self.measured.iter().filter(|measured| !measured.repetitions.is_empty()).collect();
        if !cases.is_empty() {
            text += &floor_table(&cases);
            text += &before_table(&cases);
            text += &ratio_table(&cases);
            text += &stage_table(&cases);
            text += &noise(&cases);
            text += &yardstick_table(&self.yardsticks);
        }
        text += &self.trouble();
        text += &self.footprints.as_ref().map(footprint_section).unwrap_or_default();
        let Twins { replays, rules, churn, waits } = &self.twins;
        text += &replay_table(replays);
        text += &rules.as_ref().map(rules_table).unwrap_or_default();
        text += &churn_section(churn);
        text += &waits::section(waits);
        let commands = without_home(self.commands.trim_end());
        text + &format!("\n## Commands\n\n```text\n{commands}\n```\n")
    }

    /// What went wrong, and what did not do what the case is about.
    fn trouble(&self) -> String {
        let mut text = String::new();
        for Measured { case, repetitions, failures } in &self.measured {
            let doubts = repetitions.iter().flat_map(|r| &r.millrace.doubts);
            doubts.for_each(|doubt| text += &format!("- {}, doubtful: {doubt}\n", case.name));
            failures.iter().for_each(|failure| text += &format!("- {}: {failure}\n", case.name));
        }
        if text.is_empty() { text } else { format!("\n## Trouble\n\n{text}") }
    }
}

/// Results are kept, and are nobody's.
fn without_home(text: &str) -> String {
    let home = std::env::var("HOME").unwrap_or_default();
    if home.len() > 1 { text.replace(&format!("{home}/"), "~/") } else { text.to_owned() }
}

fn floor_table(cases: &[&Measured]) -> String {
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
        "verdict",
    ];
    let rows: Vec<_> = cases.iter().map(|case| floor_row(case)).collect();
    let mut text = format!(
        "\n## Cycles per packet: testpmd io, Millrace, and the difference\n\n\
         Medians of {} repetitions; net is the difference within one, in turns on the same \
         cpus.\n\n{}",
        cases[0].repetitions.len(),
        table::render(&head, &rows)
    );
    for measured in cases.iter().filter(|measured| measured.case.load == Load::Reused) {
        let mpps = measured.median(|r| r.millrace.figures.mpps);
        let connections = mpps * 1e3 / f64::from(SHORT_TCP_PACKETS);
        let (name, [must, goal]) = (&measured.case.name, CONNECTIONS);
        let verdict = Verdict::new(connections >= must, connections >= goal);
        text += &format!(
            "\n{name}: {connections:.0} thousand connections per second; must / goal {must:.0} / \
             {goal:.0}: {verdict}.\n"
        );
    }
    text
}

/// Returns the table of both builds of Millrace; empty if there is one build only.
fn before_table(cases: &[&Measured]) -> String {
    let cells = |ratio: fn(&Repetition) -> Option<f64>, measured: &Measured| {
        let ratios: Option<Vec<f64>> = measured.repetitions.iter().map(ratio).collect();
        ratios.map(|ratios| Spread::of(ratios).cells(3))
    };
    let row = |measured: &&Measured| {
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
        "\n## This build and the one before\n\nCycles per packet, medians; ratios of this build to \
         the earlier one within a repetition, of all cycles and of those above testpmd.\n\n{}",
        table::render(&head, &rows)
    )
}

fn floor_row(measured: &Measured) -> Vec<String> {
    let net = measured.spread(Repetition::net);
    let mut row = vec![measured.case.name.clone()];
    row.push(format!("{:.2}", measured.median(|r| r.floor.mpps)));
    row.push(format!("{:.2}", measured.median(|r| r.millrace.figures.mpps)));
    row.push(format!("{:.1}", measured.median(|r| r.floor.cycles)));
    row.push(format!("{:.1}", measured.median(|r| r.millrace.figures.cycles)));
    row.extend(net.cells(1));
    let held = measured.case.bars.iter().find_map(|bar| match bar {
        Bar::Net { must, goal } => Some([
            format!("{must} / {goal}"),
            Verdict::new(net.median <= *must, net.median <= *goal).to_string(),
        ]),
        _ => None,
    });
    row.extend(held.unwrap_or_default());
    row
}

/// Cases that are held against others.
fn ratio_table(cases: &[&Measured]) -> String {
    let rows_of = |case: &&Measured| -> Vec<_> {
        case.case.bars.iter().flat_map(|bar| ratio_rows(case, bar, cases)).collect()
    };
    let rows: Vec<_> = cases.iter().flat_map(rows_of).collect();
    if rows.is_empty() {
        return String::new();
    }
    let head = ["case", "min", "median", "max", "must", "verdict"];
    format!(
        "\n## Ratios within one repetition\n\nFloods made for a hash: cycles over those of random \
         tuples. Two workers: Mpps over those of one, in the mean of both cpus. Marked packets: \
         net cycles of software over theirs, and Mpps over those of software.\n\n{}",
        table::render(&head, &rows)
    )
}

fn ratio_rows(measured: &Measured, held: &Bar, cases: &[&Measured]) -> Vec<Vec<String>> {
    let find = |name: &String| cases.iter().copied().find(|other| other.case.name == *name);
    let row = |name: String, ratio: Spread, bar: String, verdict: String| {
        [vec![name], ratio.cells(3).into(), vec![bar, verdict]].concat()
    };
    let name = measured.case.name.clone();
    let bar = held.to_string();
    let rows = match held {
        Bar::Net { .. } => None,
        Bar::TimesLess { than, must, goal } => find(than).and_then(|other| {
            let ratio = other.ratio(&[measured], Repetition::net)?;
            let verdict = Verdict::new(ratio.median >= *must, ratio.median >= *goal);
            Some(vec![row(format!("{name}, net"), ratio, bar, verdict.to_string())])
        }),
        Bar::TimesSlower { than, must } => find(than).and_then(|other| {
            let ratio = measured.ratio(&[other], |r| r.millrace.figures.cycles)?;
            let verdict = Verdict::new(ratio.median <= *must, false);
            Some(vec![row(name, ratio, bar, verdict.to_string())])
        }),
        Bar::TimesFaster { than, must, goal } => {
            than.iter().map(find).collect::<Option<Vec<_>>>().and_then(|others| {
                let ratio = measured.ratio(&others, |r| r.millrace.figures.mpps)?;
                let is_goal = goal.is_some_and(|goal| ratio.median >= goal);
                let verdict = Verdict::new(ratio.median >= *must, is_goal);
                // What the machine gives to a program that shares nothing at all.
                let floor = measured.ratio(&others, |r| r.floor.mpps)?;
                let of_testpmd = format!("{name}, testpmd itself");
                let none = String::new;
                let rows = vec![
                    row(name, ratio, bar, verdict.to_string()),
                    row(of_testpmd, floor, none(), none()),
                ];
                Some(rows)
            })
        }
    };
    rows.unwrap_or_default()
}

fn stage_table(cases: &[&Measured]) -> String {
    let stages = &cases[0].repetitions[0].millrace.stages;
    let names = stages.iter().map(|(name, _)| name.as_str());
    let head: Vec<&str> = std::iter::once("case").chain(names).collect();
    let row = |case: &&Measured| {
        let stages = (0..stages.len()).map(|i| case.median(|r| r.millrace.stages[i].1));
        let cells = stages.map(|cycles| format!("{cycles:.1}"));
        std::iter::once(case.case.name.clone()).chain(cells).collect()
    };
    let rows: Vec<Vec<String>> = cases.iter().map(row).collect();
    format!(
        "\n## Inside Millrace: cycles per packet by its own account\n\nMedians. Sampled over \
         the whole run, its start included.\n\n{}",
        table::render(&head, &rows)
    )
}

/// What the figures are worth.
fn noise(cases: &[&Measured]) -> String {
    let on_cpu = cases.iter().flat_map(|m| m.repetitions.iter().map(Repetition::on_cpu));
    let on_cpu = Spread::of(on_cpu.map(|share| share * 100.0).collect());
    let mut text = format!(
        "\n## Noise\n\nThe workers had their cpus for {:.1} % of the time in the median \
         repetition, for {:.1} % in the worst.",
        on_cpu.median, on_cpu.min
    );
    let floors = cases.iter().filter(|case| case.repetitions.len() > 1);
    let floors: Vec<Spread> = floors.map(|case| case.spread(|r| r.floor.cycles)).collect();
    if floors.is_empty() {
        return text + " Nothing can be said about the spread of one repetition.\n";
    }
    let cycles = Spread::of(floors.iter().map(|floor| floor.width()).collect());
    let percent = floors.iter().map(|floor| 100.0 * floor.width() / floor.median);
    let percent = Spread::of(percent.collect());
    text += &format!(
        " testpmd, which does the same every time, differs from itself by {:.0} cycles ({:.0} %) \
         in the median case and {:.0} cycles ({:.0} %) in the worst: smaller differences mean \
         nothing.\n",
        cycles.median, percent.median, cycles.max, percent.max
    );
    text
}

/// What the machine itself did meanwhile.
fn yardstick_table(readings: &[yardstick::Reading]) -> String {
    if readings.is_empty() {
        return String::new();
    }
    let rows = yardstick::NAMES.iter().enumerate().map(|(i, name)| {
        let spread = Spread::of(readings.iter().map(|reading| reading.0[i]).collect());
        let figures = [spread.min, spread.median, spread.max].map(|figure| format!("{figure:.1}"));
        [vec![(*name).to_owned()], figures.to_vec()].concat()
    });
    let rows: Vec<Vec<String>> = rows.collect();
    "\n## The machine itself\n\nLoops that never change, on the first worker's cpu before every \
     heat: cycles of the time-stamp counter for one step.\n\n"
        .to_owned()
        + &table::render(&["loop", "min", "median", "max"], &rows)
}

fn footprint_section(footprints: &[Footprint; 2]) -> String {
    let line = |footprint: &Footprint| {
        let &Footprint { ip_version, flows, resident_bytes_per_flow, engine_bytes_per_flow } =
            footprint;
        let [must, goal] = footprint.bars();
        let holds = |bar| resident_bytes_per_flow <= bar;
        let verdict = Verdict::new(holds(must), holds(goal));
        format!(
            "{flows} IPv{ip_version} flows in the table: {resident_bytes_per_flow:.1} bytes per \
             flow resident, {engine_bytes_per_flow:.1} by the engine's own account; must / goal \
             {must} / {goal}: {verdict}.\n"
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
                let verdict = Verdict::new(cycles.median <= replay::MUST, false);
                vec![format!("{:.0}", replay::MUST), verdict.to_string()]
            }
            false => vec![String::new(); 2],
        };
        let figures = [vec![format!("{:.2}", mpps.median)], cycles.cells(1).into()].concat();
        [vec![replay.name.clone()], figures, held].concat()
    };
    let head = ["packets of", "Mpps", "min", "median", "max", "must", "verdict"];
    let rows: Vec<Vec<String>> = replays.iter().map(row).collect();
    format!(
        "\n## The software NIC: a capture that is replayed\n\ntestpmd io between two of its ports \
         on one core, 64 bytes: cycles per packet, received and sent, in turns.\n\n{}",
        table::render(&head, &rows)
    )
}

fn rules_table(rules: &Rules) -> String {
    let Rules { made, destroyed, bytes, probe } = rules;
    let row = |name: &str, values: &[f64], decimals, must: Option<(f64, bool)>| {
        let spread = Spread::of(values.to_vec());
        let held = must.map_or_else(Default::default, |(must, at_least)| {
            let is_held = if at_least { spread.median >= must } else { spread.median <= must };
            [format!("{must:.0}"), Verdict::new(is_held, false).to_string()]
        });
        [vec![name.to_owned()], spread.cells(decimals).into(), held.into()].concat()
    };
    let rows = [
        row("made, thousands per second", made, 0, Some((rules::MADE_MUST, true))),
        row("destroyed, thousands per second", destroyed, 0, None),
        row("bytes per rule", bytes, 0, Some((rules::BYTES_MUST, false))),
        row("longest probe, seconds", probe, 1, Some((rules::PROBE_MUST, false))),
    ];
    let head = ["rules", "min", "median", "max", "must", "verdict"];
    format!(
        "\n## The software NIC: its rules\n\ndpdk-test-flow-perf makes 1 M rules of eth, ipv4 and \
         udp, and destroys them; `millrace nic probe` looks at every personality without filling \
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
        "\n## Offload where flows come and go\n\nMillrace without and with offload behind a \
         software NIC at a fixed rate, which bridges a millisecond. Lost is what the link had time \
         for and nobody took; the gap is the time from one poll to the next that one in ten \
         thousand exceeds.\n{}",
        tables.concat()
    )
}

fn churn_table(churn: &Churn) -> String {
    let Churn { lost_ppm: [lost, lost_with], gap_us: [gap, gap_with], added_us, .. } = churn;
    let row = |name: &str, values: &[f64], decimals, bars: Option<(f64, f64)>| {
        let spread = Spread::of(values.to_vec());
        let held = bars.map_or_else(Default::default, |(must, goal)| {
            // A goal above what must be: more is better.
            let sign = if must < goal { -1.0 } else { 1.0 };
            let holds = |bar: f64| sign * spread.median <= sign * bar;
            let verdict = Verdict::new(holds(must), holds(goal));
            [format!("{must:.0} / {goal:.0}"), verdict.to_string()]
        });
        [vec![name.to_owned()], spread.cells(decimals).into(), held.into()].concat()
    };
    let bars = Some((churn::GAP_MUST, churn::GAP_GOAL));
    // None, as far as two runs of the same do not differ.
    let most = Spread::of(lost.clone()).max + churn::NOISE_PPM;
    let [flows, flows_with] = &churn.flows;
    let rows = [
        row("lost, per million, without", lost, 0, None),
        row("lost, per million, with", lost_with, 0, Some((most, most))),
        row("gap, us, without", gap, 1, None),
        row("gap, us, with", gap_with, 1, None),
        row("added to the gap, us", added_us, 1, bars),
        row("new flows, thousands per second, without", flows, 0, None),
        row("new flows, thousands per second, with", flows_with, 0, None),
        row("rules made, thousands per second", &churn.rules, 1, churn.bars.rules),
        row("packets without a mark, percent, with", &churn.unmarked, 0, churn.bars.unmarked),
    ];
    let head = [churn.name, "min", "median", "max", "must / goal", "verdict"];
    format!("\n{}", table::render(&head, &rows))
}
