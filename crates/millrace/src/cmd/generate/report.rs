// SPDX-License-Identifier: BSD-3-Clause
//! Results of the generator: a line per second, tables, and JSON.

use super::GenArgs;
use crate::output::JsonFile;
use crate::{table, units};
use anyhow::Context;
use dpdk::Port;
use generator::{Interval, Span, StreamTotals, Totals};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;
use traffic::stream::StreamSpec;

/// Bytes of a frame on the wire that drivers do not count: FCS, preamble and gap.
const WIRE_EXTRA: u64 = 4 + 20;
/// Makes a line for each interval.
pub(super) struct Meter {
    is_verified: bool,
    interval: Duration,
    /// How long after its end an interval is printed: its packets have come by then.
    late: Duration,
}

impl Meter {
    pub(super) const HEADING: &str =
        "     s  sent Mpps    Gb/s  recv Mpps        lost  damaged       p50       p99       max";

    pub(super) fn new(is_verified: bool, interval: Duration, late: Duration) -> Self {
        Self { is_verified, interval, late }
    }

    /// How many intervals are over, and their late packets reported.
    pub(super) fn intervals_over(&self, elapsed: Duration) -> u64 {
        (elapsed.saturating_sub(self.late).as_nanos() / self.interval.as_nanos()) as u64
    }

    pub(super) fn line(&self, number: u64, interval: &Interval) -> String {
        let (sent, bytes) = (interval.sent.iter().sum(), interval.sent_bytes.iter().sum());
        let seconds = self.interval.as_secs_f64();
        let decimals = if self.interval.subsec_nanos() == 0 { 0 } else { 2 };
        let mut line = format!(
            "{:6.decimals$}  {:9.3}  {:6.2}  {:9.3}",
            (number + 1) as f64 * seconds,
            mega(sent) / seconds,
            wire_bits(sent, bytes) / 1e9 / seconds,
            mega(interval.received.iter().sum()) / seconds
        );
        if self.is_verified {
            line += &format!("  {:10}  {:7}", interval.lost(), interval.damaged);
            if !interval.latency.is_empty() {
                let quantile = |part| units::duration(interval.latency.value_at_quantile(part));
                let max = units::duration(interval.latency.max());
                line += &format!("  {:>8}  {:>8}  {max:>8}", quantile(0.5), quantile(0.99));
            }
        }
        line
    }
}

fn mega(count: u64) -> f64 {
    count as f64 / 1e6
}

fn wire_bits(packets: u64, bytes: u64) -> f64 {
    (bytes + WIRE_EXTRA * packets) as f64 * 8.0
}

/// Results of a run.
#[derive(Serialize)]
pub(super) struct Results {
    version: &'static str,
    dpdk: String,
    seed: u64,
    /// Seconds of sending.
    duration_s: f64,
    ports: Vec<PortResult>,
    sent: Counted,
    received: Counted,
    /// Packets that no port took.
    unsent: u64,
    /// Times that a port took fewer packets than were offered.
    port_full: u64,
    /// Seconds by which the schedule was put off, as the sender could not keep up.
    put_off_s: f64,
    /// Null without `--verify`.
    verified: Option<Verified>,
    pacing: Pacing,
    /// Longest time in which the receiver did not look, nanoseconds.
    longest_gap_ns: u64,
}

#[derive(Default, Serialize)]
pub(super) struct PortResult {
    name: String,
    link_mbps: Option<u32>,
    pub(super) imissed: u64,
    ierrors: u64,
    rx_nombuf: u64,
    pub(super) oerrors: u64,
}

#[derive(Serialize)]
struct Counted {
    packets: u64,
    /// Without FCS.
    bytes: u64,
    pps: f64,
    /// With FCS, preamble and gap.
    wire_mbps: f64,
}

#[derive(Serialize)]
struct Verified {
    lost: u64,
    damaged: u64,
    /// Null where only probes are verified.
    foreign: Option<u64>,
    latency: Option<Latency>,
    streams: Vec<StreamResult>,
}

/// Nanoseconds.
#[derive(Serialize)]
struct Latency {
    min_ns: u64,
    mean_ns: f64,
    p50_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    max_ns: u64,
    /// RFC 8219 section 7.3.1: from the least to that of 99.9 %.
    pdv_ns: u64,
}

