// SPDX-License-Identifier: BSD-3-Clause
//! Defines the counters of a tester. The daemon sends them as JSON (docs/bench-cps.md); members may
//! be added, none is renamed.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counters since the start of the load, or since they were cleared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TesterStatistics {
    /// Seconds that were counted; a load that has stopped counts no further.
    pub(crate) elapsed_s: f64,
    /// Ends that open connections.
    pub(crate) client: Side,
    /// Ends that accept them.
    pub(crate) server: Side,
    /// Times from the first packet of a connection to the answer; absent if not measured.
    pub(crate) setup: Option<LatencyPercentiles>,
    /// Times from a request to the first byte of its response; absent if not measured.
    pub(crate) first_byte: Option<LatencyPercentiles>,
    /// Times from a request to the last byte of its response; absent if not measured.
    pub(crate) response: Option<LatencyPercentiles>,
    /// Longest time in which a task of the tester did not run, in nanoseconds; 0 if not measured.
    pub(crate) longest_gap_ns: u64,
    /// Rates of the last moment, as the tester measures them; absent if it counts only.
    pub(crate) rates: Option<Rates>,
    /// Why the tester itself, not the device, limited the load; empty if it did not.
    pub(crate) limits: Vec<String>,
    /// Why the device or the link limited the load: a port took no more packets.
    #[serde(default)]
    pub(crate) link_limits: Vec<String>,
}

/// Rates of the last moment, of both sides together. Those of TRex are smoothed, so they are not
/// the counters of a sample divided by its length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rates {
    /// Connections that are opened each second.
    pub(crate) opened_cps: f64,
    /// Bits of layer 2 that are sent each second.
    pub(crate) sent_bps: f64,
    /// Packets that are sent each second.
    pub(crate) sent_pps: f64,
    /// Bits of layer 2 that are received each second.
    pub(crate) received_bps: f64,
    /// Packets that are received each second.
    pub(crate) received_pps: f64,
}

/// Counters of the client ends, or of the server ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Side {
    /// Connections that were begun: by the client with its first packet, by the server with the
    /// first packet that it received.
    pub(crate) attempted: u64,
    /// Connections whose other end has answered. Those of UDP count too.
    pub(crate) established: u64,
    /// Connections that did all that the profile asks for, and closed. 0 if the tester does not
    /// count them.
    pub(crate) completed: u64,
    /// Requests whose response has begun to arrive; 0 at servers.
    pub(crate) responses: u64,
    /// Connections that failed, by cause.
    pub(crate) failed: FailureCounts,
    /// Connections that are open now.
    pub(crate) active: u64,
    /// Packets that were sent.
    pub(crate) sent: TrafficCounts,
    /// Packets that were received.
    pub(crate) received: TrafficCounts,
    /// Counters of errors, by name. All are 0 in a run without faults.
    pub(crate) errors: BTreeMap<String, u64>,
}

/// Connections that failed, by cause. Each connection counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct FailureCounts {
    /// The other end never answered: no SYN+ACK, or no datagram.
    pub(crate) no_answer: u64,
    /// The other end sent an RST that the profile does not ask for.
    pub(crate) reset: u64,
    /// An established connection did not go on in time.
    pub(crate) timeout: u64,
    /// One of the other causes, after packets had come with a wrong checksum.
    pub(crate) checksum: u64,
    /// Data was not what the other end had sent.
    pub(crate) wrong_data: u64,
    /// An ICMP error said that the other end cannot be reached.
    pub(crate) unreachable: u64,
}

/// Packets of one direction of a side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TrafficCounts {
    /// Packets.
    pub(crate) packets: u64,
    /// Bytes of their frames with FCS. On a wire of Ethernet, each frame takes 20 bytes more:
    /// preamble, start delimiter and gap (IEEE 802.3, 4.4.2).
    pub(crate) bytes: u64,
    /// Bytes of payload above TCP and UDP.
    pub(crate) payload_bytes: u64,
    /// Packets of TCP.
    pub(crate) tcp_packets: u64,
}

/// Percentiles of a latency, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LatencyPercentiles {
    /// Median.
    pub(crate) p50_us: f64,
    /// 99th percentile.
    pub(crate) p99_us: f64,
    /// 99.9th percentile.
    pub(crate) p999_us: f64,
    /// Longest.
    pub(crate) max_us: f64,
}

impl FailureCounts {
    /// Returns the causes, with their names in messages.
    pub(crate) fn by_cause(&self) -> [(&'static str, u64); 6] {
        [
            ("no answer", self.no_answer),
            ("reset", self.reset),
            ("timeout", self.timeout),
            ("checksum", self.checksum),
            ("wrong data", self.wrong_data),
            ("unreachable", self.unreachable),
        ]
    }

    /// Returns the number of connections that failed.
    pub(crate) fn total(&self) -> u64 {
        self.by_cause().iter().map(|(_, count)| count).sum()
    }
}

impl TrafficCounts {
    fn plus(&self, other: &Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
            payload_bytes: self.payload_bytes + other.payload_bytes,
            tcp_packets: self.tcp_packets + other.tcp_packets,
        }
    }
}

impl TesterStatistics {
    /// Returns what both sides sent.
    pub(crate) fn sent(&self) -> TrafficCounts {
        self.client.sent.plus(&self.server.sent)
    }

    /// Returns what both sides received.
    pub(crate) fn received(&self) -> TrafficCounts {
        self.client.received.plus(&self.server.received)
    }

    /// Returns the rates that the tester measured; if it did not, those of the whole sample.
    pub(crate) fn rates(&self) -> Rates {
        let each_second = |count: u64| match self.elapsed_s > 0.0 {
            true => count as f64 / self.elapsed_s,
            false => 0.0,
        };
        let (sent, received) = (self.sent(), self.received());
        self.rates.unwrap_or_else(|| Rates {
            opened_cps: each_second(self.client.attempted),
            sent_bps: each_second(8 * sent.bytes),
            sent_pps: each_second(sent.packets),
            received_bps: each_second(8 * received.bytes),
            received_pps: each_second(received.packets),
        })
    }

    /// Returns the connections that failed. A failure that both ends see counts once.
    pub(crate) fn failed(&self) -> u64 {
        self.client.failed.total().max(self.server.failed.total())
    }

    /// Returns the connections that failed, or that never were answered. Some failed because they
    /// were not answered; those count once.
    pub(crate) fn unsuccessful(&self) -> u64 {
        let client = &self.client;
        let unanswered = client.attempted.saturating_sub(client.established);
        let failed = client.failed;
        let before_answer = failed.no_answer + failed.reset + failed.unreachable;
        let counted_as_both = (before_answer + failed.checksum + failed.wrong_data).min(unanswered);
        (unanswered + failed.total() - counted_as_both).max(self.failed())
    }

    /// True if a connection failed, or a counter of errors is not 0.
    pub(crate) fn has_errors(&self) -> bool {
        let has_errors = |side: &Side| side.errors.values().any(|count| *count > 0);
        self.failed() > 0 || has_errors(&self.client) || has_errors(&self.server)
    }
}
