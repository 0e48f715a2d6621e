// SPDX-License-Identifier: BSD-3-Clause
//! Prints the totals of a run of stateful traffic.

use crate::connections::{EndTotals, Finished};
use hdrhistogram::Histogram;
use results::units;
use stateful::Counter;
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
    print_impaired(out, finished)?;
    writeln!(out)?;
    writeln!(out, "  memory for each connection: {bytes:.0} bytes")
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
    let seconds = opened_for.as_secs_f64().max(1e-3);
    let rate = end.counters[Counter::Established] as f64 / seconds;
    let rate = units::thousands(rate.round() as u64);
    writeln!(out, "  {rate:>16} connections established each second")?;
    for counter in Counter::ALL {
        let count = end.counters[counter];
        if count > 0 {
            writeln!(
                out,
                "  {:>16} {}",
                units::thousands(count),
                counter.name().replace('_', " ")
            )?;
        }
    }
    if end.overdue > 0 {
        let overdue = units::thousands(end.overdue);
        writeln!(out, "  {overdue:>16} due, not opened: the generator is too slow for this rate")?;
    }
    for (name, histogram) in
        [("setup", &end.latencies.setup), ("response", &end.latencies.response)]
    {
        if !histogram.is_empty() {
            writeln!(out, "  {:>16} {}", format!("{name} latency"), quantiles(histogram))?;
        }
    }
    Ok(())
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
