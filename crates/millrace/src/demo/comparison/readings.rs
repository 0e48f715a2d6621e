// SPDX-License-Identifier: BSD-3-Clause
//! Takes the readings of a run, and decides when measuring begins: once no more rules are being
//! installed.

use crate::demo::comparison::{Programming, Run, Sample};
use crate::demo::load::{Load, Mode};
use crate::live::{Rates, Totals};
use report::summary::Summary;
use std::time::Duration;

/// How long the two phases of a run last. In the first one, rules are installed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phases {
    /// Shortest time until measuring begins, and until it begins without any rule where there may
    /// be some.
    least: Duration,
    without_rules: Duration,
    /// Time without a new rule until measuring begins.
    quiet: Duration,
    /// Longest time until measuring begins.
    most: Duration,
    /// Time that is measured.
    measured: Duration,
}

/// Longest time until measuring begins, as a multiple of the time that is measured.
const INSTALLING_MOST: u32 = 8;

/// Time in which a worker has found out whether marks are worth it, and removed their rules if not.
const CHOOSING: Duration = Duration::from_millis(4500);

impl Phases {
    /// Returns the phases of a run in `mode` of which `measured` is measured.
    pub(crate) fn of(measured: Duration, mode: Mode) -> Self {
        let least = match mode {
            Mode::Automatic => (2 * measured).min(CHOOSING),
            _ => (measured / 2).min(Duration::from_millis(500)),
        };
        Self {
            least,
            without_rules: if mode.has_rules() { measured.max(least) } else { least },
            quiet: (measured / 2).min(Duration::from_millis(200)),
            most: INSTALLING_MOST * measured,
            measured,
        }
    }
}

/// The readings of a run so far.
#[derive(Debug)]
pub(crate) struct Readings {
    phases: Phases,
    all: Vec<Totals>,
    /// Time at which the number of installed rules was seen to change last.
    changed: Duration,
    /// The reading with which measuring began.
    from: Option<usize>,
}

impl Readings {
    pub(crate) fn new(phases: Phases) -> Self {
        Self { phases, all: Vec::new(), changed: Duration::ZERO, from: None }
    }

    /// Adds a reading.
    pub(crate) fn push(&mut self, totals: Totals) {
        if self.all.last().is_some_and(|last| last.inserts != totals.inserts) {
            self.changed = totals.at;
        }
        let Phases { least, without_rules, quiet, most, .. } = self.phases;
        let least = if totals.inserts == 0 { without_rules } else { least };
        let is_quiet = totals.at >= least && totals.at - self.changed >= quiet;
        if self.from.is_none() && (is_quiet || totals.at >= most) {
            self.from = Some(self.all.len());
        }
        self.all.push(totals);
    }

    /// Returns the time of the run at which it is over; `None` while measuring has not begun.
    pub(crate) fn end(&self) -> Option<Duration> {
        self.from.map(|from| self.all[from].at + self.phases.measured)
    }

    /// Returns the rates between the last two readings.
    pub(crate) fn latest(&self) -> Option<Rates> {
        let [.., before, now] = self.all.as_slice() else { return None };
        Some(now.since(before))
    }

    /// Returns the results of the run; `None` if it ended before it was measured.
    pub(crate) fn finish(self, run: &RunTitle<'_>, summary: Summary) -> Option<Run> {
        let from = self.all.get(self.from?)?;
        let last = self.all.last().filter(|last| last.at > from.at)?;
        let sample = |pair: &[Totals]| {
            let at_s = pair[1].at.as_secs_f64();
            Sample { at_s, rules: pair[1].rules, rates: pair[1].since(&pair[0]) }
        };
        Some(Run {
            personality: run.personality.to_owned(),
            load: run.load,
            mode: run.mode,
            offload: run.mode.has_rules(),
            tracking: run.tracking,
            measured_from_s: from.at.as_secs_f64(),
            measured: last.since(from),
            measured_stages: last.stages_per_packet_since(from),
            energy: last.energy_since(from, &summary.energy),
            rules: last.rules,
            programming: Programming::of(&summary.offload.ports),
            samples: self.all.windows(2).map(sample).collect(),
            summary,
        })
    }
}

/// Which run it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunTitle<'a> {
    pub(crate) personality: &'a str,
    pub(crate) load: Load,
    pub(crate) mode: Mode,
    /// Depth of tracking, as in the configuration.
    pub(crate) tracking: &'static str,
}
