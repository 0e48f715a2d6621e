// SPDX-License-Identifier: BSD-3-Clause
//! Defines what a search finds, and its JSON (docs/bench-cps.md). Members may be added, none is
//! renamed.

use super::judge::{Rule, Verdict};
use super::search::Settings;
use crate::tester::TesterStatistics;
use results::Origin;
use serde::Serialize;

/// Version of the JSON.
const VERSION: u32 = 1;

/// What a search found so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// Connections per second that the device sustained; `None` if the search found none.
    pub(super) cps: Option<f64>,
    /// True if a second trial confirmed it.
    pub(super) is_confirmed: bool,
    /// True if the device sustained the largest rate.
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
    /// True if the rate was measured again, since a disturbed tester may have been the limit.
    pub(super) is_repeated: bool,
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
        let bad = |cps: f64| self.counted().any(|it| !it.verdict.is_good && it.cps == cps);
        let is_good = |trial: &&Trial| trial.cps < ceiling && !bad(trial.cps);
        let good = self.counted().filter(is_good);
        good.map(|trial| trial.cps).max_by(f64::total_cmp)
    }

    /// Returns the trials that count.
    pub(super) fn counted(&self) -> impl Iterator<Item = &Trial> {
        self.trials.iter().filter(|trial| !trial.is_repeated)
    }

    /// Returns the trial of the lowest bad rate above this one.
    pub(super) fn lowest_bad_above(&self, cps: f64) -> Option<&Trial> {
        let bad = self.counted().filter(|trial| !trial.verdict.is_good && trial.cps > cps);
        bad.min_by(|a, b| a.cps.total_cmp(&b.cps))
    }

    /// Returns why the rate that was found is only a lower bound; `None` if it is the limit of the
    /// device, or if none was found.
    pub(super) fn bound_reason(&self) -> Option<String> {
        let cps = self.cps?;
        match self.lowest_bad_above(cps) {
            None => Some("it is the largest rate that was tried".to_owned()),
            Some(bad) if bad.verdict.is_tester_limit => {
                let why = bad.verdict.tester_limits.join("; ");
                Some(format!("the generator may be the limit above it: {why}"))
            }
            Some(_) => None,
        }
    }

    /// Returns why no rate was found, as far as it is known, and the way out.
    pub(super) fn failure(&self) -> String {
        match self.trials.last() {
            Some(last) if last.verdict.is_unanswered => format!(
                "no connection was answered, not even of {:.0} a second: does the device forward \
                 between the ports? Are --clients, --servers and --gateway right?",
                last.cps
            ),
            Some(last) if last.verdict.is_tester_limit => {
                let why = last.verdict.tester_limits.join("; ");
                format!(
                    "the generator may be the limit at {:.0} connections/s: {why}; lower --min-cps",
                    last.cps
                )
            }
            Some(last) => {
                format!(
                    "the device did not sustain the smallest rate, {:.0} connections/s; lower \
                     --min-cps",
                    last.cps
                )
            }
            None => "no rate was measured".to_owned(),
        }
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
    /// True if `found_cps` is only a lower bound, and why.
    is_at_least: bool,
    at_least_reason: Option<String>,
    is_interrupted: bool,
    origin: &'a Origin,
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
    pub(super) fn new(settings: &'a Settings, found: &'a Found, origin: &'a Origin) -> Self {
        let load = &settings.load;
        let at_least_reason = found.bound_reason();
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
            is_at_least: at_least_reason.is_some(),
            at_least_reason,
            origin,
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
