// SPDX-License-Identifier: BSD-3-Clause
//! Chooses by measurement whether the worker uses marks.
//!
//! A marked packet may be processed by its mark or, always rightly, in software. So twice a second
//! some hundred bursts are processed in the way that is in use, and then as many in the other way.
//! The way that costs fewer cycles a packet wins, if it is clearly better twice in a row. Marks
//! that have lost for some seconds lose their rules too. From time to time, or when the cost of a
//! packet changes, they get another chance.

use crate::api::{MarkChoiceStatus, MarkUse};
use crate::base::Nanos;

/// Time from one trial to the next, in nanoseconds.
const PERIOD: Nanos = 500_000_000;

/// Bursts of one way that a trial measures.
const MEASURED: usize = 256;

/// Bursts of the way in use, and of the other way, before they are measured: their data has to come
/// into the caches. The worker may have been without its cpu before.
const WARM_UP: [usize; 2] = [1024, 256];

/// Bursts without marks that a trial waits through.
const WITHOUT_MARKS_MAX: usize = 4 * MEASURED;

/// A way must be better by this part, in percent, to replace the one in use.
const CLEARLY: u64 = 2;

/// Trials in a row that a way must win.
const WINS: u32 = 2;

/// How long marks that are not used keep their rules, in nanoseconds.
const KEPT: Nanos = 1_000_000_000;

/// Marks that are not used keep their rules while the number of rules grows by this part in a
/// period, in percent: their share may still be too small to pay.
const GROWTH: u32 = 2;

/// Trials without rules before the cost in software is noted: the rules have to go first.
const SETTLING: u32 = 4;

/// First and longest time without rules, in nanoseconds. The time doubles with each vain attempt:
/// while rules are installed, packets cost more.
const PAUSE: Nanos = 60_000_000_000;
const PAUSE_MAX: Nanos = 300_000_000_000;

/// If the cost of a packet in software changes by this part, in percent, in so many trials in a
/// row, marks are tried again.
const CHANGE: u64 = 25;
const CHANGES: u32 = 2;

/// After such an attempt in vain, changes do not count for this time, in nanoseconds. It doubles
/// with each, since the machine itself may be unsteady.
const UNSTEADY: Nanos = 10_000_000_000;

/// Trials in a row without rules after which directions are evaluated seldom: in one of so many
/// windows of 2^20 ns. Then few connections live long enough for a rule.
const VAIN: u32 = 4;
const WINDOWS: u64 = 8;

/// What a burst is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BurstRole {
    /// It is processed in the way that is in use, and not measured.
    Usual,
    /// It is processed in this way, and not measured.
    WarmUp(MarkUse),
    /// It is processed in this way, and its cycles are to be [noted](MarkChoice::note).
    Measured(MarkUse),
}

/// Costs of bursts of one way, in sixteenths of a cycle per packet.
#[derive(Clone, Debug)]
struct Costs {
    of_bursts: [u32; MEASURED],
    len: usize,
}

impl Costs {
    const NONE: Costs = Costs { of_bursts: [0; MEASURED], len: 0 };

    fn add(&mut self, cycles: u64, packets: usize) {
        if let Some(cost) = self.of_bursts.get_mut(self.len) {
            *cost = (cycles * 16 / packets.max(1) as u64).min(u32::MAX.into()) as u32;
            self.len += 1;
        }
    }

    fn is_full(&self) -> bool {
        self.len == MEASURED
    }

    /// Returns the median, and forgets all. Interrupts do not change it.
    fn take_median(&mut self) -> u64 {
        let len = std::mem::take(&mut self.len);
        if len == 0 {
            return 0;
        }
        let (_, median, _) = self.of_bursts[..len].select_nth_unstable(len / 2);
        u64::from(*median)
    }
}

