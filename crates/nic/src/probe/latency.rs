// SPDX-License-Identifier: BSD-3-Clause
//! Measures how long calls take on a table that is nearly empty.

use super::bench::{Bench, Stopped};
use super::chains::AcceptedChain;

/// Number of calls to time.
const SAMPLES: usize = 400;
/// Longest time for all these calls, in microseconds.
const BUDGET_US: u64 = 2_000_000;
/// Shorter calls count as 0: they take the time of the caller, not of the NIC.
const SHORTEST_US: u64 = 10;

/// Times of one kind of call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Times {
    pub(crate) calls: usize,
    pub(crate) average_us: u64,
    pub(crate) median_us: u64,
    pub(crate) p99_us: u64,
    pub(crate) longest_us: u64,
}

impl Times {
    pub(super) fn of(times: &[u64]) -> Self {
        let mut times = times.to_vec();
        times.sort_unstable();
        let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or(0);
        Self {
            calls: times.len(),
            average_us: times.iter().sum::<u64>() / times.len().max(1) as u64,
            median_us: at(50),
            p99_us: at(99),
            longest_us: times.last().copied().unwrap_or(0),
        }
    }

    /// Returns average and longest time for a personality. Leaves out the few calls that waited for
    /// the cpu, and the time to read a rule, which the software NIC needs as well.
    fn facts(&self, times: &[u64], reading_us: u64) -> (u32, u32) {
        let usual: Vec<_> = times.iter().copied().filter(|&us| us <= self.p99_us).collect();
        let average = usual.iter().sum::<u64>() / usual.len().max(1) as u64;
        let average = average.saturating_sub(reading_us);
        if average < SHORTEST_US {
            return (0, 0);
        }
        let longest = self.p99_us.saturating_sub(reading_us);
        let is_steady = longest <= average + average / 2;
        (average as u32, if is_steady { 0 } else { longest as u32 })
    }
}

/// Times calls of `create` and `destroy`, and writes the times into the draft.
pub(super) fn probe(bench: &mut Bench<'_>, base: &AcceptedChain) -> Result<[Times; 2], Stopped> {
    bench.stage("latency")?;
    let question = bench.about(&base.pattern());
    let from = bench.subject.now_us();
    while bench.create_us.len() < SAMPLES && bench.subject.now_us() - from < BUDGET_US {
        bench.step(bench.create_us.len() as u64, SAMPLES as u64);
        if bench.with(&question, |_, _| Ok(()))?.is_err() {
            break;
        }
    }
    let reading_us = Times::of(&bench.validate_us).median_us;
    let (create, destroy) = (Times::of(&bench.create_us), Times::of(&bench.destroy_us));
    let latency = &mut bench.draft.latency;
    (latency.create_us, latency.create_max_us) = create.facts(&bench.create_us, reading_us);
    (latency.destroy_us, latency.destroy_max_us) = destroy.facts(&bench.destroy_us, 0);
    Ok([create, destroy])
}
