// SPDX-License-Identifier: BSD-3-Clause
//! Has the workers of a running bump hold connections to something else: for a thread that serves
//! somebody who has changed his mind.

use super::command_queue::{Command, Reply, WalkKind};
use super::query::{QueryClient, RunEnding, Walk};
use config::plan::ZoneRules;
use std::sync::{Arc, PoisonError};

impl QueryClient {
    /// Has the workers go by these rules from now on, one after the other, and then hold the
    /// connections against them that are there; returns of how many of those timers come up sooner
    /// by it. Who asks for that meanwhile waits for his turn, and reads behind it: what was written
    /// last is what holds.
    pub(crate) fn reload<E: From<RunEnding>>(
        &self,
        read: impl FnOnce() -> Result<ZoneRules, E>,
    ) -> Result<u64, E> {
        let _turn = self.reloads.take();
        Ok(self.go_by(read()?)?)
    }

    fn go_by(&self, rules: ZoneRules) -> Result<u64, RunEnding> {
        for worker in &self.workers {
            self.check()?;
            // What held before is freed here, and not by a worker.
            match worker.ask(|told| Command::Zones(rules.zones(), told))? {
                Reply::Zones(before) => drop(before),
                _ => return Err(RunEnding),
            }
        }
        *self.zones.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
        let mut walk = Walk::new(WalkKind::Review);
        while self.go_on(&mut walk, &mut |_| ())? {}
        Ok(walk.matched)
    }
}
