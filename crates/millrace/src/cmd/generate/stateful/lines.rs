// SPDX-License-Identifier: BSD-3-Clause
//! Formats the lines of intervals of stateful traffic.

use crate::connections::{EndTotals, Totals};
use results::{units, wire_bits};
use stateful::{Counter, Counters};
use std::time::Duration;

/// Formats intervals. Sums up what is open.
pub(super) struct Lines {
    interval: Duration,
    /// Counters of the client, or of the server if it is alone, in all intervals so far.
    sum: Counters,
}

impl Lines {
    pub(super) const HEADING: &'static str = "  time      conn/s      resp/s      open  failed  \
                                              setup p50      p99  first byte p50      p99  \
                                              response p50      p99  sent Mpps    Gb/s";

    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, sum: Counters::default() }
    }

    /// Returns the number of connections that are open after the latest line.
    pub(super) fn open(&self) -> u64 {
        self.sum.active()
    }

    /// Returns the line of interval `number`.
    pub(super) fn line(&mut self, number: u64, interval: &Totals) -> String {
        let length = self.interval.as_secs_f64();
        let none = EndTotals::default();
        let end = interval.client.as_ref().or(interval.server.as_ref()).unwrap_or(&none);
        self.sum.add(&end.counters);
        let ends = [&interval.client, &interval.server].into_iter().flatten();
        let (packets, bytes) = ends.fold((0, 0), |(packets, bytes), end| {
            (packets + end.taken.packets, bytes + end.taken.bytes)
        });
        let each_second = |counter: Counter| {
            units::thousands((end.counters[counter] as f64 / length).round() as u64)
        };
        let quantiles = |histogram: &hdrhistogram::Histogram<u64>| match histogram.is_empty() {
            true => ["-".to_owned(), "-".to_owned()],
            false => [0.5, 0.99]
                .map(|quantile| units::duration(histogram.value_at_quantile(quantile) * 1000)),
        };
        let [setup, setup_99] = quantiles(&end.latencies.setup);
        let [first, first_99] = quantiles(&end.latencies.first_byte);
        let [response, response_99] = quantiles(&end.latencies.response);
        format!(
            "{:>6.1} {:>11} {:>11} {:>9} {:>7} {setup:>10} {setup_99:>8} {first:>15} {first_99:>8} \
             {response:>13} {response_99:>8} {:>10.3} {:>7.3}",
            (number + 1) as f64 * length,
            each_second(Counter::Established),
            each_second(Counter::Responses),
            units::thousands(self.sum.active()),
            units::thousands(end.counters.failures()),
            packets as f64 / length / 1e6,
            wire_bits(packets, bytes) / length / 1e9,
        )
    }
}
