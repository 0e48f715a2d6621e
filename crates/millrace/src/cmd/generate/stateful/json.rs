// SPDX-License-Identifier: BSD-3-Clause
//! Defines the JSON of a run of stateful traffic (docs/generator-stateful.md). Members may be
//! added, none is renamed.

use crate::connections::{Balance, EndTotals, Finished, PortCounts, Totals};
use hdrhistogram::Histogram;
use results::workers::WorkerResult;
use serde::Serialize;
use stateful::Counter;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Version of the JSON.
const VERSION: u32 = 1;

/// The results of a run.
#[derive(Serialize)]
pub(super) struct Results<'a> {
    version: u32,
    command: &'static str,
    profile: &'a Path,
    /// Seconds in which connections were opened.
    opened_for_s: f64,
    /// Bytes of memory for both ends of a connection, or for the only one.
    bytes_per_connection: f64,
    clients: Option<End>,
    servers: Option<End>,
    ports: Vec<Port<'a>>,
    /// Cycles of each worker.
    workers: &'a [WorkerResult],
    intervals: &'a [Interval],
}

/// Counts of clients or servers.
#[derive(Serialize)]
struct End {
    #[serde(flatten)]
    counters: BTreeMap<&'static str, u64>,
    /// Connections that were due, and not opened.
    overdue: u64,
    /// Latencies in microseconds; absent if nothing was timed.
    setup_us: Option<Latency>,
    first_byte_us: Option<Latency>,
    response_us: Option<Latency>,
    /// Longest time between two turns of a task.
    longest_gap_ns: u64,
}

/// Percentiles of a latency in microseconds.
#[derive(Serialize)]
struct Latency {
    min: u64,
    p50: u64,
    p90: u64,
    p99: u64,
    p99_9: u64,
    max: u64,
}

#[derive(Serialize)]
struct Port<'a> {
    name: &'a str,
    imissed: u64,
    ierrors: u64,
    rx_nombuf: u64,
    oerrors: u64,
    /// Frames, by the ends and by the port; absent if frames were impaired between them.
    balance: Option<BalanceOfPort>,
}

#[derive(Serialize)]
struct BalanceOfPort {
    sent_by_ends: u64,
    sent_by_port: u64,
    received_by_ends: u64,
    received_by_port: u64,
    /// False if a frame is in no counter.
    is_kept: bool,
}

/// An interval of a run.
#[derive(Serialize)]
pub(super) struct Interval {
    start_s: f64,
    length_s: f64,
    /// Connections of the clients, or of the servers if they are alone, that are open at its end.
    open: u64,
    clients: Option<End>,
    servers: Option<End>,
}

impl<'a> Results<'a> {
    /// Returns the results of a run that opened connections for this time.
    pub(super) fn new(
        profile: &'a Path,
        finished: &'a Finished,
        opened_for: Duration,
        bytes_per_connection: f64,
        intervals: &'a [Interval],
    ) -> Self {
        let Totals { client, server } = &finished.totals;
        Self {
            version: VERSION,
            command: "gen --stateful",
            profile,
            opened_for_s: opened_for.as_secs_f64(),
            bytes_per_connection,
            clients: client.as_ref().map(end),
            servers: server.as_ref().map(end),
            ports: {
                let balances = finished.balances().into_iter().map(Some);
                let balances = balances.chain(std::iter::repeat(None));
                finished.ports.iter().zip(balances).map(port).collect()
            },
            workers: &finished.workers,
            intervals,
        }
    }
}

fn end(totals: &EndTotals) -> End {
    let named = |counter: Counter| (counter.name(), totals.counters[counter]);
    End {
        counters: Counter::ALL.into_iter().map(named).collect(),
        overdue: totals.overdue,
        setup_us: latency(&totals.latencies.setup),
        first_byte_us: latency(&totals.latencies.first_byte),
        response_us: latency(&totals.latencies.response),
        longest_gap_ns: totals.longest_gap_ns,
    }
}

fn latency(histogram: &Histogram<u64>) -> Option<Latency> {
    let at = |quantile| histogram.value_at_quantile(quantile);
    (!histogram.is_empty()).then(|| Latency {
        min: histogram.min(),
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p99_9: at(0.999),
        max: histogram.max(),
    })
}

fn port((port, balance): (&PortCounts, Option<Balance>)) -> Port<'_> {
    let PortCounts { name, stats, .. } = port;
    Port {
        name,
        imissed: stats.imissed,
        ierrors: stats.ierrors,
        rx_nombuf: stats.rx_nombuf,
        oerrors: stats.oerrors,
        balance: balance.map(|balance| BalanceOfPort {
            sent_by_ends: balance.sent_by_ends,
            sent_by_port: balance.sent_by_port,
            received_by_ends: balance.received_by_ends,
            received_by_port: balance.received_by_port,
            is_kept: balance.is_kept(),
        }),
    }
}

impl Interval {
    /// Returns interval `number` of this length.
    pub(super) fn new(number: u64, length: Duration, totals: &Totals, open: u64) -> Self {
        Self {
            start_s: number as f64 * length.as_secs_f64(),
            length_s: length.as_secs_f64(),
            open,
            clients: totals.client.as_ref().map(end),
            servers: totals.server.as_ref().map(end),
        }
    }
}
