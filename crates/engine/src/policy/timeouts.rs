// SPDX-License-Identifier: BSD-3-Clause
//! How long the flows of a table live without a packet: as their zone says, and less where it is
//! nearly full (pf.conf(5), "adaptive timeouts").
//!
//! A timer may come up early but never late. So where timeouts get shorter, as the table is fuller
//! or somebody says so, the timers of all flows are armed anew, a few records at a time.

use super::zones::ZonePolicies;
use crate::api::Config;
use crate::base::Nanos;
use crate::conn::{ConnHot, State};
use std::sync::Arc;

/// Parts of a timeout.
const WHOLE: u32 = 1 << 10;

/// All timers are armed anew when timeouts have got shorter by so many of them.
const STEP: u32 = WHOLE / 16;

/// Records in one round.
pub(crate) const AT_ONCE: u32 = 16;

/// What decides it.
pub(crate) struct AdaptiveTimeouts {
    pub(crate) zones: Arc<ZonePolicies>,
    /// From so many flows on timeouts shrink, and would be 0 with so many.
    adaptive: Option<(u32, u32)>,
    /// What is left of each timeout now, and what it was when timers were last armed anew.
    share: u32,
    share_armed: u32,
    /// The next record whose timer is to be armed anew.
    pub(crate) next: u32,
}

impl AdaptiveTimeouts {
    pub(crate) fn new(capacity: u32, config: &Config, zones: Arc<ZonePolicies>) -> Self {
        let part = |percent: u8| (u64::from(capacity) * u64::from(percent) / 100) as u32;
        Self {
            zones,
            adaptive: config.adaptive_percent.map(|(start, end)| (part(start), part(end))),
            share: WHOLE,
            share_armed: WHOLE,
            next: u32::MAX,
        }
    }

    pub(crate) fn zones(&self) -> &ZonePolicies {
        &self.zones
    }

    /// How long a flow lives.
    #[inline(always)]
    pub(crate) fn of<const W: usize>(&self, hot: &ConnHot<W>) -> Nanos {
        self.of_phase(hot, hot.phase())
    }

    /// The same in this phase.
    #[inline(always)]
    pub(crate) fn of_phase<const W: usize>(&self, hot: &ConnHot<W>, phase: State) -> Nanos {
        let timeout = self.zones.timeout(hot.key.zone(), phase);
        if self.share == WHOLE {
            return timeout;
        }
        (u128::from(timeout) * u128::from(self.share) / u128::from(WHOLE)) as Nanos
    }

    /// There are so many flows.
    pub(crate) fn adapt(&mut self, live: u32) {
        let Some((start, end)) = self.adaptive else { return };
        let above = u64::from(live.saturating_sub(start));
        let left = u64::from(end - start).saturating_sub(above);
        self.share = (u64::from(WHOLE) * left / u64::from((end - start).max(1))) as u32;
        if self.share + STEP <= self.share_armed {
            (self.share_armed, self.next) = (self.share, 0);
        }
        self.share_armed = self.share_armed.max(self.share);
    }
}
