// SPDX-License-Identifier: BSD-3-Clause
//! Searches with connections on simulated devices, in simulated time.

use super::*;
use crate::cmd::bench::search::calibration::calibrate;
use crate::cmd::bench::search::conduct::{Found, Plan, conduct};
use crate::cmd::bench::search::goals::goal;
use crate::tester::{FailureCounts, Side, SimulatedTester, TrafficCounts};
use results::search::{Calibration, OneSearch, Outcome, SearchAnswer, SearchTrial};
use search::mlr::Limits;

static NEVER: AtomicBool = AtomicBool::new(false);

/// Makes trials of a kind on a simulated device.
fn with_trials<T>(
    device: &str,
    kind: LoadKind,
    work: impl FnOnce(&mut ConnectionTrials) -> T,
) -> T {
    let mut tester = SimulatedTester::new(device.parse().unwrap());
    work(&mut ConnectionTrials {
        tester: &mut tester,
        kind,
        profile: Load::of_rate(1.0),
        reset_command: None,
        interrupted: &NEVER,
    })
}

/// Searches from 100 to 100,000, after a calibration without the device.
fn search(device: &str, kind: LoadKind, goals: &[&str]) -> OneSearch {
    let goals: Vec<_> = goals.iter().map(|text| goal(text).unwrap()).collect();
    let unit = if kind == LoadKind::Rate { "cps" } else { "conn" };
    let limits = Limits { min_load: 100.0, max_load: 100e3, duration_max: 1e6 };
    let plan = Plan { goals: &goals, limits, unit, latency_max: None, warm_up_s: 1.0 };
    let tester_only: Vec<_> = device.split(',').filter(|it| it.starts_with("tester")).collect();
    let cable = [vec!["limit=1e12"], tester_only].concat().join(",");
    let calibrated: Calibration =
        with_trials(&cable, kind, |trials| calibrate(plan, "cable", trials, &|_| {})).unwrap();
    let Found { search, error } =
        with_trials(device, kind, |trials| conduct(plan, trials, Some(calibrated), &|_| {}));
    assert!(error.is_none(), "{error:?}");
    search
}

fn assert_found(answer: &SearchAnswer, limit: f64, width: f64) {
    let (lower, upper) = (answer.lower.unwrap(), answer.upper.unwrap());
    assert_eq!(answer.outcome, Outcome::Regular, "{answer:?}");
    assert!(lower <= limit * 1.000_1 && upper >= limit * 0.999_9, "{lower} to {upper} of {limit}");
    assert!((upper - lower) / upper <= width + 1e-9, "{lower} to {upper}");
    assert!(answer.throughput.unwrap() > limit * (1.0 - 2.0 * width), "{answer:?}");
}

const HELD: LoadKind = LoadKind::Held { cps: 5000.0 };

#[test]
fn a_hard_limit_of_connections_per_second_is_found() {
    for limit in [977.0, 41_700.0] {
        let device = format!("limit={limit}");
        let found = search(&device, LoadKind::Rate, &["quick loss=0% width=1%", "ndr"]);
        assert_found(&found.answers[0], limit, 0.01);
        assert_found(&found.answers[1], limit, 0.005);
        let figures = found.answers[1].connections.as_ref().unwrap();
        assert!(
            (figures.connections_per_second.unwrap() / limit - 1.0).abs() < 0.01,
            "{figures:?}"
        );
    }
}

#[test]
fn a_table_that_is_full_is_found_by_connections_at_a_time() {
    for capacity in [1000.0, 20_480.0] {
        let device = format!("limit=50000,capacity={capacity}");
        let found = search(&device, HELD, &["quick loss=0% width=1%"]);
        assert_found(&found.answers[0], capacity, 0.01);
        let figures = found.answers[0].connections.as_ref().unwrap();
        let lower = found.answers[0].lower.unwrap().round() as u64;
        assert_eq!((figures.open, figures.completed), (lower, lower), "all at once, both ends");
    }
}

