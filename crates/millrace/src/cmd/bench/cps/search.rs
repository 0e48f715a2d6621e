// SPDX-License-Identifier: BSD-3-Clause
//! Drives a tester through a search: starts loads, waits, reads counters and prints verdicts.

use super::judge::{Judge, Rule, Verdict};
use super::print::Printer;
use super::result::{Found, Trial};
use super::settle::settle;
use crate::tester::{Load, Tester, TesterStatistics};
use anyhow::Context;
use search::{CpsNdr, Outcome, Short, sample_steps};
use std::io;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
/// Width of the interval, relative to its upper bound, at which a search ends by itself.
const WIDTH: f64 = 0.005;
/// How often the search looks for a better rate below one that was bad at the second time.
const REFINEMENTS: u32 = 3;
/// How often a rate is measured again at which the tester may have been disturbed.
const REPETITIONS: u32 = 2;
/// Lowest rate of a load, which the adaptive window could fall below.
const CPS_MIN: f64 = 1.0;

/// What to search for, and how.
pub(super) struct Settings {
    /// What connections carry. Its rate means nothing.
    pub(super) load: Load,
    pub(super) min_cps: f64,
    pub(super) max_cps: f64,
    pub(super) adaptive_window_percent: f64,
    /// Most rates of each bisection: the first one, and those below a rate that was refuted.
    pub(super) max_iterations: Option<u32>,
    pub(super) sample_time_s: u32,
    pub(super) threshold_percent: f64,
    pub(super) reset_command: Option<String>,
    pub(super) rule: Rule,
}

/// A search that runs.
pub(super) struct Search<'a> {
    settings: &'a Settings,
    tester: &'a mut dyn Tester,
    printer: Printer<'a>,
    interrupted: &'a AtomicBool,
    state: State,
    found: Found,
}

/// The load of the tester.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    NeverRan,
    Runs,
    Stopped,
}

