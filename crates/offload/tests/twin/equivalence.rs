// SPDX-License-Identifier: BSD-3-Clause
//! Offload equivalence: rules of NICs, whatever goes wrong with them, change nothing of what is
//! known about flows.

use crate::bump::{Bump, Came, Case};
use engine::{MarkVerification, Nanos, OffloadPolicy};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

const SAMPLED: MarkVerification = MarkVerification::Sampled { first: 4, one_in: 64 };

/// Everything that goes wrong at once, each with this chance: one call of seven is struck.
const EVERYTHING: &str = "random:0.01";

/// Of these a wrong mark comes on a packet that only its key tells from a right one.
const LYING: [&str; 5] =
    ["mask-ignored:0.2", "truncated-mark:0.2", "destroy-leaves-rule:0.2", EVERYTHING, "random:0.1"];

const HONEST: [&str; 12] = [
    "",
    "no-mark:0.3",
    "phantom-success:0.3",
    "undeletable:0.2",
    "create-refused:0.3",
    "full-early:0.5",
    "latency-cliff:0.1",
    "late-activation:0.5",
    "late-deactivation:0.5",
    "stale-counters",
    "untouched-error+create-refused:0.3",
    "receive-stall:0.1",
];

/// How long marks pay, and how long they do not: long enough for their rules to go, and for a
/// dearer packet to bring them back.
const CHOICE: Nanos = 18_000_000_000;

/// Nothing goes wrong.
const CALM: Case = Case {
    seed: 1,
    faults: String::new(),
    admission: OffloadPolicy::After { packets: 1 },
    check: SAMPLED,
    workers: 1,
    width: 32,
    room: 1 << 16,
    depth: 1,
    restarts: None,
    resets: false,
    on_stop: "keep",
    connections: 100,
    longest: 60,
    choice: None,
};

fn any_case() -> impl Strategy<Value = Case> {
    let admission = prop::sample::select(vec![
        OffloadPolicy::After { packets: 1 },
        OffloadPolicy::After { packets: 5 },
        OffloadPolicy::Rate { per_second: 500 },
        OffloadPolicy::Measured { least: 1 },
        OffloadPolicy::Measured { least: 8 },
    ]);
    let faults = prop::sample::select([&HONEST[..], &LYING].concat());
    let width = prop::sample::select(vec![32, 24, 16, 12]);
    let room = prop::sample::select(vec![1 << 16, 64, 7]);
    let depth = prop::sample::select(vec![1, 2, 64]);
    let load = (1..120_usize, 1..400_u32);
    (any::<u64>(), faults, admission, any::<bool>(), 1..=3_u16, width, (room, depth), load)
        .prop_map(|(seed, faults, admission, is_strict, workers, width, nic, load)| {
            let ((room, depth), (connections, longest)) = (nic, load);
            let is_strict = is_strict || LYING.contains(&faults);
            let check = if is_strict { MarkVerification::Always } else { SAMPLED };
            Case {
                seed,
                faults: faults.to_owned(),
                admission,
                check,
                workers,
                width,
                room,
                depth,
                connections,
                longest,
                ..CALM
            }
        })
}

/// A number from the environment: the long variant is `make prove-offload`.
fn scaled(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

#[test]
fn rules_change_nothing() {
    let cases = scaled("MILLRACE_CASES", 150) as u32;
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) };
    let mut runner = TestRunner::new(config);
    let outcome = runner.run(&any_case(), |case| {
        Bump::new(&case).run(3000);
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

/// Rules come and go by the hundred thousand while everything goes wrong: each is counted to its
/// flow, and none is there that nobody knows of.
#[test]
fn no_rule_is_lost_in_a_long_time() {
    let wanted = scaled("MILLRACE_CYCLES", 10_000);
    let (faults, check) = (EVERYTHING.to_owned(), MarkVerification::Always);
    let case = Case { faults, check, workers: 2, ..CALM };
    let (mut sum, mut cycles) = (Came::default(), 0);
    for seed in 1.. {
        let depth = if seed % 2 == 0 { 64 } else { 1 };
        let came = Bump::new(&Case { seed, depth, ..case.clone() }).run(100_000);
        assert_eq!(came.created, came.destroyed + came.lost + came.stuck);
        cycles += came.created;
        sum.add(came);
        if cycles >= wanted {
            break;
        }
    }
    eprintln!("{cycles} cycles: {sum:?}");
    assert!(sum.stuck > 0 && sum.missed > 0, "faults strike");
    assert!(sum.marks.counted > sum.packets / 10, "marks are used");
}

/// Marks pay and do not pay in turns, so that workers use them, ignore them, and give them up. With
/// other faults too few packets have marks that pay.
#[test]
fn the_choice_of_marks_changes_nothing() {
    let faults = [
        "late-deactivation:0.5",
        "stale-counters",
        "undeletable:0.001",
        "create-refused:0.02",
        "",
        "no-mark:0.1+phantom-success:0.1",
        "receive-stall:0.02",
    ];
    let mut sum = Came::default();
    for seed in 0..(scaled("MILLRACE_CASES", 75) / 75).max(1) {
        let faults = faults[seed as usize % faults.len()].to_owned();
        let case =
            Case { seed, faults, choice: Some(CHOICE), connections: 50, longest: 4000, ..CALM };
        let came = Bump::new(&case).run(1_400_000);
        assert_eq!(came.created, came.destroyed + came.lost + came.stuck);
        sum.add(came);
    }
    eprintln!("choice of marks: {sum:?}");
    assert!(sum.begun.iter().all(|times| *times > 0), "{sum:?}");
    assert!(sum.marks.counted > sum.packets / 50, "{sum:?}");
    assert!(sum.marks.ignored > sum.packets / 50, "{sum:?}");
}

/// Ports that start anew under load have their rules again, and no mark is wrong.
#[test]
fn rules_come_back_after_a_restart() {
    let stops = ["keep", "flush", "stale"].into_iter().flat_map(|stop| [(stop, 1), (stop, 64)]);
    for (seed, (on_stop, depth)) in stops.enumerate() {
        for faults in ["", "lost-on-reset", "create-refused:0.2", "late-deactivation:0.5"] {
            let (seed, faults) = (seed as u64, faults.to_owned());
            let restarts = Some(500);
            let case = Case { seed, faults, restarts, on_stop, depth, workers: 2, ..CALM };
            let came = Bump::new(&case).run(20_000);
            assert!(came.lost > 100, "{case:?}: {came:?}");
            assert!(came.marks.counted > came.packets / 10, "{case:?}: {came:?}");
        }
    }
}

/// The same where the NIC resets itself: also what it refused to part with is gone then.
#[test]
fn rules_come_back_after_a_reset() {
    for (seed, faults) in
        ["", "undeletable:0.1", "create-refused:0.2", "late-deactivation:0.5"].iter().enumerate()
    {
        let (seed, faults) = (seed as u64, (*faults).to_owned());
        let restarts = Some(500);
        let depth = if seed % 2 == 0 { 1 } else { 32 };
        let case = Case { seed, faults, restarts, resets: true, workers: 2, depth, ..CALM };
        let came = Bump::new(&case).run(20_000);
        assert!(came.lost > 100, "{case:?}: {came:?}");
        assert!(came.marks.counted > came.packets / 10, "{case:?}: {came:?}");
        assert_eq!(came.created, came.destroyed + came.lost + came.stuck, "{case:?}: {came:?}");
    }
}
