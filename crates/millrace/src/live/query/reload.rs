// SPDX-License-Identifier: BSD-3-Clause
//! Replaces the zone configuration of the workers of a running instance.

use crate::live::commands::queue::{Command, Reply, WalkKind};
use crate::live::query::client::{QueryClient, RunEnding, Walk};
use config::plan::ZoneRules;
use std::sync::{Arc, PoisonError};

impl QueryClient {
    /// Replaces the zone configuration of all workers, one after the other, then reviews the
    /// existing connections. Returns how many of these have an earlier timeout now.
    ///
    /// Concurrent calls run in turn, and each reads its configuration when its turn comes. So the
    /// file that was written last takes effect.
    pub(crate) fn reload<E: From<RunEnding>>(
        &self,
        read: impl FnOnce() -> Result<ZoneRules, E>,
    ) -> Result<u64, E> {
        let _turn = self.reloads.take();
        Ok(self.apply(read()?)?)
    }

    fn apply(&self, rules: ZoneRules) -> Result<u64, RunEnding> {
        for worker in &self.workers {
            self.check()?;
            // The old configuration is freed here, not by a worker.
            match worker.request(|replies| Command::Zones(rules.zones(), replies))? {
                Reply::Zones(old) => drop(old),
                _ => return Err(RunEnding),
            }
        }
        *self.zones.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
        let mut walk = Walk::new(WalkKind::Review);
        while self.run_part(&mut walk, &mut |_| ())? {}
        Ok(walk.matched)
    }
}
