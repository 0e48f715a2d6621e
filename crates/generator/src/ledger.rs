// SPDX-License-Identifier: BSD-3-Clause
//! Adds up the reports of all workers: by interval, by stream and in total.

use crate::interval::{Interval, Intervals, STREAMS_MAX};
use crate::lane::LaneReport;
use crate::receiver::{QueueReport, ReceiverReport};
use crate::reports::Inbox;
use crate::sender::{SenderReport, delays};
use crate::span::Span;
use hdrhistogram::Histogram;

/// Totals of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamTotals {
    /// Packets sent.
    pub sent: u64,
    /// Packets of the stream that arrived.
    pub received: LaneReport,
}

impl StreamTotals {
    /// Returns the number of packets that did not arrive. A packet older than the duplicate window
    /// counts as lost.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received.received())
    }
}

/// Totals of a receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueTotals {
    /// Number of its port: 0 or 1.
    pub port: usize,
    /// Index of the queue at its port.
    pub queue: usize,
    /// Frames of the queue.
    pub counts: QueueReport,
}

/// Totals of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderTotals {
    /// Number of its port: 0 or 1.
    pub port: usize,
    /// Frames that the port took.
    pub packets: u64,
    /// Frames that the port did not take.
    pub unsent: u64,
    /// Calls in which the port took fewer frames than were offered.
    pub port_full: u64,
}

/// Totals of a run.
#[derive(Clone, Debug)]
pub struct Totals {
    /// Frames that ports A and B took.
    pub sent: [u64; 2],
    /// Bytes without FCS.
    pub sent_bytes: [u64; 2],
    /// Totals of each sender.
    pub senders: Vec<SenderTotals>,
    /// Longest time by which a sender postponed its schedule, in nanoseconds.
    pub put_off_ns: u64,
    /// Frames received, by port.
    pub received: [u64; 2],
    /// Bytes without FCS.
    pub received_bytes: [u64; 2],
    /// Totals of each receive queue.
    pub queues: Vec<QueueTotals>,
    /// Damaged frames received.
    pub damaged: u64,
    /// Foreign frames received.
    pub foreign: u64,
    /// Totals of each stream.
    pub streams: Vec<StreamTotals>,
    /// Latency of good packets, in nanoseconds, by port of arrival.
    pub latency: [Histogram<u64>; 2],
    /// Delay from when a burst was due until it was made, in nanoseconds.
    pub lateness: Histogram<u64>,
    /// Error of the gaps between bursts, in nanoseconds.
    pub gap_error: Histogram<u64>,
    /// Time in which frames were sent.
    pub sent_span: Span,
    /// Time in which frames were received.
    pub received_span: Span,
    /// Longest time between two polls of a receiver, in nanoseconds.
    pub longest_gap_ns: u64,
}

impl Totals {
    fn new(streams: usize) -> Self {
        Self {
            sent: [0; 2],
            sent_bytes: [0; 2],
            senders: Vec::new(),
            put_off_ns: 0,
            received: [0; 2],
            received_bytes: [0; 2],
            queues: Vec::new(),
            damaged: 0,
            foreign: 0,
            streams: vec![StreamTotals::default(); streams],
            latency: [delays(), delays()],
            lateness: delays(),
            gap_error: delays(),
            sent_span: Span::default(),
            received_span: Span::default(),
            longest_gap_ns: 0,
        }
    }

    /// Returns the latency of good packets at both ports.
    pub fn latency_of_all(&self) -> Histogram<u64> {
        joined(&self.latency)
    }

    /// Returns the number of frames that no port took.
    pub fn unsent(&self) -> u64 {
        self.senders.iter().map(|sender| sender.unsent).sum()
    }

    /// Returns the number of calls in which a port took fewer frames than were offered.
    pub fn port_full(&self) -> u64 {
        self.senders.iter().map(|sender| sender.port_full).sum()
    }
}

/// Returns the sum of two histograms.
pub(crate) fn joined([one, two]: &[Histogram<u64>; 2]) -> Histogram<u64> {
    let mut both = one.clone();
    // `add` cannot fail: both have the same bounds.
    let _ = both.add(two);
    both
}

/// Adds up the reports of senders and receivers.
#[derive(Debug)]
pub struct Ledger {
    /// Number of streams whose packets are stamped: the first ones.
    stamped: usize,
    senders: Vec<SenderEntry>,
    receivers: Vec<ReceiverEntry>,
    intervals: Intervals,
    totals: Totals,
}

/// The ledger's state of a sender.
#[derive(Debug)]
struct SenderEntry {
    inbox: Inbox<SenderReport>,
    /// Frames of each stream that it has sent.
    streams: Vec<u64>,
    put_off_ns: u64,
    is_done: bool,
    /// Stamped frames that waited for the port at the last report, by the interval in which they
    /// were made.
    waiting: Vec<(u64, u64)>,
}

/// The ledger's state of a receiver.
#[derive(Debug)]
struct ReceiverEntry {
    inbox: Inbox<ReceiverReport>,
    lanes: Vec<LaneReport>,
    /// Index of its first queue in [`Totals::queues`].
    first_queue: usize,
}

