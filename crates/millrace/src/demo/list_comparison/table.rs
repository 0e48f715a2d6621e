// SPDX-License-Identifier: BSD-3-Clause
//! Prints the comparison as text: for each depth of tracking the throughput with each list, and
//! what marks gained.

use crate::demo::list_comparison::{ListComparison, ListRun, OF_ARTICLE, depth_meaning};
use crate::demo::load::depth_name;
use results::units;
use std::io::{self, Write};

impl ListComparison {
    /// Prints a description of the comparison, before the first run.
    pub(crate) fn print_heading(&self, out: &mut impl Write) -> io::Result<()> {
        let flows = units::thousands(self.flows.into());
        writeln!(
            out,
            "bump between two ports of a NIC, one worker, {flows} UDP flows of 64-byte packets at \
             port A, as fast as it goes"
        )?;
        self.caveats().iter().try_for_each(|caveat| writeln!(out, "  {caveat}"))
    }

    /// Prints the tables.
    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        for runs in self.depths() {
            print_depth(runs, out)?;
        }
        writeln!(out, "\n{OF_ARTICLE}")?;
        for run in self.runs.iter().filter(|run| !run.summary.ledger.balanced) {
            let ledger = &run.summary.ledger;
            writeln!(out, "NOT BALANCED: {}: {ledger:?}", run.title.list())?;
        }
        Ok(())
    }
}

fn print_depth(runs: &[ListRun], out: &mut impl Write) -> io::Result<()> {
    let tracking = runs[0].title.tracking;
    writeln!(out, "\ntracking = \"{}\": {}", depth_name(tracking), depth_meaning(tracking))?;
    writeln!(out, "{}", row(HEADINGS))?;
    for run in runs {
        let cells = run.cells(runs);
        let note = run.not_comparable().map(|reason| format!("  {reason}")).unwrap_or_default();
        writeln!(out, "{}{note}", row(cells.each_ref().map(String::as_str)))?;
    }
    for gain in ListComparison::gains(runs) {
        let (list, nic) = (gain.marked.title.list(), gain.marked.title.decided_by());
        match gain.ratios() {
            None => writeln!(out, "{list}, {nic}: no comparison (cpu taken away)")?,
            Some([of_software, of_none, _]) => writeln!(
                out,
                "{list}, {nic}: {of_software:.2} x the throughput of software, {of_none:.2} x that \
                 without list"
            )?,
        }
    }
    Ok(())
}

const COLUMNS: usize = 7;

/// Headings of the columns.
pub(super) const HEADINGS: [&str; COLUMNS] =
    ["list", "compared by", "Mpps", "of no list", "cpu %", "cycles/packet", "decided by marks"];

fn row(cells: [&str; COLUMNS]) -> String {
    let [list, by, mpps, of_none, cpu, cycles, marks] = cells;
    format!("{list:<13} {by:<12} {mpps:>6} {of_none:>10} {cpu:>6} {cycles:>13} {marks:>16}")
}

impl ListRun {
    /// Returns the cells of the run's row; `runs` are those of its depth.
    pub(super) fn cells(&self, runs: &[ListRun]) -> [String; COLUMNS] {
        let none = runs.iter().find(|run| run.title.rules == 0).map(|run| run.measured.mpps);
        let of_none = none.filter(|none| *none > 0.0).map(|none| self.measured.mpps / none);
        [
            self.title.list(),
            self.title.decided_by().to_owned(),
            format!("{:.2}", self.measured.mpps),
            of_none.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            format!("{:.1}", self.measured.cpu_percent),
            format!("{:.1}", self.measured.cycles_per_packet),
            format!("{:.1} %", self.by_nic()),
        ]
    }
}
