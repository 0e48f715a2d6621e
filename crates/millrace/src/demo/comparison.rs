// SPDX-License-Identifier: BSD-3-Clause
//! Compares the same loads without and with offload, as in the FlowTable article. It holds what
//! `millrace demo` measures, prints, writes as JSON and draws. Other tools rely on the member
//! names.

mod page;
mod table;
mod why;

pub(crate) use page::page;

use crate::demo::load::{Load, Mode};
use crate::demo::readings::{Measurement, Sample, taken};
use crate::live::Rates;
use report::summary::{Energy, OffloadPort, Summary};
use serde::{Serialize, Serializer};

/// All results of a demonstration.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    /// Version of Millrace.
    pub(crate) version: &'static str,
    /// Version of DPDK.
    pub(crate) dpdk: String,
    /// Name of the processor; `None` if unknown.
    pub(crate) processor: Option<String>,
    /// Name and title of the first personality that the software NIC plays.
    pub(crate) personality: String,
    pub(crate) title: String,
    /// All of them, in the order of their runs.
    pub(crate) personalities: Vec<Played>,
    /// Rate of each link; `none` for as fast as possible.
    pub(crate) speed: String,
    /// False if packets of 64 bytes come without a limit instead.
    #[serde(skip)]
    pub(crate) is_speed_of_all: bool,
    /// Which connections get rules in runs with offload.
    pub(crate) policy: String,
    /// Time that is measured of each run, in seconds.
    pub(crate) seconds: f64,
    /// Seed of the traffic.
    pub(crate) seed: u64,
    /// True if the user interrupted it.
    pub(crate) interrupted: bool,
    /// Runs that make no sense, with the reason.
    pub(crate) left_out: Vec<LeftOut>,
    pub(crate) runs: Vec<Run>,
}

/// A personality that the software NIC plays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Played {
    pub(crate) name: String,
    pub(crate) title: String,
}

/// A mode in which loads are not run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LeftOut {
    pub(crate) personality: String,
    /// The load; `None` for all of them.
    pub(crate) load: Option<Load>,
    pub(crate) mode: Mode,
    pub(crate) reason: String,
}

impl LeftOut {
    /// Returns the mode of `title` as left out, for one load or all of them.
    pub(crate) fn of(title: &RunTitle<'_>, load: Option<Load>, reason: &str) -> Self {
        let (personality, mode) = (title.personality.to_owned(), title.mode);
        Self { personality, load, mode, reason: reason.to_owned() }
    }
}

/// One load in one mode.
#[derive(Debug, Serialize)]
pub(crate) struct Run {
    pub(crate) personality: String,
    pub(crate) load: Load,
    pub(crate) mode: Mode,
    /// True if the NIC had rules.
    pub(crate) offload: bool,
    /// Depth of tracking, as in the configuration.
    pub(crate) tracking: &'static str,
    /// Time of the run at which measuring began, in seconds; before that, rules were installed.
    pub(crate) measured_from_s: f64,
    /// Rates from then on.
    pub(crate) measured: Rates,
    /// Cycles per packet by stage from then on; the sum is `measured.cycles_per_packet`.
    #[serde(serialize_with = "serialize_stages")]
    pub(crate) measured_stages: Vec<(&'static str, f64)>,
    /// Rules of both ports at the end.
    pub(crate) rules: u64,
    /// Energy of the processor packages from then on.
    pub(crate) energy: Energy,
    /// Times to install rules; `None` if there were none.
    pub(crate) programming: Option<Programming>,
    /// Samples of the whole run.
    pub(crate) samples: Vec<Sample>,
    /// Summary of the whole run.
    pub(crate) summary: Summary,
}

/// Times of calls that installed a rule, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Programming {
    pub(crate) min_us: f64,
    pub(crate) avg_us: f64,
    pub(crate) max_us: f64,
}