/// A step of a trial that decided.
struct Decision {
    seconds: u32,
    statistics: TesterStatistics,
    verdict: Verdict,
    outcome: Outcome,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        settings: &'a Settings,
        tester: &'a mut dyn Tester,
        printer: Printer<'a>,
        interrupted: &'a AtomicBool,
    ) -> Self {
        let (state, found) = (State::NeverRan, Found::default());
        Self { settings, tester, printer, interrupted, state, found }
    }

    /// Returns what was found, also after an error.
    pub(super) fn into_found(self) -> Found {
        self.found
    }

    /// Searches until the end, or until a signal. Stops the load in any case.
    pub(super) fn run(&mut self) -> anyhow::Result<()> {
        let ended = self.search();
        // An error of the search says more than one of the end.
        let stopped = self.tester.stop();
        ended?;
        stopped?;
        self.found.is_interrupted = self.is_interrupted();
        self.print_result().context("cannot write the results")
    }

    fn search(&mut self) -> anyhow::Result<()> {
        self.bisect()?;
        match self.settings.rule {
            Rule::CpsNdr => self.found.cps = self.found.best(),
            Rule::Connections => {
                self.verify_max()?;
                self.confirm()?;
            }
        }
        Ok(())
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Halves the interval between the bounds.
    fn bisect(&mut self) -> anyhow::Result<()> {
        let Settings { min_cps, max_cps, adaptive_window_percent, .. } = *self.settings;
        let mut bisection = CpsNdr::new(min_cps, max_cps, adaptive_window_percent);
        for number in 1..=self.settings.max_iterations.unwrap_or(u32::MAX) {
            if self.is_narrow_enough(&bisection) {
                break;
            }
            self.printer.line(&bisection.line(number))?;
            match self.trial(bisection.current().max(CPS_MIN))? {
                Some(is_good) => bisection.note(is_good),
                None => break,
            }
            if number == 1 && !self.try_smallest_if_unanswered()? {
                break;
            }
        }
        Ok(())
    }

    /// Measures the smallest rate if no connection of the first one was answered. Returns false if
    /// it is bad, too: no rate between them would say more.
    fn try_smallest_if_unanswered(&mut self) -> anyhow::Result<bool> {
        let is_unanswered = self.found.counted().last().is_some_and(|it| it.verdict.is_unanswered);
        if self.settings.rule == Rule::CpsNdr || !is_unanswered {
            return Ok(true);
        }
        if self.is_interrupted() {
            return Ok(false);
        }
        let min = self.settings.min_cps;
        self.printer.line(&format!("... no answer; smallest rate: current={}", Short(min)))?;
        Ok(self.trial(min)? == Some(true))
    }

    /// True if a search without a number of iterations ends. cps_ndr.py goes on until Ctrl-C.
    fn is_narrow_enough(&self, bisection: &CpsNdr) -> bool {
        let [lower, upper] = bisection.bounds();
        self.settings.max_iterations.is_none()
            && self.settings.rule == Rule::Connections
            && upper - lower < WIDTH * upper
    }

    /// Measures the largest rate if no rate was too high.
    fn verify_max(&mut self) -> anyhow::Result<()> {
        let max = self.settings.max_cps;
        if self.is_interrupted() || self.found.counted().any(|it| !it.verdict.is_good) {
            return Ok(());
        }
        self.printer.line(&format!("... largest rate: current={}", Short(max)))?;
        self.trial(max).map(drop)
    }

    /// Measures the best rate again. If it is bad now, halves the interval below it, and measures
    /// the best rate there again, and so on down to the smallest.
    fn confirm(&mut self) -> anyhow::Result<()> {
        let min = self.settings.min_cps;
        let mut ceiling = f64::INFINITY;
        if self.found.counted().any(|it| it.cps == min && it.verdict.is_unanswered) {
            return Ok(());
        }
        for failures in 0.. {
            let cps = self.found.best_below(ceiling).unwrap_or(min);
            let name = if cps == min { "smallest rate" } else { "final trial" };
            if self.is_interrupted() {
                break;
            }
            self.printer.line(&format!("... {name}: current={}", Short(cps)))?;
            match self.trial(cps)? {
                Some(true) => {
                    self.found.cps = Some(cps);
                    self.found.is_confirmed = true;
                    self.found.is_largest = cps == self.settings.max_cps;
                    break;
                }
                Some(false) if cps > min => ceiling = cps,
                _ => break,
            }
            if failures < REFINEMENTS {
                self.refine(self.found.best_below(ceiling).unwrap_or(min), ceiling)?;
            }
        }
        Ok(())
    }

    /// Halves the interval between a good rate and one that was bad at the second time.
    fn refine(&mut self, mut lower: f64, mut upper: f64) -> anyhow::Result<()> {
        for _ in 0..self.settings.max_iterations.unwrap_or(u32::MAX) {
            if upper - lower < WIDTH * upper {
                break;
            }
            let current = f64::midpoint(lower, upper);
            let [low, now, high] = [lower, current, upper].map(Short);
            self.printer.line(&format!("... again: lower={low} current={now} upper={high}"))?;
            match self.trial(current)? {
                Some(true) => lower = current,
                Some(false) => upper = current,
                None => break,
            }
        }
        Ok(())
    }

    /// Measures a rate, and measures it again if the tester may have been disturbed. Returns
    /// whether the device sustained it; `None` if a signal came first.
    fn trial(&mut self, cps: f64) -> anyhow::Result<Option<bool>> {
        for _ in 0..REPETITIONS {
            let is_good = self.trial_once(cps)?;
            let Some(last) = self.found.trials.last_mut().filter(|_| is_good == Some(false)) else {
                return Ok(is_good);
            };
            if !last.verdict.is_disturbed {
                return Ok(is_good);
            }
            last.is_repeated = true;
            self.printer
                .line(&format!("... again, the generator was late: current={}", Short(cps)))?;
        }
        self.trial_once(cps)
    }

    fn trial_once(&mut self, cps: f64) -> anyhow::Result<Option<bool>> {
        if self.is_interrupted() {
            return Ok(None);
        }
        self.begin(cps)?;
        if !self.settle(cps)? {
            self.printer.note("the packet rate did not settle; measuring all the same");
        }
        let Some(decision) = self.decide(cps)? else { return Ok(None) };
        let Decision { seconds, statistics, verdict, outcome } = decision;
        let is_good = verdict.is_good;
        if self.settings.rule == Rule::Connections || !is_good {
            self.tester.stop()?;
            self.state = State::Stopped;
        }
        self.printer.sample(&statistics, is_good)?;
        match self.settings.rule {
            Rule::CpsNdr => self.printer.dropped(outcome)?,
            Rule::Connections => self.printer.verdict(&statistics, &verdict)?,
        }
        self.found.trials.push(Trial { cps, seconds, is_repeated: false, verdict });
        if is_good {
            self.found.last_good = Some(statistics);
        }
        Ok(Some(is_good))
    }

    /// Brings the load to a rate. Between two loads, the device rests.
    fn begin(&mut self, cps: f64) -> anyhow::Result<()> {
        match self.state {
            State::Runs if self.settings.reset_command.is_none() => {
                return Ok(self.tester.update(cps)?);
            }
            State::Runs => {
                self.tester.stop()?;
                self.rest()?;
            }
            State::Stopped => self.rest()?,
            State::NeverRan => {}
        }
        self.tester.start(&Load { cps, ..self.settings.load })?;
        self.state = State::Runs;
        Ok(())
    }

    /// Runs the reset command, or waits as long as a ramp takes.
    fn rest(&mut self) -> anyhow::Result<()> {
        let Some(command) = &self.settings.reset_command else {
            let ramp = SECOND * self.settings.load.ramp_up_s;
            return Ok(self.tester.wait(ramp, self.interrupted)?);
        };
        self.printer.note(&format!("running {command:?}"));
        // Its output must not be taken for that of the search.
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::from(io::stderr()));
        let status = shell.status().context("cannot run sh for --reset-command")?;
        if !status.success() {
            self.printer.note(&format!("the reset command failed: {status}"));
        }
        Ok(())
    }

    /// Waits until the load has settled. Returns false if it does not.
    fn settle(&mut self, cps: f64) -> anyhow::Result<bool> {
        let load = Load { cps, ..self.settings.load };
        Ok(settle(self.tester, &load, self.settings.rule, self.interrupted)?)
    }

    /// Takes samples, short ones first, until one is bad or the longest is good. Returns the last
    /// one; `None` if a signal came first.
    fn decide(&mut self, cps: f64) -> anyhow::Result<Option<Decision>> {
        let whole = self.settings.sample_time_s;
        for seconds in sample_steps(whole) {
            self.tester.clear()?;
            // cps_ndr.py asks once in a sample, and its seconds are counted.
            let active_before = match self.settings.rule {
                Rule::Connections => self.tester.statistics()?.client.active,
                Rule::CpsNdr => 0,
            };
            self.tester.wait(SECOND * seconds, self.interrupted)?;
            if self.is_interrupted() {
                return Ok(None);
            }
            let is_final = self.settings.rule == Rule::Connections && seconds == whole;
            let statistics = self.read(is_final)?;
            let threshold_percent = self.settings.threshold_percent;
            let judge = Judge {
                statistics: &statistics,
                active_before,
                cps,
                threshold_percent,
                seconds,
                is_final,
            };
            let (verdict, outcome) = match self.settings.rule {
                Rule::Connections => (judge.by_connections(), Outcome::Good),
                Rule::CpsNdr => judge.as_cps_ndr(),
            };
            if !verdict.is_good || seconds == whole {
                return Ok(Some(Decision { seconds, statistics, verdict, outcome }));
            }
        }
        Ok(None)
    }

    /// Reads the counters; if they are final, after the load has stopped and packets on their way
    /// have arrived.
    fn read(&mut self, is_final: bool) -> anyhow::Result<TesterStatistics> {
        let running = self.tester.statistics()?;
        if !is_final {
            return Ok(running);
        }
        self.tester.stop()?;
        let mut statistics = self.tester.statistics()?;
        // Connections that were open until the load stopped.
        statistics.client.active = running.client.active;
        statistics.server.active = running.server.active;
        Ok(statistics)
    }

    /// Prints what was found. The lines of cps_ndr.py have no result.
    fn print_result(&mut self) -> io::Result<()> {
        let found = &self.found;
        let best = found.best();
        let mut lines = Vec::new();
        match (self.settings.rule, found.cps) {
            _ if found.is_interrupted => lines.push(match best {
                Some(cps) => format!("best so far: {cps:.0} connections/s, not confirmed"),
                None => "best so far: none".to_owned(),
            }),
            (Rule::CpsNdr, _) => {}
            (Rule::Connections, Some(cps)) => lines.extend(self.describe(cps)),
            (Rule::Connections, None) => {
                lines.push(format!("result: none: {}", found.failure()));
            }
        }
        lines.iter().try_for_each(|line| self.printer.line(line))
    }

    /// Returns the lines of a rate that was found and confirmed.
    fn describe(&self, cps: f64) -> Vec<String> {
        let confirmed = format!("confirmed by a final trial of {} s", self.settings.sample_time_s);
        let reason = self.found.bound_reason();
        let bound = if reason.is_some() { ">= " } else { "" };
        let mut lines = vec![format!("result: {bound}{cps:.0} connections/s, {confirmed}")];
        if self.found.is_largest {
            lines.push("the device sustains the largest rate: raise --max-cps".to_owned());
        } else if let Some(reason) = reason {
            lines.push(reason);
        } else if let Some(bad) = self.found.lowest_bad_above(cps) {
            lines.push(format!("lowest rate that failed: {:.0} connections/s", bad.cps));
        }
        lines
    }
}

#[cfg(test)]
mod tests;
