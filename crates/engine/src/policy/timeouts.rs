// SPDX-License-Identifier: BSD-3-Clause
//! Computes the timeouts of a table's connections: the zone's, reduced if the table is nearly full
//! (pf.conf(5), "adaptive timeouts").
//!
//! A timer may expire early but never late. So if timeouts become shorter, by load or by
//! configuration, all timers are re-armed, a few records at a time.

use super::zones::ZonePolicies;
use crate::api::Config;
use crate::base::Nanos;
use crate::conn::{ConnHot, State};
use std::sync::Arc;

/// Denominator of the share of a timeout.
const WHOLE: u32 = 1 << 10;

/// Reduction of the share at which all timers are re-armed, in units of 1 / [`WHOLE`].
const STEP: u32 = WHOLE / 16;

/// Number of records that are re-armed in one round.
pub(crate) const AT_ONCE: u32 = 16;

/// Timeouts of one table: policy of the zones, and the share by load.
pub(crate) struct AdaptiveTimeouts {
    pub(crate) zones: Arc<ZonePolicies>,
    /// Number of connections at which timeouts begin to shrink, and at which they would be 0.
    adaptive: Option<(u32, u32)>,
    /// Current share of each timeout, and the share when timers were last re-armed.
    share: u32,
    share_armed: u32,
    /// The next record whose timer is to be re-armed.
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

    /// Returns the timeout of a connection.
    #[inline(always)]
    pub(crate) fn of<const W: usize>(&self, hot: &ConnHot<W>) -> Nanos {
        self.of_state(hot, hot.state_for_timeout())
    }

    /// Returns the timeout of a connection if it were in this state.
    #[inline(always)]
    pub(crate) fn of_state<const W: usize>(&self, hot: &ConnHot<W>, state: State) -> Nanos {
        let timeout = self.zones.timeout(hot.key.zone(), state);
        if self.share == WHOLE {
            return timeout;
        }
        (u128::from(timeout) * u128::from(self.share) / u128::from(WHOLE)) as Nanos
    }

    /// Adapts the share to the number of connections in the table.
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
