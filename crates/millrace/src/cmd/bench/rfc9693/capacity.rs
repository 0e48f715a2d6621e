// SPDX-License-Identifier: BSD-3-Clause
//! Searches for the capacity of a device's table: how many connections are established, and still
//! valid once all are open.

use super::super::search::{ConnectionTrials, Found, Measurement, Tester};
use super::{CAPACITY, HELD_S};
use results::search::{OneSearch, Outcome, SearchAnswer, SearchTrial, Verdict, load};
use search::CapacitySearch;

/// Share of the establishment rate at which connections are opened. A table that is almost full may
/// be slower.
pub(super) const SHARE_OF_RATE: f64 = 0.4;
/// How often a trial is made again that the tester may have spoilt.
const REPETITIONS: u32 = 2;

/// Trials of a search for a capacity.
pub(super) struct CapacityTrials<'a> {
    pub(super) trials: ConnectionTrials<'a>,
    /// Number of connections of the first trial, and the largest one.
    pub(super) connections: [u32; 2],
    /// True if the largest one is what can be opened in time, and not what the user wants.
    pub(super) is_clamped: bool,
    pub(super) width: f64,
    pub(super) progress: &'a dyn Fn(&str),
}

impl CapacityTrials<'_> {
    pub(super) fn search(&mut self) -> Found {
        let [initial, max] = self.connections;
        let mut search = CapacitySearch::new(initial, max, self.width);
        let (mut made, mut limit, mut error) = (Vec::new(), None, None);
        while let Some(connections) = search.choose() {
            let measured = match self.measure(connections, &mut made) {
                Ok(measured) => measured,
                Err(failed) => {
                    error = Some(failed);
                    break;
                }
            };
            let is_sustained = measured.counts.lost() + measured.counts.unsent() == 0;
            search.note(connections, is_sustained);
            if let Some(trial) = made.last_mut() {
                trial.verdicts = vec![if is_sustained { Verdict::Lower } else { Verdict::Upper }];
            }
            // Losses that may all be the tester's say nothing about the device.
            if !is_sustained && measured.trial(HELD_S, None).1 == 0.0 {
                let reasons = measured.reasons().join("; ");
                limit = Some(format!("at {} {reasons}", load(connections.into(), "conn")));
                break;
            }
        }
        let largest = (max, self.is_clamped);
        let answer = answer(&search, largest, &made, (limit, error.as_ref()));
        let search = OneSearch {
            size: None,
            number: 1,
            unit: Some("conn".to_owned()),
            calibration: None,
            answers: vec![answer],
            trials: made,
            back_to_back: None,
        };
        Found { search, error }
    }

    /// Makes a trial, and makes it again if the tester may have spoilt it.
    fn measure(
        &mut self,
        connections: u32,
        made: &mut Vec<SearchTrial>,
    ) -> anyhow::Result<Measurement> {
        for left in (0..=REPETITIONS).rev() {
            let measured = self.trials.measure(connections.into(), HELD_S)?;
            let start_s = made.last().map_or(0.0, |trial| trial.start_s + trial.whole_s);
            let trial = measured.trial(HELD_S, None);
            let is_spoilt = trial.0.loss_ratio > 0.0 && measured.is_disturbed();
            let mut shown = measured.shown((connections.into(), start_s), trial);
            let counts = measured.counts;
            (self.progress)(&format!(
                "{}: {} came through, {} did not, {} were not opened in time",
                load(connections.into(), "conn"),
                counts.forwarded,
                counts.lost(),
                counts.unsent()
            ));
            if !is_spoilt || left == 0 {
                made.push(shown);
                return Ok(measured);
            }
            shown.kind = results::search::TrialKind::Repeated;
            made.push(shown);
        }
        unreachable!("the last trial is returned")
    }
}

/// Returns what is known about the capacity. `limit` is why the tester was the limit.
fn answer(
    search: &CapacitySearch,
    (max, is_clamped): (u32, bool),
    made: &[SearchTrial],
    (limit, error): (Option<String>, Option<&anyhow::Error>),
) -> SearchAnswer {
    let [lower, upper] = search.bounds();
    let (outcome, reason) = match (limit, error, lower, upper) {
        (Some(limit), ..) => (Outcome::TesterLimit, format!("limited by the tester: {limit}")),
        (_, Some(error), ..) => (Outcome::Interrupted, format!("{error:#}")),
        (.., Some(lower), None) if lower >= max && is_clamped => (
            Outcome::TesterLimit,
            "limited by the tester: more cannot be opened in half an hour at 40 % of the rate"
                .to_owned(),
        ),
        (.., Some(lower), None) if lower >= max => {
            (Outcome::BearsLargest, "the device holds the largest number".to_owned())
        }
        (.., None, _) => (Outcome::FailsAtSmallest, "it does not hold a connection".to_owned()),
        _ => (Outcome::Regular, String::new()),
    };
    let [lower, upper] = [lower, upper].map(|bound| bound.map(f64::from));
    let at_lower = made.iter().rfind(|trial| Some(trial.load) == lower);
    SearchAnswer {
        goal: CAPACITY.to_owned(),
        outcome,
        reason,
        lower,
        upper,
        throughput: lower.filter(|_| outcome == Outcome::Regular),
        throughput_pps: None,
        latency: None,
        connections: at_lower.and_then(|trial| trial.connections.clone()),
    }
}