/// The choice of one worker.
#[derive(Clone, Debug)]
pub(crate) struct MarkChoice {
    in_use: MarkUse,
    /// Costs of the way in use, and of the other one, in the trial that goes on.
    costs: [Costs; 2],
    /// Bursts of warm-up left, of the way in use and of the other one.
    warm_up: [usize; 2],
    /// Bursts without marks in the trial so far.
    without_marks: usize,
    is_trial: bool,
    /// When the next trial begins, the time without rules ends, and marks lose their rules.
    next_trial: Nanos,
    deadline: Nanos,
    pause: Nanos,
    /// Trials in a row that the way not in use has won.
    wins: u32,
    /// Rules now, and at the last trial.
    rules: [u32; 2],
    /// Trials until the cost in software is noted, and that cost.
    settling: u32,
    cost_before: u64,
    /// Trials in a row in which that cost was another one.
    changes: u32,
    /// When changes count again, and for how long they do not after the next attempt.
    heeds_changes_at: Nanos,
    unsteady: Nanos,
    /// Trials in a row without rules, while rules may be installed.
    vain: u32,
    /// Results of the last trial, in sixteenths of a cycle per packet; 0 if there was none.
    last: [u64; 2],
    switches: u64,
}

impl MarkChoice {
    pub(crate) fn new() -> Self {
        Self {
            in_use: MarkUse::Used,
            costs: [Costs::NONE; 2],
            warm_up: [0; 2],
            without_marks: 0,
            is_trial: false,
            next_trial: PERIOD,
            deadline: 0,
            pause: PAUSE,
            wins: 0,
            rules: [0; 2],
            settling: 0,
            cost_before: 0,
            changes: 0,
            heeds_changes_at: 0,
            unsteady: UNSTEADY,
            vain: 0,
            last: [0; 2],
            switches: 0,
        }
    }

    /// Notes the number of rules that the NIC has or is to have.
    pub(crate) fn note_rules(&mut self, rules: u32) {
        self.rules[0] = rules;
        if rules > 0 {
            self.vain = 0;
        }
    }

    /// Returns how a burst is processed that is not part of a trial. Without rules, no packet has a
    /// mark.
    #[inline(always)]
    pub(crate) fn way(&self) -> MarkUse {
        if self.rules[0] == 0 { MarkUse::NoRules } else { self.in_use }
    }

    /// True if directions are evaluated now.
    pub(crate) fn evaluates(&self, now: Nanos) -> bool {
        self.vain < VAIN || (now >> 20) % WINDOWS == 0
    }

    /// Returns which way is in use.
    #[inline(always)]
    pub(crate) fn in_use(&self) -> MarkUse {
        self.in_use
    }

    /// Returns the state for users.
    pub(crate) fn status(&self) -> MarkChoiceStatus {
        let [by_mark, in_software] = self.last.map(|cost| cost as f64 / 16.0);
        MarkChoiceStatus { in_use: self.in_use, by_mark, in_software, switches: self.switches }
    }

