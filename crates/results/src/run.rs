// SPDX-License-Identifier: BSD-3-Clause
//! Reads a run for reports, from JSON or from the CSV of intervals.

use crate::schema::{KIND, Link, Results};
use crate::{limits, names, units};
use serde::Deserialize;
use std::ops::RangeInclusive;

/// A run: its description, its figures, and its values over time.
#[derive(Clone, Debug)]
pub struct Run {
    /// Name of the run in the report.
    pub name: String,
    pub(crate) facts: Vec<(&'static str, String)>,
    pub(crate) figures: Vec<(Figure, f64)>,
    pub(crate) points: Vec<Point>,
}

/// A figure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
}

/// Unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Count,
    /// Packets per second.
    Rate,
    Gbps,
    Percent,
    Nanoseconds,
    Seconds,
}

/// Values of a run in one interval. Unknown values are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Point {
    pub(crate) start_s: f64,
    pub(crate) length_s: f64,
    pub(crate) sent: f64,
    pub(crate) received: f64,
    /// Stamped packets: `lost` counts losses among these.
    pub(crate) stamped: Option<f64>,
    pub(crate) lost: Option<f64>,
    /// Mean latency, in nanoseconds; all following values are in nanoseconds, too.
    pub(crate) mean: Option<f64>,
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
    pub(crate) max: Option<f64>,
    pub(crate) gap: Option<f64>,
}

impl Point {
    pub(crate) fn end_s(&self) -> f64 {
        self.start_s + self.length_s
    }

    /// Returns the packets sent per second.
    pub(crate) fn sent_rate(&self) -> f64 {
        self.sent / self.length_s
    }

    /// Returns the packets received per second.
    pub(crate) fn received_rate(&self) -> f64 {
        self.received / self.length_s
    }

    /// Returns the share of stamped packets that were lost, in percent; `None` if there were none.
    pub(crate) fn loss_percent(&self) -> Option<f64> {
        let stamped = self.stamped.filter(|stamped| *stamped > 0.0)?;
        Some(100.0 * self.lost? / stamped)
    }
}

