// SPDX-License-Identifier: BSD-3-Clause
//! Prints the table of the benchmark, and how devices were set up.

use super::{Bound, ConntrackResults, Figures, Row, article};
use crate::{table, units};
use std::io::{self, Write};

pub(super) const HEADINGS: [&str; 10] = [
    "connections",
    "device",
    "per second",
    "active",
    "in its table",
    "Mbit/s",
    "kpackets/s",
    "difference %",
    "95 % interval",
    "notes",
];

/// Formats a rate, `>= ` before it if it is only a bound.
pub(super) fn rate(cps: Option<f64>, is_at_least: bool) -> String {
    let at_least = if is_at_least { ">= " } else { "" };
    match cps {
        Some(cps) => format!("{at_least}{}", units::thousands(cps.round() as u64)),
        None => "-".to_owned(),
    }
}

/// Formats a confidence interval in percent.
pub(super) fn interval(of: Option<[f64; 2]>) -> String {
    of.map_or("-".to_owned(), |[low, high]| format!("{low:+.1} to {high:+.1}"))
}

impl Row {
    /// Returns all notes: what the host lacks, why the load was bad, and the others.
    pub(super) fn all_notes(&self) -> Vec<String> {
        let faults = self.figures.iter().flat_map(|figures| &figures.faults);
        let merged = self.merged_from.iter().map(|host| format!("measured on {host}"));
        let notes = self.lacks.iter().chain(faults).chain(&self.notes).cloned();
        notes.chain(merged).collect()
    }

    pub(super) fn difference(&self) -> String {
        let bound = match self.difference_bound {
            Some(Bound::AtLeast) => ">= ",
            Some(Bound::AtMost) => "<= ",
            None => "",
        };
        let shown = |percent| format!("{bound}{percent:+.1}");
        self.difference_percent.map_or("-".to_owned(), shown)
    }

    /// Returns the cells in the order of [`HEADINGS`].
    pub(super) fn cells(&self) -> [String; 10] {
        let shown = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
        let figures = self.figures.as_ref();
        let count = |count: fn(&Figures) -> Option<u64>| {
            shown(figures.and_then(count).map(units::thousands))
        };
        [
            self.point.profile.name().to_owned(),
            self.point.name(),
            rate(self.cps, self.is_at_least),
            count(|figures| figures.active_flows),
            count(|figures| figures.device_flows),
            shown(figures.map(|it| format!("{:.1}", it.bps / 1e6))),
            shown(figures.map(|it| format!("{:.1}", it.pps / 1e3))),
            self.difference(),
            interval(self.difference_interval),
            self.all_notes().join("; "),
        ]
    }
}

impl ConntrackResults {
    /// Returns the rows of the table; with figures of the article after them if wanted.
    pub(super) fn cells(&self, with_article: bool) -> Vec<[String; 10]> {
        let published = article::cells(self).filter(|_| with_article);
        self.rows.iter().map(Row::cells).chain(published).collect()
    }

    /// Prints how the devices were set up, and the table; with figures of the article if wanted.
    ///
    /// # Errors
    /// If writing fails.
    pub fn print(&self, with_article: bool, out: &mut impl Write) -> io::Result<()> {
        for set_up in &self.set_ups {
            writeln!(out, "{}:\n", set_up.name)?;
            set_up.lines.iter().try_for_each(|line| match line.as_str() {
                "" => writeln!(out),
                line => writeln!(out, "    {line}"),
            })?;
            writeln!(out)?;
        }
        table::print(out, HEADINGS, &(2..9), &self.cells(with_article))
    }
}
