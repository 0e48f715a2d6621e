// SPDX-License-Identifier: BSD-3-Clause
//! Plays loads whose costs are known, and checks that the choice finds the cheaper way and keeps
//! it.

use super::trial::{LONG_WARM_UP, MEASURED, WARM_UP};
use super::*;
use proptest::prelude::*;

/// A load: cycles of a burst by mark and in software, and the noise of a measurement in percent.
#[derive(Clone, Copy, Debug)]
struct Load {
    by_mark: u64,
    in_software: u64,
    noise: u64,
}

/// A worker that takes a burst every hundred microseconds.
struct Worker {
    choice: MarkChoice,
    now: Nanos,
    random: u64,
    /// Cycles so far.
    spent: u64,
    /// Packets of a burst that have a mark.
    marked: usize,
}

const ONE_RULE: RuleCounts = RuleCounts { rules: 1, attainable: 1, connections: 1000 };

const BURST: Nanos = 100_000;
const PACKETS: usize = 32;

impl Worker {
    fn new(seed: u64) -> Self {
        let mut choice = MarkChoice::new();
        choice.note_counts(ONE_RULE);
        Self { choice, now: 0, random: seed | 1, spent: 0, marked: PACKETS }
    }

    /// Returns a number from 0 to 99.
    fn percent(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % 100
    }

    fn run(&mut self, load: Load, span: Nanos) {
        let until = self.now + span;
        while self.now < until {
            self.now += BURST;
            let marked = match self.choice.way() {
                MarkUse::NoRules => 0,
                MarkUse::Used | MarkUse::Ignored => self.marked,
            };
            let role = match self.choice.is_due(self.now) {
                true => self.choice.role(self.now, BurstCounts { marked, packets: PACKETS }),
                false => BurstRole::Usual,
            };
            let (way, is_measured) = match role {
                BurstRole::Usual => (self.choice.way(), false),
                BurstRole::WarmUp(way) => (way, false),
                BurstRole::Measured(way) => (way, true),
            };
            let cost = if way == MarkUse::Used { load.by_mark } else { load.in_software };
            let noise = self.percent() * load.noise / 100;
            // An interrupt now and then.
            let stall = if self.percent() == 0 { 20 * cost } else { 0 };
            let cycles = cost + cost * noise / 100 + stall;
            self.spent += cost;
            if is_measured {
                self.choice.note(way, (cycles, PACKETS), self.now);
            }
        }
    }
}

const SECOND: Nanos = 1_000_000_000;

fn loads() -> impl Strategy<Value = Load> {
    (500..20_000_u64, 500..20_000_u64, 0..20_u64).prop_map(|(by_mark, in_software, noise)| Load {
        by_mark,
        in_software,
        noise,
    })
}

impl Load {
    /// True if marks cost clearly less, or clearly more.
    fn is_clear(self) -> Option<bool> {
        match (self.by_mark * 100, self.in_software * 100) {
            (marks, software) if marks < self.in_software * 90 => Some(software > 0),
            (_, software) if software < self.by_mark * 90 => Some(false),
            _ => None,
        }
    }
}

proptest! {
    // Each case is an hour of bursts, or a sixth of one.
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn the_cheaper_way_is_found_and_kept(
        loads in prop::collection::vec(loads(), 1..5),
        seed in any::<u64>(),
    ) {
        let mut worker = Worker::new(seed);
        for load in loads {
            // Long enough for the longest time without rules that these loads lead to.
            worker.run(load, 400 * SECOND);
            let switches = worker.choice.status().switches;
            worker.run(load, 40 * SECOND);
            if let Some(is_better) = load.is_clear() {
                prop_assert_eq!(worker.choice.in_use() == MarkUse::Used, is_better, "{:?}", load);
            }
            // At most one attempt that fails: without rules, with rules, without.
            prop_assert!(worker.choice.status().switches <= switches + 2, "{:?}", load);
        }
    }

    #[test]
    fn trials_cost_no_more_than_their_bursts(load in loads(), seed in any::<u64>()) {
        let mut worker = Worker::new(seed);
        // Of five thousand bursts in a period, a trial sends so many the other way.
        worker.run(load, 30 * SECOND);
        let before = worker.spent;
        worker.run(load, 600 * SECOND);
        let bursts = 600 * SECOND / BURST;
        let best = bursts * load.by_mark.min(load.in_software);
        let worst = load.by_mark.max(load.in_software);
        // Equal ways may both be kept.
        if load.is_clear().is_some() {
            let wasted = (worker.spent - before).saturating_sub(best);
            let are_close = worst * 100 < load.by_mark.min(load.in_software) * (CLOSE + 10);
            let warm_up = if are_close { LONG_WARM_UP } else { WARM_UP[1] };
            let of_trials = bursts * worst * 2 * (warm_up + MEASURED) as u64 / 5_000;
            prop_assert!(wasted <= of_trials, "{} of {}", wasted, best);
        }
    }
}

