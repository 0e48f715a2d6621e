// SPDX-License-Identifier: BSD-3-Clause
//! Searches on simulated devices and testers, in simulated time.

use super::*;
use crate::cmd::bench::search::calibration::calibrate;
use crate::cmd::bench::search::goals::{goal, latency_max};
use results::Latency;
use search::mlr::Counts;

const LIMITS: Limits = Limits { min_load: 1e4, max_load: 10e6, duration_max: 1200.0 };

/// A device and a tester, each with a largest load in packets per second.
#[derive(Clone, Copy)]
struct Simulated {
    device: f64,
    sender: f64,
    receiver: f64,
    /// Load from which on the latency is 1 ms instead of 10 µs.
    slow_from: f64,
    /// Number of trials that succeed before one fails.
    trials: u32,
    /// In every trial but each third one, another program takes the tester's cpu.
    is_disturbed: bool,
}

const FAST: Simulated = Simulated {
    device: f64::INFINITY,
    sender: f64::INFINITY,
    receiver: f64::INFINITY,
    slow_from: f64::INFINITY,
    trials: u32::MAX,
    is_disturbed: false,
};

impl Tester for Simulated {
    fn measure(&mut self, load: f64, seconds: f64) -> anyhow::Result<Measurement> {
        self.trials = self.trials.checked_sub(1).ok_or_else(|| anyhow::anyhow!("interrupted"))?;
        let count = |rate: f64| (rate * seconds).round() as u64;
        let sent = load.min(self.sender);
        let came = sent.min(self.device);
        let is_away = self.is_disturbed && self.trials % 3 != 0;
        let received = came.min(self.receiver) * if is_away { 0.99 } else { 1.0 };
        let nanos = if load >= self.slow_from { 1_000_000 } else { 10_000 };
        Ok(Measurement {
            counts: Counts {
                intended: count(load),
                offered: count(sent),
                forwarded: count(received),
                missed: if is_away { 0 } else { count(came) - count(received) },
                delayed: if is_away { count(came) - count(received) } else { 0 },
            },
            longest_gap_ns: if is_away { 10_000_000 } else { 0 },
            latency: Some(Latency {
                min_ns: nanos,
                mean_ns: nanos as f64,
                p50_ns: nanos,
                p90_ns: nanos,
                p99_ns: nanos,
                p999_ns: nanos,
                max_ns: nanos,
                pdv_ns: 0,
            }),
            whole_s: seconds + 1.5,
            ..Measurement::default()
        })
    }

    fn packets_per_second(&self, load: f64) -> Option<f64> {
        Some(load)
    }
}

fn search_with(
    tester: Simulated,
    limits: Limits,
    calibration: Option<Calibration>,
    latency_max: Option<&LatencyMax>,
) -> Found {
    let goals = [goal("ndr").unwrap(), goal("pdr").unwrap()];
    let plan = Plan { goals: &goals, limits, unit: "pps", latency_max, warm_up_s: 1.0 };
    conduct(plan, &mut { tester }, calibration, &|_| {})
}

/// Returns the lines that a search prints.
fn lines(tester: Simulated, latency_max: Option<&LatencyMax>) -> Vec<String> {
    let goals = [goal("quick").unwrap()];
    let plan = Plan { goals: &goals, limits: LIMITS, unit: "pps", latency_max, warm_up_s: 1.0 };
    let printed = std::cell::RefCell::new(Vec::new());
    conduct(plan, &mut { tester }, None, &|line| printed.borrow_mut().push(line.to_owned()));
    printed.into_inner()
}

fn outcomes(found: &Found) -> Vec<Outcome> {
    found.search.answers.iter().map(|answer| answer.outcome).collect()
}

#[test]
fn the_limit_of_a_device_is_found_and_the_warm_up_does_not_count() {
    let found = search_with(Simulated { device: 2e6, ..FAST }, LIMITS, None, None);
    assert_eq!(outcomes(&found), [Outcome::Regular; 2]);
    for answer in &found.search.answers {
        let throughput = answer.throughput.unwrap();
        assert!(throughput <= 2e6 && throughput > 1.98e6, "{answer:?}");
        assert_eq!((answer.throughput_pps, answer.reason.as_str()), (Some(throughput), ""));
        assert_eq!(answer.latency.unwrap().p99_ns, 10_000);
    }
    // docs/bench-search.md shows these.
    let shown = |bound: Option<f64>| load(bound.unwrap(), "pps");
    let bounds = found.search.answers.iter().map(|it| [shown(it.lower), shown(it.upper)]);
    let expected = [["2.000 Mpps", "2.006 Mpps"], ["2.006 Mpps", "2.013 Mpps"]];
    assert_eq!(bounds.collect::<Vec<_>>(), expected);
    let trials = &found.search.trials;
    assert!(trials[0].kind == TrialKind::WarmUp && trials[0].verdicts.is_empty());
    let is_counted = |trial: &SearchTrial| trial.kind == TrialKind::Counted;
    assert!(trials[1..].iter().all(|trial| is_counted(trial) && trial.verdicts.len() == 2));
    assert_eq!(trials[1].start_s, 2.5, "after the warm-up");
}

