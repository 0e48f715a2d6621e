// SPDX-License-Identifier: BSD-3-Clause
//! Multiple Loss Ratio search (draft-ietf-bmwg-mlrsearch-15): what trials say about a load, and
//! which load to measure next. A load is a number in any unit: packets, bits or connections per
//! second, or connections at a time.
//!
//! A goal is a share of losses, and how sure the answer must be. [`Goal::classify`] says whether a
//! load is a lower bound of it, an upper bound, or undecided. [`Search`] chooses trials until the
//! bounds of each goal are close enough, and prefers the conservative answer where they cross.

mod counts;
mod search;

pub use counts::{CALIBRATION_MARGIN, Counts};
pub use search::{Answer, Limits, Next, Outcome, Search};

/// What is searched for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Name in options and reports.
    pub name: &'static str,
    /// Share of packets that may be lost in a trial.
    pub loss_ratio: f64,
    /// Share of the time in which trials may lose more.
    pub exceed_ratio: f64,
    /// Largest distance of the bounds, divided by the upper one.
    pub relative_width: f64,
    /// Length of the first trials, in seconds.
    pub initial_trial: f64,
    /// Length from which on trials count in full, in seconds.
    pub final_trial: f64,
    /// Sum of the lengths of trials that decide about a load, in seconds.
    pub duration_sum: f64,
}

/// Goals by name. `rfc2544` and `tst009` are section 26.1 of RFC 2544 and binary search with loss
/// verification of ETSI GS NFV-TST 009; `ndr` and `pdr` are those of CSIT; `cps` is as the article
/// about Open vSwitch 3.0 measured.
pub const GOALS: [Goal; 7] = [
    Goal::of("ndr", [0.0, 0.5, 0.005], [1.0, 1.0, 21.0]),
    Goal::of("pdr", [0.005, 0.5, 0.005], [1.0, 1.0, 21.0]),
    Goal::of("rfc2544", [0.0, 0.0, 0.005], [1.0, 60.0, 60.0]),
    Goal::of("tst009", [0.0, 0.5, 0.005], [1.0, 60.0, 120.0]),
    Goal::of("cps", [0.0002, 0.0, 0.005], [1.0, 30.0, 30.0]),
    Goal::of("cps-robust", [0.0002, 0.5, 0.01], [1.0, 5.0, 35.0]),
    Goal::of("quick", [0.001, 0.5, 0.02], [0.5, 0.5, 3.5]),
];

/// One measurement at a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// Length in seconds.
    pub duration: f64,
    /// Share of what was to be sent that did not come back.
    pub loss_ratio: f64,
}

/// What trials say about a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The device sustains it.
    Lower,
    /// It does not.
    Upper,
    /// More trials are needed.
    Undecided,
}

/// Seconds of trials at a load, by length and loss.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    full_low: f64,
    full_high: f64,
    short_low: f64,
    short_high: f64,
}

impl Goal {
    const fn of(
        name: &'static str,
        [loss_ratio, exceed_ratio, relative_width]: [f64; 3],
        [initial_trial, final_trial, duration_sum]: [f64; 3],
    ) -> Self {
        Self {
            name,
            loss_ratio,
            exceed_ratio,
            relative_width,
            initial_trial,
            final_trial,
            duration_sum,
        }
    }

    /// Returns the goal with this name.
    pub fn named(name: &str) -> Option<Self> {
        GOALS.into_iter().find(|goal| goal.name == name)
    }

    fn sums(&self, trials: &[Trial]) -> Sums {
        let mut sums = Sums::default();
        for Trial { duration, loss_ratio } in trials {
            let is_full = *duration >= self.final_trial;
            *match (is_full, *loss_ratio > self.loss_ratio) {
                (true, false) => &mut sums.full_low,
                (true, true) => &mut sums.full_high,
                (false, false) => &mut sums.short_low,
                (false, true) => &mut sums.short_high,
            } += duration;
        }
        sums
    }

    /// Says what the trials at one load mean for this goal.
    ///
    /// The load is decided if it would be the same with all further trials good as with all of them
    /// bad. Short trials count only as far as they lost more often than short trials that did not
    /// can make up for.
    pub fn classify(&self, trials: &[Trial]) -> Bound {
        let Sums { full_low, full_high, short_low, short_high } = self.sums(trials);
        // Time with losses that goes with each second without.
        let weight = self.exceed_ratio / (1.0 - self.exceed_ratio);
        let high = full_high + (short_high - short_low * weight).max(0.0);
        let whole = (full_low + high).max(self.duration_sum);
        let allowed = whole * self.exceed_ratio;
        let is_lower_if_rest_is_bad = whole - full_low <= allowed;
        let is_lower_if_rest_is_good = high <= allowed;
        match (is_lower_if_rest_is_bad, is_lower_if_rest_is_good) {
            (true, true) => Bound::Lower,
            (false, false) => Bound::Upper,
            _ => Bound::Undecided,
        }
    }

    /// True if trials make a load an upper bound even without those whose losses may be the
    /// tester's. Each trial comes with the share of packets that was surely lost by the device.
    pub fn is_upper_without_tester(&self, trials: &[(Trial, f64)]) -> bool {
        let is_excused = |trial: &Trial, of_device: f64| {
            trial.loss_ratio > self.loss_ratio && of_device <= self.loss_ratio
        };
        let rest = trials.iter().filter(|(trial, of_device)| !is_excused(trial, *of_device));
        let rest: Vec<Trial> = rest.map(|(trial, _)| *trial).collect();
        self.classify(&rest) == Bound::Upper
    }

    /// Returns what the device forwards of a load that is a lower bound, in the worst of the trials
    /// that the goal demands to be good.
    pub fn conditional_throughput(&self, load: f64, trials: &[Trial]) -> f64 {
        let mut full: Vec<_> =
            trials.iter().filter(|trial| trial.duration >= self.final_trial).collect();
        full.sort_by(|a, b| a.loss_ratio.total_cmp(&b.loss_ratio));
        let sum: f64 = full.iter().map(|trial| trial.duration).sum();
        let mut rest = self.duration_sum.max(sum) * (1.0 - self.exceed_ratio);
        let mut loss = None;
        for trial in full {
            if loss.is_some() && rest <= 0.0 {
                return load * (1.0 - loss.unwrap_or(1.0));
            }
            loss = Some(trial.loss_ratio);
            rest -= trial.duration;
        }
        let loss = if rest > 0.0 { 1.0 } else { loss.unwrap_or(1.0) };
        load * (1.0 - loss)
    }
}

#[cfg(test)]
mod tests;