/// The reason why a file cannot be read as a run.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Neither JSON nor a CSV of intervals.
    #[error(
        "is neither JSON results of `millrace gen` nor CSV that begins with \
         time,tx_packets,rx_packets,drop_rate,avg_latency"
    )]
    Unknown,
    /// JSON without the members of results.
    #[error("has no results of `millrace gen`: {0}")]
    Json(#[from] serde_json::Error),
    /// JSON results of another kind.
    #[error("has results of {0}, not of {KIND}")]
    Kind(String),
    /// A line of the CSV that cannot be read.
    #[error("cannot be read: {0}")]
    Csv(#[from] csv::Error),
    /// A line of the CSV with a time that is not after that of the previous line.
    #[error("line {0}: its time is not after that of the previous line")]
    Time(u64),
    /// A line of the CSV with a value beyond its limits.
    #[error("line {line}: {value}")]
    Line {
        /// Number of the line, from 1.
        line: u64,
        /// The value and its limits.
        value: Beyond,
    },
    /// A member of the JSON with a value beyond its limits.
    #[error("has a wrong value: {0}")]
    Member(Beyond),
    /// An interval that does not begin after the previous one.
    #[error("has a wrong value: {0} is not after that of the previous interval")]
    Order(String),
}

/// A value beyond its limits.
#[derive(Debug, thiserror::Error)]
#[error("{name} is {value}, and must be from {least} to {most}")]
pub struct Beyond {
    name: String,
    value: String,
    least: String,
    most: String,
}

/// Writes a number without trailing zeros: `1.5`, `1e300`.
fn in_short(value: f64) -> String {
    match value.abs() {
        1e7.. => format!("{value:e}"),
        _ => value.to_string(),
    }
}

impl Beyond {
    fn new(name: &str, value: f64, range: RangeInclusive<f64>) -> Self {
        let [value, least, most] = [value, *range.start(), *range.end()].map(in_short);
        Self { name: name.to_owned(), value, least, most }
    }
}

impl ReadError {
    pub(crate) fn beyond(member: &str, value: f64, range: RangeInclusive<f64>) -> Self {
        Self::Member(Beyond::new(member, value, range))
    }
}

/// First columns of the CSV.
const CSV_BEGIN: &str = "time,tx_packets,rx_packets,drop_rate,avg_latency";

impl Run {
    /// Reads JSON results, or a CSV of intervals.
    ///
    /// # Errors
    /// If `text` is neither, or has values beyond their limits.
    pub fn read(name: &str, text: &str) -> Result<Self, ReadError> {
        if text.starts_with(CSV_BEGIN) {
            return Self::read_csv(name, text);
        }
        if !text.trim_start().starts_with('{') {
            return Err(ReadError::Unknown);
        }
        let results: Results = serde_json::from_str(text)?;
        if results.kind != KIND {
            return Err(ReadError::Kind(results.kind));
        }
        limits::check_json(&serde_json::from_str(text)?)?;
        Ok(Self::new(name, &results))
    }

    /// Returns the run of these results.
    pub fn new(name: &str, results: &Results) -> Self {
        let whole = results.intervals.iter().filter(|interval| {
            // Later intervals have only packets that were on their way when sending ended: no rate.
            let end_s = interval.start_s + interval.length_s;
            end_s <= results.duration_s + 0.01 * interval.length_s
        });
        let whole: Vec<Point> = whole.map(Point::from).collect();
        let points = match whole.is_empty() {
            true => results.intervals.iter().map(Point::from).collect(),
            false => whole,
        };
        let facts = facts(results).into_iter();
        let facts = facts.map(|(name, value)| (name, names::printable(&value))).collect();
        let figures = figures(results);
        Self { name: names::printable(name), facts, figures, points }
    }

    fn read_csv(name: &str, text: &str) -> Result<Self, ReadError> {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let headers = reader.headers()?.clone();
        let mut points: Vec<Point> = Vec::new();
        for record in reader.records() {
            let record = record?;
            let line: Line = record.deserialize(Some(&headers))?;
            let number = || line_number(text, record.position());
            line.check().map_err(|value| ReadError::Line { line: number(), value })?;
            let point = Point::from(&line);
            if let Some(before) = points.last_mut() {
                before.length_s = point.start_s - before.start_s;
                if !limits::LENGTH_S.contains(&before.length_s) {
                    return Err(ReadError::Time(number()));
                }
            }
            points.push(point);
        }
        if let [.., before, last] = &mut points[..] {
            last.length_s = before.length_s;
        }
        let figures = figures_of_points(&points);
        let facts = vec![("seconds", points.last().map_or(0.0, Point::end_s).to_string())];
        Ok(Self { name: names::printable(name), facts, figures, points })
    }
}

/// Returns the line number of a record, from 1. `position` is that of the empty lines before it, if
/// there are any.
fn line_number(text: &str, position: Option<&csv::Position>) -> u64 {
    let begin = position.map_or(0, csv::Position::byte) as usize;
    let bytes = text.as_bytes();
    let empty = bytes[begin..].iter().take_while(|byte| b"\r\n".contains(byte)).count();
    let ends = bytes[..begin + empty].iter().filter(|byte| **byte == b'\n').count();
    ends as u64 + 1
}

/// A line of the CSV; the first five columns are those of dpdk-project.
#[derive(Deserialize)]
struct Line {
    /// Milliseconds.
    time: f64,
    tx_packets: f64,
    rx_packets: f64,
    drop_rate: Option<f64>,
    /// Milliseconds.
    avg_latency: Option<f64>,
    #[serde(default)]
    lost: Option<f64>,
    #[serde(default)]
    p50_latency_ns: Option<f64>,
    #[serde(default)]
    p99_latency_ns: Option<f64>,
    #[serde(default)]
    max_latency_ns: Option<f64>,
    #[serde(default)]
    longest_gap_ns: Option<f64>,
}

impl Line {
    /// Fails at the first value beyond its limits. dpdk-project divides by 0 if nothing was sent or
    /// received, so NaN stands for an unknown value.
    fn check(&self) -> Result<(), Beyond> {
        let is_known = |value: &f64| !value.is_nan();
        let values = [
            ("time", Some(self.time), limits::MILLISECONDS),
            ("tx_packets", Some(self.tx_packets), limits::COUNT),
            ("rx_packets", Some(self.rx_packets), limits::COUNT),
            ("drop_rate", self.drop_rate.filter(is_known), limits::SHARE),
            ("avg_latency", self.avg_latency.filter(is_known), limits::MILLISECONDS),
            ("lost", self.lost, limits::COUNT),
            ("p50_latency_ns", self.p50_latency_ns, limits::COUNT),
            ("p99_latency_ns", self.p99_latency_ns, limits::COUNT),
            ("max_latency_ns", self.max_latency_ns, limits::COUNT),
            ("longest_gap_ns", self.longest_gap_ns, limits::COUNT),
        ];
        for (name, value, range) in values {
            match value {
                Some(value) if !range.contains(&value) => {
                    return Err(Beyond::new(name, value, range));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl From<&Line> for Point {
    fn from(line: &Line) -> Self {
        let rate = line.drop_rate.filter(|rate| rate.is_finite());
        // No column has the number of stamped packets: it follows from the loss and its share.
        let stamped = match (line.lost.filter(|lost| *lost > 0.0), rate) {
            (Some(lost), Some(rate)) if limits::COUNT.contains(&(lost / rate)) => Some(lost / rate),
            (_, rate) => rate.map(|_| line.tx_packets),
        };
        Self {
            start_s: line.time / 1e3,
            length_s: 1.0,
            sent: line.tx_packets,
            received: line.rx_packets,
            stamped,
            lost: stamped.zip(rate).map(|(stamped, rate)| rate * stamped),
            mean: line
                .avg_latency
                .filter(|mean| mean.is_finite() && *mean > 0.0)
                .map(|ms| ms * 1e6),
            p50: line.p50_latency_ns,
            p99: line.p99_latency_ns,
            max: line.max_latency_ns,
            gap: line.longest_gap_ns,
        }
    }
}

impl From<&crate::Interval> for Point {
    fn from(interval: &crate::Interval) -> Self {
        let latency = interval.latency.as_ref();
        Self {
            start_s: interval.start_s,
            length_s: interval.length_s,
            sent: interval.sent.packets as f64,
            received: interval.received.packets as f64,
            stamped: interval.stamped.map(|count| count as f64),
            lost: interval.lost.map(|count| count as f64),
            mean: latency.map(|latency| latency.mean_ns),
            p50: latency.map(|latency| latency.p50_ns as f64),
            p99: latency.map(|latency| latency.p99_ns as f64),
            max: latency.map(|latency| latency.max_ns as f64),
            gap: Some(interval.longest_gap_ns as f64),
        }
    }
}

fn facts(results: &Results) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if let Some(seconds) = results.started_unix_s {
        facts.push(("started", units::date(seconds as u64)));
    }
    if !results.command.is_empty() {
        facts.push(("command", results.command.join(" ")));
    }
    facts.push(("Millrace", results.version.clone()));
    facts.push(("DPDK", results.dpdk.trim_start_matches("DPDK ").to_owned()));
    let host = [("processor", &results.host.cpu), ("kernel", &results.host.kernel)];
    facts.extend(host.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))));
    facts.push(("seed", results.seed.to_string()));
    facts.push(("seconds", format!("{:.3}", results.duration_s)));
    for port in &results.ports {
        let speed = port
            .link_mbps
            .map_or("speed not known".to_owned(), |mbps| format!("{} Gb/s", f64::from(mbps) / 1e3));
        facts.push(("port", format!("{}, {speed}", port.name)));
    }
    facts
}

fn figures(results: &Results) -> Vec<(Figure, f64)> {
    let mut figures = Figures::default();
    let Results { sent, received, .. } = results;
    figures.count("sent", sent.packets);
    figures.add("sent, rate", Unit::Rate, sent.pps);
    figures.add("sent, on the wire", Unit::Gbps, sent.wire_mbps / 1e3);
    for (name, port) in ["share of link A", "share of link B"].into_iter().zip(&results.ports) {
        if let Some(link) = port.link.filter(Link::is_credible) {
            figures.add(name, Unit::Percent, link.share_percent);
        }
    }
    figures.count("received", received.packets);
    figures.add("received, rate", Unit::Rate, received.pps);
    figures.add("received, on the wire", Unit::Gbps, received.wire_mbps / 1e3);
    figures.count("not sent", results.unsent);
    figures.add("schedule put off", Unit::Seconds, results.put_off_s);
    if let Some(verified) = &results.verified {
        let sum = |of: fn(&crate::StreamResult) -> u64| verified.streams.iter().map(of).sum();
        let stamped: u64 = sum(|stream| stream.sent);
        figures.count("lost", verified.lost);
        if stamped > 0 {
            let percent = 100.0 * verified.lost as f64 / stamped as f64;
            figures.add("loss", Unit::Percent, percent);
        }
        figures.count("damaged", verified.damaged);
        figures.count("reordered", sum(|stream| stream.reordered));
        figures.count("duplicates", sum(|stream| stream.duplicates));
        if let Some(latency) = &verified.latency {
            figures.latency("latency, least", latency.min_ns as f64);
            figures.latency("latency, mean", latency.mean_ns);
            figures.latency("latency, p50", latency.p50_ns as f64);
            figures.latency("latency, p90", latency.p90_ns as f64);
            figures.latency("latency, p99", latency.p99_ns as f64);
            figures.latency("latency, p99.9", latency.p999_ns as f64);
            figures.latency("latency, greatest", latency.max_ns as f64);
        }
        let jitter = verified.streams.iter().map(|stream| stream.jitter_ns).max();
        figures.latency("jitter, greatest", jitter.unwrap_or(0) as f64);
    }
    figures.latency("longest gap of the receiver", results.longest_gap_ns as f64);
    figures.0
}

#[derive(Default)]
struct Figures(Vec<(Figure, f64)>);

impl Figures {
    fn add(&mut self, name: &'static str, unit: Unit, value: f64) {
        self.0.push((Figure { name, unit }, value));
    }

    fn count(&mut self, name: &'static str, value: u64) {
        self.add(name, Unit::Count, value as f64);
    }

    fn latency(&mut self, name: &'static str, value: f64) {
        self.add(name, Unit::Nanoseconds, value);
    }
}

/// Returns the figures of a run of which only intervals are known.
fn figures_of_points(points: &[Point]) -> Vec<(Figure, f64)> {
    let sum = |of: fn(&Point) -> f64| points.iter().map(of).sum::<f64>();
    let mut figures = Figures::default();
    let seconds = sum(|point| point.length_s);
    let rate = |packets: f64| if seconds > 0.0 { packets / seconds } else { 0.0 };
    let (sent, received) = (sum(|point| point.sent), sum(|point| point.received));
    figures.add("sent", Unit::Count, sent);
    figures.add("sent, rate", Unit::Rate, rate(sent));
    figures.add("received", Unit::Count, received);
    figures.add("received, rate", Unit::Rate, rate(received));
    let stamped = sum(|point| point.stamped.unwrap_or(0.0));
    if stamped > 0.0 {
        let lost = sum(|point| point.lost.unwrap_or(0.0));
        figures.add("lost", Unit::Count, lost.round());
        figures.add("loss", Unit::Percent, 100.0 * lost / stamped);
    }
    let measured = || points.iter().filter_map(|point| Some((point.mean?, point.received)));
    let packets: f64 = measured().map(|(_, packets)| packets).sum();
    if packets > 0.0 {
        let all: f64 = measured().map(|(mean, packets)| mean * packets).sum();
        figures.latency("latency, mean", all / packets);
    }
    if let Some(most) = points.iter().filter_map(|point| point.max).reduce(f64::max) {
        figures.latency("latency, greatest", most);
    }
    if let Some(most) = points.iter().filter_map(|point| point.gap).reduce(f64::max) {
        figures.latency("longest gap of the receiver", most);
    }
    figures.0
}