/// In each trial the limit is up to 3 % higher or lower.
#[test]
fn a_noisy_limit_is_found_within_its_noise() {
    let found = search("limit=20000,noise=3", LoadKind::Rate, &["ndr"]);
    let answer = &found.answers[0];
    assert_eq!(answer.outcome, Outcome::Regular, "{answer:?}");
    let [lower, upper] = [answer.lower, answer.upper].map(Option::unwrap);
    assert!(lower > 20_000.0 * 0.97 && upper < 20_000.0 * 1.03, "{lower} {upper}");
    assert!((upper - lower) / upper <= 0.005, "{lower} {upper}");
}

/// From 50,000 to 61,000 the device loses 5 %, and less right above.
#[test]
fn of_losses_that_shrink_at_higher_rates_the_lower_answer_is_found() {
    let device = "limit=60000,drops-from=50000,drops-until=61000";
    let goals = ["quick name=strict loss=4%", "quick name=lax loss=5.5%"];
    let found = search(device, LoadKind::Rate, &goals);
    let is_good_above = |trial: &SearchTrial| trial.load > 61e3 && trial.loss_ratio <= 0.04;
    assert!(found.trials.iter().any(is_good_above), "it has seen the inversion");
    let [strict, lax] = &found.answers[..] else { panic!("two goals") };
    assert_eq!((strict.outcome, lax.outcome), (Outcome::Regular, Outcome::Regular));
    let (lower, upper) = (strict.lower.unwrap(), strict.upper.unwrap());
    assert!(lower < 50e3 && upper >= 50e3 && (upper - lower) / upper <= 0.02, "{lower} {upper}");
    let sustains = 60e3 / 0.945;
    assert!(lax.lower.unwrap() <= sustains && lax.upper.unwrap() >= sustains, "{lax:?}");
}

#[test]
fn a_tester_slower_than_the_device_is_reported_as_such() {
    for kind in [LoadKind::Rate, LoadKind::Held { cps: 40_000.0 }] {
        let found = search("limit=90000,tester=30000", kind, &["ndr"]);
        let SearchAnswer { outcome, throughput, reason, .. } = &found.answers[0];
        assert_eq!((*outcome, *throughput), (Outcome::TesterLimit, None), "{reason}");
        assert!(reason.starts_with("limited by the tester: "), "{reason}");
        let calibration = found.calibration.as_ref().unwrap();
        assert!(!calibration.bears_largest, "{calibration:?}");
    }
}

#[test]
fn a_device_that_sustains_all_or_nothing_has_no_figure() {
    let all = search("limit=1e9", LoadKind::Rate, &["quick"]);
    assert_eq!(all.answers[0].outcome, Outcome::BearsLargest);
    let none = search("limit=50", LoadKind::Rate, &["quick"]);
    assert_eq!(none.answers[0].outcome, Outcome::FailsAtSmallest);
    assert!(none.answers[0].throughput.is_none());
}

fn side(attempted: u64, established: u64, failed: FailureCounts) -> Side {
    let packets = TrafficCounts { packets: 7000, ..TrafficCounts::default() };
    Side {
        attempted,
        established,
        completed: established,
        failed,
        sent: packets,
        received: packets,
        ..Side::default()
    }
}

/// Returns the trial of 1000 connections in a second, with these counters at its end.
fn trial(kind: LoadKind, client: Side, server: Side, limits: &[&str]) -> Measurement {
    let end = TesterStatistics {
        elapsed_s: 1.0,
        client,
        server,
        limits: limits.iter().map(|&it| it.to_owned()).collect(),
        ..TesterStatistics::default()
    };
    let course = Course::new(kind, Load::of_rate(1.0), 1000.0, 1.0);
    let counted = Counted { due: end.clone(), open: end.clone(), end };
    measurement(&course, &counted, 1.0)
}

