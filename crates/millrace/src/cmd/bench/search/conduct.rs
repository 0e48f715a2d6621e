// SPDX-License-Identifier: BSD-3-Clause
//! Conducts one search: makes the trials that the search asks for, and says what was found.

use super::goals::NamedGoal;
use super::measurement::{Measurement, Tester};
use results::search::{
    Calibration, LatencyMax, OneSearch, Outcome, SearchAnswer, SearchTrial, TrialKind, Verdict,
    load,
};
use results::units;
use search::mlr::{self, Answer, Bound, CALIBRATION_MARGIN, Goal, Limits, Next, Search, Trial};

/// What is searched for.
#[derive(Clone, Copy)]
pub(in super::super) struct Plan<'a> {
    pub(in super::super) goals: &'a [NamedGoal],
    /// Limits, of which the duration includes the preparation of trials.
    pub(in super::super) limits: Limits,
    /// Name of the unit of loads.
    pub(in super::super) unit: &'a str,
    pub(in super::super) latency_max: Option<&'a LatencyMax>,
    /// Seconds of the trial before the search; 0 for none.
    pub(in super::super) warm_up_s: f64,
}

/// How often a trial is made again.
const REPETITIONS: u32 = 4;

/// Prints the progress of a search.
pub(in super::super) type Progress<'a> = &'a dyn Fn(&str);

/// How a search was ended.
enum End {
    /// By itself.
    Complete,
    TimeOver,
    /// By a signal, or a trial that failed.
    Broken(anyhow::Error),
}

/// A search, and the error that has ended it early.
pub(in super::super) struct Found {
    pub(in super::super) search: OneSearch,
    pub(in super::super) error: Option<anyhow::Error>,
}

/// A trial with what the search takes of it.
struct Made {
    shown: SearchTrial,
    trial: Trial,
    loss_ratio_of_device: f64,
}

struct Conductor<'a> {
    plan: Plan<'a>,
    tester: &'a mut dyn Tester,
    search: Search,
    made: Vec<Made>,
    elapsed_s: f64,
    /// Load from which on trials are not made again: there it was in vain.
    in_vain_from: f64,
}

/// Searches. An error of a trial ends the search; what was found before is kept.
pub(in super::super) fn conduct(
    plan: Plan,
    tester: &mut dyn Tester,
    calibration: Option<Calibration>,
    progress: Progress,
) -> Found {
    let goals: Vec<Goal> = plan.goals.iter().map(|named| named.goal).collect();
    let search = Search::new(plan.limits, &goals);
    let mut conductor = Conductor {
        plan,
        tester,
        search,
        made: Vec::new(),
        elapsed_s: 0.0,
        in_vain_from: f64::INFINITY,
    };
    let end = conductor.run(progress);
    let answers = conductor.search.answers().into_iter().zip(plan.goals);
    let answers = answers
        .map(|(answer, named)| conductor.answer(&answer, &named.name, &end, calibration.as_ref()));
    let answers = answers.collect();
    let trials = conductor.made.into_iter().map(|made| made.shown).collect();
    let search = OneSearch {
        size: None,
        number: 1,
        unit: None,
        calibration,
        answers,
        trials,
        back_to_back: None,
    };
    let error = match end {
        End::Broken(error) => Some(error),
        End::Complete | End::TimeOver => None,
    };
    Found { search, error }
}

