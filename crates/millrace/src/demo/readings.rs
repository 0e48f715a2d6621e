// SPDX-License-Identifier: BSD-3-Clause
//! Takes the readings of a run, and decides when measuring begins: once no more rules are being
//! installed.

use crate::live::{Rates, Totals};
use report::summary::Energy;
use serde::Serialize;
use std::time::Duration;

/// What has to settle before a run is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settling {
    /// Nothing but the flow of packets.
    Nothing,
    /// Rules are being installed.
    Rules,
    /// Rules are being installed, and the worker finds out whether marks are worth it.
    Choice,
}

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
    /// Returns the phases of a run of which `measured` is measured.
    pub(crate) fn of(measured: Duration, settling: Settling) -> Self {
        let least = match settling {
            Settling::Choice => (2 * measured).min(CHOOSING),
            _ => (measured / 2).min(Duration::from_millis(500)),
        };
        let has_rules = settling != Settling::Nothing;
        Self {
            least,
            without_rules: if has_rules { measured.max(least) } else { least },
            quiet: (measured / 2).min(Duration::from_millis(200)),
            most: INSTALLING_MOST * measured,
            measured,
        }
    }

    /// Returns the time that is measured.
    pub(crate) fn measured(self) -> Duration {
        self.measured
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

    /// Returns what was measured; `None` if the run ended before. `energy` is that of the whole
    /// run.
    pub(crate) fn finish(self, energy: &Energy) -> Option<Measurement> {
        let from = self.all.get(self.from?)?;
        let last = self.all.last().filter(|last| last.at > from.at)?;
        let sample = |pair: &[Totals]| {
            let at_s = pair[1].at.as_secs_f64();
            Sample { at_s, rules: pair[1].rules, rates: pair[1].since(&pair[0]) }
        };
        Some(Measurement {
            from_s: from.at.as_secs_f64(),
            rates: last.since(from),
            stages: last.stages_per_packet_since(from),
            energy: last.energy_since(from, energy),
            rules: last.rules,
            samples: self.all.windows(2).map(sample).collect(),
        })
    }
}

/// What was measured of a run.
#[derive(Clone, Debug)]
pub(crate) struct Measurement {
    /// Time of the run at which measuring began, in seconds.
    pub(crate) from_s: f64,
    /// Rates from then on.
    pub(crate) rates: Rates,
    /// Cycles per packet by stage from then on; the sum is `rates.cycles_per_packet`.
    pub(crate) stages: Vec<(&'static str, f64)>,
    /// Energy of the processor packages from then on.
    pub(crate) energy: Energy,
    /// Rules of connections of both ports at the end.
    pub(crate) rules: u64,
    /// Samples of the whole run.
    pub(crate) samples: Vec<Sample>,
}

/// A sample of a run.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Sample {
    /// End of the sample, in seconds since the start of the run.
    pub(crate) at_s: f64,
    pub(crate) rules: u64,
    #[serde(flatten)]
    pub(crate) rates: Rates,
}

/// From this share on, the figures of a run say how much time other programs took from its worker.
const TAKEN_PERCENT: f64 = 5.0;

/// Returns a remark if the worker was kept from its cpu.
pub(crate) fn taken(rates: &Rates) -> Option<String> {
    let taken = rates.cpu_taken_percent;
    (taken > TAKEN_PERCENT).then(|| format!("cpu taken away: {taken:.0} %"))
}
