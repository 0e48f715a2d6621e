// SPDX-License-Identifier: BSD-3-Clause
//! Compares whole searches on simulated devices with those of the library of the authors of
//! MLRsearch. `searches.py` has made `searches.txt`, and has the same devices.

use search::mlr::{Answer, Goal, Limits, Next, Outcome, Search, Trial};
use std::collections::HashMap;

const LIMITS: Limits = Limits { min_load: 1e3, max_load: 1e7, duration_max: f64::INFINITY };
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// A device that loses packets by its kind, limit and a further number.
struct Device<'a> {
    kind: &'a str,
    limit: f64,
    further: f64,
    /// Number of trials at each load.
    trials: HashMap<u64, u32>,
}

impl<'a> Device<'a> {
    fn read(text: &'a str) -> Self {
        let words: Vec<&str> = text.split(' ').collect();
        let [limit, further] = [1, 2].map(|place| words[place].parse().unwrap());
        Self { kind: words[0], limit, further, trials: HashMap::new() }
    }

    /// Returns the share that the next trial at a load loses.
    fn loss(&mut self, load: f64) -> f64 {
        let number = self.trials.entry(load.to_bits()).or_default();
        *number += 1;
        match self.kind {
            "hard" => (1.0 - self.limit / load).max(0.0),
            "noisy" => {
                let share = (load / self.limit - 1.0) / self.further + 0.5;
                if f64::from(*number) * GOLDEN % 1.0 < share { 0.01 } else { 0.0 }
            }
            "inverted" => {
                let is_good = load < self.limit || load >= self.limit * 1.4;
                match load < self.further {
                    true if is_good => 0.0,
                    true => 0.01,
                    false => 1.0 - self.limit * 1.2 / load,
                }
            }
            other => panic!("no device {other}"),
        }
    }
}

fn search(device: &mut Device, goals: &[Goal]) -> Vec<Answer> {
    let mut search = Search::new(LIMITS, goals);
    for _ in 0..10_000 {
        let Next::Trial { load, duration } = search.choose() else { return search.answers() };
        search.note(load, Trial { duration, loss_ratio: device.loss(load) });
    }
    panic!("the search does not end");
}

/// True if two bounds are no further apart than the width of the goal.
fn is_close(ours: Option<f64>, theirs: Option<f64>, width: f64) -> bool {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => (ours - theirs).abs() <= ours.max(theirs) * width,
        (None, None) => true,
        _ => false,
    }
}

#[test]
fn searches_find_what_the_library_of_the_authors_finds() {
    let lines = include_str!("searches.txt").lines().filter(|line| !line.starts_with('#'));
    let mut number = 0;
    for line in lines {
        let parts: Vec<&str> = line.split(';').collect();
        let mut device = Device::read(parts[0]);
        let goals: Vec<Goal> = parts[1].split(' ').map(|it| Goal::named(it).unwrap()).collect();
        let answers = search(&mut device, &goals);
        assert_eq!(answers.len(), parts.len() - 2);
        for (answer, theirs) in answers.iter().zip(&parts[2..]) {
            let theirs: Vec<Option<f64>> = theirs.split(' ').map(|it| it.parse().ok()).collect();
            let Answer { goal, lower, upper, conditional_throughput, outcome } = *answer;
            let ours = [lower, upper, conditional_throughput];
            for (ours, theirs) in ours.into_iter().zip(&theirs) {
                let is_close = is_close(ours, *theirs, goal.relative_width);
                assert!(is_close, "{}: {answer:?} against {theirs:?}: {line}", goal.name);
            }
            let is_regular = lower.is_some() && upper.is_some();
            assert_eq!(outcome == Outcome::Regular, is_regular, "{answer:?}: {line}");
            number += 1;
        }
    }
    assert_eq!(number, 13 * (1 + 2 + 1 + 1 + 1 + 1 + 6));
}
