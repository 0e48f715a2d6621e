// SPDX-License-Identifier: BSD-3-Clause
//! Compares bounds with what the library of the authors says, and searches on devices whose limits
//! are known.

use super::*;
use proptest::prelude::*;

const LIMITS: Limits = Limits { min_load: 1e3, max_load: 10e6, duration_max: 1200.0 };

/// A device: says which share of a load it loses in the `number`th trial.
type Device<'a> = &'a dyn Fn(f64, u32) -> f64;

/// Searches on a device. Returns the answers, and the seconds that trials took.
fn run(goals: &[Goal], device: Device) -> (Vec<Answer>, f64) {
    let mut search = Search::new(LIMITS, goals);
    let (mut number, mut seconds) = (0, 0.0);
    while let Next::Trial { load, duration } = search.choose() {
        assert!((LIMITS.min_load..=LIMITS.max_load).contains(&load), "{load}");
        search.note(load, Trial { duration, loss_ratio: device(load, number) });
        seconds += duration;
        number += 1;
        assert!(number < 5000, "it does not end");
    }
    (search.answers(), seconds)
}

/// Loses what is above a limit.
fn hard(limit: f64) -> impl Fn(f64, u32) -> f64 {
    move |load, _| (1.0 - limit / load).max(0.0)
}

