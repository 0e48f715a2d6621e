// SPDX-License-Identifier: BSD-3-Clause
//! Results of searches for the highest load: their JSON, a table, a page, and the comparison of two
//! of them. Loads are numbers in any unit, which the results name. Member names of the JSON never
//! change.

mod compare;
mod connections;
mod page;
mod text;

pub use compare::{CannotCompare, Comparison, Difference, compare};
pub use connections::{ConnectionFigures, FailedConnections, LatencyPercentiles};
pub use page::page;
pub use text::{load, print};

use crate::schema::{Host, Latency};
use serde::{Deserialize, Serialize};

/// Value of the member `kind`.
pub const KIND: &str = "millrace-search";

/// Results of one search or several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchResults {
    /// Version of Millrace.
    pub version: String,
    /// [`KIND`].
    pub kind: String,
    /// Version of DPDK.
    pub dpdk: String,
    /// When the command began, in seconds since 1970-01-01 UTC.
    pub started_unix_s: f64,
    /// The command line, program included.
    pub command: Vec<String>,
    /// The host of the tester.
    pub host: Host,
    /// The ports of the tester.
    pub ports: String,
    /// The streams, without rate and size.
    pub streams: Vec<String>,
    /// Options of the generator.
    pub generator_options: Vec<String>,
    /// Unit of loads: `pps`, `bps` (on the wire), `bps-l2` (frames with FCS), `%` (of the link),
    /// `cps` (connections per second), `conn` (connections at a time).
    pub unit: String,
    /// Smallest load.
    pub min_load: f64,
    /// Largest load.
    pub max_load: f64,
    /// Seconds after which a search ends.
    pub duration_max_s: f64,
    /// Latency above which a trial counts as lost; null without a limit.
    pub latency_max: Option<LatencyMax>,
    /// The goals.
    pub goals: Vec<SearchGoal>,
    /// The searches, in their order.
    pub searches: Vec<OneSearch>,
    /// True if a signal has ended the command early.
    pub is_interrupted: bool,
}

/// A limit of latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyMax {
    /// Which latency: `p50`, `p90`, `p99`, `p999` or `max`.
    pub of: String,
    /// The limit, in nanoseconds.
    pub ns: u64,
}

/// A goal of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchGoal {
    /// The goal as the user wrote it.
    pub name: String,
    /// Share of packets that may be lost in a trial.
    pub loss_ratio: f64,
    /// Share of the time in which trials may lose more.
    pub exceed_ratio: f64,
    /// Largest distance of the bounds, divided by the upper one.
    pub relative_width: f64,
    /// Seconds of the first trials.
    pub initial_trial_s: f64,
    /// Seconds from which on trials count in full.
    pub final_trial_s: f64,
    /// Seconds of trials that decide about a load.
    pub duration_sum_s: f64,
}

/// One search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OneSearch {
    /// Size of all frames, with FCS; null if the streams name their sizes.
    pub size: Option<u32>,
    /// Number of the search with this size, from 1.
    pub number: u32,
    /// Unit of the loads of this search; null if it is that of the results.
    #[serde(default)]
    pub unit: Option<String>,
    /// What the tester sustains back to back; null if it was not calibrated.
    pub calibration: Option<Calibration>,
    /// What was found, by goal.
    pub answers: Vec<SearchAnswer>,
    /// All trials, in their order.
    pub trials: Vec<SearchTrial>,
    /// The longest burst without loss; null if it was not searched for.
    pub back_to_back: Option<BackToBack>,
}

/// What the tester sustains without a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The ports of the calibration.
    pub ports: String,
    /// What came back in the best trial at the largest load.
    pub limit: f64,
    /// True if it sustains the largest load of the search.
    pub bears_largest: bool,
    /// Its trials.
    pub trials: Vec<SearchTrial>,
}

/// How the search for a goal has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Both bounds are there, and close enough.
    Regular,
    /// The device sustains the largest load.
    BearsLargest,
    /// The device does not sustain the smallest load.
    FailsAtSmallest,
    /// The tester is the limit: the device sustains the lower bound or more.
    TesterLimit,
    /// The time was over.
    TimeOver,
    /// A signal or an error has ended the search.
    Interrupted,
}

/// What was found for a goal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchAnswer {
    /// Name of the goal.
    pub goal: String,
    /// How the search has ended.
    pub outcome: Outcome,
    /// Why the answer is not regular; empty if it is.
    pub reason: String,
    /// Relevant lower bound: the largest load that the device sustains, below each that it does
    /// not.
    pub lower: Option<f64>,
    /// Relevant upper bound: the smallest load that it does not sustain.
    pub upper: Option<f64>,
    /// Conditional throughput: what the device forwards at the lower bound. Null if the answer is
    /// not regular.
    pub throughput: Option<f64>,
    /// Conditional throughput in packets per second.
    pub throughput_pps: Option<f64>,
    /// Latency in the last of the longest trials at the lower bound.
    pub latency: Option<Latency>,
    /// Connections in that trial; null if the load is packets.
    #[serde(default)]
    pub connections: Option<ConnectionFigures>,
}

