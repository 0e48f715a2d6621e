// SPDX-License-Identifier: BSD-3-Clause
//! Defines the JSON results of a generator run. Member names never change, because other tools read
//! them. Members that older versions did not write have defaults, so that their files can be read,
//! too.

use crate::histogram::LatencyStep;
use crate::workers::WorkerResult;
use serde::{Deserialize, Serialize};

/// Value of the member `kind`.
pub const KIND: &str = "millrace-gen";

fn kind() -> String {
    KIND.to_owned()
}

/// Results of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Version of Millrace.
    pub version: String,
    /// [`KIND`].
    #[serde(default = "kind")]
    pub kind: String,
    /// Version of DPDK.
    pub dpdk: String,
    /// When sending began, in seconds since 1970-01-01 UTC.
    #[serde(default)]
    pub started_unix_s: Option<f64>,
    /// The command line, program included.
    #[serde(default)]
    pub command: Vec<String>,
    /// The host of the run.
    #[serde(default)]
    pub host: Host,
    /// Seed of random values and payload.
    pub seed: u64,
    /// Seconds of sending.
    pub duration_s: f64,
    /// Ports A and B.
    pub ports: Vec<PortResult>,
    /// Frames that ports took.
    pub sent: Counted,
    /// Frames received.
    pub received: Counted,
    /// Counts of each sender.
    #[serde(default)]
    pub senders: Vec<SenderResult>,
    /// Counts of each receive queue.
    #[serde(default)]
    pub queues: Vec<QueueResult>,
    /// Cycles of each worker.
    #[serde(default)]
    pub workers: Vec<WorkerResult>,
    /// Packets that no port took.
    pub unsent: u64,
    /// Times that a port took fewer packets than were offered.
    pub port_full: u64,
    /// Seconds by which the schedule was postponed, because the sender could not keep up.
    pub put_off_s: f64,
    /// Results of verification; null without `--verify`.
    pub verified: Option<Verified>,
    /// Accuracy of send times.
    pub pacing: Pacing,
    /// Longest time between two polls of the receiver, in nanoseconds.
    pub longest_gap_ns: u64,
    /// The intervals of the run.
    #[serde(default)]
    pub intervals: Vec<Interval>,
    /// Number of later intervals, which are not kept.
    #[serde(default)]
    pub intervals_left_out: u64,
}

/// The host of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Model of the processor, where it is known.
    pub cpu: Option<String>,
    /// Release of the kernel.
    pub kernel: Option<String>,
}

/// Where results come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// Version of Millrace.
    pub millrace: String,
    /// Version of DPDK.
    pub dpdk: String,
    /// When the command began, in seconds since 1970-01-01 UTC.
    pub started_unix_s: f64,
    /// The command line, program included.
    pub command: Vec<String>,
    /// Name of the host of the generator.
    pub hostname: Option<String>,
    /// That host.
    pub host: Host,
}

/// One port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PortResult {
    /// Name of the port in DPDK.
    pub name: String,
    /// Speed of the link, in Mb/s; null if it is not known.
    pub link_mbps: Option<u32>,
    /// Frames that the port took.
    #[serde(default)]
    pub sent: Option<Counted>,
    /// Frames received.
    #[serde(default)]
    pub received: Option<Counted>,
    /// Capacity of the link; null if the speed is not known, or nothing was sent.
    #[serde(default)]
    pub link: Option<Link>,
    /// Latency of verified packets received; null if there are none.
    #[serde(default)]
    pub latency: Option<Latency>,
    /// Histogram of the latency of verified packets received.
    #[serde(default)]
    pub latency_histogram: Vec<LatencyStep>,
    /// Frames that the NIC dropped for lack of descriptors.
    pub imissed: u64,
    /// Frames received with errors.
    pub ierrors: u64,
    /// Frames dropped for lack of mbufs.
    pub rx_nombuf: u64,
    /// Frames that could not be sent.
    pub oerrors: u64,
    /// Counts of the reflector at the port's far end; null if it was not queried or has not
    /// answered.
    #[serde(default)]
    pub reflector: Option<ReflectorResult>,
}

