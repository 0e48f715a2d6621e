// SPDX-License-Identifier: BSD-3-Clause
//! How long the flows of a table live without a packet: as their zone says, and less where it is
//! nearly full (pf.conf(5), "adaptive timeouts").
//!
//! A timer may come up early but never late. So where timeouts get shorter, as the table is fuller
//! or somebody says so, the timers of all flows are armed anew, a few records at a time.

use super::FlowTable;
use crate::api::{Change, Config, FlowEvent};
use crate::base::Nanos;
use crate::flow::{Hot, Phase};
use crate::zones::Zones;
use std::sync::Arc;

/// Parts of a timeout.
const WHOLE: u32 = 1 << 10;

/// All timers are armed anew when timeouts have got shorter by so many of them.
const STEP: u32 = WHOLE / 16;

/// Records in one round.
const AT_ONCE: u32 = 16;

/// What decides it.
pub(super) struct Lifetimes {
    zones: Arc<Zones>,
    /// From so many flows on timeouts shrink, and would be 0 with so many.
    adaptive: Option<(u32, u32)>,
    /// What is left of each timeout now, and what it was when timers were last armed anew.
    share: u32,
    share_armed: u32,
    /// The next record whose timer is to be armed anew.
    next: u32,
}

impl Lifetimes {
    pub(super) fn new(capacity: u32, config: &Config, zones: Arc<Zones>) -> Self {
        let part = |percent: u8| (u64::from(capacity) * u64::from(percent) / 100) as u32;
        Self {
            zones,
            adaptive: config.adaptive_percent.map(|(start, end)| (part(start), part(end))),
            share: WHOLE,
            share_armed: WHOLE,
            next: u32::MAX,
        }
    }

    pub(super) fn zones(&self) -> &Zones {
        &self.zones
    }

    /// How long a flow lives.
    pub(super) fn of<const W: usize>(&self, hot: &Hot<W>) -> Nanos {
        self.of_phase(hot, hot.phase())
    }

    /// The same in this phase.
    pub(super) fn of_phase<const W: usize>(&self, hot: &Hot<W>, phase: Phase) -> Nanos {
        let timeout = self.zones.timeout(hot.key.zone(), phase);
        if self.share == WHOLE {
            return timeout;
        }
        (u128::from(timeout) * u128::from(self.share) / u128::from(WHOLE)) as Nanos
    }

    /// There are so many flows.
    fn adapt(&mut self, live: u32) {
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

impl<const W: usize> FlowTable<W> {
    /// Looks at how full the table is, and arms some timers anew if that makes timeouts shorter.
    pub(super) fn adapt(&mut self, now: Nanos) {
        self.lifetimes.adapt(self.live);
        if self.lifetimes.next >= self.fresh {
            return;
        }
        let until = self.fresh.min(self.lifetimes.next + AT_ONCE);
        for record in self.lifetimes.next..until {
            if !self.hot[record as usize].is_free() {
                self.rearm(record, now);
            }
        }
        self.lifetimes.next = until;
    }

    /// Has the timer of a flow come up when its time is over as timeouts are now. False: it does so
    /// as it is.
    fn rearm(&mut self, record: u32, now: Nanos) -> bool {
        let (hot, cold) = self.parts(record);
        let deadline = self.deadline(hot, cold).max(now);
        self.hasten(record, deadline)
    }

    /// What holds in zones from now on.
    pub(crate) fn set_zones(&mut self, zones: Arc<Zones>) {
        self.lifetimes.zones = zones;
    }

    /// Holds the flow in a record, if there is one, against what holds in its zone. Whether its
    /// timer was armed anew; and what became of it, if it has come to another state by that.
    pub(crate) fn review_one(&mut self, record: u32, now: Nanos) -> (bool, Option<FlowEvent>) {
        let hot = &self.hot[record as usize];
        if hot.is_free() {
            return (false, None);
        }
        let (is_judged, before) = (self.judges(hot.key.zone()), hot.phase());
        let hot = &mut self.hot[record as usize];
        hot.judge_anew(is_judged);
        let is_seen = hot.phase().progress() != before.progress();
        if let Some(rules) = self.rules.as_ref().filter(|_| hot.phase() != before) {
            rules.steady(record, hot);
        }
        (self.rearm(record, now), is_seen.then(|| self.event(record, Change::Update)))
    }
}