/// What the trials at a load say about a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The device sustains the load.
    Lower,
    /// It does not.
    Upper,
    /// More trials are needed.
    Undecided,
}

/// Whether a trial counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialKind {
    /// It counts.
    #[default]
    Counted,
    /// It came before the search.
    WarmUp,
    /// Its losses may be the tester's, so it was made again.
    Repeated,
}

/// One trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchTrial {
    /// Seconds from the start of the search to the start of the trial.
    pub start_s: f64,
    /// Load.
    pub load: f64,
    /// Seconds of sending that were intended.
    pub duration_s: f64,
    /// Seconds of the trial with its preparation and the wait for late packets.
    pub whole_s: f64,
    /// Seed of the generator.
    pub seed: u64,
    /// Whether the trial counts.
    pub kind: TrialKind,
    /// Packets that were to be sent, or connections that were to be opened.
    pub intended: u64,
    /// Packets sent in time, or connections opened in time.
    pub offered: u64,
    /// Packets that came back intact, or connections that did not fail.
    pub forwarded: u64,
    /// Packets not sent in time, or connections not opened in time.
    pub unsent: u64,
    /// Packets sent that did not come back, or connections that failed.
    pub lost: u64,
    /// Packets that the tester's own ports dropped.
    pub missed: u64,
    /// Share of the intended packets that were lost or not sent, from 0 to 1; 1 if the latency was
    /// above its limit. The same for connections; the share of lost packets if that is larger.
    pub loss_ratio: f64,
    /// The part of it that is surely not the tester's.
    pub loss_ratio_of_device: f64,
    /// Latency; null if no packet came back, or if the load is connections.
    pub latency: Option<Latency>,
    /// Connections; null if the load is packets.
    #[serde(default)]
    pub connections: Option<ConnectionFigures>,
    /// Longest time in which the receiver did not run, in nanoseconds.
    pub longest_gap_ns: u64,
    /// Milliseconds that a hypervisor took from the cpus of the tester; null if not known.
    pub steal_ms: Option<u64>,
    /// Why the tester may be the limit in this trial; empty if it is not.
    pub tester: Vec<String>,
    /// What all trials at this load so far say, by goal.
    pub verdicts: Vec<Verdict>,
}

/// The longest burst at the largest load without loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackToBack {
    /// Load of the bursts.
    pub load: f64,
    /// Longest burst of each repetition, in packets.
    pub packets: Vec<u64>,
    /// Their mean.
    pub mean_packets: f64,
    /// True if the longest burst that was tried came back.
    pub bears_longest: bool,
    /// Why the tester may be the limit; empty if it is not.
    pub tester: Vec<String>,
}

impl SearchResults {
    /// Reads results from JSON.
    ///
    /// # Errors
    /// If the text is no JSON of a search.
    pub fn read(text: &str) -> Result<Self, String> {
        let kind = serde_json::from_str::<serde_json::Value>(text).ok();
        let kind = kind.and_then(|value| Some(value.get("kind")?.as_str()?.to_owned()));
        if kind.as_deref() != Some(KIND) {
            let text =
                "is no JSON of `millrace bench search`, `bench rfc9693` or `bench conntrack`";
            return Err(format!("{text}: only those are compared"));
        }
        serde_json::from_str(text).map_err(|error| format!("is damaged: {error}"))
    }

    /// Returns the unit of the loads of a search.
    pub fn unit_of<'a>(&'a self, search: &'a OneSearch) -> &'a str {
        search.unit.as_deref().unwrap_or(&self.unit)
    }

    /// True if no trial was made.
    pub fn is_empty(&self) -> bool {
        self.searches.iter().all(|search| search.trials.is_empty())
    }

    /// True if every search has an answer of the device for every goal.
    pub fn is_complete(&self) -> bool {
        let is_known = |outcome: Outcome| match outcome {
            Outcome::Regular | Outcome::BearsLargest | Outcome::FailsAtSmallest => true,
            Outcome::TesterLimit | Outcome::TimeOver | Outcome::Interrupted => false,
        };
        let mut answers = self.searches.iter().flat_map(|search| &search.answers);
        !self.is_interrupted && answers.all(|answer| is_known(answer.outcome))
    }
}

#[cfg(test)]
mod tests;
