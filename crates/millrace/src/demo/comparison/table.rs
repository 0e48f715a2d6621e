// SPDX-License-Identifier: BSD-3-Clause
//! Prints the comparison as text: the article's table, and the cycles by stage.

use crate::demo::comparison::{Comparison, NOTHING_MARKED, Run, Speedup};
use results::units;
use std::io::{self, Write};

impl Comparison {
    /// Prints a description of the comparison, before the first run.
    pub(crate) fn print_heading(&self, out: &mut impl Write) -> io::Result<()> {
        let speed = match self.speed.as_str() {
            "none" => "as fast as it goes",
            speed => speed,
        };
        writeln!(out, "bump between two ports of a NIC, one worker, {speed} each way")?;
        for caveat in self.caveats() {
            writeln!(out, "  {caveat}")?;
        }
        Ok(())
    }

    /// Prints the tables.
    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "\n{}", row(HEADING[0]))?;
        writeln!(out, "{}", row(HEADING[1]))?;
        for run in &self.runs {
            let cells = run.cells();
            writeln!(out, "{}", row(cells.each_ref().map(String::as_str)))?;
        }
        self.print_stages(out)?;
        writeln!(out)?;
        for load in self.loads() {
            let Some(gain) = self.pair(load).map(Speedup::of) else { continue };
            let Speedup { throughput, cpu, cycles, is_marked } = gain;
            writeln!(
                out,
                "{load} with offload: {throughput:.2} x the throughput, {cpu:.2} x the cpu, \
                 {cycles:.2} x the cycles per packet"
            )?;
            if !is_marked {
                writeln!(out, "  ({NOTHING_MARKED})")?;
            }
        }
        writeln!(
            out,
            "Measured in the second half of each run. Stages add up to the cycles per packet."
        )?;
        for run in self.runs.iter().filter(|run| !run.summary.ledger.balanced) {
            let ledger = &run.summary.ledger;
            writeln!(
                out,
                "NOT BALANCED: {}, offload {}: {ledger:?}",
                run.load,
                run.offload_word()
            )?;
        }
        Ok(())
    }

    fn print_stages(&self, out: &mut impl Write) -> io::Result<()> {
        let Some(first) = self.runs.first() else { return Ok(()) };
        write!(out, "\n{:<24}", "cycles per packet")?;
        for (name, _) in &first.measured_stages {
            write!(out, " {name:>w$}", w = name.len().max(6))?;
        }
        writeln!(out)?;
        for run in &self.runs {
            write!(out, "{:<15} {:<8}", run.load, run.offload_word())?;
            for (name, cycles) in &run.measured_stages {
                write!(out, " {cycles:>w$.1}", w = name.len().max(6))?;
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

const COLUMNS: usize = 12;

/// Names and units of the columns.
const HEADING: [[&str; COLUMNS]; 2] = [
    ["", "", "up", "down", "cpu", "", "cycles/", "", "rules", "programming", "", ""],
    ["load", "offload", "Mb/s", "Mb/s", "%", "Mpps", "packet", "marked", "", "min", "avg", "max"],
];

fn row(cells: [&str; COLUMNS]) -> String {
    let [load, offload, up, down, cpu, mpps, cycles, marked, rules, min, avg, max] = cells;
    let line = format!(
        "{load:<15} {offload:<8} {up:>9} {down:>9} {cpu:>6} {mpps:>7} {cycles:>8} {marked:>8} \
         {rules:>7} {min:>12} {avg:>8} {max:>8}"
    );
    line.trim_end().to_owned()
}

impl Run {
    /// Returns the cells of the run's row.
    pub(super) fn cells(&self) -> [String; COLUMNS] {
        let rates = &self.measured;
        let time = |us: f64| units::duration((us * 1e3) as u64);
        let programming = self.programming.map(|it| [it.min_us, it.avg_us, it.max_us].map(time));
        let [min, avg, max] = programming.unwrap_or_default();
        let of_rules = |text: String| if self.offload { text } else { String::new() };
        [
            self.load.to_owned(),
            self.offload_word().to_owned(),
            format!("{:.1}", rates.up_mbps),
            format!("{:.1}", rates.down_mbps),
            format!("{:.1}", rates.cpu_percent),
            format!("{:.2}", rates.mpps),
            format!("{:.1}", rates.cycles_per_packet),
            of_rules(format!("{:.1} %", rates.marked_percent)),
            of_rules(units::thousands(self.rules)),
            min,
            avg,
            max,
        ]
    }
}

/// Headings of the columns with their units, for the page.
pub(super) const HEADINGS: [&str; COLUMNS] = [
    "load",
    "offload",
    "up, Mb/s",
    "down, Mb/s",
    "cpu, %",
    "Mpps",
    "cycles per packet",
    "marked",
    "rules",
    "rule made in, min",
    "avg",
    "max",
];
