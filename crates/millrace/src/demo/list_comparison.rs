// SPDX-License-Identifier: BSD-3-Clause
//! Compares one load without access list, with lists of several sizes, and with a list whose rules
//! the NIC has, as in the article about VPP. It holds what `millrace demo --acl` measures, prints,
//! writes as JSON and draws. Other tools rely on the member names.

mod page;
mod table;

pub(crate) use page::page;

use crate::demo::comparison::{Played, serialize_stages};
use crate::demo::load::depth_name;
use crate::demo::readings::{Measurement, taken};
use crate::live::Rates;
use engine::Tracking;
use report::summary::Summary;
use serde::{Serialize, Serializer};

/// Flows of the load, one packet each in turn, of 64 bytes with FCS: those of the article.
pub(crate) const FLOWS: u32 = 20_000;

/// Rules of the list that is also in the NIC.
pub(crate) const NIC_RULES: u32 = 100;

/// Rules of the lists that are in software.
pub(crate) const SOFTWARE_RULES: [u32; 3] = [1, NIC_RULES, 10_000];

/// What the article says about marks.
const OF_ARTICLE: &str = "The article about VPP measured \"almost twice\" the throughput with \
                          marks of a NIC, and gives no figures.";

/// All results of a demonstration.
#[derive(Debug, Serialize)]
pub(crate) struct ListComparison {
    /// Version of Millrace.
    pub(crate) version: &'static str,
    /// Version of DPDK.
    pub(crate) dpdk: String,
    /// Name of the processor; `None` if unknown.
    pub(crate) processor: Option<String>,
    /// Personalities that the software NIC plays, in the order of their runs.
    pub(crate) personalities: Vec<Played>,
    /// Flows of the load.
    pub(crate) flows: u32,
    /// Time that is measured of each run, in seconds.
    pub(crate) seconds: f64,
    /// Seed of the traffic.
    pub(crate) seed: u64,
    /// True if the user interrupted it.
    pub(crate) interrupted: bool,
    pub(crate) runs: Vec<ListRun>,
}

/// Which run it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ListTitle {
    #[serde(serialize_with = "serialize_depth")]
    pub(crate) tracking: Tracking,
    /// Rules of the list; 0 without list.
    pub(crate) rules: u32,
    /// Personality of the NIC that has rules; `None` if all is done in software.
    pub(crate) personality: Option<String>,
}

/// The load with one list.
#[derive(Debug, Serialize)]
pub(crate) struct ListRun {
    #[serde(flatten)]
    pub(crate) title: ListTitle,
    /// Time of the run at which measuring began, in seconds.
    pub(crate) measured_from_s: f64,
    /// Rates from then on.
    pub(crate) measured: Rates,
    /// Cycles per packet by stage from then on; the sum is `measured.cycles_per_packet`.
    #[serde(serialize_with = "serialize_stages")]
    pub(crate) measured_stages: Vec<(&'static str, f64)>,
    /// Rules of connections at the end.
    pub(crate) connection_rules: u64,
    /// Summary of the whole run.
    pub(crate) summary: Summary,
}

impl ListTitle {
    /// Returns the runs of one depth of tracking, in their order.
    pub(crate) fn of_depth(tracking: Tracking, personalities: &[Played]) -> Vec<Self> {
        let in_software = [0].into_iter().chain(SOFTWARE_RULES).map(|rules| (rules, None));
        let in_nics = personalities.iter().map(|played| (NIC_RULES, Some(played.name.clone())));
        let titles = in_software.chain(in_nics);
        titles.map(|(rules, personality)| Self { tracking, rules, personality }).collect()
    }

    /// Returns the list in words.
    pub(crate) fn list(&self) -> String {
        match self.rules {
            0 => "no list".to_owned(),
            1 => "1 rule".to_owned(),
            rules => format!("{} rules", results::units::thousands(rules.into())),
        }
    }

