// SPDX-License-Identifier: BSD-3-Clause
//! Adds up the reports of all workers: by interval, by stream and in total.

use crate::receiver::{LaneReport, ReceiverReport};
use crate::reports::Inbox;
use crate::sender::{SenderReport, delays};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// An interval of a run.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Frames that ports A and B took.
    pub sent: [u64; 2],
    /// Bytes without FCS.
    pub sent_bytes: [u64; 2],
    /// Frames received.
    pub received: u64,
    /// Bytes without FCS.
    pub received_bytes: u64,
    /// Frames that were made and stamped in this interval.
    pub made: u64,
    /// Those among them that arrived, whenever that was.
    pub arrived: u64,
    /// Damaged frames received.
    pub damaged: u64,
    /// Frames of others received.
    pub foreign: u64,
    /// Latency of packets received, in nanoseconds.
    pub latency: Histogram<u64>,
    /// Longest time in which a receiver did not look, in nanoseconds.
    pub longest_gap_ns: u64,
}

impl Interval {
    fn new() -> Self {
        Self {
            sent: [0; 2],
            sent_bytes: [0; 2],
            received: 0,
            received_bytes: 0,
            made: 0,
            arrived: 0,
            damaged: 0,
            foreign: 0,
            latency: delays(),
            longest_gap_ns: 0,
        }
    }
}

/// A stream in total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamTotals {
    /// Packets sent.
    pub sent: u64,
    /// What arrived of them.
    pub received: LaneReport,
}

impl StreamTotals {
    /// Packets that did not arrive. A packet that came too late to be told from a duplicate counts
    /// as one that did not.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received.good)
    }
}

/// A run in total.
#[derive(Clone, Debug)]
pub struct Totals {
    /// Frames that ports A and B took.
    pub sent: [u64; 2],
    /// Bytes without FCS.
    pub sent_bytes: [u64; 2],
    /// Frames that no port took.
    pub unsent: u64,
    /// Calls in which a port took fewer frames than were offered.
    pub port_full: u64,
    /// Nanoseconds by which schedules were put off.
    pub put_off_ns: u64,
    /// Frames received.
    pub received: u64,
    /// Bytes without FCS.
    pub received_bytes: u64,
    /// Damaged frames received.
    pub damaged: u64,
    /// Frames of others received.
    pub foreign: u64,
    /// Each stream, in the order of their lanes.
    pub streams: Vec<StreamTotals>,
    /// Latency of good packets, in nanoseconds.
    pub latency: Histogram<u64>,
    /// How late bursts were made, in nanoseconds.
    pub lateness: Histogram<u64>,
    /// Error of the gaps between bursts, in nanoseconds.
    pub gap_error: Histogram<u64>,
    /// From the first frame sent to the last, in nanoseconds.
    pub sent_span: (u64, u64),
    /// From the first frame received to the last, in nanoseconds.
    pub received_span: (u64, u64),
    /// Longest time in which a receiver did not look, in nanoseconds.
    pub longest_gap_ns: u64,
}

/// Adds up reports.
#[derive(Debug)]
pub struct Ledger {
    senders: Vec<(Inbox<SenderReport>, bool)>,
    receivers: Vec<(Inbox<ReceiverReport>, Vec<LaneReport>)>,
    intervals: Intervals,
    totals: Totals,
}

/// Intervals that nobody has taken yet.
#[derive(Debug, Default)]
struct Intervals {
    open: BTreeMap<u64, Interval>,
    /// Number of the first one that may be open.
    first: u64,
}

impl Intervals {
    /// The interval in which a worker has reported; the oldest open one if that is closed.
    fn reported(&mut self, number: u64) -> &mut Interval {
        self.open.entry(number.max(self.first)).or_insert_with(Interval::new)
    }

    /// The interval in which packets were made, if it is open.
    fn made(&mut self, number: u64) -> Option<&mut Interval> {
        let is_open = number >= self.first;
        is_open.then(|| self.open.entry(number).or_insert_with(Interval::new))
    }
}

impl Ledger {
    /// Takes the reports of these workers, on this many lanes.
    pub fn new(
        senders: Vec<Inbox<SenderReport>>,
        receivers: Vec<Inbox<ReceiverReport>>,
        lanes: usize,
    ) -> Self {
        let totals = Totals {
            sent: [0; 2],
            sent_bytes: [0; 2],
            unsent: 0,
            port_full: 0,
            put_off_ns: 0,
            received: 0,
            received_bytes: 0,
            damaged: 0,
            foreign: 0,
            streams: vec![StreamTotals::default(); lanes],
            latency: delays(),
            lateness: delays(),
            gap_error: delays(),
            sent_span: (0, 0),
            received_span: (0, 0),
            longest_gap_ns: 0,
        };
        Self {
            senders: senders.into_iter().map(|inbox| (inbox, false)).collect(),
            receivers: receivers.into_iter().map(|inbox| (inbox, Vec::new())).collect(),
            intervals: Intervals::default(),
            totals,
        }
    }

