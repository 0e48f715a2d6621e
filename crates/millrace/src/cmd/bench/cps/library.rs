// SPDX-License-Identifier: BSD-3-Clause
//! Offers the search and its rule to other benchmarks.

use super::judge::{Judge, Rule};
use super::options::number;
use super::print::Printer;
use super::search::{Search, Settings};
use crate::tester::{Load, Tester, TesterStatistics};
use std::io;
use std::sync::atomic::AtomicBool;

/// Rates to search, and how long and how strictly.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Range {
    pub(in super::super) min_cps: f64,
    pub(in super::super) max_cps: f64,
    pub(in super::super) seconds: u32,
    pub(in super::super) threshold_percent: f64,
    /// Most rates of each bisection; by default until the rate is known to 0.5 %.
    pub(in super::super) max_iterations: Option<u32>,
}

/// What a search found.
#[derive(Clone, Debug)]
pub(in super::super) struct Finding {
    /// The highest rate that the device sustained, or why none was found.
    pub(in super::super) rate: Result<f64, String>,
    /// Why the search found no limit of the device above that rate; `None` if it found one.
    pub(in super::super) unlimited: Option<String>,
}

/// Parses a rate, in connections per second.
pub(in super::super) fn rate(text: &str) -> Result<f64, String> {
    number::<1, 2_000_000>(text)
}

/// Searches for the most connections per second that the device sustains. Prints the trials on
/// standard error.
pub(in super::super) fn find(
    load: &Load,
    range: Range,
    tester: &mut dyn Tester,
    interrupted: &AtomicBool,
) -> anyhow::Result<Finding> {
    let settings = Settings {
        load: *load,
        min_cps: range.min_cps,
        max_cps: range.max_cps,
        adaptive_window_percent: 0.0,
        max_iterations: range.max_iterations,
        sample_time_s: range.seconds,
        threshold_percent: range.threshold_percent,
        reset_command: None,
        rule: Rule::Connections,
    };
    let mut out = io::stderr();
    let printer = Printer { out: &mut out, is_coloured: false, is_verbose: false };
    let mut search = Search::new(&settings, tester, printer, interrupted);
    search.run()?;
    let found = search.into_found();
    let rate = found.cps.ok_or_else(|| found.failure());
    Ok(Finding { rate, unlimited: found.bound_reason() })
}

/// Returns why a load of this rate was not good; nothing if it was. It must have stopped.
/// `active_before` is how many connections were open when the sample began.
pub(in super::super) fn faults(
    statistics: &TesterStatistics,
    active_before: u64,
    cps: f64,
    threshold_percent: f64,
) -> Vec<String> {
    let seconds = statistics.elapsed_s as u32;
    let is_final = true;
    let judge = Judge { statistics, active_before, cps, threshold_percent, seconds, is_final };
    let verdict = judge.by_connections();
    let too_many = |share: Option<f64>, what: &str| {
        let share = share.filter(|share| *share > threshold_percent)?;
        Some(format!("{share:.4} % of the {what}"))
    };
    let mut faults: Vec<String> = [
        too_many(verdict.failed_percent, "connections failed"),
        too_many(verdict.lost_percent, "packets were lost"),
    ]
    .into_iter()
    .flatten()
    .collect();
    faults.extend(verdict.growth());
    if statistics.client.attempted == 0 {
        faults.push("no connection was attempted".to_owned());
    }
    let limit = |why: &String| format!("the generator is the limit: {why}");
    faults.extend(verdict.tester_limits.iter().map(limit));
    faults.extend(verdict.link_limits);
    faults
}
