// SPDX-License-Identifier: BSD-3-Clause
//! Owns the rule budget of each side: its capacity as far as known, its pace, and the requests in
//! flight.

use crate::api::{OffloadPolicy, RuleResult, Side};
use crate::base::Nanos;

/// Bounds of the payback time, in nanoseconds: the time in which a rule should pay. Between them,
/// it is the time that the NIC takes to install as many rules as it has room for.
const PAYBACK_MIN: Nanos = 100_000_000;

const PAYBACK_MAX: Nanos = 10_000_000_000;

/// Bounds of the install requests in flight. They are as many as the NIC completes in `AHEAD`
/// nanoseconds. At least `AHEAD_MIN` keep the NIC busy; more than `AHEAD_MAX` would leave no
/// choice.
const AHEAD: Nanos = 10_000_000;

const AHEAD_MIN: u64 = 4;

const AHEAD_MAX: u64 = 1024;

/// Time to install a rule, in nanoseconds, until it is measured.
const INTERVAL: Nanos = 100_000;

/// How often the assumed capacity of a side that was full grows, in nanoseconds.
const GROWS_EVERY: Nanos = 1_000_000_000;

/// Budget of one side.
#[derive(Clone, Copy, Debug)]
struct SideBudget {
    /// Rules that the NIC has room for, as far as known.
    room: u32,
    /// Install requests without a result.
    in_flight: u32,
    /// Average time from one rule to the next while requests are in flight, in nanoseconds.
    interval: Nanos,
    /// Average time of a cpu that an installation took, in nanoseconds; 0 before the first one.
    effort: Nanos,
    grew_at: Nanos,
    /// End of the back-off: no request is made before this time.
    not_before: Nanos,
}

/// Rule budgets of both sides, which both tables of a worker share.
#[derive(Clone, Debug)]
pub(crate) struct RuleBudget {
    rules_max: u32,
    is_measured: bool,
    sides: [SideBudget; 2],
}

impl RuleBudget {
    pub(crate) fn new(rules_max: u32, admission: OffloadPolicy) -> Self {
        let budget = SideBudget {
            room: rules_max,
            in_flight: 0,
            interval: INTERVAL,
            effort: 0,
            grew_at: 0,
            not_before: 0,
        };
        let is_measured = matches!(admission, OffloadPolicy::Measured { .. });
        Self { rules_max, is_measured, sides: [budget; 2] }
    }

    /// True if one more rule may be requested while `live` rules are live.
    pub(crate) fn can_request(&self, side: Side, live: u32, now: Nanos) -> bool {
        !self.is_full(side, live) && self.in_flight_max(side) > 0 && !self.is_backing_off(side, now)
    }

    /// True if a side is in its back-off, after trouble.
    pub(crate) fn is_backing_off(&self, side: Side, now: Nanos) -> bool {
        now < self.sides[side as usize].not_before
    }

    /// True if `live` rules take all the room of a side.
    pub(crate) fn is_full(&self, side: Side, live: u32) -> bool {
        live >= self.sides[side as usize].room
    }

    /// Returns how many more rules may be requested now.
    pub(crate) fn in_flight_max(&self, side: Side) -> u32 {
        let budget = &self.sides[side as usize];
        let ahead = (AHEAD / budget.interval.max(1)).clamp(AHEAD_MIN, AHEAD_MAX) as u32;
        ahead.saturating_sub(budget.in_flight)
    }

    /// True if busier connections displace others.
    pub(crate) fn replaces(&self) -> bool {
        self.is_measured
    }

    /// Counts an install request.
    pub(crate) fn on_request(&mut self, side: Side) {
        self.sides[side as usize].in_flight += 1;
    }

    /// Applies the result of an install request; `live` rules are live now.
    pub(crate) fn on_result(&mut self, side: Side, result: RuleResult, now: Nanos, live: u32) {
        let budget = &mut self.sides[side as usize];
        budget.in_flight = budget.in_flight.saturating_sub(1);
        match result {
            RuleResult::Full => {
                budget.room = live;
                budget.grew_at = now;
            }
            RuleResult::Postponed => budget.not_before = now.saturating_add(AHEAD),
            RuleResult::Installed { pace, took } => {
                budget.interval = (7 * budget.interval + u64::from(pace)) / 8;
                let before = if budget.effort == 0 { took.into() } else { budget.effort };
                budget.effort = (7 * before + u64::from(took)) / 8;
            }
            RuleResult::Refused | RuleResult::Removed | RuleResult::Passed(_) => {}
        }
    }

