// SPDX-License-Identifier: BSD-3-Clause
//! Compares the figures of runs side by side, each with its difference from the first run.

use crate::run::{Figure, Run, Unit};
use crate::{table, units};
use std::io::{self, Write};

/// A figure, with its value in every run.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) cells: Vec<Cell>,
}

/// The value of a figure in one run; empty if the run does not have the figure.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) value: String,
    /// Difference from the first run, in percent.
    pub(crate) difference: String,
}

/// Returns a row for each figure that any of the runs has.
pub(crate) fn rows(runs: &[Run]) -> Vec<Row> {
    let mut known: Vec<Figure> = Vec::new();
    for run in runs {
        let mut place = 0;
        for (figure, _) in &run.figures {
            match known.iter().position(|known| known == figure) {
                Some(found) => place = found + 1,
                None => {
                    known.insert(place, *figure);
                    place += 1;
                }
            }
        }
    }
    known.into_iter().map(|figure| row(figure, runs)).collect()
}

fn row(figure: Figure, runs: &[Run]) -> Row {
    let of = |run: &Run| {
        let found = run.figures.iter().find(|(other, _)| *other == figure);
        found.map(|(_, value)| *value)
    };
    let first = runs.first().and_then(of);
    let cell = |(number, run): (usize, &Run)| {
        let Some(value) = of(run) else { return Cell::default() };
        let difference = first.filter(|_| number > 0).map(|first| difference(first, value));
        Cell { value: figure.unit.format(value), difference: difference.unwrap_or_default() }
    };
    Row { name: figure.name, cells: runs.iter().enumerate().map(cell).collect() }
}

/// Formats the difference in percent of the first value; `was 0` if the first value is 0.
fn difference(first: f64, value: f64) -> String {
    if first == value {
        return "=".to_owned();
    }
    if first == 0.0 {
        return "was 0".to_owned();
    }
    let percent = 100.0 * (value - first) / first;
    match percent.abs() {
        1e9.. => "more than 1e9 %".to_owned(),
        0.05.. => format!("{percent:+.1} %"),
        _ => format!("{percent:+.4} %"),
    }
}

impl Unit {
    pub(crate) fn format(self, value: f64) -> String {
        match self {
            Self::Count => units::thousands(value as u64),
            Self::Rate => units::packet_rate(value),
            Self::Gbps => format!("{value:.3} Gb/s"),
            Self::Percent => units::percent(value),
            Self::Nanoseconds => units::duration(value.round() as u64),
            Self::Seconds => format!("{value:.3} s"),
        }
    }
}

/// Prints the figures of runs side by side.
///
/// # Errors
/// If writing fails.
pub fn print(runs: &[Run], out: &mut impl Write) -> io::Result<()> {
    let mut headings = vec![""];
    for (number, run) in runs.iter().enumerate() {
        headings.push(&run.name);
        headings.extend((number > 0).then_some("difference"));
    }
    let rows: Vec<Vec<String>> = rows(runs).into_iter().map(Row::into_texts).collect();
    table::print(out, &headings, &(1..headings.len()), &rows)
}

impl Row {
    fn into_texts(self) -> Vec<String> {
        let mut texts = vec![self.name.to_owned()];
        for (number, cell) in self.cells.into_iter().enumerate() {
            texts.push(cell.value);
            texts.extend((number > 0).then_some(cell.difference));
        }
        texts
    }
}