    /// Adds the reports that have come.
    pub fn poll(&mut self) {
        let Self { senders, receivers, intervals, totals } = self;
        for (inbox, is_done) in senders {
            inbox.take_all(|report| {
                *is_done = report.is_done;
                add_sender(report, intervals, totals);
            });
        }
        for (inbox, lanes) in receivers.iter_mut() {
            inbox.take_all(|report| {
                lanes.clone_from(&report.lanes);
                add_receiver(report, intervals, totals);
            });
        }
        for (number, stream) in totals.streams.iter_mut().enumerate() {
            let of_stream = receivers.iter().filter_map(|(_, lanes)| lanes.get(number));
            stream.received = of_stream.fold(LaneReport::default(), |sum, lane| sum.plus(lane));
        }
    }

    /// True once every sender has sent all that its source has.
    pub fn is_all_sent(&self) -> bool {
        self.senders.iter().all(|(_, is_done)| *is_done)
    }

    /// The run so far.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Removes and returns the oldest interval below `number`.
    pub fn take_interval(&mut self, number: u64) -> Option<(u64, Interval)> {
        let oldest = self.intervals.open.first_entry()?;
        if *oldest.key() >= number {
            return None;
        }
        self.intervals.first = *oldest.key() + 1;
        Some(oldest.remove_entry())
    }
}

fn add_sender(report: &SenderReport, intervals: &mut Intervals, totals: &mut Totals) {
    let interval = intervals.reported(report.interval);
    for port in 0..2 {
        interval.sent[port] += report.packets[port];
        interval.sent_bytes[port] += report.bytes[port];
        totals.sent[port] += report.packets[port];
        totals.sent_bytes[port] += report.bytes[port];
    }
    for (number, packets) in report.stamped.iter().filter(|(_, packets)| *packets > 0) {
        intervals.made(*number).into_iter().for_each(|interval| interval.made += packets);
    }
    join(&mut totals.sent_span, report.span);
    totals.unsent += report.unsent;
    totals.port_full += report.port_full;
    totals.put_off_ns += report.put_off_ns;
    for (stream, sent) in totals.streams.iter_mut().zip(&report.lanes) {
        stream.sent = *sent;
    }
    // Both have the same bounds.
    let _ = totals.lateness.add(&report.lateness);
    let _ = totals.gap_error.add(&report.gap_error);
}

fn add_receiver(report: &ReceiverReport, intervals: &mut Intervals, totals: &mut Totals) {
    let interval = intervals.reported(report.interval);
    interval.received += report.packets;
    interval.received_bytes += report.bytes;
    interval.damaged += report.damaged;
    interval.foreign += report.foreign;
    interval.longest_gap_ns = interval.longest_gap_ns.max(report.longest_gap_ns);
    let _ = interval.latency.add(&report.latency);
    for (number, packets) in report.arrived.iter().filter(|(_, packets)| *packets > 0) {
        intervals.made(*number).into_iter().for_each(|interval| interval.arrived += packets);
    }
    join(&mut totals.received_span, report.span);
    totals.received += report.packets;
    totals.received_bytes += report.bytes;
    totals.damaged += report.damaged;
    totals.foreign += report.foreign;
    totals.longest_gap_ns = totals.longest_gap_ns.max(report.longest_gap_ns);
    let _ = totals.latency.add(&report.latency);
}

/// Makes a span reach over another, if that has an end.
fn join(span: &mut (u64, u64), other: (u64, u64)) {
    if other.1 == 0 {
        return;
    }
    *span = match span.1 {
        0 => other,
        _ => (span.0.min(other.0), span.1.max(other.1)),
    };
}

impl LaneReport {
    /// Both together: those of two receivers that share a stream.
    fn plus(self, other: &Self) -> Self {
        Self {
            good: self.good + other.good,
            reordered: self.reordered + other.reordered,
            extent_max: self.extent_max.max(other.extent_max),
            duplicates: self.duplicates + other.duplicates,
            too_late: self.too_late + other.too_late,
            damaged: self.damaged + other.damaged,
            jitter_16: self.jitter_16.max(other.jitter_16),
        }
    }
}
