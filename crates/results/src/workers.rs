// SPDX-License-Identifier: BSD-3-Clause
//! Defines the cycles of a worker in results, and prints them.

use crate::units;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};

/// Cycles of a worker of a generator or reflector, until the end of sending; of stateful ends and
/// reflectors, until the end of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerResult {
    /// The cpu that it ran on; null if it may have run on any.
    pub cpu: Option<u32>,
    /// Cycles in which it sent or received something.
    pub busy_cycles: u64,
    /// Cycles in which it found nothing to do, or waited for a port.
    pub idle_cycles: u64,
    /// Cycles in which it had lost its cpu, most likely.
    pub stalled_cycles: u64,
    /// The busy cycles by kind of work. They add up to `busy_cycles`.
    pub stage_cycles: StageCycles,
}

/// Busy cycles by kind of work, from a sample of the turns of the worker's tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageCycles {
    /// Finding out which frames or connections are due.
    pub pace: u64,
    /// Writing frames; of a reflector, turning them round.
    pub build: u64,
    /// Handing frames to the port.
    pub tx: u64,
    /// Fetching frames from the port, and freeing them.
    pub rx: u64,
    /// Verifying and counting frames; of stateful ends, processing them.
    pub verify: u64,
    /// Reports, and all that is none of the other five.
    pub count: u64,
}

impl StageCycles {
    /// Returns the members with their names.
    pub fn named(&self) -> [(&'static str, u64); 6] {
        let Self { pace, build, tx, rx, verify, count } = *self;
        let names = ["pace", "build", "tx", "rx", "verify", "count"];
        let cycles = [pace, build, tx, rx, verify, count];
        std::array::from_fn(|stage| (names[stage], cycles[stage]))
    }
}

impl WorkerResult {
    /// Returns the line for users: the share of busy cycles, and of each kind of work in them.
    /// `None` if the worker has not run.
    pub fn line(&self) -> Option<String> {
        let all = self.busy_cycles + self.idle_cycles + self.stalled_cycles;
        if all == 0 {
            return None;
        }
        let percent = |part: u64, of: u64| units::percent(100.0 * part as f64 / of as f64);
        let cpu = self.cpu.map_or_else(String::new, |cpu| format!(" on cpu {cpu}"));
        let stages = self.stage_cycles.named();
        let stages = stages.iter().filter(|(_, cycles)| *cycles > 0);
        let stage =
            |(name, cycles): &(&str, u64)| format!("{name} {}", percent(*cycles, self.busy_cycles));
        let stages: Vec<_> = stages.map(stage).collect();
        let of_them = if stages.is_empty() { "" } else { "; of that: " };
        let busy = percent(self.busy_cycles, all);
        let stalled = match self.stalled_cycles {
            0 => String::new(),
            cycles => format!(", {} without its cpu", percent(cycles, all)),
        };
        Some(format!("worker{cpu}: {busy} busy{stalled}{of_them}{}", stages.join(", ")))
    }
}

/// Prints a line for each worker that has run.
///
/// # Errors
/// If writing fails.
pub fn print(workers: &[WorkerResult], out: &mut impl Write) -> io::Result<()> {
    workers.iter().filter_map(WorkerResult::line).try_for_each(|line| writeln!(out, "{line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_a_line() {
        let stage_cycles = StageCycles { build: 300, tx: 100, ..StageCycles::default() };
        let worker = WorkerResult {
            cpu: Some(3),
            busy_cycles: 400,
            idle_cycles: 400,
            stalled_cycles: 0,
            stage_cycles,
        };
        let line = worker.line().unwrap();
        assert_eq!(line, "worker on cpu 3: 50.0 % busy; of that: build 75.0 %, tx 25.0 %");
        let idle = WorkerResult { idle_cycles: 7, ..WorkerResult::default() };
        assert_eq!(idle.line().unwrap(), "worker: 0 % busy");
        let stalled = WorkerResult { stalled_cycles: 1, ..idle };
        assert_eq!(stalled.line().unwrap(), "worker: 0 % busy, 12.5 % without its cpu");
        assert_eq!(WorkerResult::default().line(), None);
    }
}