#[derive(Serialize)]
struct StreamResult {
    name: String,
    sent: u64,
    received: u64,
    lost: u64,
    reordered: u64,
    reordering_extent_max: u64,
    duplicates: u64,
    too_late: u64,
    damaged: u64,
    /// RFC 3550 section 6.4.1.
    jitter_ns: u64,
}

/// How exactly packets were sent when they were due, nanoseconds; null at rate `max`.
#[derive(Serialize)]
struct Pacing {
    late_p50_ns: Option<u64>,
    late_p99_ns: Option<u64>,
    gap_error_p50_ns: Option<u64>,
    gap_error_p99_ns: Option<u64>,
}

impl Results {
    pub(super) fn new(
        args: &GenArgs,
        (specs, totals): (&[StreamSpec], &Totals),
        ports: Vec<PortResult>,
        sent_for: Duration,
    ) -> Self {
        // Of a profile only the probes.
        let is_verified = args.is_verified() || !specs.is_empty() && args.has_profile();
        let seconds = sent_for.as_secs_f64();
        // A rate is that between the first packet and the last; of one packet there is none.
        let counted = |packets: [u64; 2], bytes: [u64; 2], span: Span| {
            let (packets, bytes) = (packets.iter().sum(), bytes.iter().sum());
            let seconds = span.length_ns() as f64 / 1e9;
            let per_second = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
            let wire_mbps = per_second(wire_bits(packets, bytes)) / 1e6;
            Counted { packets, bytes, pps: per_second(packets as f64), wire_mbps }
        };
        Self {
            version: env!("CARGO_PKG_VERSION"),
            dpdk: dpdk::version(),
            seed: args.seed(),
            duration_s: seconds,
            ports,
            sent: counted(totals.sent, totals.sent_bytes, totals.sent_span),
            received: counted(totals.received, totals.received_bytes, totals.received_span),
            unsent: totals.unsent(),
            port_full: totals.port_full(),
            put_off_s: totals.put_off_ns as f64 / 1e9,
            verified: is_verified.then(|| Verified::new(specs, totals, args.is_verified())),
            pacing: Pacing::new(totals),
            longest_gap_ns: totals.longest_gap_ns,
        }
    }

    /// Prints them, and writes them as JSON; returns the exit status.
    pub(super) fn tell(&self, json: JsonFile) -> anyhow::Result<ExitCode> {
        if !json.is_stdout() {
            self.print(&mut io::stdout().lock()).context("cannot write the results")?;
        }
        json.write(self)?;
        Ok(if self.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// True if everything was sent, and arrived as it was sent.
    fn is_good(&self) -> bool {
        // Damaged packets of ours are lost, too; those of others are not our affair.
        let is_whole = self.verified.as_ref().is_none_or(|it| it.lost == 0);
        is_whole && self.unsent == 0
    }

    /// Prints the results for people.
    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out)?;
        for (what, count) in [("sent", &self.sent), ("received", &self.received)] {
            writeln!(
                out,
                "{what}: {} packets, {:.3} Mpps, {:.3} Gb/s on the wire",
                units::thousands(count.packets),
                count.pps / 1e6,
                count.wire_mbps / 1e3
            )?;
        }
        if self.put_off_s > 0.0 {
            let share = 100.0 * self.put_off_s / self.duration_s;
            writeln!(out, "the rate was not reached: {share:.1} % of it was not sent")?;
        }
        if self.unsent > 0 {
            writeln!(out, "not sent, as the port took no more: {}", units::thousands(self.unsent))?;
        }
        if let Some(verified) = &self.verified {
            verified.print(out)?;
        }
        self.pacing.print(out)
    }
}

