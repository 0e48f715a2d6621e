// SPDX-License-Identifier: BSD-3-Clause
//! Converts the counts of stateful traffic to lines of CSV, steps of a page, and metrics.

use crate::connections::{EndTotals, Totals};
use hdrhistogram::Histogram;
use results::connections::ConnectionsStep;
use results::metrics::{ConnectionsOfEnd, ConnectionsScrape, Delays};
use stateful::{Counter, Latencies};

/// The first columns of the CSV. They are the same in every version.
pub(super) const BEGIN: &str = "start_s,open,overdue,attempted,established,completed,failed,";

/// Percentiles of the columns.
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("max", 1.0)];

fn latencies(latencies: &Latencies) -> [(&'static str, &Histogram<u64>); 3] {
    let Latencies { setup, first_byte, response } = latencies;
    [("setup", setup), ("first_byte", first_byte), ("response", response)]
}

/// Counters in the columns behind the first ones.
fn others() -> impl Iterator<Item = Counter> {
    let is_first =
        |it: &Counter| matches!(it, Counter::Attempted | Counter::Established | Counter::Completed);
    Counter::ALL.into_iter().filter(move |it| !is_first(it))
}

/// Returns the names of the columns.
pub(super) fn heading() -> Vec<String> {
    let mut names: Vec<_> = BEGIN.trim_end_matches(',').split(',').map(str::to_owned).collect();
    names.extend(others().map(|counter| counter.name().to_owned()));
    for (name, _) in latencies(&Latencies::default()) {
        names.extend(QUANTILES.map(|(quantile, _)| format!("{name}_{quantile}_us")));
    }
    names
}

/// Returns the end whose counts stand for the run: clients, or servers if they are alone.
fn end_of(totals: &Totals) -> Option<&EndTotals> {
    totals.client.as_ref().or(totals.server.as_ref())
}

/// Returns the values of an interval, with `open` connections at its end.
pub(super) fn values(start_s: f64, totals: &Totals, open: u64) -> Vec<String> {
    let none = EndTotals::default();
    let end = end_of(totals).unwrap_or(&none);
    let counters = &end.counters;
    // Rounded to milliseconds: binary fractions have many digits.
    let mut values = vec![((start_s * 1e3).round() / 1e3).to_string()];
    let first = [
        open,
        end.overdue,
        counters[Counter::Attempted],
        counters[Counter::Established],
        counters[Counter::Completed],
        counters.failures(),
    ];
    values.extend(first.map(|count| count.to_string()));
    values.extend(others().map(|counter| counters[counter].to_string()));
    for (_, histogram) in latencies(&end.latencies) {
        let value = |quantile| match histogram.is_empty() {
            true => String::new(),
            false => histogram.value_at_quantile(quantile).to_string(),
        };
        values.extend(QUANTILES.map(|(_, quantile)| value(quantile)));
    }
    values
}

/// Returns an interval for the page.
pub(super) fn step((start_s, length_s): (f64, f64), totals: &Totals, open: u64) -> ConnectionsStep {
    let none = EndTotals::default();
    let end = end_of(totals).unwrap_or(&none);
    let quantiles = |histogram: &Histogram<u64>| {
        let ns = |quantile| histogram.value_at_quantile(quantile) as f64 * 1e3;
        (!histogram.is_empty()).then(|| [ns(0.5), ns(0.99)])
    };
    ConnectionsStep {
        start_s,
        length_s,
        attempted: end.counters[Counter::Attempted],
        established: end.counters[Counter::Established],
        failed: end.counters.failures(),
        open,
        latencies: latencies(&end.latencies).map(|(_, histogram)| quantiles(histogram)),
    }
}

/// Returns the metrics of the run so far.
pub(super) fn scrape(totals: &Totals) -> ConnectionsScrape {
    let ends = [("clients", &totals.client), ("servers", &totals.server)];
    let of_end = |(name, end): (&'static str, &Option<EndTotals>)| {
        let counters = &end.as_ref()?.counters;
        let named = |counter: Counter| (counter.name(), counters[counter]);
        let all = Counter::ALL.into_iter().map(named).collect();
        Some(ConnectionsOfEnd { name, counters: all, open: counters.active() })
    };
    let delays = |(name, histogram): (&'static str, &Histogram<u64>)| {
        let mut delays = Delays::default();
        for value in histogram.iter_recorded() {
            let us = value.value_iterated_to();
            delays.add(us * 1000, value.count_since_last_iteration());
        }
        (name, delays)
    };
    let of_clients = totals.client.iter().flat_map(|client| latencies(&client.latencies));
    ConnectionsScrape {
        ends: ends.into_iter().filter_map(of_end).collect(),
        latencies: of_clients.map(delays).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_has_a_value() {
        let names = heading();
        assert!(names.join(",").starts_with(BEGIN));
        let mut client = EndTotals::default();
        client.counters[Counter::Attempted] = 9;
        client.counters[Counter::Refused] = 2;
        client.latencies.first_byte.record(70).unwrap();
        let totals = Totals { client: Some(client), server: None };
        let values = values(0.1 + 0.2, &totals, 7);
        assert_eq!(names.len(), values.len());
        let value = |name: &str| &values[names.iter().position(|it| it == name).unwrap()];
        assert_eq!((value("start_s").as_str(), value("open").as_str()), ("0.3", "7"));
        assert_eq!((value("attempted").as_str(), value("failed").as_str()), ("9", "2"));
        assert_eq!((value("refused").as_str(), value("first_byte_p99_us").as_str()), ("2", "70"));
        assert_eq!(value("setup_p50_us"), "");
        let mut unique = names.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), names.len());
        assert_eq!(step((0.0, 1.0), &totals, 7).latencies[1], Some([70e3, 70e3]));
        let scrape = scrape(&totals);
        assert_eq!((scrape.ends.len(), scrape.latencies[1].1.sum_ns), (1, 70e3));
    }
}