    /// Returns the time of a cpu that it takes to install a rule, in nanoseconds; 0 if not known.
    pub(crate) fn effort(&self, side: Side) -> Nanos {
        self.sides[side as usize].effort
    }

    /// Returns the time in which a rule should pay, in nanoseconds.
    pub(crate) fn payback_time(&self, side: Side) -> Nanos {
        let budget = &self.sides[side as usize];
        let all = budget.interval.saturating_mul(u64::from(budget.room));
        all.clamp(PAYBACK_MIN, PAYBACK_MAX)
    }

    /// Returns how many rules the NIC can have after this time, in nanoseconds, if it begins with
    /// none. A side that has no rule now has no use for any.
    pub(crate) fn attainable(&self, (side, live): (Side, u32), time: Nanos) -> u64 {
        let budget = &self.sides[side as usize];
        let room = if live > 0 { budget.room } else { 0 };
        u64::from(room).min(time / budget.interval.max(1))
    }

    /// Raises the assumed capacity of sides that were full, because the NIC may have room again.
    pub(crate) fn probe_capacity(&mut self, now: Nanos) {
        for budget in &mut self.sides {
            if budget.room < self.rules_max && now >= budget.grew_at.saturating_add(GROWS_EVERY) {
                budget.grew_at = now;
                budget.room = (budget.room + budget.room / 64 + 1).min(self.rules_max);
            }
        }
    }

    /// Returns the rules that a side has room for, as far as known.
    pub(crate) fn capacity(&self, side: Side) -> u32 {
        self.sides[side as usize].room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_nic_is_asked_for_a_little_more_now_and_then() {
        let mut budget = RuleBudget::new(1000, OffloadPolicy::After { packets: 1 });
        assert!(budget.can_request(Side::A, 999, 0) && !budget.can_request(Side::A, 1000, 0));
        budget.on_request(Side::A);
        budget.on_result(Side::A, RuleResult::Full, 5, 500);
        assert!(budget.is_full(Side::A, 500) && !budget.is_full(Side::B, 500));
        budget.probe_capacity(5);
        assert!(!budget.can_request(Side::A, 500, 5));
        budget.probe_capacity(5 + GROWS_EVERY);
        assert_eq!(budget.capacity(Side::A), 508);
        (1..100).for_each(|turn| budget.probe_capacity(5 + (1 + turn) * GROWS_EVERY));
        assert_eq!(budget.capacity(Side::A), 1000);
    }

    #[test]
    fn a_slow_nic_is_not_asked_far_ahead() {
        let mut budget = RuleBudget::new(1 << 20, OffloadPolicy::Measured { least: 8 });
        for _ in 0..100 {
            budget.on_request(Side::A);
            budget.on_result(Side::A, RuleResult::Installed { pace: 11_000_000, took: 100 }, 0, 1);
            budget.on_request(Side::B);
            budget.on_result(Side::B, RuleResult::Installed { pace: 1_000, took: 100 }, 0, 1);
        }
        assert_eq!(budget.in_flight_max(Side::A), AHEAD_MIN as u32);
        assert_eq!(budget.in_flight_max(Side::B), AHEAD_MAX as u32);
        assert_eq!(budget.payback_time(Side::A), PAYBACK_MAX);
        assert_eq!(budget.attainable((Side::A, 1), 60_000_000_000) / 100, 54);
        // No flow of the other side wants a rule, so its room says nothing.
        assert_eq!(budget.attainable((Side::B, 0), 60_000_000_000), 0);
        assert_eq!(budget.attainable((Side::B, 1), 60_000_000_000), 1 << 20);
        assert!(budget.payback_time(Side::B) < 2_000_000_000);
    }

    #[test]
    fn after_trouble_nothing_is_asked_for_at_once() {
        let mut budget = RuleBudget::new(10, OffloadPolicy::After { packets: 1 });
        budget.on_request(Side::B);
        budget.on_result(Side::B, RuleResult::Postponed, 7, 0);
        assert!(!budget.can_request(Side::B, 0, 8) && budget.can_request(Side::A, 0, 8));
        assert!(budget.can_request(Side::B, 0, 7 + AHEAD));
    }
}
