// SPDX-License-Identifier: BSD-3-Clause
//! Prints the comparison as text: for each personality the article's table, the cycles by stage,
//! and what each mode gained.

use crate::demo::comparison::why::why;
use crate::demo::comparison::{Comparison, Played, Run, Speedup, not_comparable, pairs};
use crate::demo::load::Published;
use results::units;
use std::io::{self, Write};

impl Comparison {
    /// Prints a description of the comparison, before the first run.
    pub(crate) fn print_heading(&self, out: &mut impl Write) -> io::Result<()> {
        let speed = match self.speed.as_str() {
            "none" => "as fast as it goes",
            speed => speed,
        };
        let small = if self.is_speed_of_all { "" } else { "; 64-byte packets as fast as it goes" };
        writeln!(out, "bump between two ports of a NIC, one worker, {speed} each way{small}")?;
        for caveat in self.caveats() {
            writeln!(out, "  {caveat}")?;
        }
        Ok(())
    }

    /// Prints the tables.
    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        for played in &self.personalities {
            self.print_table(played, out)?;
            self.print_stages(played, out)?;
            self.print_energy(played, out)?;
            self.print_gains(played, out)?;
        }
        writeln!(out)?;
        for omission in self.omissions() {
            writeln!(out, "{omission}")?;
        }
        writeln!(
            out,
            "Measured once no more rules were being installed. Stages add up to the cycles per \
             packet."
        )?;
        if self.runs.iter().any(|run| !run.load.article().is_empty()) {
            writeln!(out, "{OF_ARTICLE}")?;
        }
        for run in self.runs.iter().filter(|run| !run.summary.ledger.balanced) {
            let (ledger, mode) = (&run.summary.ledger, run.mode.name());
            writeln!(out, "NOT BALANCED: {}, {mode}: {ledger:?}", run.load.name())?;
        }
        Ok(())
    }

    fn print_table(&self, played: &Played, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "\n{}: {}", played.name, played.title)?;
        writeln!(out, "{}", row(HEADING[0]))?;
        writeln!(out, "{}", row(HEADING[1]))?;
        for runs in self.loads(played) {
            for run in &runs {
                let line = row(run.cells().each_ref().map(String::as_str));
                let taken = run.taken().map(|taken| format!("  {taken}")).unwrap_or_default();
                writeln!(out, "{line}{taken}")?;
            }
            for published in runs[0].load.article() {
                let cells = published.cells();
                writeln!(out, "{}", row(cells.each_ref().map(String::as_str)))?;
            }
        }
        Ok(())
    }

    fn print_stages(&self, played: &Played, out: &mut impl Write) -> io::Result<()> {
        let mut runs = self.runs.iter().filter(|run| run.personality == played.name).peekable();
        let Some(first) = runs.peek() else { return Ok(()) };
        write!(out, "\n{:<22}", "cycles per packet")?;
        for (name, _) in &first.measured_stages {
            write!(out, " {name:>w$}", w = name.len().max(6))?;
        }
        writeln!(out)?;
        for run in runs {
            write!(out, "{:<15} {:<6}", run.load.name(), run.mode.name())?;
            for (name, cycles) in &run.measured_stages {
                write!(out, " {cycles:>w$.1}", w = name.len().max(6))?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    /// Prints a line for each run whose energy is known.
    fn print_energy(&self, played: &Played, out: &mut impl Write) -> io::Result<()> {
        let runs = self.runs.iter().filter(|run| run.personality == played.name);
        let known = runs.filter_map(|run| Some((run, run.energy.nj_per_packet?)));
        for (number, (run, nj)) in known.enumerate() {
            if number == 0 {
                writeln!(out, "\nenergy of the processor packages, nJ per packet sent")?;
            }
            writeln!(out, "{:<15} {:<9} {nj:>8.1}", run.load.name(), run.mode.name())?;
        }
        Ok(())
    }

    fn print_gains(&self, played: &Played, out: &mut impl Write) -> io::Result<()> {
        writeln!(out)?;
        for pair in self.loads(played).flat_map(|runs| pairs(&runs)) {
            let (load, mode) = (pair[1].load.name(), pair[1].mode.name());
            if let Some(reason) = not_comparable(pair) {
                writeln!(out, "{load} with {mode}: no comparison ({reason})")?;
                continue;
            }
            let Speedup { throughput, cpu, cycles } = Speedup::of(pair);
            writeln!(
                out,
                "{load} with {mode}: {throughput:.2} x the throughput, {cpu:.2} x the cpu, \
                 {cycles:.2} x the cycles per packet"
            )?;
            for sentence in why(pair) {
                writeln!(out, "  {sentence}")?;
            }
        }
        Ok(())
    }
}

const COLUMNS: usize = 13;

/// Names and units of the columns.
const HEADING: [[&str; COLUMNS]; 2] = [
    ["", "", "", "up", "down", "cpu", "", "cycles/", "", "", "rules", "programming", ""],
    [
        "load", "tracking", "mode", "Mb/s", "Mb/s", "%", "Mpps", "packet", "marked", "bypassed",
        "", "avg", "max",
    ],
];

fn row(cells: [&str; COLUMNS]) -> String {
    let [load, tracking, mode, up, down, cpu, mpps, cycles, marked, bypassed, rules, avg, max] =
        cells;
    let line = format!(
        "{load:<15} {tracking:<11} {mode:<6} {up:>8} {down:>8} {cpu:>5} {mpps:>6} {cycles:>7} \
         {marked:>7} {bypassed:>8} {rules:>9} {avg:>11} {max:>7}"
    );
    line.trim_end().to_owned()
}

impl Run {
    /// Returns the cells of the run's row.
    pub(super) fn cells(&self) -> [String; COLUMNS] {
        let rates = &self.measured;
        let time = |us: f64| units::duration((us * 1e3) as u64);
        let programming = self.programming.map(|it| [it.avg_us, it.max_us].map(time));
        let [avg, max] = programming.unwrap_or_default();
        let of_rules = |text: String| if self.offload { text } else { String::new() };
        [
            self.load.name().to_owned(),
            self.tracking.to_owned(),
            self.mode.name().to_owned(),
            format!("{:.1}", rates.up_mbps),
            format!("{:.1}", rates.down_mbps),
            format!("{:.1}", rates.cpu_percent),
            format!("{:.2}", rates.mpps),
            format!("{:.1}", rates.cycles_per_packet),
            of_rules(format!("{:.1} %", rates.marked_percent)),
            of_rules(format!("{:.1} %", rates.bypassed_percent)),
            of_rules(units::thousands(self.rules)),
            avg,
            max,
        ]
    }
}

/// The first cell of rows with the article's figures.
const ARTICLE: &str = "  the article";

impl Published {
    /// Returns the cells of the row; what the article does not say is `-`.
    pub(super) fn cells(&self) -> [String; COLUMNS] {
        let figure =
            |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
        let mut cells = [const { String::new() }; COLUMNS];
        cells[0] = ARTICLE.to_owned();
        cells[2] = self.mode.name().to_owned();
        let figures = [self.mbps[0], self.mbps[1], self.cpu_percent].map(figure);
        cells[3..6].clone_from_slice(&figures);
        cells
    }
}

/// What the rows of the article are.
pub(super) const OF_ARTICLE: &str =
    "Rows of the article: Intel X710, DPDK 17.02, one core of 2.6 GHz.";

/// Headings of the columns with their units, for the page.
pub(super) const HEADINGS: [&str; COLUMNS] = [
    "load",
    "tracking",
    "mode",
    "up, Mb/s",
    "down, Mb/s",
    "cpu, %",
    "Mpps",
    "cycles per packet",
    "marked",
    "bypassed",
    "rules",
    "rule made in, avg",
    "max",
];