impl PortResult {
    /// Counters of zero.
    pub(super) fn of(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    pub(super) fn new(port: &Port) -> Self {
        let stats = port.stats();
        Self {
            name: port.info().devargs.clone(),
            link_mbps: port.link().speed_mbps,
            imissed: stats.imissed,
            ierrors: stats.ierrors,
            rx_nombuf: stats.rx_nombuf,
            oerrors: stats.oerrors,
        }
    }
}

impl Verified {
    fn new(specs: &[StreamSpec], totals: &Totals, is_all: bool) -> Self {
        // Frames of captures have no stamps.
        let streams = specs.iter().zip(&totals.streams).filter(|(it, _)| it.playback.is_none());
        let streams: Vec<_> =
            streams.map(|(spec, totals)| StreamResult::new(&spec.name, totals)).collect();
        Self {
            lost: streams.iter().map(|stream| stream.lost).sum(),
            // Beside the frames of a profile, only what is known to be a probe.
            damaged: match is_all {
                true => totals.damaged,
                false => streams.iter().map(|stream| stream.damaged).sum(),
            },
            foreign: is_all.then_some(totals.foreign),
            latency: Latency::new(&totals.latency),
            streams,
        }
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let [lost, damaged] = [self.lost, self.damaged].map(units::thousands);
        match self.foreign.map(units::thousands) {
            Some(foreign) => writeln!(out, "lost {lost}, damaged {damaged}, foreign {foreign}")?,
            None => writeln!(out, "probes: lost {lost}, damaged {damaged}")?,
        }
        if let Some(latency) = &self.latency {
            let of = [
                ("min", latency.min_ns),
                ("p50", latency.p50_ns),
                ("p90", latency.p90_ns),
                ("p99", latency.p99_ns),
                ("p99.9", latency.p999_ns),
                ("max", latency.max_ns),
            ];
            let of = of.map(|(name, nanos)| format!("{name} {}", units::duration(nanos)));
            writeln!(out, "latency: {}", of.join(", "))?;
        }
        writeln!(out)?;
        let rows: Vec<_> = self.streams.iter().map(StreamResult::row).collect();
        table::print(out, StreamResult::HEADINGS, &(1..8), &rows)
    }
}

impl Latency {
    fn new(histogram: &Histogram<u64>) -> Option<Self> {
        let of = |part| histogram.value_at_quantile(part);
        (!histogram.is_empty()).then(|| Self {
            min_ns: histogram.min(),
            mean_ns: histogram.mean(),
            p50_ns: of(0.5),
            p90_ns: of(0.9),
            p99_ns: of(0.99),
            p999_ns: of(0.999),
            max_ns: histogram.max(),
            pdv_ns: of(0.999).saturating_sub(histogram.min()),
        })
    }
}

impl StreamResult {
    const HEADINGS: [&str; 8] =
        ["stream", "sent", "lost", "reordered", "duplicates", "too late", "damaged", "jitter"];

    fn new(name: &str, totals: &StreamTotals) -> Self {
        let received = totals.received;
        Self {
            name: name.to_owned(),
            sent: totals.sent,
            received: received.received(),
            lost: totals.lost(),
            reordered: received.reordered,
            reordering_extent_max: received.extent_max,
            duplicates: received.duplicates,
            too_late: received.too_late,
            damaged: received.damaged,
            jitter_ns: received.jitter_16 / 16,
        }
    }

    fn row(&self) -> [String; 8] {
        let counts = [self.sent, self.lost, self.reordered, self.duplicates, self.too_late];
        let [sent, lost, reordered, duplicates, too_late] = counts.map(units::thousands);
        let (damaged, jitter) = (units::thousands(self.damaged), units::duration(self.jitter_ns));
        [self.name.clone(), sent, lost, reordered, duplicates, too_late, damaged, jitter]
    }
}

impl Pacing {
    fn new(totals: &Totals) -> Self {
        let of = |histogram: &Histogram<u64>, part| {
            (!histogram.is_empty()).then(|| histogram.value_at_quantile(part))
        };
        Self {
            late_p50_ns: of(&totals.lateness, 0.5),
            late_p99_ns: of(&totals.lateness, 0.99),
            gap_error_p50_ns: of(&totals.gap_error, 0.5),
            gap_error_p99_ns: of(&totals.gap_error, 0.99),
        }
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let (Some(p50), Some(p99)) = (self.gap_error_p50_ns, self.gap_error_p99_ns) else {
            return Ok(());
        };
        let [p50, p99] = [p50, p99].map(units::duration);
        writeln!(out, "pacing: gaps between bursts are off by {p50} (p50), {p99} (p99)")
    }
}