fn goals(names: &[&str]) -> Vec<Goal> {
    names.iter().map(|name| Goal::named(name).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// The bounds are around the limit, and as close as the goal says.
    #[test]
    fn a_hard_limit_is_found(limit in 2e3..9.9e6_f64) {
        let (answers, seconds) = run(&goals(&["ndr", "pdr", "quick"]), &hard(limit));
        for Answer { goal, lower, upper, conditional_throughput, outcome } in answers {
            let (lower, upper) = (lower.unwrap(), upper.unwrap());
            // The largest load that loses no more than the goal allows.
            let sustains = limit / (1.0 - goal.loss_ratio);
            prop_assert_eq!(outcome, Outcome::Regular);
            prop_assert!(lower <= sustains && sustains < upper, "{}", goal.name);
            prop_assert!((upper - lower) / upper <= goal.relative_width, "{}", goal.name);
            let throughput = conditional_throughput.unwrap();
            prop_assert!(throughput <= limit * 1.000_001 && throughput > limit * 0.98);
        }
        prop_assert!(seconds < 200.0, "{}", seconds);
    }
}

#[test]
fn a_device_that_sustains_all_has_no_upper_bound() {
    let (answers, seconds) = run(&goals(&["ndr", "rfc2544"]), &|_, _| 0.0);
    for Answer { goal, lower, upper, outcome, .. } in answers {
        assert_eq!((lower, upper), (Some(10e6), None), "{}", goal.name);
        assert_eq!(outcome, Outcome::BearsLargest);
    }
    assert!(seconds < 100.0, "{seconds}");
}

#[test]
fn a_device_that_sustains_nothing_has_no_lower_bound() {
    let (answers, _) = run(&goals(&["ndr"]), &|_, _| 0.5);
    let Answer { lower, upper, conditional_throughput, outcome, .. } = answers[0];
    assert_eq!((lower, upper), (None, Some(LIMITS.min_load)));
    assert_eq!((conditional_throughput, outcome), (None, Outcome::FailsAtSmallest));
}

/// A device with a buffer forwards short trials at the largest load without loss, and loses packets
/// in long ones.
#[test]
fn a_device_that_loses_only_in_long_trials_is_searched_below() {
    for names in [&["rfc2544"][..], &["cps"], &["cps-robust"], &["tst009"]] {
        let goals = goals(names);
        let mut search = Search::new(LIMITS, &goals);
        let mut count = 0;
        while let Next::Trial { load, duration } = search.choose() {
            let excess = (load - 5e6) * duration - 6e6;
            let loss_ratio = (excess / (load * duration)).max(0.0);
            search.note(load, Trial { duration, loss_ratio });
            count += 1;
            assert!(count < 500, "{names:?}: it does not end");
        }
        for Answer { goal, lower, upper, outcome, .. } in search.answers() {
            assert_eq!(outcome, Outcome::Regular, "{} {lower:?} {upper:?} {count}", goal.name);
            // What passes in a trial of full length, buffer included.
            let limit = 5e6 + 6e6 / goal.final_trial / (1.0 - goal.loss_ratio);
            assert!(lower.unwrap() < limit * 1.01 && upper.unwrap() > limit * 0.99, "{goal:?}");
        }
    }
}

/// At the largest load, some trials lose packets and some do not.
#[test]
fn a_device_that_loses_in_some_trials_at_the_largest_load_is_searched_below() {
    let noisy = |load: f64, number: u32| match load >= LIMITS.max_load && number % 3 != 0 {
        true => 0.01,
        false => 0.0,
    };
    for name in ["ndr", "pdr", "quick", "cps"] {
        let (answers, seconds) = run(&goals(&[name]), &noisy);
        assert_eq!(answers[0].outcome, Outcome::Regular, "{name}");
        assert!(answers[0].upper == Some(LIMITS.max_load) && seconds < 600.0, "{name} {seconds}");
    }
}

/// Of several loads between good and bad, the answer is below the smallest that is bad.
#[test]
fn losses_that_shrink_at_higher_loads_give_the_lower_answer() {
    let inverted = |load: f64, _| match load {
        load if load < 2e6 => 0.0,
        load if load < 3e6 => 0.01,
        load if load < 5e6 => 0.0,
        load => 1.0 - 5e6 / load,
    };
    let mut search = Search::new(LIMITS, &goals(&["ndr"]));
    // Somebody has measured in the range of losses.
    for _ in 0..21 {
        search.note(2.5e6, Trial { duration: 1.0, loss_ratio: 0.01 });
    }
    while let Next::Trial { load, duration } = search.choose() {
        search.note(load, Trial { duration, loss_ratio: inverted(load, 0) });
    }
    let Answer { lower, upper, outcome, .. } = search.answers()[0];
    assert_eq!(outcome, Outcome::Regular);
    assert!(lower.unwrap() < 2e6 && upper.unwrap() >= 2e6, "{lower:?} {upper:?}");
}

/// Near its limit, the device loses packets in some trials: the more, the higher the load.
#[test]
fn a_noisy_limit_is_found_where_half_of_the_trials_are_good() {
    let noisy = |load: f64, number: u32| {
        let random =
            f64::from(number.wrapping_mul(2_654_435_761).wrapping_add(12_345) >> 8) / 16_777_216.0;
        // From 1.9 to 2.1 million, the share of bad trials goes from 0 to 1.
        let bad = ((load - 1.9e6) / 0.2e6).clamp(0.0, 1.0);
        if random < bad { 0.001 } else { 0.0 }
    };
    let (answers, _) = run(&goals(&["ndr"]), &noisy);
    let Answer { lower, upper, outcome, .. } = answers[0];
    let (lower, upper) = (lower.unwrap(), upper.unwrap());
    assert_eq!(outcome, Outcome::Regular);
    assert!(lower > 1.9e6 && upper < 2.1e6, "{lower} {upper}");
}

fn counts(intended: u64, offered: u64, forwarded: u64) -> Counts {
    Counts { intended, offered, forwarded, ..Counts::default() }
}

#[test]
fn unsent_packets_count_as_lost() {
    let loss = |counts: Counts| counts.trial(1.0).loss_ratio;
    assert_eq!(loss(counts(100, 100, 100)), 0.0);
    assert_eq!(loss(counts(100, 100, 90)), 0.1);
    assert_eq!(loss(counts(100, 90, 90)), 0.1);
    assert_eq!(loss(counts(100, 90, 81)), 0.19);
    assert_eq!(loss(counts(0, 0, 0)), 1.0, "nothing was measured");
    assert!(!counts(10_000, 9990, 0).is_offered_short());
    assert!(counts(10_000, 9989, 0).is_offered_short());
}

#[test]
fn losses_of_the_tester_are_not_those_of_the_device() {
    let of_device = |counts: Counts| counts.loss_ratio_of_device();
    assert_eq!(of_device(counts(100, 60, 60)), 0.0, "unsent");
    assert_eq!(of_device(counts(100, 100, 90)), 0.1);
    assert_eq!(of_device(Counts { missed: 4, ..counts(100, 100, 90) }), 0.06);
    assert_eq!(of_device(Counts { missed: 4, delayed: 50, ..counts(100, 100, 90) }), 0.0);
    assert_eq!(of_device(counts(0, 0, 0)), 0.0);
}

/// An upper bound stands only if the device alone has lost enough.
#[test]
fn an_upper_bound_of_the_tester_is_recognised() {
    let goal = Goal::named("ndr").unwrap();
    let trial = |of_device: f64| (Trial { duration: 1.0, loss_ratio: 0.1 }, of_device);
    let good = (Trial { duration: 1.0, loss_ratio: 0.0 }, 0.0);
    assert!(goal.is_upper_without_tester(&[trial(0.1); 11]));
    assert!(!goal.is_upper_without_tester(&[trial(0.0); 11]));
    assert!(!goal.is_upper_without_tester(&[&[trial(0.1); 10][..], &[trial(0.0); 5]].concat()));
    assert!(!goal.is_upper_without_tester(&[good; 30]));
}

#[test]
fn time_that_is_over_ends_a_search() {
    let mut search = Search::new(Limits { duration_max: 3.0, ..LIMITS }, &goals(&["ndr"]));
    let mut trials = 0;
    while let Next::Trial { load, duration } = search.choose() {
        search.note(load, Trial { duration, loss_ratio: 0.5 });
        trials += 1;
    }
    assert_eq!(trials, 3);
    assert_eq!(search.answers()[0].outcome, Outcome::Unfinished);
}

/// The first lines are the example of the draft, point by point, for four goals; the others are at
/// random.
#[test]
fn bounds_and_losses_are_those_of_the_library_of_the_authors() {
    let lines = include_str!("reference.txt").lines().filter(|line| !line.starts_with('#'));
    let mut number = 0;
    for line in lines {
        let parts: Vec<_> = line.split(';').collect();
        let numbers: Vec<f64> = parts[0].split(' ').map(|word| word.parse().unwrap()).collect();
        let goal = Goal {
            loss_ratio: numbers[0],
            exceed_ratio: numbers[1],
            final_trial: numbers[2],
            duration_sum: numbers[3],
            ..GOALS[0]
        };
        let trials = parts[1].split_whitespace().flat_map(|word| {
            let (count, trial) = word.split_once('x').unwrap();
            let (duration, loss) = trial.split_once(':').unwrap();
            let [duration, loss_ratio] = [duration, loss].map(|word| word.parse().unwrap());
            std::iter::repeat_n(Trial { duration, loss_ratio }, count.parse().unwrap())
        });
        let trials: Vec<_> = trials.collect();
        let bound = match parts[2] {
            "lower" => Bound::Lower,
            "upper" => Bound::Upper,
            _ => Bound::Undecided,
        };
        assert_eq!(goal.classify(&trials), bound, "{line}");
        let expected = 1.0 - parts[3].parse::<f64>().unwrap();
        let found = goal.conditional_throughput(1.0, &trials);
        assert!((found - expected).abs() < 1e-9, "{found}: {line}");
        number += 1;
    }
    assert_eq!(number, 104);
}