    /// Returns what compares packets with the list.
    pub(crate) fn decided_by(&self) -> &str {
        match (&self.personality, self.rules) {
            (_, 0) => "",
            (None, _) => "software",
            (Some(personality), _) => personality,
        }
    }
}

impl ListRun {
    /// Returns the results of a run.
    pub(crate) fn new(title: ListTitle, measured: Measurement, summary: Summary) -> Self {
        let Measurement { from_s, rates, stages, rules, .. } = measured;
        Self {
            title,
            measured_from_s: from_s,
            measured: rates,
            measured_stages: stages,
            connection_rules: rules,
            summary,
        }
    }

    /// Returns the share of packets that a mark of a rule or of a connection has decided about, in
    /// percent.
    fn by_nic(&self) -> f64 {
        self.measured.list_marked_percent + self.measured.marked_percent
    }

    /// Returns why the figures cannot be compared; `None` if they can.
    fn not_comparable(&self) -> Option<String> {
        taken(&self.measured)
    }
}

impl ListComparison {
    /// Returns the runs of each depth of tracking, in their order.
    fn depths(&self) -> impl Iterator<Item = &[ListRun]> {
        self.runs.chunk_by(|run, next| run.title.tracking == next.title.tracking)
    }

    /// True if every ledger is balanced.
    pub(crate) fn is_balanced(&self) -> bool {
        self.runs.iter().all(|run| run.summary.ledger.balanced)
    }

    /// Returns how many runs cannot be compared, because other programs took the cpu.
    pub(crate) fn not_compared(&self) -> usize {
        self.runs.iter().filter(|run| run.not_comparable().is_some()).count()
    }

    /// Returns sentences that qualify the figures.
    fn caveats(&self) -> Vec<String> {
        let plays = self.personalities.iter().map(|Played { name, title }| {
            format!("The NIC is software: it takes rules and marks as {name} does: {title}.")
        });
        let of_all = [
            "The last rule of each list permits all packets; no packet matches another one.",
            "Classification is free for the worker, as in hardware.",
            "RX and TX are memory copies, cheaper than a real driver; compare rows only with each \
             other.",
        ];
        plays.chain(of_all.map(str::to_owned)).collect()
    }

    /// Returns the run without list and those in software and with marks of the list that the NIC
    /// has, of the runs of one depth.
    fn gains(runs: &[ListRun]) -> Vec<Gain<'_>> {
        let find = |rules, is_in_nic: bool| {
            runs.iter().filter(move |run| {
                run.title.rules == rules && run.title.personality.is_some() == is_in_nic
            })
        };
        let [none, software] = [0, NIC_RULES].map(|rules| find(rules, false).next());
        let (Some(none), Some(software)) = (none, software) else { return Vec::new() };
        find(NIC_RULES, true).map(|marked| Gain { none, software, marked }).collect()
    }
}

/// What marks of a NIC gain.
struct Gain<'a> {
    none: &'a ListRun,
    software: &'a ListRun,
    marked: &'a ListRun,
}

impl Gain<'_> {
    /// Returns throughput with marks divided by that in software, and that with marks and that in
    /// software divided by that without list. `None` if other programs took the cpu.
    fn ratios(&self) -> Option<[f64; 3]> {
        let runs = [self.none, self.software, self.marked];
        let is_good = runs.iter().all(|run| run.not_comparable().is_none());
        let [none, software, marked] = runs.map(|run| run.measured.mpps);
        let ratios = [marked / software, marked / none, software / none];
        (is_good && ratios.iter().all(|ratio| ratio.is_finite())).then_some(ratios)
    }
}

/// Returns what a depth of tracking means for lists.
fn depth_meaning(tracking: Tracking) -> &'static str {
    match tracking {
        Tracking::Off => "each packet is compared with the list",
        Tracking::Flows | Tracking::Connections => {
            "the decision about the first packet is stored with its connection"
        }
    }
}

fn serialize_depth<S: Serializer>(tracking: &Tracking, serializer: S) -> Result<S::Ok, S::Error> {
    depth_name(*tracking).serialize(serializer)
}

#[cfg(test)]
mod tests;
