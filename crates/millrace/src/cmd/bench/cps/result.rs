// SPDX-License-Identifier: BSD-3-Clause
//! Defines what a search finds, and its JSON (docs/bench-cps.md). Members may be added, none is
//! renamed.

use super::judge::{Rule, Verdict};
use super::search::Settings;
use crate::tester::TesterStatistics;
use serde::Serialize;

/// Version of the JSON.
const VERSION: u32 = 1;

/// What a search found so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// Connections per second that the device bore; `None` if the search found none.
    pub(super) cps: Option<f64>,
    /// True if a second trial confirmed it.
    pub(super) is_confirmed: bool,
    /// True if the device bore the largest rate.
    pub(super) is_largest: bool,
    /// True if a signal ended the search.
    pub(super) is_interrupted: bool,
    pub(super) trials: Vec<Trial>,
    /// The last good sample.
    pub(super) last_good: Option<TesterStatistics>,
}

/// One rate that was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Trial {
    pub(super) cps: f64,
    /// Length of the sample that decided.
    pub(super) seconds: u32,
    #[serde(flatten)]
    pub(super) verdict: Verdict,
}

impl Found {
    /// Returns the highest rate that every trial found good.
    pub(super) fn best(&self) -> Option<f64> {
        self.best_below(f64::INFINITY)
    }

    /// Returns the highest rate below `ceiling` that every trial found good.
    pub(super) fn best_below(&self, ceiling: f64) -> Option<f64> {
        let bad = |cps: f64| self.trials.iter().any(|it| !it.verdict.is_good && it.cps == cps);
        let is_good = |trial: &&Trial| trial.cps < ceiling && !bad(trial.cps);
        let good = self.trials.iter().filter(is_good);
        good.map(|trial| trial.cps).max_by(f64::total_cmp)
    }

    /// Returns the trial of the lowest bad rate above this one.
    pub(super) fn lowest_bad_above(&self, cps: f64) -> Option<&Trial> {
        let bad = self.trials.iter().filter(|trial| !trial.verdict.is_good && trial.cps > cps);
        bad.min_by(|a, b| a.cps.total_cmp(&b.cps))
    }
}

/// The JSON of a search.
#[derive(Serialize)]
pub(super) struct Artefact<'a> {
    version: u32,
    command: &'static str,
    /// Rule of the verdicts: `connections`, or `cps_ndr`.
    rule: &'static str,
    found_cps: Option<f64>,
    is_confirmed: bool,
    is_largest: bool,
    is_interrupted: bool,
    conntrack_ndr_profile: Parameters<'a>,
    statistics: &'a Option<TesterStatistics>,
    trials: &'a [Trial],
}

/// The settings, named as the options.
#[derive(Serialize)]
struct Parameters<'a> {
    max_iterations: Option<u32>,
    sample_time: u32,
    error_threshold: f64,
    reset_command: Option<&'a str>,
    udp_percent: f64,
    num_messages: u32,
    message_size: u32,
    server_wait: u32,
    min_cps: f64,
    max_cps: f64,
    max_flows: Option<u32>,
    adaptive_window: f64,
    ramp_up: u32,
}

impl<'a> Artefact<'a> {
    pub(super) fn new(settings: &'a Settings, found: &'a Found) -> Self {
        let load = &settings.load;
        Self {
            version: VERSION,
            command: "bench cps",
            rule: match settings.rule {
                Rule::Connections => "connections",
                Rule::CpsNdr => "cps_ndr",
            },
            found_cps: found.cps,
            is_confirmed: found.is_confirmed,
            is_largest: found.is_largest,
            is_interrupted: found.is_interrupted,
            conntrack_ndr_profile: Parameters {
                max_iterations: settings.max_iterations,
                sample_time: settings.sample_time_s,
                error_threshold: settings.threshold_percent,
                reset_command: settings.reset_command.as_deref(),
                udp_percent: load.udp_percent,
                num_messages: load.messages,
                message_size: load.message_size,
                server_wait: load.server_wait_ms,
                min_cps: settings.min_cps,
                max_cps: settings.max_cps,
                max_flows: load.max_flows,
                adaptive_window: settings.adaptive_window_percent,
                ramp_up: load.ramp_up_s,
            },
            statistics: &found.last_good,
            trials: &found.trials,
        }
    }
}