impl Conductor<'_> {
    fn run(&mut self, progress: Progress) -> End {
        let Limits { max_load, duration_max, .. } = self.plan.limits;
        if self.plan.warm_up_s > 0.0 {
            progress("warm-up at the largest load; does not count");
            if let Err(error) = self.make(max_load, self.plan.warm_up_s) {
                return End::Broken(error);
            }
            self.mark_last(TrialKind::WarmUp);
        }
        loop {
            // The search knows the length of trials, but not of their preparation.
            if self.elapsed_s >= duration_max {
                return End::TimeOver;
            }
            let Next::Trial { load, duration } = self.search.choose() else {
                return End::Complete;
            };
            if let Err(error) = self.measure(load, duration, progress) {
                return End::Broken(error);
            }
        }
    }

    /// Makes a trial that counts. If all its losses may be due to a delay of the tester, it is made
    /// again, at most [`REPETITIONS`] times. If that does not help, trials at this load and above
    /// are not made again until one of them is good: the tester may be too slow.
    fn measure(&mut self, load: f64, seconds: f64, progress: Progress) -> anyhow::Result<()> {
        let mut left = if load < self.in_vain_from { REPETITIONS } else { 0 };
        loop {
            let measured = self.make(load, seconds)?;
            let (trial, of_device) = measured.trial(seconds, self.plan.latency_max);
            let is_excused =
                |goal: &Goal| trial.loss_ratio > goal.loss_ratio && of_device <= goal.loss_ratio;
            let is_excused = self.plan.goals.iter().any(|named| is_excused(&named.goal));
            let is_doubtful = is_excused && measured.is_disturbed();
            if left == 0 || !is_doubtful {
                self.in_vain_from = match (is_doubtful, load >= self.in_vain_from) {
                    (true, false) => load,
                    (false, true) => f64::INFINITY,
                    _ => self.in_vain_from,
                };
                self.count_last(load, trial);
                progress(&self.line(load, seconds, &measured));
                return Ok(());
            }
            left -= 1;
            self.mark_last(TrialKind::Repeated);
            progress(&format!("made again: {}", self.line(load, seconds, &measured)));
        }
    }

    fn make(&mut self, load: f64, seconds: f64) -> anyhow::Result<Measurement> {
        let measured = self.tester.measure(load, seconds)?;
        let (trial, loss_ratio_of_device) = measured.trial(seconds, self.plan.latency_max);
        let shown = measured.shown((load, self.elapsed_s), (trial, loss_ratio_of_device));
        self.elapsed_s += measured.whole_s;
        self.made.push(Made { shown, trial, loss_ratio_of_device });
        Ok(measured)
    }

    fn mark_last(&mut self, kind: TrialKind) {
        self.made.last_mut().into_iter().for_each(|made| made.shown.kind = kind);
    }

    /// Gives the last trial to the search.
    fn count_last(&mut self, load: f64, trial: Trial) {
        self.search.note(load, trial);
        let at_load: Vec<Trial> = self.at(load).map(|made| made.trial).collect();
        let verdict = |named: &NamedGoal| match named.goal.classify(&at_load) {
            Bound::Lower => Verdict::Lower,
            Bound::Upper => Verdict::Upper,
            Bound::Undecided => Verdict::Undecided,
        };
        let verdicts = self.plan.goals.iter().map(verdict).collect();
        if let Some(made) = self.made.last_mut() {
            made.shown.verdicts = verdicts;
        }
    }

    /// Returns the trials at a load that count.
    fn at(&self, load: f64) -> impl DoubleEndedIterator<Item = &Made> {
        let is_counted = |made: &&Made| made.shown.kind == TrialKind::Counted;
        self.made.iter().filter(is_counted).filter(move |made| made.shown.load == load)
    }

    /// Describes a trial, and the bounds that are known now.
    fn line(&self, at: f64, seconds: f64, measured: &Measurement) -> String {
        let unit = self.plan.unit;
        let of = |count: u64| {
            let intended = measured.counts.intended.max(1);
            units::percent(100.0 * count as f64 / intended as f64)
        };
        let shown = |bound: Option<f64>| bound.map_or("?".to_owned(), |bound| load(bound, unit));
        let bounds = self.search.answers().into_iter().zip(self.plan.goals).map(|(it, named)| {
            format!("{} {} to {}", named.name, shown(it.lower), shown(it.upper))
        });
        let bounds: Vec<String> = bounds.collect();
        let made = self.made.last().filter(|made| made.trial.loss_ratio > 0.0);
        let reasons = made.map(|made| made.shown.tester.join("; ")).filter(|it| !it.is_empty());
        let tester = reasons.map_or(String::new(), |reasons| format!(" (tester: {reasons})"));
        let is_late = self.plan.latency_max.is_some_and(|limit| measured.is_late(limit));
        let late = if is_late { ", latency above its limit" } else { "" };
        let left = (self.plan.limits.duration_max - self.elapsed_s).max(0.0);
        format!(
            "{} for {seconds:.2} s: lost {}, unsent {}{late}{tester}; {}; at most {left:.0} s left",
            load(at, unit),
            of(measured.counts.lost()),
            of(measured.counts.unsent()),
            bounds.join(", ")
        )
    }

    fn answer(
        &self,
        answer: &Answer,
        name: &str,
        end: &End,
        calibration: Option<&Calibration>,
    ) -> SearchAnswer {
        let (outcome, reason) = self.outcome(answer, end, calibration);
        let is_regular = outcome == Outcome::Regular;
        let throughput = answer.conditional_throughput.filter(|_| is_regular);
        let final_trial = answer.goal.final_trial;
        let at_lower = answer.lower.into_iter().flat_map(|lower| self.at(lower));
        let mut whole = at_lower.filter(|made| made.shown.duration_s >= final_trial);
        let last = whole.next_back().map(|made| &made.shown);
        SearchAnswer {
            goal: name.to_owned(),
            outcome,
            reason,
            lower: answer.lower,
            upper: answer.upper,
            throughput,
            throughput_pps: throughput.and_then(|it| self.tester.packets_per_second(it)),
            latency: last.and_then(|trial| trial.latency),
            connections: last.and_then(|trial| trial.connections.clone()),
        }
    }

    /// Returns how the search for a goal has ended, and why it is not regular.
    fn outcome(
        &self,
        answer: &Answer,
        end: &End,
        calibration: Option<&Calibration>,
    ) -> (Outcome, String) {
        let of_tester = self.limit_of_tester(answer, calibration);
        match (answer.outcome, of_tester) {
            (mlr::Outcome::BearsLargest, _) => {
                (Outcome::BearsLargest, "the device sustains the largest load".to_owned())
            }
            (_, Some(reason)) => (Outcome::TesterLimit, format!("limited by the tester: {reason}")),
            (mlr::Outcome::Regular, None) => (Outcome::Regular, String::new()),
            (mlr::Outcome::FailsAtSmallest, None) => {
                (Outcome::FailsAtSmallest, "the smallest load is too much".to_owned())
            }
            (mlr::Outcome::Unfinished, None) => match end {
                End::Broken(error) => (Outcome::Interrupted, format!("{error:#}")),
                End::Complete | End::TimeOver => {
                    (Outcome::TimeOver, "the time was over".to_owned())
                }
            },
        }
    }

    /// Returns why the bounds of an answer may be those of the tester; `None` if they are those of
    /// the device.
    fn limit_of_tester(
        &self,
        answer: &Answer,
        calibration: Option<&Calibration>,
    ) -> Option<String> {
        let unit = self.plan.unit;
        if let Some(upper) = answer.upper {
            let at_upper = self.at(upper).map(|made| (made.trial, made.loss_ratio_of_device));
            let at_upper: Vec<_> = at_upper.collect();
            if !answer.goal.is_upper_without_tester(&at_upper) {
                let mut reasons = self.at(upper).map(|made| made.shown.tester.join("; "));
                let reason = reasons.rfind(|it| !it.is_empty()).unwrap_or_default();
                return Some(format!("at {} {reason}", load(upper, unit)));
            }
        }
        let limit = calibration.filter(|it| !it.bears_largest)?.limit;
        let is_close = answer.lower.is_some_and(|lower| lower > limit * CALIBRATION_MARGIN);
        is_close.then(|| format!("back to back it sustains {}", load(limit, unit)))
    }
}

#[cfg(test)]
mod tests;