impl Programming {
    /// Returns the times of both ports together.
    fn of(ports: &[OffloadPort]) -> Option<Self> {
        let rules: u64 = ports.iter().map(|port| port.rules.created).sum();
        let made = || ports.iter().filter(|port| port.rules.created > 0);
        let time: f64 = made().map(|port| port.insert_us.avg * port.rules.created as f64).sum();
        (rules > 0).then(|| Self {
            min_us: made().map(|port| port.insert_us.min).fold(f64::INFINITY, f64::min),
            avg_us: time / rules as f64,
            max_us: made().map(|port| port.insert_us.max).fold(0.0, f64::max),
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

impl Comparison {
    /// Returns the runs of each load of a personality, in their order.
    fn loads<'a>(&'a self, played: &'a Played) -> impl Iterator<Item = Vec<&'a Run>> {
        Load::ALL.into_iter().filter_map(|load| {
            let is_its = |run: &&Run| run.personality == played.name && run.load == load;
            let runs: Vec<_> = self.runs.iter().filter(is_its).collect();
            (!runs.is_empty()).then_some(runs)
        })
    }

    /// True if every ledger is balanced.
    pub(crate) fn is_balanced(&self) -> bool {
        self.runs.iter().all(|run| run.summary.ledger.balanced)
    }

    /// Returns how many pairs of runs have no comparison, because other programs took the cpu.
    pub(crate) fn not_compared(&self) -> usize {
        let loads = self.personalities.iter().flat_map(|played| self.loads(played));
        loads.flat_map(|runs| pairs(&runs)).filter(|pair| not_comparable(*pair).is_some()).count()
    }

    /// Returns sentences that qualify the figures.
    fn caveats(&self) -> Vec<String> {
        let plays = self.personalities.iter().map(|Played { name, title }| {
            format!(
                "The NIC is software: it takes rules, refuses and marks as {name} does: {title}."
            )
        });
        let of_all = [
            "Classification is free for the worker, as in hardware, except right after a rule \
             change.",
            "RX and TX are memory copies, cheaper than a real driver; compare rows only with each \
             other.",
            "Rules take as long as the personality says. What the NIC forwards by itself costs \
             the worker no cpu.",
        ];
        plays.chain(of_all.map(str::to_owned)).collect()
    }

    /// Returns sentences about runs that were left out.
    fn omissions(&self) -> impl Iterator<Item = String> {
        self.left_out.iter().map(|LeftOut { personality, load, mode, reason }| {
            let load = load.map_or("no load", Load::name);
            let verb = if load == "no load" { "runs" } else { "does not run" };
            format!("{personality}: {load} {verb} with {}: {reason}", mode.name())
        })
    }
}

/// The effect of a mode on a load: a run in it divided by the run without offload.
#[derive(Clone, Copy, Debug)]
struct Speedup {
    throughput: f64,
    cpu: f64,
    cycles: f64,
}

impl Speedup {
    fn of([off, on]: [&Run; 2]) -> Self {
        let over = |value: fn(&Rates) -> f64| value(&on.measured) / value(&off.measured);
        Self {
            throughput: over(|rates| rates.up_mbps + rates.down_mbps),
            cpu: over(|rates| rates.cpu_percent),
            cycles: over(|rates| rates.cycles_per_packet),
        }
    }
}

/// Returns the pairs of a run without offload and one in another mode, of the runs of a load. If
/// the former sent nothing, there is nothing to compare with, and a pair only if the reason is
/// that other programs took the cpu.
fn pairs<'a>(runs: &[&'a Run]) -> Vec<[&'a Run; 2]> {
    let is_one = |run: &&&Run| run.has_sent() || run.taken().is_some();
    let off = runs.iter().filter(|run| run.mode == Mode::Off).find(is_one);
    let others = runs.iter().filter(|run| run.mode != Mode::Off);
    off.map(|off| others.map(|run| [*off, *run]).collect()).unwrap_or_default()
}

/// Returns why two runs have no comparison; `None` if they have one.
fn not_comparable(pair: [&Run; 2]) -> Option<String> {
    pair.iter().find_map(|run| Some(format!("{}: {}", run.mode.name(), run.taken()?)))
}

impl Run {
    /// Returns the results of a run.
    pub(crate) fn new(title: &RunTitle<'_>, measured: Measurement, summary: Summary) -> Self {
        let Measurement { from_s, rates, stages, energy, rules, samples } = measured;
        Self {
            personality: title.personality.to_owned(),
            load: title.load,
            mode: title.mode,
            offload: title.mode.has_rules(),
            tracking: title.tracking,
            measured_from_s: from_s,
            measured: rates,
            measured_stages: stages,
            energy,
            rules,
            programming: Programming::of(&summary.offload.ports),
            samples,
            summary,
        }
    }

    /// True if packets were sent while the run was measured.
    fn has_sent(&self) -> bool {
        self.measured.up_mbps + self.measured.down_mbps > 0.0
    }

    /// Returns a remark if the worker was kept from its cpu.
    fn taken(&self) -> Option<String> {
        taken(&self.measured)
    }
}

/// Serializes stages as an object with a member for each.
pub(super) fn serialize_stages<S: Serializer>(
    stages: &[(&'static str, f64)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(stages.iter().copied())
}

#[cfg(test)]
mod tests;
