// SPDX-License-Identifier: BSD-3-Clause
//! Counts frames that are not IP for the rules of the lists that judge them.

use crate::api::{Config, RuleHits, Side};
use crate::base::Nanos;
use std::mem::replace;

/// Which lists judge the frames of this burst that are not IP, and the counters of their rules.
pub(crate) struct FrameAccess {
    /// Side at which the burst arrived, if lists judge its frames.
    pub(crate) side: Option<Side>,
    /// By the counter of a rule; empty without such lists.
    hits: Vec<RuleHits>,
}

impl FrameAccess {
    pub(super) fn new(config: &Config) -> Self {
        let hits = config.access.as_ref().map_or(Vec::new(), |lists| lists.frame_counters());
        Self { side: None, hits }
    }

    /// Replaces the counters, and adds the old ones to those of the same rules: `from_old` has the
    /// new counter of each old rule. Returns the old ones.
    pub(crate) fn replace(&mut self, mut hits: Vec<RuleHits>, from_old: &[u32]) -> Vec<RuleHits> {
        for (old, rule) in self.hits.iter().zip(from_old) {
            if let Some(new) = hits.get_mut(*rule as usize) {
                new.merge(*old);
            }
        }
        replace(&mut self.hits, hits)
    }

    /// Counts a frame for a rule.
    pub(crate) fn count(&mut self, rule: u32, bytes: u64, now: Nanos) {
        if let Some(hits) = self.hits.get_mut(rule as usize) {
            hits.merge(RuleHits { packets: 1, bytes, last: now });
        }
    }

    /// Returns the counters.
    pub(crate) fn hits(&self) -> &[RuleHits] {
        &self.hits
    }
}
