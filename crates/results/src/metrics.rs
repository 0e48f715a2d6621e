// SPDX-License-Identifier: BSD-3-Clause
//! Encodes the results of a run so far as OpenMetrics text. Names begin with `millrace_gen_`.

mod connections;

pub use connections::{ConnectionsOfEnd, ConnectionsScrape};

use crate::names::printable;
use crate::schema::{PortResult, Results, StreamResult};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text::encode};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt;

/// Media type of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper bounds of the buckets of delays, in nanoseconds: 1, 2 and 5 of each power of ten from
/// 1 µs to 10 s.
pub const BOUNDS_NS: [u64; 22] = {
    let mut bounds = [0; 22];
    let (mut place, mut power) = (0, 1000);
    while place < bounds.len() {
        bounds[place] = power * [1, 2, 5][place % 3];
        if place % 3 == 2 {
            power *= 10;
        }
        place += 1;
    }
    bounds
};

/// A distribution of delays.
#[derive(Clone, Debug, Default)]
pub struct Delays {
    /// Number of delays in each bucket: up to its bound of [`BOUNDS_NS`] and above the previous
    /// one. The last bucket is above all bounds.
    pub counts: [u64; BOUNDS_NS.len() + 1],
    /// Sum of all delays, in nanoseconds.
    pub sum_ns: f64,
}

impl Delays {
    /// Adds `count` delays of this number of nanoseconds each.
    pub fn add(&mut self, ns: u64, count: u64) {
        self.counts[BOUNDS_NS.partition_point(|bound| *bound < ns)] += count;
        self.sum_ns += ns as f64 * count as f64;
    }
}

/// The values of a scrape.
#[derive(Clone, Debug)]
pub struct Scrape {
    /// Results of the run so far. Its intervals are not encoded.
    pub results: Results,
    /// Latencies of good packets.
    pub latency: Delays,
    /// Delays from when bursts were due until they were made.
    pub late: Delays,
    /// Errors of the gaps between bursts.
    pub gap_error: Delays,
}

impl Scrape {
    /// Returns the metrics as text.
    pub fn into_text(self) -> String {
        let mut registry = Registry::with_prefix("millrace_gen");
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        encode(&mut text, &registry).expect("a string takes all");
        text
    }
}

/// A metric of each port or stream: name, help, value.
type Of<T, V> = (&'static str, &'static str, fn(&T) -> Option<V>);

const PORT_COUNTERS: [Of<PortResult, u64>; 8] = [
    ("sent_packets", "Frames that the port took", |it| Some(it.sent?.packets)),
    ("sent_bytes", "Bytes that the port took, without FCS", |it| Some(it.sent?.bytes)),
    ("received_packets", "Frames received", |it| Some(it.received?.packets)),
    ("received_bytes", "Bytes received, without FCS", |it| Some(it.received?.bytes)),
    ("imissed", "Frames dropped by the NIC for lack of descriptors", |it| Some(it.imissed)),
    ("ierrors", "Frames received with errors", |it| Some(it.ierrors)),
    ("rx_nombuf", "Frames dropped for lack of mbufs", |it| Some(it.rx_nombuf)),
    ("oerrors", "Frames that could not be sent", |it| Some(it.oerrors)),
];

const PORT_GAUGES: [Of<PortResult, f64>; 2] = [
    ("link_bits_per_second", "Speed of the link", |it| Some(f64::from(it.link_mbps?) * 1e6)),
    ("link_share_ratio", "Rate sent, as a share of the link's maximum", |it| {
        Some(it.link?.share_percent / 100.0)
    }),
];

const STREAM_COUNTERS: [Of<StreamResult, u64>; 6] = [
    ("stream_sent_packets", "Packets of the stream sent", |it| Some(it.sent)),
    ("stream_received_packets", "Packets that arrived intact", |it| Some(it.received)),
    ("stream_reordered_packets", "Packets that arrived after a later one", |it| Some(it.reordered)),
    ("stream_duplicate_packets", "Extra copies of packets", |it| Some(it.duplicates)),
    ("stream_too_late_packets", "Packets older than the duplicate window", |it| Some(it.too_late)),
    ("stream_damaged_packets", "Damaged packets received", |it| Some(it.damaged)),
];

