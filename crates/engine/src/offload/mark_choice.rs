// SPDX-License-Identifier: BSD-3-Clause
//! Chooses by measurement whether the worker uses marks.
//!
//! A marked packet may be processed by its mark or, always rightly, in software. So twice a second
//! some hundred bursts are processed in the way that is in use, and then as many in the other way.
//! Marks are used while they save some part of the cycles of a packet, which also has to pay for
//! the work on their rules. Marks that have lost for some seconds lose their rules too. From time
//! to time, or when the load changes, they get another chance.

mod pause;
mod trial;

use crate::api::{MarkChoiceStatus, MarkUse};
use crate::base::Nanos;
use pause::{LoadSeen, Pause};
pub(crate) use trial::BurstCounts;
use trial::{Trial, TrialStep};

/// Time from one trial to the next, in nanoseconds.
const PERIOD: Nanos = 500_000_000;

/// After a gap of this length between two bursts, in nanoseconds, no burst is part of a trial for
/// some time: the worker was without its cpu or without packets, and its data has to come into the
/// caches.
const AWAY: Nanos = 5_000_000;
const REFILL: Nanos = 20_000_000;

/// Marks come into use if they save more than this part of the cycles, in percent, and are used
/// until they save less than the other part.
const TO_BEGIN: u64 = 5;
const TO_STAY: u64 = 2;

/// Ways cost about as much if one costs less than this part of the other, in percent.
const CLOSE: u64 = 160;

/// Trials in a row that a way must win.
const WINS: u32 = 2;

/// How long marks that are not used keep their rules, in nanoseconds.
const KEPT: Nanos = 1_000_000_000;

/// Marks that are not used keep their rules while the number of rules grows by this part in a
/// period, in percent, if in the end enough packets may have a mark: at least [`USEFUL`] of a
/// thousand. If fewer have one, marks lose: bursts of packets with and without a mark cost more.
const GROWTH: u32 = 2;
const USEFUL: u64 = 500;

/// Trials in a row without rules, after which few connections seem to live long enough for a rule.
const VAIN: u32 = 4;

/// Then, and while marks are ignored, directions are evaluated in one of so many windows of 2^20 ns
/// only, since each evaluation costs cache misses.
const WINDOWS_IN_VAIN: u64 = 8;
const WINDOWS_IGNORED: u64 = 4;

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

/// Rules and connections of a worker.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RuleCounts {
    /// Rules that the NIC has or is to have.
    pub(crate) rules: u32,
    /// Rules that it can have after the [time](MarkChoice::horizon) that an attempt may take.
    pub(crate) attainable: u64,
    pub(crate) connections: u64,
}

