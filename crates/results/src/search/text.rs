// SPDX-License-Identifier: BSD-3-Clause
//! Prints what searches have found.

use super::{OneSearch, Outcome, SearchAnswer, SearchResults};
use crate::{table, units};
use std::io::{self, Write};

/// Formats a load with its unit: `2.310 Mpps`, `9.95 Gbps`, `97.5 %`.
pub fn load(value: f64, unit: &str) -> String {
    if unit == "%" {
        return format!("{value:.2} %");
    }
    let (factor, prefix) = match value.abs() {
        1e9.. => (1e9, "G"),
        1e6.. => (1e6, "M"),
        1e3.. => (1e3, "k"),
        _ => (1.0, ""),
    };
    let short = value / factor;
    let decimals = match short.abs() {
        ..9.9995 => 3,
        ..99.995 => 2,
        _ => 1,
    };
    format!("{short:.decimals$} {prefix}{unit}")
}

pub(super) const HEADINGS: [&str; 8] =
    ["size", "goal", "lower bound", "upper bound", "throughput", "p50", "p99", "answer"];

/// Returns the cells of an answer in the order of [`HEADINGS`].
pub(super) fn cells(search: &OneSearch, answer: &SearchAnswer, unit: &str) -> [String; 8] {
    let shown = |value: Option<f64>| value.map_or("-".to_owned(), |value| load(value, unit));
    let nanos = |nanos: Option<u64>| nanos.map_or("-".to_owned(), units::duration);
    let latency = answer.latency.as_ref();
    [
        search.size.map_or("-".to_owned(), |size| size.to_string()),
        answer.goal.clone(),
        shown(answer.lower),
        shown(answer.upper),
        shown(answer.throughput),
        nanos(latency.map(|latency| latency.p50_ns)),
        nanos(latency.map(|latency| latency.p99_ns)),
        conclusion(answer, unit),
    ]
}

/// Says what an answer means: `regular`, or the limit that is known and the reason.
pub(super) fn conclusion(answer: &SearchAnswer, unit: &str) -> String {
    let SearchAnswer { outcome, reason, lower, upper, .. } = answer;
    match (outcome, lower, upper) {
        (Outcome::Regular, ..) => "regular".to_owned(),
        (Outcome::FailsAtSmallest, _, Some(upper)) => format!("< {}: {reason}", load(*upper, unit)),
        (_, Some(lower), _) => format!(">= {}: {reason}", load(*lower, unit)),
        _ => format!("unknown: {reason}"),
    }
}

/// Prints the table of answers, and the bursts.
///
/// # Errors
/// If writing fails.
pub fn print(results: &SearchResults, out: &mut impl Write) -> io::Result<()> {
    let rows = results.searches.iter().flat_map(|search| {
        let unit = results.unit_of(search);
        search.answers.iter().map(move |answer| cells(search, answer, unit))
    });
    let rows: Vec<_> = rows.collect();
    table::print(out, HEADINGS, &(2..7), &rows)?;
    for line in results.searches.iter().flat_map(at_lower_bounds) {
        writeln!(out, "{line}")?;
    }
    for search in &results.searches {
        let unit = results.unit_of(search);
        let Some(found) = &search.back_to_back else { continue };
        let size = search.size.map_or(String::new(), |size| format!("{size} bytes: "));
        writeln!(out, "{size}back to back: {}", bursts(found, unit))?;
    }
    Ok(())
}

/// Returns a line for each answer whose load is connections: the figures at the lower bound.
pub(super) fn at_lower_bounds(search: &OneSearch) -> impl Iterator<Item = String> {
    search.answers.iter().filter_map(|answer| {
        let figures = answer.connections.as_ref()?;
        Some(format!("{}, at the lower bound: {}", answer.goal, figures.summary()))
    })
}

/// Says how long a burst may be.
pub(super) fn bursts(found: &super::BackToBack, unit: &str) -> String {
    let mean = units::thousands(found.mean_packets.round() as u64);
    let load = load(found.load, unit);
    match (found.tester.first(), found.bears_longest) {
        (Some(reason), _) => {
            format!(">= {mean} packets at {load}: limited by the tester: {reason}")
        }
        (None, true) => format!(">= {mean} packets at {load}: the longest burst came back"),
        (None, false) => format!("{mean} packets at {load}"),
    }
}
