// SPDX-License-Identifier: BSD-3-Clause
//! Figures of a trial whose load is connections, with those that RFC 9411 asks for.

use super::load;
use crate::units;
use serde::{Deserialize, Serialize};

/// What became of the connections of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConnectionFigures {
    /// Connections whose other end has answered.
    pub established: u64,
    /// Connections that did all that they should, and closed.
    pub completed: u64,
    /// Connections that failed, by cause.
    pub failed: FailedConnections,
    /// Connections that were open at the same time at both ends, at the end of the load.
    pub open: u64,
    /// Connections per second that were established. Null if connections were held open, as are
    /// the next two.
    pub connections_per_second: Option<f64>,
    /// Transactions per second: requests whose response has begun to arrive.
    pub transactions_per_second: Option<f64>,
    /// Throughput in bits per second: the frames that arrived, with FCS, of both directions.
    pub throughput_bps: Option<f64>,
    /// Share of the packets sent that did not arrive.
    pub packet_loss_ratio: f64,
    /// Time from SYN to SYN+ACK; null if it was not measured.
    pub setup: Option<LatencyPercentiles>,
    /// Time from a request to the first byte of its response; null if it was not measured.
    pub first_byte: Option<LatencyPercentiles>,
    /// Time from a request to the last byte of its response; null if it was not measured.
    pub last_byte: Option<LatencyPercentiles>,
}

/// Connections that failed, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedConnections {
    /// The other end never answered.
    pub no_answer: u64,
    /// The other end sent an RST.
    pub reset: u64,
    /// The connection did not go on in time.
    pub timeout: u64,
    /// A packet had a wrong checksum.
    pub checksum: u64,
    /// Data was not what the other end had sent.
    pub wrong_data: u64,
    /// An ICMP error said that the other end cannot be reached.
    #[serde(default)]
    pub unreachable: u64,
}

/// Percentiles of a latency in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyPercentiles {
    /// Median.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// Longest.
    pub max_us: f64,
}

impl ConnectionFigures {
    /// Returns the figures in one line.
    pub(super) fn summary(&self) -> String {
        let mut parts = vec![format!("{} connections open at a time", units::thousands(self.open))];
        let rates = [
            self.connections_per_second.map(|rate| load(rate, "cps")),
            self.transactions_per_second
                .map(|rate| format!("{} transactions/s", units::thousands(rate as u64))),
            self.throughput_bps.map(|rate| load(rate, "bit/s")),
        ];
        parts.extend(rates.into_iter().flatten());
        for (name, latency) in
            [("setup", self.setup), ("first byte", self.first_byte), ("last byte", self.last_byte)]
        {
            let micros = |us: f64| units::duration((us * 1e3) as u64);
            let shown = latency
                .map(|it| format!("{name} p50 {} p99 {}", micros(it.p50_us), micros(it.p99_us)));
            parts.extend(shown);
        }
        parts.join(", ")
    }
}