/// The choice of one worker.
#[derive(Clone, Debug)]
pub(crate) struct MarkChoice {
    in_use: MarkUse,
    trial: Trial,
    is_trial: bool,
    /// When the last burst came, and when the caches are filled again after a gap.
    last_burst: Nanos,
    refilled_at: Nanos,
    /// When the next trial begins, and when marks that are not used lose their rules.
    next_trial: Nanos,
    deadline: Nanos,
    pause: Pause,
    /// Trials in a row that the way not in use has won.
    wins: u32,
    counts: RuleCounts,
    /// Rules at the last trial.
    rules_before: u32,
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
            trial: Trial::NONE,
            is_trial: false,
            last_burst: 0,
            refilled_at: 0,
            next_trial: PERIOD,
            deadline: 0,
            pause: Pause::NONE,
            wins: 0,
            counts: RuleCounts::default(),
            rules_before: 0,
            vain: 0,
            last: [0; 2],
            switches: 0,
        }
    }

    /// Notes the numbers of rules and connections.
    pub(crate) fn note_counts(&mut self, counts: RuleCounts) {
        self.counts = counts;
        if counts.rules > 0 {
            self.vain = 0;
        }
    }

    /// Returns the time that an attempt may take, in nanoseconds. Connections that have lived for
    /// the time without rules before it are expected to live as long again.
    pub(crate) fn horizon(&self) -> Nanos {
        self.pause.length()
    }

    /// Returns how a burst is processed that is not part of a trial. Without rules, no packet has a
    /// mark.
    #[inline(always)]
    pub(crate) fn way(&self) -> MarkUse {
        if self.counts.rules == 0 { MarkUse::NoRules } else { self.in_use }
    }

    /// True if directions are evaluated now.
    pub(crate) fn evaluates(&self, now: Nanos) -> bool {
        let windows = match self.in_use {
            _ if self.vain >= VAIN => WINDOWS_IN_VAIN,
            MarkUse::Ignored => WINDOWS_IGNORED,
            MarkUse::Used | MarkUse::NoRules => 1,
        };
        (now >> 20) % windows == 0
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

    /// Notes a burst. True if it may be part of a trial.
    #[inline(always)]
    pub(crate) fn is_due(&mut self, now: Nanos) -> bool {
        let before = std::mem::replace(&mut self.last_burst, now);
        if now.saturating_sub(before) > AWAY {
            self.refilled_at = now.saturating_add(REFILL);
        }
        (self.is_trial || now >= self.next_trial) && now >= self.refilled_at
    }

    /// Returns the role of a burst.
    pub(crate) fn role(&mut self, now: Nanos, counts: BurstCounts) -> BurstRole {
        if !self.is_trial {
            self.is_trial = true;
            self.trial.begin(self.are_close());
        }
        let (this, other) = match self.in_use {
            MarkUse::Used => (MarkUse::Used, MarkUse::Ignored),
            this => (this, MarkUse::Used),
        };
        let step = if this == MarkUse::NoRules {
            if self.pause.is_over(now) {
                self.try_again(now);
            }
            self.trial.next_alone()
        } else {
            self.trial.next(counts, now)
        };
        match step {
            TrialStep::WarmUp => BurstRole::Usual,
            TrialStep::Measure => BurstRole::Measured(this),
            TrialStep::WarmUpOther => BurstRole::WarmUp(other),
            TrialStep::MeasureOther => BurstRole::Measured(other),
            TrialStep::GiveUp => {
                self.end_without_marks(now);
                BurstRole::Usual
            }
        }
    }

    /// Notes the cycles of a burst that was to be measured in this way.
    pub(crate) fn note(&mut self, way: MarkUse, measured: (u64, usize), now: Nanos) {
        let is_other = way != self.in_use;
        let is_full = self.trial.add(usize::from(is_other), measured);
        if is_full && (is_other || way == MarkUse::NoRules) {
            self.decide(now);
        }
    }

    /// True if both ways cost about as much in the last trial.
    fn are_close(&self) -> bool {
        let [by_mark, in_software] = self.last;
        by_mark.max(in_software) * 100 < by_mark.min(in_software) * CLOSE
    }

    /// Ends a trial.
    fn decide(&mut self, now: Nanos) {
        let [of_this, of_other] = self.trial.take_medians();
        let (next, is_better) = match self.in_use {
            MarkUse::Used => {
                self.last = [of_this, of_other];
                (MarkUse::Ignored, of_this * (100 + TO_STAY) > of_other * 100)
            }
            MarkUse::Ignored => {
                self.last = [of_other, of_this];
                (MarkUse::Used, of_other * (100 + TO_BEGIN) < of_this * 100)
            }
            MarkUse::NoRules => {
                let load = LoadSeen { cost: of_this, connections: self.counts.connections };
                if self.pause.note(load, now) {
                    self.try_again(now);
                }
                return self.end_trial(now);
            }
        };
        self.count_win(next, is_better, now);
        self.end_trial(now);
    }

    /// Ends a trial in which hardly any packet had a mark.
    fn end_without_marks(&mut self, now: Nanos) {
        self.vain += u32::from(self.counts.rules == 0);
        match self.in_use {
            MarkUse::Used => {
                let is_useless = self.counts.rules > 0 && !self.may_be_useful();
                self.count_win(MarkUse::Ignored, is_useless, now);
            }
            MarkUse::Ignored | MarkUse::NoRules => self.give_up_if_overdue(now),
        }
        self.end_trial(now);
    }

    /// Counts a trial that the way `next` has won, if `is_better`. Changes to it after some.
    fn count_win(&mut self, next: MarkUse, is_better: bool, now: Nanos) {
        self.wins = if is_better { self.wins + 1 } else { 0 };
        if self.wins == WINS {
            self.enter(next);
            self.deadline = now.saturating_add(KEPT);
            if next == MarkUse::Used {
                self.pause.reset();
            }
        } else {
            self.give_up_if_overdue(now);
        }
    }

    fn end_trial(&mut self, now: Nanos) {
        (self.is_trial, self.next_trial) = (false, now.saturating_add(PERIOD));
        self.rules_before = self.counts.rules;
    }

    /// Takes the rules from marks that have not been used for some time.
    fn give_up_if_overdue(&mut self, now: Nanos) {
        let (rules, before) = (self.counts.rules, self.rules_before);
        if rules > before + before * GROWTH / 100 && self.may_be_useful() {
            self.deadline = now.saturating_add(KEPT);
        }
        if self.in_use == MarkUse::Ignored && self.wins == 0 && now >= self.deadline {
            self.enter(MarkUse::NoRules);
            self.pause.begin(now);
        }
    }

    /// True if enough packets may have a mark once all rules are installed that can be. The busiest
    /// directions get their rules first, so each further rule marks fewer packets. Rules that are
    /// newer than the last trial may not have marked a packet yet, and do not count.
    fn may_be_useful(&self) -> bool {
        let RuleCounts { rules, attainable, .. } = self.counts;
        let rules = u64::from(rules.min(self.rules_before));
        self.trial.marked_permille() * attainable >= USEFUL * rules
    }

    fn enter(&mut self, next: MarkUse) {
        (self.in_use, self.wins) = (next, 0);
        self.switches += 1;
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