#[test]
fn each_connection_that_does_not_come_through_counts_once() {
    let none = FailureCounts::default();
    let server = || side(1000, 1000, none);
    let losses = |client: Side| {
        let measured = trial(LoadKind::Rate, client, server(), &[]);
        measured.trial(1.0, None).0.loss_ratio
    };
    assert_eq!(losses(side(1000, 1000, none)), 0.0);
    // Ten were never answered; seven of them have given up.
    assert_eq!(losses(side(1000, 990, FailureCounts { no_answer: 7, ..none })), 0.01);
    assert_eq!(losses(side(1000, 990, FailureCounts { reset: 10, ..none })), 0.01);
    assert_eq!(losses(side(1000, 990, FailureCounts { timeout: 10, ..none })), 0.02);
    // All connections came through, but packets had to be sent again.
    let mut lossy = side(1000, 1000, none);
    lossy.sent.packets += 140;
    let measured = trial(LoadKind::Rate, lossy.clone(), server(), &[]);
    let (rate, of_device) = measured.trial(1.0, None);
    assert_eq!((rate.loss_ratio, of_device), (140.0 / 14_140.0, 140.0 / 14_140.0));
    let held = trial(LoadKind::Held { cps: 1000.0 }, lossy.clone(), server(), &[]);
    assert_eq!(held.trial(1.0, None).0.loss_ratio, 0.0);
    // A tester that names a limit of its own may have lost them itself.
    let measured = trial(LoadKind::Rate, lossy, server(), &["port b missed 140 packets"]);
    assert_eq!(measured.trial(1.0, None).1, 0.0);
    assert_eq!(measured.reasons(), ["port b missed 140 packets"]);
}

/// A connection that is to be held must be closed by both of its ends.
#[test]
fn both_ends_of_a_held_connection_are_checked() {
    let none = FailureCounts::default();
    let held = |client, server| {
        let measured = trial(LoadKind::Held { cps: 1000.0 }, client, server, &[]);
        measured.counts.lost()
    };
    assert_eq!(held(side(1000, 1000, none), side(1000, 1000, none)), 0);
    assert_eq!(held(side(1000, 1000, none), side(1000, 997, none)), 3);
    assert_eq!(held(side(1000, 990, none), side(1000, 1000, none)), 10);
}

#[test]
fn a_tester_that_opens_too_few_offers_less() {
    let none = FailureCounts::default();
    let few = trial(LoadKind::Rate, side(900, 900, none), side(900, 900, none), &[]);
    assert_eq!((few.counts.unsent(), few.counts.lost()), (100, 0));
    assert_eq!(few.reasons(), ["it offered 90.0 % of the load"]);
}

#[test]
fn a_signal_ends_a_trial_in_order() {
    let mut tester = SimulatedTester::new("limit=1000".parse().unwrap());
    let flag = AtomicBool::new(true);
    let mut trials = ConnectionTrials {
        tester: &mut tester,
        kind: LoadKind::Rate,
        profile: Load::of_rate(1.0),
        reset_command: None,
        interrupted: &flag,
    };
    let error = trials.measure(100.0, 1.0).unwrap_err();
    assert_eq!(error.to_string(), "interrupted");
}

/// A device that takes no more packets has lost the connections that could not be opened.
#[test]
fn connections_that_the_link_holds_up_are_lost() {
    let opened = side(800, 800, FailureCounts::default());
    let end = TesterStatistics {
        elapsed_s: 2.0,
        client: opened.clone(),
        server: opened,
        link_limits: vec!["the port took no more packets".to_owned()],
        ..TesterStatistics::default()
    };
    let course = Course::new(LoadKind::Rate, Load::of_rate(1.0), 1000.0, 1.0);
    let counted = Counted { due: end.clone(), open: end.clone(), end };
    let measured = measurement(&course, &counted, 1.0);
    let counts = measured.counts;
    assert_eq!((counts.offered, counts.forwarded, counts.lost()), (1000, 800, 200));
    assert_eq!((measured.trial(1.0, None).1, measured.reasons()), (0.2, vec![]));
}
