// SPDX-License-Identifier: BSD-3-Clause
//! Prints the totals of a run of stateful traffic.

use crate::connections::{EndTotals, Finished, Totals, overdue_max};
use hdrhistogram::Histogram;
use results::{units, workers};
use stateful::{Counter, Latencies};
use std::io::{self, Write};
use std::time::Duration;

/// Prints the totals of both ends, `opened_for` after the first connection. `bytes` are those of
/// memory for a connection.
pub(super) fn print(finished: &Finished, opened_for: Duration, bytes: f64) -> io::Result<()> {
    let out = &mut io::stdout().lock();
    let totals = &finished.totals;
    for (name, end) in [("clients", &totals.client), ("servers", &totals.server)] {
        let Some(end) = end else { continue };
        writeln!(out)?;
        writeln!(out, "{name}:")?;
        print_end(out, end, opened_for)?;
    }
    for port in &finished.ports {
        let stats = &port.stats;
        let counts = [
            (stats.imissed, "received and dropped: the receive queue was full"),
            (stats.rx_nombuf, "not received: no packet buffer was free"),
            (stats.ierrors, "received with errors"),
            (stats.oerrors, "not sent, by the driver"),
        ];
        for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
            writeln!(out, "  {:>16} frames {what}: port {}", units::thousands(count), port.name)?;
        }
    }
    print_mismatches(out, finished)?;
    print_impaired(out, finished)?;
    writeln!(out)?;
    writeln!(out, "  memory for each connection: {bytes:.0} bytes")?;
    workers::print(&finished.workers, out)
}

/// Prints which frames are in no counter.
fn print_mismatches(out: &mut impl Write, finished: &Finished) -> io::Result<()> {
    for (balance, port) in finished.balances().iter().zip(&finished.ports) {
        let mut print = |what, by_ends, by_port| {
            let [ends, port_count] = [by_ends, by_port].map(units::thousands);
            let name = &port.name;
            writeln!(
                out,
                "  port {name}: {ends} frames {what} by the ends, {port_count} by the port"
            )
        };
        if !balance.is_sent_whole() {
            print("sent", balance.sent_by_ends, balance.sent_by_port)?;
        }
        if !balance.is_received_whole() {
            print("received", balance.received_by_ends, balance.received_by_port)?;
        }
    }
    Ok(())
}

fn print_impaired(out: &mut impl Write, finished: &Finished) -> io::Result<()> {
    if !finished.impaired.is_empty() {
        writeln!(out, "\nframes impaired on purpose:")?;
    }
    for it in finished.impaired.iter().filter(|it| it.count > 0) {
        let side = if it.is_sent { "sent" } else { "received" };
        let port = &finished.ports[it.port].name;
        let count = units::thousands(it.count);
        writeln!(out, "  {count:>16} {}, {side} at port {port}", it.name)?;
    }
    Ok(())
}

fn print_end(out: &mut impl Write, end: &EndTotals, opened_for: Duration) -> io::Result<()> {
    for (value, name) in counts(end, opened_for) {
        writeln!(out, "  {value:>16} {name}")?;
    }
    if end.overdue > 0 {
        let overdue = units::thousands(end.overdue);
        let why =
            if is_late(end, opened_for) { ": the generator is too slow for this rate" } else { "" };
        writeln!(out, "  {overdue:>16} due, not opened{why}")?;
    }
    for (name, quantiles) in latencies(end) {
        writeln!(out, "  {name:>16} {quantiles}")?;
    }
    Ok(())
}

/// True if more connections are due than another program on the cpu explains.
fn is_late(end: &EndTotals, opened_for: Duration) -> bool {
    let attempted = end.counters[Counter::Attempted];
    let cps = (attempted + end.overdue) as f64 / opened_for.as_secs_f64().max(0.01);
    end.overdue as f64 > overdue_max(attempted, cps)
}

/// Returns the counts of an end that are not 0, with their names.
fn counts(end: &EndTotals, opened_for: Duration) -> Vec<(String, String)> {
    let seconds = opened_for.as_secs_f64().max(1e-3);
    let rate = end.counters[Counter::Established] as f64 / seconds;
    let rate = units::thousands(rate.round() as u64);
    let counted = Counter::ALL.into_iter().filter(|counter| end.counters[*counter] > 0);
    let named = counted
        .map(|counter| (units::thousands(end.counters[counter]), counter.name().replace('_', " ")));
    let responses = end.counters[Counter::Responses];
    let each_second = units::thousands((responses as f64 / seconds).round() as u64);
    let first = [
        Some((rate, "connections established each second".to_owned())),
        (responses > 0).then(|| (each_second, "responses each second".to_owned())),
    ];
    first.into_iter().flatten().chain(named).collect()
}

/// Returns the latencies that were timed, with their names.
fn latencies(end: &EndTotals) -> Vec<(&'static str, String)> {
    let Latencies { setup, first_byte, response } = &end.latencies;
    let all =
        [("setup latency", setup), ("first byte", first_byte), ("response latency", response)];
    let timed = all.into_iter().filter(|(_, histogram)| !histogram.is_empty());
    timed.map(|(name, histogram)| (name, quantiles(histogram))).collect()
}

/// Returns the figures of the page: names and values.
pub(super) fn figures(finished: &Finished, opened_for: Duration) -> Vec<[String; 2]> {
    let Totals { client, server } = &finished.totals;
    let mut figures = Vec::new();
    for (name, end) in [("clients", client), ("servers", server)] {
        let Some(end) = end else { continue };
        let counts = counts(end, opened_for).into_iter();
        figures.extend(counts.map(|(value, what)| [format!("{name}: {what}"), value]));
        let latencies = latencies(end).into_iter();
        figures.extend(latencies.map(|(what, value)| [format!("{name}: {what}"), value]));
    }
    figures
}

fn quantiles(histogram: &Histogram<u64>) -> String {
    let at = |quantile| units::duration(histogram.value_at_quantile(quantile) * 1000);
    format!(
        "min {}, p50 {}, p99 {}, p99.9 {}, max {}",
        units::duration(histogram.min() * 1000),
        at(0.5),
        at(0.99),
        at(0.999),
        units::duration(histogram.max() * 1000)
    )
}