impl Ledger {
    /// Makes a ledger without workers for `streams` streams, the first `stamped` of them stamped.
    pub(crate) fn new(streams: usize, stamped: usize) -> Self {
        Self {
            stamped,
            senders: Vec::new(),
            receivers: Vec::new(),
            intervals: Intervals {
                streams: if stamped > STREAMS_MAX { 0 } else { stamped },
                ..Intervals::default()
            },
            totals: Totals::new(streams),
        }
    }

    /// Adds a sender at `port`, whose reports come through `inbox`.
    pub(crate) fn add_sender(&mut self, port: usize, inbox: Inbox<SenderReport>) {
        let streams = vec![0; self.totals.streams.len()];
        let (put_off_ns, is_done, waiting) = (0, false, Vec::new());
        self.senders.push(SenderEntry { inbox, streams, put_off_ns, is_done, waiting });
        self.totals.senders.push(SenderTotals { port, ..SenderTotals::default() });
    }

    /// Adds a receiver at `queues`: numbers of port and queue.
    pub(crate) fn add_receiver(
        &mut self,
        queues: impl IntoIterator<Item = (usize, usize)>,
        inbox: Inbox<ReceiverReport>,
    ) {
        let first_queue = self.totals.queues.len();
        self.receivers.push(ReceiverEntry { inbox, lanes: Vec::new(), first_queue });
        let totals = |(port, queue)| QueueTotals { port, queue, counts: QueueReport::default() };
        self.totals.queues.extend(queues.into_iter().map(totals));
        self.intervals.queues = self.totals.queues.len();
    }

    /// Adds the reports that have arrived.
    pub fn poll(&mut self) {
        let Self { senders, receivers, intervals, totals, .. } = self;
        for (number, entry) in senders.iter_mut().enumerate() {
            let SenderEntry { inbox, streams, put_off_ns, is_done, waiting } = entry;
            inbox.take_all(|report| {
                *is_done = report.is_done;
                *put_off_ns += report.put_off_ns;
                let interval = intervals.reported(report.interval);
                for (number, stream) in interval.streams.iter_mut().enumerate() {
                    // The count of a stream falls when frames are dropped that were counted when
                    // they were made.
                    stream.sent += report.streams[number].saturating_sub(streams[number]);
                }
                streams.clone_from(&report.streams);
                waiting.clear();
                waiting.extend(report.waiting.counts());
                add_sender(number, report, intervals, totals);
            });
            totals.put_off_ns = totals.put_off_ns.max(*put_off_ns);
        }
        for ReceiverEntry { inbox, lanes, first_queue } in receivers.iter_mut() {
            inbox.take_all(|report| {
                let interval = intervals.reported(report.interval);
                add_lanes(&mut interval.streams, &report.lanes, lanes);
                lanes.clone_from(&report.lanes);
                add_receiver(*first_queue, report, intervals, totals);
            });
        }
        self.add_streams();
    }

    /// Recalculates the totals of each stream. Each sender has its own lanes: lane `n` belongs to
    /// stream `n` modulo the number of stamped streams.
    fn add_streams(&mut self) {
        for (number, stream) in self.totals.streams.iter_mut().enumerate() {
            stream.sent = self.senders.iter().map(|sender| sender.streams[number]).sum();
            if number >= self.stamped {
                continue;
            }
            let lanes = self
                .receivers
                .iter()
                .flat_map(|receiver| receiver.lanes.iter().skip(number).step_by(self.stamped));
            stream.received = lanes.fold(LaneReport::default(), LaneReport::plus);
        }
    }

    /// True once every sender has sent all frames of its source.
    pub fn is_all_sent(&self) -> bool {
        self.senders.iter().all(|sender| sender.is_done)
    }

    /// Returns the totals so far.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Removes and returns the oldest interval below `number`. Frames that still wait for a port do
    /// not count as made: they are not lost yet, but will be sent or dropped later.
    pub fn take_interval(&mut self, number: u64) -> Option<(u64, Interval)> {
        let oldest = self.intervals.open.first_entry()?;
        if *oldest.key() >= number {
            return None;
        }
        let (number, mut interval) = oldest.remove_entry();
        self.intervals.first = number + 1;
        let waiting = self.senders.iter().flat_map(|sender| &sender.waiting);
        let of_interval = waiting.filter(|(made_in, _)| *made_in == number);
        interval.made = interval.made.saturating_sub(of_interval.map(|(_, packets)| packets).sum());
        Some((number, interval))
    }
}

/// Adds the counts of each lane since `before` to its stream.
fn add_lanes(streams: &mut [StreamTotals], lanes: &[LaneReport], before: &[LaneReport]) {
    if streams.is_empty() {
        return;
    }
    for (number, lane) in lanes.iter().enumerate() {
        let before = before.get(number).copied().unwrap_or_default();
        let stream = &mut streams[number % streams.len()];
        stream.received = stream.received.plus(&lane.since(&before));
    }
}