/// The tester is slower than the device, at sending or at receiving: no figure is printed.
#[test]
fn a_tester_slower_than_the_device_is_reported_as_such() {
    for (tester, reason) in [
        (Simulated { sender: 1.5e6, device: 2e6, ..FAST }, "it offered 99."),
        (Simulated { receiver: 1.5e6, device: 2e6, ..FAST }, "its ports dropped"),
    ] {
        let found = search_with(tester, LIMITS, None, None);
        assert_eq!(outcomes(&found), [Outcome::TesterLimit; 2]);
        for answer in &found.search.answers {
            assert_eq!((answer.throughput, answer.throughput_pps), (None, None));
            assert!(answer.lower.unwrap() < 1.52e6);
            let told = answer.reason.contains("limited by the tester: at 1.5");
            assert!(told && answer.reason.contains(reason), "{}", answer.reason);
        }
        let trials = found.search.trials.len();
        assert!(trials < 100, "{trials}: it is in vain to make them again");
    }
}

/// Delays of the tester disturb two of three trials. They are made again.
#[test]
fn trials_that_the_tester_disturbed_are_made_again() {
    let found = search_with(
        Simulated { device: 2e6, is_disturbed: true, ..FAST },
        Limits { duration_max: 1e4, ..LIMITS },
        None,
        None,
    );
    assert_eq!(outcomes(&found), [Outcome::Regular; 2]);
    let throughput = found.search.answers[0].throughput.unwrap();
    assert!(throughput <= 2e6 && throughput > 1.98e6, "{throughput}");
    let again = found.search.trials.iter().filter(|trial| trial.kind == TrialKind::Repeated);
    assert!(again.clone().count() > 5 && again.into_iter().all(|it| it.verdicts.is_empty()));
}

/// On rings the tester sustains little more than the device: nobody knows whose limit it is.
#[test]
fn an_answer_close_to_the_calibration_is_the_tester_s() {
    let goals = [goal("ndr").unwrap()];
    let plan =
        Plan { goals: &goals, limits: LIMITS, unit: "pps", latency_max: None, warm_up_s: 0.0 };
    let calibration = |sender: f64| {
        let mut tester = Simulated { sender, ..FAST };
        calibrate(plan, "net_ring0", &mut tester, &|_| {}).unwrap()
    };
    let slow = calibration(2.05e6);
    assert!(!slow.bears_largest && (slow.limit - 2.05e6).abs() < 1.0, "{}", slow.limit);
    assert_eq!(slow.trials.len(), 5);
    let device = Simulated { device: 2e6, ..FAST };
    let found = search_with(device, LIMITS, Some(slow), None);
    assert_eq!(outcomes(&found), [Outcome::TesterLimit; 2]);
    assert!(found.search.answers[0].reason.contains("back to back it sustains 2.0"));
    let fast = calibration(f64::INFINITY);
    assert!(fast.bears_largest && fast.trials.len() == 1);
    let found = search_with(device, LIMITS, Some(fast), None);
    assert_eq!(outcomes(&found), [Outcome::Regular; 2]);
}

#[test]
fn reasons_say_why_an_answer_is_not_regular() {
    let ends = |tester, limits| {
        let found = search_with(tester, limits, None, None);
        let answer = &found.search.answers[0];
        (answer.outcome, answer.reason.clone(), found.error.is_some())
    };
    let (outcome, reason, _) = ends(FAST, LIMITS);
    assert_eq!(outcome, Outcome::BearsLargest);
    assert_eq!(reason, "the device sustains the largest load");
    let (outcome, reason, _) = ends(Simulated { device: 1e3, ..FAST }, LIMITS);
    assert_eq!(outcome, Outcome::FailsAtSmallest);
    assert_eq!(reason, "the smallest load is too much");
    let device = Simulated { device: 2e6, ..FAST };
    let short = Limits { duration_max: 10.0, ..LIMITS };
    assert_eq!(ends(device, short), (Outcome::TimeOver, "the time was over".to_owned(), false));
    let cut = Simulated { trials: 3, ..device };
    assert_eq!(ends(cut, LIMITS), (Outcome::Interrupted, "interrupted".to_owned(), true));
}

#[test]
fn a_latency_above_its_limit_counts_as_loss() {
    let slow = Simulated { device: 2e6, slow_from: 1.2e6, ..FAST };
    let limit = latency_max("p99=100us").unwrap();
    let found = search_with(slow, LIMITS, None, Some(&limit));
    let lines = lines(slow, Some(&limit));
    assert!(lines[1].starts_with("10.00 Mpps for 0.50 s: lost 80.0 %, unsent 0 %, latency above"));
    assert!(lines.iter().any(|line| line.contains("s left")), "{lines:?}");
    assert_eq!(outcomes(&found), [Outcome::Regular; 2]);
    for answer in &found.search.answers {
        let throughput = answer.throughput.unwrap();
        assert!(throughput < 1.2e6 && throughput > 1.19e6, "{answer:?}");
    }
}