/// One sender.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SenderResult {
    /// Name of its port.
    pub port: String,
    /// Frames that the port took from it.
    pub packets: u64,
    /// Packets that the port did not take.
    pub unsent: u64,
    /// Times that the port took fewer packets than were offered.
    pub port_full: u64,
}

/// One receive queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueResult {
    /// Name of its port.
    pub port: String,
    /// Index of the queue at its port.
    pub queue: usize,
    /// Frames received.
    pub packets: u64,
    /// Maximum number of frames that were waiting; null if the driver does not report it.
    pub waiting_max: Option<u64>,
}

/// Counts of a reflector for the packets of a port, and where packets were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReflectorResult {
    /// Packets that it took from its port.
    pub received: u64,
    /// Packets that its port took back.
    pub reflected: u64,
    /// Packets that it did not send back.
    pub dropped: u64,
    /// Packets for which its port had no descriptor or buffer.
    pub missed: u64,
    /// Packets that did not reach it.
    pub lost_on_the_way_there: u64,
    /// Packets that it sent back and that did not arrive intact.
    pub lost_on_the_way_back: u64,
}

/// Capacity of a link, and the share that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Mean size of the frames sent, with FCS.
    pub frame_bytes: f64,
    /// Maximum number of frames of that size per second, each with FCS, preamble and gap.
    pub pps: f64,
    /// Rate sent, in percent of `pps`.
    pub share_percent: f64,
}

/// Frames and their rate from the first one to the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// Number of frames.
    pub packets: u64,
    /// Bytes without FCS.
    pub bytes: u64,
    /// Packets per second.
    pub pps: f64,
    /// Rate on the wire in Mb/s, with FCS, preamble and gap.
    pub wire_mbps: f64,
}

impl Counted {
    /// Returns the counts of frames that arrived within `span_ns` nanoseconds, from the first to
    /// the last. The rates of a single packet are 0.
    pub fn new(packets: u64, bytes: u64, span_ns: u64) -> Self {
        let seconds = span_ns as f64 / 1e9;
        let per_second = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
        let wire_mbps = per_second(crate::wire_bits(packets, bytes)) / 1e6;
        Self { packets, bytes, pps: per_second(packets as f64), wire_mbps }
    }
}

/// Counts of packets with stamps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verified {
    /// Packets that did not arrive intact.
    pub lost: u64,
    /// Packets received damaged.
    pub damaged: u64,
    /// Foreign packets; null where only probes are verified.
    pub foreign: Option<u64>,
    /// Latency of all streams; null if no packet arrived intact.
    pub latency: Option<Latency>,
    /// Results of each stream.
    pub streams: Vec<StreamResult>,
}

/// Latency, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Least latency.
    pub min_ns: u64,
    /// Mean latency.
    pub mean_ns: f64,
    /// Median latency.
    pub p50_ns: u64,
    /// 90 % quantile.
    pub p90_ns: u64,
    /// 99 % quantile.
    pub p99_ns: u64,
    /// 99.9 % quantile.
    pub p999_ns: u64,
    /// Greatest latency.
    pub max_ns: u64,
    /// Packet delay variation (RFC 8219 section 7.3.1): the 99.9 % quantile minus the least
    /// latency.
    pub pdv_ns: u64,
}

/// One stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamResult {
    /// Name of the stream.
    pub name: String,
    /// Packets sent.
    pub sent: u64,
    /// Packets that arrived intact.
    pub received: u64,
    /// Packets that did not arrive intact.
    pub lost: u64,
    /// Packets that arrived after a later one.
    pub reordered: u64,
    /// Greatest distance, in packet numbers, between a reordered packet and the latest packet
    /// before it.
    pub reordering_extent_max: u64,
    /// Extra copies of packets.
    pub duplicates: u64,
    /// Packets older than the duplicate window.
    pub too_late: u64,
    /// Packets received damaged.
    pub damaged: u64,
    /// Jitter (RFC 3550 section 6.4.1).
    pub jitter_ns: u64,
    /// Latency; null if no packet arrived intact.
    #[serde(default)]
    pub latency: Option<StreamLatency>,
}

/// Latency of a stream, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamLatency {
    /// Least latency.
    pub min_ns: u64,
    /// Mean latency.
    pub mean_ns: f64,
    /// Greatest latency.
    pub max_ns: u64,
}