/// A change of load is followed within two seconds while there are rules.
#[test]
fn a_change_is_followed_within_two_seconds() {
    let mut worker = Worker::new(1);
    let [good, bad] = [(1000, 2000), (2000, 1000)].map(|(by_mark, in_software)| Load {
        by_mark,
        in_software,
        noise: 5,
    });
    worker.run(good, 10 * SECOND);
    assert_eq!(worker.choice.in_use(), MarkUse::Used);
    worker.run(bad, 2 * SECOND);
    assert_eq!(worker.choice.in_use(), MarkUse::Ignored);
    worker.run(good, 2 * SECOND);
    assert_eq!(worker.choice.in_use(), MarkUse::Used);
    assert_eq!(worker.choice.status().switches, 2);
}

/// A large change of the cost in software brings rules back at once, a smaller one if it lasts.
#[test]
fn a_dearer_packet_gives_marks_another_chance() {
    let mut worker = Worker::new(1);
    worker.run(Load { by_mark: 2000, in_software: 1000, noise: 5 }, 15 * SECOND);
    assert_eq!(worker.choice.in_use(), MarkUse::NoRules);
    worker.run(Load { by_mark: 2000, in_software: 4000, noise: 5 }, 5 * SECOND);
    assert_eq!(worker.choice.in_use(), MarkUse::Used);
    let mut worker = Worker::new(1);
    worker.run(Load { by_mark: 2000, in_software: 1000, noise: 5 }, 15 * SECOND);
    let dearer = Load { by_mark: 800, in_software: 1700, noise: 5 };
    worker.run(dearer, 5 * SECOND);
    assert_eq!(worker.choice.in_use(), MarkUse::NoRules);
    worker.run(dearer, 10 * SECOND);
    assert_eq!(worker.choice.in_use(), MarkUse::Used);
}

/// A machine that is faster and slower by turns does not bring rules back each time. Turns of some
/// seconds do not count at all: what is left are the switch from marks, the end of their rules, and
/// the attempts after one and three minutes.
#[test]
fn an_unsteady_machine_causes_few_attempts() {
    for (seconds, most) in [(5, 6), (15, 21)] {
        let mut worker = Worker::new(1);
        for turn in 0..300 / seconds {
            let in_software = if turn % 2 == 0 { 1000 } else { 1600 };
            worker.run(Load { by_mark: 2 * in_software, in_software, noise: 5 }, seconds * SECOND);
        }
        let switches = worker.choice.status().switches;
        assert!((2..=most).contains(&switches), "{seconds} s: {switches}");
    }
}

/// While rules are being installed, marks that lose are tried again and again.
#[test]
fn marks_keep_their_rules_while_those_grow() {
    let mut worker = Worker::new(1);
    let bad = Load { by_mark: 2000, in_software: 1000, noise: 5 };
    for rules in 0..100 {
        let rules = 100 + 10 * rules;
        worker.choice.note_counts(RuleCounts { rules, attainable: 2000, ..ONE_RULE });
        worker.run(bad, SECOND / 4);
    }
    assert_eq!(worker.choice.in_use(), MarkUse::Ignored);
    worker.run(Load { by_mark: 900, ..bad }, 2 * SECOND);
    assert_eq!(worker.choice.in_use(), MarkUse::Used);
}

/// A NIC that is slow, or has little room, can mark few packets of many equal flows. Its rules are
/// not waited for.
#[test]
fn rules_that_can_never_mark_enough_are_given_up_at_once() {
    let mut worker = Worker::new(1);
    // Each burst has one marked packet: 3 %. Three times as many rules make 9 %.
    worker.marked = 1;
    let bad = Load { by_mark: 1100, in_software: 1000, noise: 5 };
    for rules in 0..20 {
        let rules = 100 + 10 * rules;
        let attainable = 3 * u64::from(rules);
        worker.choice.note_counts(RuleCounts { rules, attainable, ..ONE_RULE });
        worker.run(bad, SECOND / 4);
    }
    assert_eq!(worker.choice.in_use(), MarkUse::NoRules);
}