    /// True if the next burst may be part of a trial.
    #[inline(always)]
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        self.is_trial || now >= self.next_trial
    }

    /// Returns the role of a burst. `has_marks`: it has a packet with a mark.
    pub(crate) fn role(&mut self, now: Nanos, has_marks: bool) -> BurstRole {
        if !self.is_trial {
            self.is_trial = true;
            (self.warm_up, self.without_marks) = (WARM_UP, 0);
            (self.costs[0].len, self.costs[1].len) = (0, 0);
        }
        if self.in_use == MarkUse::NoRules {
            self.check_pause(now);
            return match self.is_warming_up(0) {
                true => BurstRole::Usual,
                false => BurstRole::Measured(self.in_use),
            };
        }
        if !has_marks {
            self.without_marks += 1;
            if self.without_marks == WITHOUT_MARKS_MAX {
                self.vain += u32::from(self.rules[0] == 0);
                self.end_trial(now);
                self.give_up_if_overdue(now);
            }
            return BurstRole::Usual;
        }
        if self.is_warming_up(0) {
            return BurstRole::Usual;
        }
        if !self.costs[0].is_full() {
            return BurstRole::Measured(self.in_use);
        }
        let other = if self.in_use == MarkUse::Used { MarkUse::Ignored } else { MarkUse::Used };
        match self.is_warming_up(1) {
            true => BurstRole::WarmUp(other),
            false => BurstRole::Measured(other),
        }
    }

    /// True if a burst still warms up the caches for the way in use (0) or the other one (1).
    fn is_warming_up(&mut self, way: usize) -> bool {
        let left = &mut self.warm_up[way];
        let is_left = *left > 0;
        *left -= usize::from(is_left);
        is_left
    }

    /// Notes the cycles of a burst that was to be measured in this way.
    pub(crate) fn note(&mut self, way: MarkUse, (cycles, packets): (u64, usize), now: Nanos) {
        let costs = &mut self.costs[usize::from(way != self.in_use)];
        costs.add(cycles, packets);
        let is_over = costs.is_full() && (way != self.in_use || way == MarkUse::NoRules);
        if is_over {
            self.decide(now);
        }
    }

    /// Ends a trial.
    fn decide(&mut self, now: Nanos) {
        self.end_trial(now);
        let [of_used, of_other] = [0, 1].map(|way| self.costs[way].take_median());
        match self.in_use {
            MarkUse::Used => self.last = [of_used, of_other],
            MarkUse::Ignored => self.last = [of_other, of_used],
            MarkUse::NoRules => return self.compare_with_before(of_used, now),
        }
        let is_clear = of_other * (100 + CLEARLY) < of_used * 100;
        self.wins = if is_clear { self.wins + 1 } else { 0 };
        if self.wins == WINS {
            let next = if self.in_use == MarkUse::Used { MarkUse::Ignored } else { MarkUse::Used };
            self.enter(next);
            self.deadline = now.saturating_add(KEPT);
            if next == MarkUse::Used {
                (self.pause, self.unsteady) = (PAUSE, UNSTEADY);
            }
        } else {
            self.give_up_if_overdue(now);
        }
    }

    fn end_trial(&mut self, now: Nanos) {
        (self.is_trial, self.next_trial) = (false, now.saturating_add(PERIOD));
    }

    /// Takes the rules from marks that have not been used for some time.
    fn give_up_if_overdue(&mut self, now: Nanos) {
        let [rules, before] = self.rules;
        self.rules[1] = rules;
        if rules > before + before * GROWTH / 100 {
            self.deadline = now.saturating_add(KEPT);
        }
        if self.in_use == MarkUse::Ignored && self.wins == 0 && now >= self.deadline {
            self.enter(MarkUse::NoRules);
            self.deadline = now.saturating_add(self.pause);
            self.pause = (2 * self.pause).min(PAUSE_MAX);
            (self.settling, self.cost_before, self.changes) = (SETTLING, 0, 0);
        }
    }

    fn enter(&mut self, next: MarkUse) {
        (self.in_use, self.wins) = (next, 0);
        self.switches += 1;
    }

    /// Tries marks again if packets cost clearly more or less than when their rules were removed.
    fn compare_with_before(&mut self, cost: u64, now: Nanos) {
        let before = self.cost_before;
        if self.settling > 0 {
            self.settling -= 1;
        } else if before == 0 {
            self.cost_before = cost;
        } else if cost.abs_diff(before) * 100 <= before * CHANGE {
            self.changes = 0;
        } else {
            self.changes += 1;
            if self.changes >= CHANGES && now >= self.heeds_changes_at {
                self.heeds_changes_at = now.saturating_add(self.unsteady);
                self.unsteady = (2 * self.unsteady).min(PAUSE_MAX);
                self.try_again(now);
            }
        }
    }

    fn check_pause(&mut self, now: Nanos) {
        if now >= self.deadline {
            self.try_again(now);
        }
    }

    /// Lets rules be installed, whose marks are ignored until they win.
    fn try_again(&mut self, now: Nanos) {
        self.enter(MarkUse::Ignored);
        self.deadline = now.saturating_add(KEPT);
        self.end_trial(now);
    }
}

#[cfg(test)]
mod tests;