/// Accuracy of send times, in nanoseconds; null at rate `max`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pacing {
    /// True if the ports kept packets until they were due (`--send-on-time`), false if they sent at
    /// once.
    #[serde(default)]
    pub send_on_time: bool,
    /// Delay of bursts, median.
    pub late_p50_ns: Option<u64>,
    /// Delay of bursts, 99 % quantile.
    pub late_p99_ns: Option<u64>,
    /// Error of the gaps between bursts, median.
    pub gap_error_p50_ns: Option<u64>,
    /// Error of the gaps between bursts, 99 % quantile.
    pub gap_error_p99_ns: Option<u64>,
}

/// Values of one interval of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Start of the interval, in seconds from the start of the run.
    pub start_s: f64,
    /// Length of the interval, in seconds.
    pub length_s: f64,
    /// Frames that ports took in it.
    pub sent: Count,
    /// Frames received in it.
    pub received: Count,
    /// Packets stamped in it. Null without `--verify` and probes, like the next three members.
    pub stamped: Option<u64>,
    /// Packets stamped in it that had not arrived when it was written.
    pub lost: Option<u64>,
    /// Damaged packets received in it.
    pub damaged: Option<u64>,
    /// Foreign packets received in it.
    pub foreign: Option<u64>,
    /// Latency of packets received in it; null if there were none.
    pub latency: Option<Latency>,
    /// Longest time between two polls of the receiver, in nanoseconds.
    pub longest_gap_ns: u64,
    /// Time that a hypervisor took from the cpus of the workers, in milliseconds; null if it is not
    /// known.
    #[serde(default)]
    pub steal_ms: Option<u64>,
    /// Counts of each port.
    #[serde(default)]
    pub ports: Vec<PortInterval>,
    /// Counts of each receive queue, in the order of [`Results::queues`].
    #[serde(default)]
    pub queues: Vec<QueueInterval>,
    /// Counts of each verified stream; empty if there are more than 8.
    #[serde(default)]
    pub streams: Vec<StreamInterval>,
}

/// A receive queue in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueInterval {
    /// Frames received.
    pub packets: u64,
    /// Maximum number of frames that were waiting; null if the driver does not report it.
    pub waiting_max: Option<u64>,
}

/// A verified stream in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamInterval {
    /// Packets sent.
    pub sent: u64,
    /// Packets that arrived intact, whenever they were sent.
    pub received: u64,
    /// Packets that arrived after a later one.
    pub reordered: u64,
    /// Extra copies of packets.
    pub duplicates: u64,
    /// Packets received damaged.
    pub damaged: u64,
    /// Jitter (RFC 3550 section 6.4.1) at the end of the interval.
    pub jitter_ns: u64,
}

/// Longer gaps mark an interval, in nanoseconds. After this time 2000 packets wait at 1 Mpps, more
/// than a queue has descriptors.
const AWAY_NS: u64 = 2_000_000;

impl Interval {
    /// True if a receiver did not poll for so long that packets may be lost or late because of it.
    pub fn was_away(&self) -> bool {
        self.longest_gap_ns > AWAY_NS
    }

    /// Returns the share of the packets stamped in it that are lost, from 0 to 1; `None` if none
    /// were stamped.
    pub fn loss(&self) -> Option<f64> {
        let stamped = self.stamped.filter(|stamped| *stamped > 0)?;
        Some(self.lost? as f64 / stamped as f64)
    }
}

/// Frames of a port in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PortInterval {
    /// Frames that the port took.
    pub sent: Count,
    /// Frames received.
    pub received: Count,
    /// Latency of verified packets received; null if there were none.
    #[serde(default)]
    pub latency: Option<Latency>,
}

/// Frames and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Number of frames.
    pub packets: u64,
    /// Bytes without FCS.
    pub bytes: u64,
}

impl Results {
    /// True if every packet was sent, and none was lost.
    pub fn is_good(&self) -> bool {
        // Damaged packets of the run count as lost, too. Foreign packets do not matter.
        let is_whole = self.verified.as_ref().is_none_or(|it| it.lost == 0);
        let is_sent = self.unsent == 0 && self.ports.iter().all(|port| port.oerrors == 0);
        is_whole && is_sent
    }
}