/// Rules that were installed since the last trial have hardly marked a packet yet, so that few are
/// marked says nothing of them.
#[test]
fn the_newest_rules_are_waited_for() {
    let mut worker = Worker::new(1);
    worker.marked = 1;
    let counts = RuleCounts { rules: 100, attainable: 20_000, ..ONE_RULE };
    worker.choice.note_counts(counts);
    let bad = Load { by_mark: 1100, in_software: 1000, noise: 5 };
    while worker.choice.in_use() == MarkUse::Used {
        worker.run(bad, BURST);
    }
    worker.choice.note_counts(RuleCounts { rules: 12_000, ..counts });
    worker.run(bad, KEPT + SECOND / 2);
    assert_eq!(worker.choice.in_use(), MarkUse::Ignored);
    worker.marked = PACKETS;
    worker.run(Load { by_mark: 900, ..bad }, 2 * SECOND);
    assert_eq!(worker.choice.in_use(), MarkUse::Used);
}

/// If hardly any burst has a marked packet, nothing can be measured. Rules that can never mark
/// enough are given up then too.
#[test]
fn rules_that_mark_nothing_are_given_up() {
    let mut worker = Worker::new(1);
    worker.marked = 0;
    let counts = RuleCounts { rules: 100, attainable: 300, ..ONE_RULE };
    worker.choice.note_counts(counts);
    let bad = Load { by_mark: 1100, in_software: 1000, noise: 5 };
    worker.run(bad, 10 * SECOND);
    assert_eq!(worker.choice.in_use(), MarkUse::NoRules);
    // Connections that are too short for a rule leave the choice as it is.
    let mut worker = Worker::new(1);
    worker.marked = 0;
    worker.choice.note_counts(RuleCounts { rules: 0, ..counts });
    worker.run(bad, 10 * SECOND);
    assert_eq!(worker.choice.in_use(), MarkUse::Used);
}

/// Other connections give marks another chance, though packets cost what they cost before.
#[test]
fn other_connections_give_marks_another_chance() {
    let mut worker = Worker::new(1);
    let bad = Load { by_mark: 2000, in_software: 1000, noise: 5 };
    worker.run(bad, 15 * SECOND);
    assert_eq!(worker.choice.in_use(), MarkUse::NoRules);
    worker.choice.note_counts(RuleCounts { connections: 2000, ..ONE_RULE });
    worker.run(Load { by_mark: 700, ..bad }, 4 * SECOND);
    assert_eq!(worker.choice.in_use(), MarkUse::Used);
}

/// A worker that others keep from its cpu for most of the time still finds the cheaper way, and
/// does not measure while its caches are cold.
#[test]
fn trials_wait_until_the_caches_are_filled_again() {
    let mut worker = Worker::new(1);
    for _ in 0..100 {
        worker.now += 2 * SECOND / 10;
        worker.run(Load { by_mark: 500, in_software: 5000, noise: 5 }, REFILL - BURST);
        worker.run(Load { by_mark: 2000, in_software: 1000, noise: 5 }, SECOND / 10);
    }
    assert_eq!(worker.choice.in_use(), MarkUse::NoRules);
    assert!(worker.choice.status().in_software < 2000.0 / PACKETS as f64);
}

/// Marks that save less than their rules cost are not used.
#[test]
fn marks_that_save_next_to_nothing_are_not_used() {
    let mut worker = Worker::new(1);
    worker.run(Load { by_mark: 1000, in_software: 1005, noise: 0 }, 10 * SECOND);
    assert_eq!(worker.choice.in_use(), MarkUse::NoRules);
    let mut worker = Worker::new(1);
    worker.run(Load { by_mark: 1000, in_software: 1040, noise: 0 }, 10 * SECOND);
    assert_eq!(worker.choice.in_use(), MarkUse::Used);
}

/// Without a counter of cycles, all costs are 0, and nothing changes.
#[test]
fn without_a_counter_marks_are_used() {
    let mut worker = Worker::new(1);
    worker.run(Load { by_mark: 0, in_software: 0, noise: 0 }, 30 * SECOND);
    assert_eq!(worker.choice.in_use(), MarkUse::Used);
}

/// An evaluation costs cache misses, and marks that are ignored do not pay for them.
#[test]
fn directions_are_evaluated_in_a_quarter_of_the_time_while_marks_are_ignored() {
    let windows =
        |choice: &MarkChoice| (0..64).filter(|window| choice.evaluates(window << 20)).count();
    let mut worker = Worker::new(1);
    assert_eq!(windows(&worker.choice), 64);
    while worker.choice.in_use() == MarkUse::Used {
        worker.run(Load { by_mark: 2000, in_software: 1000, noise: 5 }, BURST);
    }
    assert_eq!((worker.choice.in_use(), windows(&worker.choice)), (MarkUse::Ignored, 16));
}