const STREAM_GAUGES: [Of<StreamResult, f64>; 3] = [
    ("stream_missing_packets", "Packets sent that have not arrived: lost, or on their way", |it| {
        Some(it.lost as f64)
    }),
    ("stream_reordering_extent_max", "Greatest distance of a reordered packet", |it| {
        Some(it.reordering_extent_max as f64)
    }),
    ("stream_jitter_seconds", "Jitter, RFC 3550", |it| Some(it.jitter_ns as f64 / 1e9)),
];

type Encoded = Result<(), fmt::Error>;

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Encoded {
        let out = &mut encoder;
        let Results { ports, verified, .. } = &self.results;
        let ports: Vec<_> = ports.iter().map(|port| (printable(&port.name), port)).collect();
        for of in PORT_COUNTERS {
            counters(out, "port", of, &ports)?;
        }
        for of in PORT_GAUGES {
            gauges(out, "port", of, &ports)?;
        }
        self.encode_totals(out)?;
        if let Some(verified) = verified {
            let streams = verified.streams.iter();
            let streams: Vec<_> = streams.map(|stream| (printable(&stream.name), stream)).collect();
            for of in STREAM_COUNTERS {
                counters(out, "stream", of, &streams)?;
            }
            for of in STREAM_GAUGES {
                gauges(out, "stream", of, &streams)?;
            }
            counter(out, "damaged_packets", "Damaged packets received", verified.damaged)?;
            if let Some(foreign) = verified.foreign {
                counter(out, "foreign_packets", "Foreign packets received", foreign)?;
            }
            histogram(out, "latency_seconds", "Latency of good packets", &self.latency)?;
        }
        histogram(out, "late_seconds", "How late bursts were made", &self.late)?;
        histogram(out, "gap_error_seconds", "Error of gaps between bursts", &self.gap_error)
    }
}

impl Scrape {
    fn encode_totals(&self, out: &mut DescriptorEncoder<'_>) -> Encoded {
        let Results { unsent, port_full, put_off_s, duration_s, .. } = self.results;
        counter(out, "unsent_packets", "Packets that no port took", unsent)?;
        counter(out, "port_full", "Bursts that a port took only in part", port_full)?;
        let help = "Time by which the schedule was postponed";
        counter_f64(out, "put_off_seconds", help, put_off_s)?;
        counter_f64(out, "sending_seconds", "Time of sending", duration_s)?;
        let gap = self.results.longest_gap_ns as f64 / 1e9;
        let help = "Longest time between two polls of a receiver";
        gauge(out, "longest_gap_seconds", help, gap)?;
        let Results { version, dpdk, seed, .. } = &self.results;
        let seed = seed.to_string();
        let labels = [("version", version.as_str()), ("dpdk", dpdk), ("seed", &seed)];
        let mut info =
            out.encode_descriptor("build", "Versions and seed of the run", None, MetricType::Info)?;
        info.encode_info(&labels)
    }
}

fn counter(out: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> Encoded {
    encode_counter(&mut out.encode_descriptor(name, help, None, MetricType::Counter)?, value)
}

fn encode_counter(metric: &mut MetricEncoder<'_>, value: u64) -> Encoded {
    metric.encode_counter::<NoLabelSet, u64, u64>(&value, None)
}

fn counter_f64(out: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: f64) -> Encoded {
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Counter)?;
    metric.encode_counter::<NoLabelSet, f64, u64>(&value, None)
}

fn gauge(out: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: f64) -> Encoded {
    out.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
}

fn counters<T>(
    out: &mut DescriptorEncoder<'_>,
    label: &str,
    (name, help, value): Of<T, u64>,
    rows: &[(String, &T)],
) -> Encoded {
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (of, row) in rows {
        if let Some(value) = value(row) {
            encode_counter(&mut metric.encode_family(&[(label, of.as_str())])?, value)?;
        }
    }
    Ok(())
}

