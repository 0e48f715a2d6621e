// SPDX-License-Identifier: BSD-3-Clause
//! Compares the same loads without and with offload, as in the FlowTable article. It holds what
//! `millrace demo` measures, prints, writes as JSON and draws. Other tools rely on the member
//! names.

mod page;
mod table;

pub(crate) use page::page;

use crate::live::{Rates, Totals};
use report::summary::{OffloadPort, Summary};
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
    /// Name and title of the personality that the software NIC plays.
    pub(crate) personality: String,
    pub(crate) title: String,
    /// Rate of each link; `none` for as fast as possible.
    pub(crate) speed: String,
    /// Which connections get rules in runs with offload.
    pub(crate) policy: String,
    /// Length of each run in seconds.
    pub(crate) seconds: f64,
    /// Seed of the traffic.
    pub(crate) seed: u64,
    /// True if the user interrupted it.
    pub(crate) interrupted: bool,
    pub(crate) runs: Vec<Run>,
}

/// One load, without or with offload.
#[derive(Debug, Serialize)]
pub(crate) struct Run {
    pub(crate) load: &'static str,
    pub(crate) offload: bool,
    /// Time of the run at which measuring began, in seconds; before that, rules were installed.
    pub(crate) measured_from_s: f64,
    /// Rates from then on.
    pub(crate) measured: Rates,
    /// Cycles per packet by stage from then on; the sum is `measured.cycles_per_packet`.
    #[serde(serialize_with = "serialize_stages")]
    pub(crate) measured_stages: Vec<(&'static str, f64)>,
    /// Rules of both ports at the end.
    pub(crate) rules: u64,
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

/// A sample of a run.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Sample {
    /// End of the sample, in seconds since the start of the run.
    pub(crate) at_s: f64,
    pub(crate) rules: u64,
    #[serde(flatten)]
    pub(crate) rates: Rates,
}

/// The readings of a run so far.
#[derive(Debug, Default)]
pub(crate) struct Readings(Vec<Totals>);

impl Readings {
    /// Adds a reading.
    pub(crate) fn push(&mut self, totals: Totals) {
        self.0.push(totals);
    }

    /// Returns the rates between the last two readings.
    pub(crate) fn latest(&self) -> Option<Rates> {
        let [.., before, now] = self.0.as_slice() else { return None };
        Some(now.since(before))
    }

    /// Returns the results of the run.
    pub(crate) fn finish(self, load: &'static str, offload: bool, summary: Summary) -> Run {
        let last = self.0.last().copied().unwrap_or_default();
        // Rules are installed in the first half.
        let half = self.0.iter().find(|totals| totals.at * 2 >= last.at).copied();
        let from = half.filter(|half| half.at < last.at).unwrap_or_default();
        let sample = |pair: &[Totals]| {
            let at_s = pair[1].at.as_secs_f64();
            Sample { at_s, rules: pair[1].rules, rates: pair[1].since(&pair[0]) }
        };
        Run {
            load,
            offload,
            measured_from_s: from.at.as_secs_f64(),
            measured: last.since(&from),
            measured_stages: last.stages_per_packet_since(&from),
            rules: last.rules,
            programming: Programming::of(&summary.offload.ports),
            samples: self.0.windows(2).map(sample).collect(),
            summary,
        }
    }
}

impl Comparison {
    /// Returns the loads in the order of their runs.
    fn loads(&self) -> Vec<&'static str> {
        let mut loads: Vec<_> = self.runs.iter().map(|run| run.load).collect();
        loads.dedup();
        loads
    }

    /// True if every ledger is balanced.
    pub(crate) fn is_balanced(&self) -> bool {
        self.runs.iter().all(|run| run.summary.ledger.balanced)
    }

    /// Returns sentences that qualify the figures.
    fn caveats(&self) -> [String; 4] {
        [
            format!(
                "The NIC is software: it takes rules, refuses and marks as this one does: {}.",
                self.title
            ),
            "Classification is free for the worker, as in hardware, except right after a rule \
             change."
                .to_owned(),
            "RX and TX are memory copies, cheaper than a real driver; compare rows only with each \
             other."
                .to_owned(),
            format!("Rules take as long as the personality {} says.", self.personality),
        ]
    }

    /// Returns the runs of a load without and with offload, if both exist and can be compared.
    fn pair(&self, load: &str) -> Option<[&Run; 2]> {
        let find = |offload| {
            let mut runs = self.runs.iter();
            runs.find(|run| run.load == load && run.offload == offload)
        };
        Some([find(false).filter(|run| run.has_sent())?, find(true)?])
    }
}

/// The effect of offload on a load: the run with it divided by the run without.
#[derive(Clone, Copy, Debug)]
struct Speedup {
    throughput: f64,
    cpu: f64,
    cycles: f64,
    /// True if marked packets were counted in the run with offload.
    is_marked: bool,
}

impl Speedup {
    fn of([off, on]: [&Run; 2]) -> Self {
        let over = |value: fn(&Rates) -> f64| value(&on.measured) / value(&off.measured);
        Self {
            throughput: over(|rates| rates.up_mbps + rates.down_mbps),
            cpu: over(|rates| rates.cpu_percent),
            cycles: over(|rates| rates.cycles_per_packet),
            is_marked: on.measured.marked_percent > 0.0,
        }
    }
}

/// Note for a load of which no packets were marked.
const NOTHING_MARKED: &str = "no packet was counted by a mark: what differs is the machine";

/// The article's results with the same loads, on hardware.
const ARTICLE: &str = "The article had, with an X710 and one core of 2.6 GHz: IMIX 8707 + 8415 \
     Mb/s without offload, 10000 + 9884 with it; small TCP 3390 Mb/s each way without, 5492 with \
     it.";

impl Run {
    fn offload_word(&self) -> &'static str {
        if self.offload { "on" } else { "off" }
    }

    /// True if packets were sent while the run was measured.
    fn has_sent(&self) -> bool {
        self.measured.up_mbps + self.measured.down_mbps > 0.0
    }
}

/// Serializes stages as an object with a member for each.
fn serialize_stages<S: Serializer>(
    stages: &[(&'static str, f64)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(stages.iter().copied())
}

#[cfg(test)]
mod tests;