fn add_sender(
    number: usize,
    report: &SenderReport,
    intervals: &mut Intervals,
    totals: &mut Totals,
) {
    let sender = &mut totals.senders[number];
    sender.packets += report.packets;
    sender.unsent += report.unsent;
    sender.port_full += report.port_full;
    let port = sender.port;
    totals.sent[port] += report.packets;
    totals.sent_bytes[port] += report.bytes;
    totals.sent_span.join(report.span);
    let interval = intervals.reported(report.interval);
    interval.sent[port] += report.packets;
    interval.sent_bytes[port] += report.bytes;
    for (number, packets) in report.stamped.counts() {
        intervals.made(number).into_iter().for_each(|interval| interval.made += packets);
    }
    for (number, packets) in report.dropped.counts() {
        intervals.made(number).into_iter().for_each(|interval| interval.made -= packets);
    }
    // `add` cannot fail: both have the same bounds.
    let _ = totals.lateness.add(&report.lateness);
    let _ = totals.gap_error.add(&report.gap_error);
}

fn add_receiver(
    first_queue: usize,
    report: &ReceiverReport,
    intervals: &mut Intervals,
    totals: &mut Totals,
) {
    let interval = intervals.reported(report.interval);
    for (number, counts) in report.queues.iter().enumerate() {
        let queue = &mut totals.queues[first_queue + number];
        queue.counts.add(counts);
        interval.queues[first_queue + number].add(counts);
        interval.received[queue.port] += counts.packets;
        interval.received_bytes[queue.port] += counts.bytes;
        totals.received[queue.port] += counts.packets;
        totals.received_bytes[queue.port] += counts.bytes;
    }
    interval.damaged += report.damaged;
    interval.foreign += report.foreign;
    interval.longest_gap_ns = interval.longest_gap_ns.max(report.longest_gap_ns);
    for port in 0..2 {
        let _ = interval.latency[port].add(&report.latency[port]);
        let _ = totals.latency[port].add(&report.latency[port]);
    }
    for (number, packets) in report.arrived.counts() {
        intervals.made(number).into_iter().for_each(|interval| interval.arrived += packets);
    }
    totals.received_span.join(report.span);
    totals.damaged += report.damaged;
    totals.foreign += report.foreign;
    totals.longest_gap_ns = totals.longest_gap_ns.max(report.longest_gap_ns);
}

impl QueueReport {
    fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.waiting_max = self.waiting_max.max(other.waiting_max);
        self.is_lower_bound |= other.is_lower_bound;
    }
}

#[cfg(test)]
mod tests {
    use crate::{Clock, Lanes, Laps, Session, Stage, TakenFrames, Task, Transmit, WaitingFrame};
    use traffic::{Source, Written};

    const FRAMES: u64 = 32;

    /// Makes stamped frames of one stream, all of them due at once.
    struct Frames(u64);

    impl Source for Frames {
        fn due(&self) -> Option<u64> {
            (self.0 < FRAMES).then_some(1)
        }

        fn write(&mut self, _room: &mut [u8], _now_ns: u64) -> Written {
            self.0 += 1;
            Written { len: 60, stream: 0 }
        }

        fn streams(&self) -> usize {
            1
        }

        fn stamped_streams(&self) -> usize {
            1
        }

        fn written(&self, _stream: usize) -> u64 {
            self.0
        }
    }

    /// A port that takes no frames.
    #[derive(Default)]
    struct Stuck(Vec<WaitingFrame>);

    impl Transmit for Stuck {
        fn prepare(&mut self) -> usize {
            64 - self.0.len()
        }

        fn push(&mut self, interval: u32, write: impl FnOnce(&mut [u8]) -> Written) {
            let Written { len, stream } = write(&mut []);
            self.0.push(WaitingFrame { len: len as u16, stream, interval });
        }

        fn flush(&mut self) -> TakenFrames {
            TakenFrames::default()
        }

        fn waiting(&self) -> usize {
            self.0.len()
        }

        fn for_each_waiting(&self, visit: impl FnMut(WaitingFrame)) {
            self.0.iter().copied().for_each(visit);
        }

        fn discard(&mut self, drop: impl FnMut(WaitingFrame)) {
            self.0.drain(..).for_each(drop);
        }
    }

    #[test]
    fn frames_that_never_left_their_sender_are_not_lost() {
        let mut session = Session::new(Clock::measured(), 1000, Lanes::stamped(1));
        let mut sender = session.sender(Frames(0), 0, Stuck::default());
        let mut ledger = session.into_ledger();
        for now in [500, 1500, 2500, 3500] {
            sender.turn(now, Stage::Send, &mut Laps::off());
        }
        ledger.poll();
        let mut lost = 0;
        while let Some((_, interval)) = ledger.take_interval(3) {
            assert_eq!(interval.made, 0, "no frame has left");
            lost += interval.lost();
        }
        sender.finish(4500);
        ledger.poll();
        while let Some((_, interval)) = ledger.take_interval(u64::MAX) {
            lost += interval.lost();
        }
        assert_eq!((lost, ledger.totals().unsent()), (0, FRAMES));
        assert_eq!(ledger.totals().streams[0].lost(), 0);
    }
}
