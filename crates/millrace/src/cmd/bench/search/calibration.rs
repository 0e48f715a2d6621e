// SPDX-License-Identifier: BSD-3-Clause
//! Measures what the tester bears back to back, without a device.

use super::conduct::{Plan, Progress, conduct};
use super::goals::NamedGoal;
use super::measurement::Tester;
use anyhow::Context;
use results::search::{Calibration, SearchTrial};
use search::mlr::{Goal, Limits};

/// The goal of a calibration.
const GOAL: &str = "quick";
/// Seconds of the first trial, at the largest load.
const FIRST_S: f64 = 1.0;
/// Number of first trials, if another program disturbs them.
const ATTEMPTS: u32 = 3;
/// Seconds after which a calibration ends.
const DURATION_MAX_S: f64 = 120.0;

/// Calibrates a tester for the loads of a search. If it does not bear the largest load, searches
/// for its limit.
pub(super) fn calibrate(
    plan: Plan,
    ports: &str,
    tester: &mut dyn Tester,
    progress: Progress,
) -> anyhow::Result<Calibration> {
    let goal = Goal::named(GOAL).context("a goal of our own")?;
    let max_load = plan.limits.max_load;
    let (mut first, mut attempts) = (tester.measure(max_load, FIRST_S)?, 1);
    // Another program may have disturbed it.
    while first.is_disturbed() && attempts < ATTEMPTS {
        (first, attempts) = (tester.measure(max_load, FIRST_S)?, attempts + 1);
    }
    let trial = first.trial(FIRST_S, None);
    let first = first.shown((max_load, 0.0), trial);
    let ports = ports.to_owned();
    if trial.0.loss_ratio <= goal.loss_ratio {
        progress("calibration: back to back, the tester bears the largest load");
        let (limit, trials) = (Some(max_load), vec![first]);
        return Ok(Calibration { ports, limit, bears_largest: true, trials });
    }
    let goals = [NamedGoal { name: GOAL.to_owned(), goal }];
    let limits = Limits { duration_max: DURATION_MAX_S, ..plan.limits };
    let plan = Plan { goals: &goals, limits, latency_max: None, warm_up_s: 0.0, ..plan };
    let found = conduct(plan, tester, None, &|line| progress(&format!("calibration: {line}")));
    if let Some(error) = found.error {
        return Err(error);
    }
    let limit = found.search.answers.first().and_then(|answer| answer.lower);
    let trials: Vec<SearchTrial> = [first].into_iter().chain(found.search.trials).collect();
    let bears_largest = limit.is_some_and(|limit| limit >= max_load);
    Ok(Calibration { ports, limit, bears_largest, trials })
}