fn gauges<T>(
    out: &mut DescriptorEncoder<'_>,
    label: &str,
    (name, help, value): Of<T, f64>,
    rows: &[(String, &T)],
) -> Encoded {
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (of, row) in rows {
        if let Some(value) = value(row) {
            metric.encode_family(&[(label, of.as_str())])?.encode_gauge(&value)?;
        }
    }
    Ok(())
}

fn histogram(out: &mut DescriptorEncoder<'_>, name: &str, help: &str, delays: &Delays) -> Encoded {
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Histogram)?;
    let bounds = BOUNDS_NS.iter().map(|ns| *ns as f64 / 1e9).chain([f64::INFINITY]);
    let buckets: Vec<_> = bounds.zip(delays.counts).collect();
    let count = delays.counts.iter().sum();
    metric.encode_histogram::<NoLabelSet>(delays.sum_ns / 1e9, count, &buckets, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::results;

    fn scrape() -> Scrape {
        let mut latency = Delays::default();
        for (ns, count) in [(1, 1), (1000, 2), (1001, 3), (9_999_999_999, 4), (10_000_000_001, 5)] {
            latency.add(ns, count);
        }
        let (late, gap_error) = (Delays::default(), Delays::default());
        Scrape { results: results(), latency, late, gap_error }
    }

    #[test]
    fn the_text_has_the_figures_of_the_json() {
        let text = scrape().into_text();
        for line in [
            "# TYPE millrace_gen_sent_packets counter",
            "# HELP millrace_gen_sent_packets Frames that the port took",
            "millrace_gen_sent_packets_total{port=\"eth1\"} 3000000",
            "millrace_gen_imissed_total{port=\"eth1\"} 100",
            "millrace_gen_link_bits_per_second{port=\"eth1\"} 10000000000.0",
            "millrace_gen_port_full_total 7",
            "millrace_gen_sending_seconds_total 3.0",
            "millrace_gen_longest_gap_seconds 0.00304",
            "millrace_gen_build_info{version=\"1.2.3\",dpdk=\"DPDK 22.11.0\",seed=\"1\"} 1",
            "millrace_gen_stream_sent_packets_total{stream=\"<web> & \\\"more\\\"\"} 3000000",
            "millrace_gen_stream_missing_packets{stream=\"<web> & \\\"more\\\"\"} 100.0",
            "millrace_gen_foreign_packets_total 3",
            "# TYPE millrace_gen_latency_seconds histogram",
            "millrace_gen_latency_seconds_count 15",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn control_characters_of_names_are_escaped() {
        let mut scrape = scrape();
        scrape.results.verified.as_mut().unwrap().streams[0].name = "a\x1b[2J".to_owned();
        let text = scrape.into_text();
        assert!(text.contains("{stream=\"a\\\\u{1b}[2J\"} 3000000"), "{text}");
    }

    #[test]
    fn buckets_are_cumulative_and_include_their_bounds() {
        assert_eq!((BOUNDS_NS[0], BOUNDS_NS[5], BOUNDS_NS[21]), (1000, 50_000, 10_000_000_000));
        let text = scrape().into_text();
        let bucket = |le: &str| {
            let begin = format!("millrace_gen_latency_seconds_bucket{{le=\"{le}\"}} ");
            text.lines().find_map(|line| line.strip_prefix(&begin)).expect(&text).to_owned()
        };
        assert_eq!(
            ["0.000001", "0.000002", "1.0", "10.0", "+Inf"].map(bucket),
            ["3", "6", "6", "10", "15"]
        );
    }

    #[test]
    fn without_verification_there_are_no_streams() {
        let mut scrape = scrape();
        scrape.results.verified = None;
        let text = scrape.into_text();
        assert!(!text.contains("stream") && !text.contains("latency"), "{text}");
    }
}
