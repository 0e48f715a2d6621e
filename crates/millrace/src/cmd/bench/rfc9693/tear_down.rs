// SPDX-License-Identifier: BSD-3-Clause
//! Measures how fast a device deletes its connections: the time of a command that deletes all, less
//! the time of the same command with an empty table.

use super::super::search::{ConnectionTrials, Held, run_command};
use super::TEAR_DOWN;
use results::search::{OneSearch, Outcome, SearchAnswer};
use std::time::{Duration, Instant};

/// How often each time is measured; the shortest counts.
const TIMES: u32 = 3;

/// Measures with this number of connections in the table.
pub(super) fn measure(
    trials: &mut ConnectionTrials<'_>,
    command: &str,
    connections: u32,
) -> anyhow::Result<OneSearch> {
    let mut empty = Duration::MAX;
    for _ in 0..TIMES {
        // The first run empties the table; a later one finds nothing to delete.
        empty = empty.min(time_of(command)?);
    }
    let (mut full, mut open) = (Duration::MAX, u64::MAX);
    for _ in 0..TIMES {
        let Held { result: taken, open: now } =
            trials.while_held(connections, || time_of(command))?;
        (full, open) = (full.min(taken), open.min(now));
    }
    Ok(search(connections, open, [empty, full]))
}

fn time_of(command: &str) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    run_command(command, "--delete-command")?;
    Ok(begun.elapsed())
}

/// Returns the rate, if it can be known. `open` is how many connections were open at both ends.
fn search(connections: u32, open: u64, [empty, full]: [Duration; 2]) -> OneSearch {
    let taken = full.saturating_sub(empty);
    // Starting the command takes a time of its own, which varies.
    let reason = match (open < u64::from(connections), taken > empty / 10) {
        (true, _) => Some(format!("only {open} of {connections} connections were open")),
        (_, false) => Some(format!(
            "deleting {connections} connections took {full:.2?}, and none {empty:.2?}: that is too \
             close; raise --connections"
        )),
        _ => None,
    };
    let rate = f64::from(connections) / taken.as_secs_f64();
    let rate = Some(rate).filter(|_| reason.is_none());
    let answer = SearchAnswer {
        goal: TEAR_DOWN.to_owned(),
        outcome: if reason.is_none() { Outcome::Regular } else { Outcome::TesterLimit },
        reason: reason.unwrap_or_default(),
        lower: rate,
        upper: rate,
        throughput: rate,
        throughput_pps: None,
        latency: None,
        connections: None,
    };
    OneSearch {
        size: None,
        number: 1,
        unit: Some("cps".to_owned()),
        calibration: None,
        answers: vec![answer],
        trials: Vec::new(),
        back_to_back: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_time_that_is_told_apart_gives_a_rate() {
        let answer = |open, empty_ms, full_ms| {
            let times = [empty_ms, full_ms].map(Duration::from_millis);
            search(10_000, open, times).answers.remove(0)
        };
        assert_eq!(answer(10_000, 20, 120).throughput, Some(100_000.0));
        for (open, empty, full, reason) in [
            (10_000, 20, 20, "raise --connections"),
            (10_000, 20, 15, "raise --connections"),
            (10_000, 20, 21, "too close"),
            (9_999, 20, 120, "only 9999 of 10000 connections were open"),
        ] {
            let answer = answer(open, empty, full);
            assert_eq!((answer.throughput, answer.outcome), (None, Outcome::TesterLimit));
            assert!(answer.reason.contains(reason), "{}", answer.reason);
        }
    }
}
