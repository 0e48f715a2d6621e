// SPDX-License-Identifier: BSD-3-Clause
//! Compares two results row by row, and fills the rows that one host could not run with those of
//! another host.

use super::text::{interval, rate};
use super::{Bound, ConntrackResults, Row};
use crate::table;
use std::io::{self, Write};

/// The differences of B from A.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    rows: Vec<Pair>,
    /// A, with the rows of B that A has no figures for.
    pub merged: ConntrackResults,
}

/// A configuration in A and in B.
#[derive(Clone, Debug, PartialEq)]
struct Pair {
    name: String,
    a: Option<Row>,
    /// Has the difference from `a`.
    b: Option<Row>,
}

/// Compares B with A, row by row.
///
/// # Errors
/// If both have no configuration in common, or were measured with other thresholds.
pub fn compare(a: &ConntrackResults, b: &ConntrackResults) -> Result<Comparison, String> {
    if a.error_threshold != b.error_threshold {
        return Err(format!(
            "thresholds differ: A has --error-threshold {}, B has {}; measure both with the same",
            a.error_threshold, b.error_threshold
        ));
    }
    let find = |of: &ConntrackResults, row: &Row| {
        of.rows.iter().find(|it| it.name() == row.name()).cloned()
    };
    let pair = |row: &Row| {
        let (a, mut b) = (find(a, row), find(b, row));
        if let (Some(a), Some(b)) = (&a, &mut b) {
            (b.difference_percent, b.difference_interval, b.difference_bound) = (None, None, None);
            b.compare_with(a);
        }
        Pair { name: row.name(), a, b }
    };
    let only_in_b = b.rows.iter().filter(|row| find(a, row).is_none());
    let rows: Vec<Pair> = a.rows.iter().chain(only_in_b).map(pair).collect();
    if rows.iter().all(|pair| pair.a.is_none() || pair.b.is_none()) {
        return Err("A and B have no configuration in common".to_owned());
    }
    Ok(Comparison { rows, merged: merge(a, b) })
}

/// Fills the rows of A without figures with those of B, and adds the rows that only B has.
fn merge(a: &ConntrackResults, b: &ConntrackResults) -> ConntrackResults {
    let host = b.origin.hostname.clone().unwrap_or_else(|| "the host of B".to_owned());
    let foreign = |row: &Row| {
        let merged_from = row.merged_from.clone().or_else(|| Some(host.clone()));
        Row { merged_from, ..row.clone() }
    };
    let has_figures = |row: &&Row| row.cps.is_some();
    let mut merged = a.clone();
    for row in &mut merged.rows {
        let other = b.rows.iter().filter(has_figures).find(|it| it.name() == row.name());
        if let Some(other) = other.filter(|_| row.figures.is_none()) {
            *row = foreign(other);
        }
    }
    for row in b.rows.iter().filter(has_figures) {
        if merged.rows.iter().all(|it| it.name() != row.name()) {
            merged.rows.push(foreign(row));
        }
    }
    for set_up in &b.set_ups {
        if merged.set_ups.iter().all(|it| it.name != set_up.name) {
            merged.set_ups.push(set_up.clone());
        }
    }
    merged.compare_devices();
    merged
}

impl Pair {
    /// True if A has a figure and B failed to reach one.
    fn has_lost_figure(&self) -> bool {
        let has_figure = self.a.as_ref().is_some_and(|a| a.cps.is_some());
        has_figure && self.b.as_ref().is_some_and(|b| b.cps.is_none() && b.lacks.is_none())
    }

    fn is_worse(&self, tolerance: f64) -> bool {
        let Some(b) = &self.b else { return false };
        if self.has_lost_figure() {
            return true;
        }
        let is_sure = b.difference_interval.is_none_or(|[_, high]| high < 0.0);
        let is_exact_or_less = b.difference_bound != Some(Bound::AtLeast);
        let is_lower = b.difference_percent.is_some_and(|percent| percent < -tolerance);
        is_lower && is_sure && is_exact_or_less
    }

    fn cells(&self, tolerance: f64) -> [String; 6] {
        let of = |row: &Option<Row>| {
            row.as_ref().map_or("-".to_owned(), |row| rate(row.cps, row.is_at_least))
        };
        let b = self.b.as_ref();
        let is_filled = self.a.as_ref().is_none_or(|a| a.figures.is_none())
            && b.is_some_and(|b| b.cps.is_some());
        let verdict = match () {
            () if self.has_lost_figure() => "no figure in B",
            () if self.is_worse(tolerance) => "worse",
            () if is_filled => "only in B",
            () => "",
        };
        [
            self.name.clone(),
            of(&self.a),
            of(&self.b),
            b.map_or("-".to_owned(), Row::difference),
            interval(b.and_then(|b| b.difference_interval)),
            verdict.to_owned(),
        ]
    }
}

impl Comparison {
    /// True if B is lower than A in any row, by more than `tolerance` percent, or has no figure
    /// where A has one, although its host can run the row.
    pub fn is_worse(&self, tolerance: f64) -> bool {
        self.rows.iter().any(|pair| pair.is_worse(tolerance))
    }

    /// Prints the comparison as a table.
    ///
    /// # Errors
    /// If writing fails.
    pub fn print(&self, tolerance: f64, out: &mut impl Write) -> io::Result<()> {
        let headings = ["connections per second", "A", "B", "difference %", "95 % interval", ""];
        let rows: Vec<_> = self.rows.iter().map(|pair| pair.cells(tolerance)).collect();
        table::print(out, headings, &(1..5), &rows)
    }
}
