// SPDX-License-Identifier: BSD-3-Clause
//! Calls connections back from the NICs before access lists change, so that no packet passes by the
//! old lists once the new ones are in force.

use crate::live::commands::queue::{Command, Reply};
use crate::live::query::client::{QueryClient, RunEnding, WorkerHandle};
use std::time::{Duration, Instant};

/// Time between two questions to a worker.
const PAUSE: Duration = Duration::from_micros(500);

/// What became of the rules by which NICs forwarded packets by themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recalled {
    /// Rules that there were.
    pub(crate) rules: u64,
    /// Rules that were left when the lists changed.
    pub(crate) left: u64,
    /// Time from the first question until no rule was left, or the longest time was over.
    pub(crate) time: Duration,
}

impl QueryClient {
    /// Makes these workers take all connections back from their NICs. Returns when they have, or
    /// after `longest`.
    pub(super) fn recall<'a>(
        &self,
        workers: impl Iterator<Item = &'a WorkerHandle>,
        longest: Duration,
    ) -> Result<Recalled, RunEnding> {
        let began = Instant::now();
        let mut recalled = Recalled::default();
        let mut waiting: Vec<_> = workers.collect();
        loop {
            let is_first = recalled.rules == 0;
            recalled.left = 0;
            let mut still = Vec::new();
            for worker in waiting {
                let Reply::Bypasses(left) = worker.request(Command::Recall)? else {
                    return Err(RunEnding);
                };
                recalled.left += u64::from(left);
                still.extend((left > 0).then_some(worker));
            }
            if is_first {
                recalled.rules = recalled.left;
            }
            recalled.time = began.elapsed();
            if still.is_empty() || recalled.time >= longest {
                return Ok(recalled);
            }
            waiting = still;
            self.check()?;
            std::thread::sleep(PAUSE);
        }
    }
}
