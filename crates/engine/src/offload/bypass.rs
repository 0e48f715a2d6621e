// SPDX-License-Identifier: BSD-3-Clause
//! Directions that the NIC forwards by itself: which, what it has counted, and how they come back.
//!
//! No packet of theirs arrives, so their flows live by what the NIC counts. A flow does not end
//! before its rule is gone and the last count is known, as long as that does not take too long.

use super::candidates::Who;
use super::look::Sight;
use super::rules::{Rules, Watched};
use super::score::Score;
use super::slots::{Rule, Standing};
use super::watch::{Kind, MISSES_MAX, SETTLING};
use crate::api::{Passed, RuleId, Side};
use crate::base::{Nanos, Tick};
use crate::conn::Hot;

/// A direction of which the NIC has counted nothing for so long is quiet.
const QUIET: Nanos = 2_000_000_000;

/// A rule that is not gone by then keeps its flow no longer.
const RECALL_MAX: Nanos = 2_000_000_000;

impl Watched {
    /// How busy a direction is by what the NIC counted.
    pub(super) fn rate_of_bypassed(&self, direction: usize, now: Tick) -> Score {
        let quiet = now.since(self.looked_at[direction]);
        let rate = self.rate[direction];
        if quiet < QUIET { rate } else { rate.min(Score::of(1, quiet)) }
    }
}

impl Rules {
    fn rule_of(&self, record: u32, direction: usize) -> Option<&Rule> {
        let slot = self.slots.get(self.watched[record as usize].slot)?;
        Some(&slot.rules[direction])
    }

    /// Whether the NIC may forward a direction by itself.
    pub(super) fn is_bypassed(&self, record: u32, direction: usize) -> bool {
        self.rule_of(record, direction).is_some_and(Rule::is_forwarding)
    }

    /// Whether a direction that has had so many packets is left to the NIC.
    pub(super) fn is_released<const W: usize>(
        &self,
        (who, side): (Who, Side),
        packets: u64,
        hot: &Hot<W>,
    ) -> bool {
        let is_tried = self.watched[who.record as usize].no_bypass[usize::from(who.direction)];
        let least = self.offload.bypass[side as usize];
        least.is_some_and(|least| packets >= least.into())
            && hot.is_open_udp()
            && !is_tried
            && !self.classes.is_aside(side, Kind::Bypass, self.now)
    }

    /// Whether a direction with marks is to be left to the NIC: its rule makes room for the other.
    pub(super) fn outgrows_marks<const W: usize>(&self, sight: Sight, hot: &Hot<W>) -> bool {
        let Sight { record, direction, packets, .. } = sight;
        let rule = self.rule_of(record, usize::from(direction & 1));
        let is_here = rule.is_some_and(|rule| {
            rule.side == self.side
                && matches!(rule.standing, Standing::Installed | Standing::Effective)
        });
        let who = Who { record, direction: direction & 1 };
        is_here && self.is_released((who, self.side), packets, hot)
    }

    /// A packet arrived of a direction that the NIC is to forward by itself.
    pub(super) fn come_past(&mut self, sight: Sight) {
        let (now, direction) = (Tick::of(self.now), usize::from(sight.direction & 1));
        let watched = &mut self.watched[sight.record as usize];
        let Some(state) = self.slots.get_mut(watched.slot) else { return };
        let rule = &mut state.rules[direction];
        let is_there = matches!(rule.standing, Standing::Installed | Standing::Effective);
        if !is_there || now.since(rule.since) < SETTLING {
            return;
        }
        rule.misses += 1;
        if rule.misses < MISSES_MAX {
            return;
        }
        watched.no_bypass[direction] = true;
        let (slot, side) = (watched.slot, rule.side);
        if rule.standing == Standing::Effective {
            self.stats.lost_effect += 1;
        } else {
            self.stats.ineffective += 1;
            self.classes.had_none(side, Kind::Bypass, self.now);
        }
        self.withdraw(slot, direction);
    }

    /// The record of the flow that a rule forwards, if it lives.
    pub(crate) fn bypassed(&self, rule: RuleId) -> Option<u32> {
        let slot = self.slots.get(self.slots.of_rule(rule)?)?;
        let of_rule = &slot.rules[usize::from(rule.direction & 1)];
        slot.record().filter(|_| of_rule.is_forwarding())
    }

    /// The NIC has forwarded so many more packets of the flow in a record, whose direction has had
    /// `packets` with them.
    pub(crate) fn pass(&mut self, (record, rule): (u32, RuleId), passed: Passed, packets: u64) {
        self.stats.passed.packets += passed.packets;
        self.stats.passed.bytes += passed.bytes;
        let (now, direction) = (Tick::of(self.now), usize::from(rule.direction & 1));
        let watched = &mut self.watched[record as usize];
        let last = std::mem::replace(&mut watched.looked_at[direction], now);
        watched.look[direction] = self.looks.number(packets, record);
        let rate = watched.rate[direction].toward(Score::of(passed.packets, now.since(last)));
        watched.rate[direction] = rate;
        let slot = watched.slot;
        let Some(state) = self.slots.get_mut(slot) else { return };
        let of_rule = &mut state.rules[direction];
        of_rule.passed += passed.packets;
        of_rule.misses = 0;
        if of_rule.standing.is_live() {
            self.weigh(slot, direction, rate);
            self.take_effect(slot, direction, Kind::Bypass);
        }
    }

    /// The time of the flow in a record is over. True if it has to wait until its last packets are
    /// counted: what forwards them goes.
    pub(crate) fn recall(&mut self, record: u32, now: Nanos) -> bool {
        self.now = self.now.max(now);
        let slot = self.watched[record as usize].slot;
        let mut is_waiting = false;
        for direction in 0..2 {
            let Some(rule) = self.rule_of(record, direction).filter(|rule| rule.is_forwarding())
            else {
                continue;
            };
            if rule.standing.is_live() {
                self.withdraw(slot, direction);
                is_waiting = true;
            } else {
                is_waiting |= Tick::of(self.now).since(rule.since) < RECALL_MAX;
            }
        }
        is_waiting
    }

    /// The same for all flows, without waiting.
    pub(crate) fn recall_all(&mut self) {
        for slot in 0..self.slots.used() {
            for direction in 0..2 {
                let rule = self.slots.get(slot).map(|slot| slot.rules[direction]);
                if rule.is_some_and(|rule| rule.is_bypass && rule.standing.is_live()) {
                    self.withdraw(slot, direction);
                }
            }
        }
    }

    /// Rules by which the NIC may forward by itself.
    pub(crate) fn bypasses(&self) -> u32 {
        self.bypasses
    }
}
