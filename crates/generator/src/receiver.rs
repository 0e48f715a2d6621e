// SPDX-License-Identifier: BSD-3-Clause
//! Receives frames and, on request, verifies each of them: loss, order, duplicates, damage,
//! latency.

use crate::Clock;
use crate::cycles::{Laps, Work};
use crate::lane::{Lane, LaneReport};
use crate::link::Receive;
use crate::neighbours::Responder;
use crate::recent::RecentIntervals;
use crate::reflector_client::Answers;
use crate::reports::{Outbox, Report};
use crate::sender::delays;
use crate::span::Span;
use crate::task::{Stage, Task};
use hdrhistogram::Histogram;
use traffic::reflector_query::read_answer_payload;
use traffic::{Finding, Stamp, Verifier};

/// Counters of an interval. Those of lanes count since the start.
#[derive(Clone, Debug)]
pub struct ReceiverReport {
    /// Number of the interval in which the report began.
    pub interval: u64,
    /// Counts of each queue of the receiver.
    pub queues: Vec<QueueReport>,
    /// Damaged frames.
    pub damaged: u64,
    /// Foreign frames.
    pub foreign: u64,
    /// Verified packets that arrived for the first time, by the interval in which they were sent.
    pub arrived: RecentIntervals,
    /// Latency of good packets, from making to arrival, in nanoseconds, by port of arrival.
    pub latency: [Histogram<u64>; 2],
    /// Report of each lane.
    pub lanes: Vec<LaneReport>,
    /// Time in which frames of the run arrived; without checks, any frames.
    pub span: Span,
    /// Longest time between two polls of the queues, in nanoseconds.
    pub longest_gap_ns: u64,
}

/// Frames of a queue in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueReport {
    /// Frames received.
    pub packets: u64,
    /// Bytes without FCS.
    pub bytes: u64,
    /// Maximum number of frames that were waiting.
    pub waiting_max: u64,
    /// True if more may have waited, because the driver does not report how many wait after a full
    /// burst.
    pub is_lower_bound: bool,
}

impl ReceiverReport {
    /// Returns an empty report of this many queues and lanes.
    pub(crate) fn new(queues: usize, lanes: usize) -> Self {
        Self {
            interval: 0,
            queues: vec![QueueReport::default(); queues],
            damaged: 0,
            foreign: 0,
            arrived: RecentIntervals::new(),
            latency: [delays(), delays()],
            lanes: vec![LaneReport::default(); lanes],
            span: Span::default(),
            longest_gap_ns: 0,
        }
    }
}

impl Report for ReceiverReport {
    fn clear(&mut self) {
        self.queues.fill(QueueReport::default());
        (self.damaged, self.foreign, self.longest_gap_ns) = (0, 0, 0);
        self.span = Span::default();
        self.arrived.clear();
        self.latency.iter_mut().for_each(Histogram::reset);
    }
}

/// A queue of a port.
pub struct PortQueue<R> {
    /// Number of the port: 0 or 1.
    pub port: usize,
    /// Index of the queue at its port.
    pub queue: usize,
    /// The link that frames arrive through.
    pub rx: R,
    /// Treatment of foreign frames.
    pub foreign_handler: ForeignFrameHandler,
}

/// Treatment of foreign frames by a receiver.
#[derive(Default)]
pub enum ForeignFrameHandler {
    /// Ignores them.
    #[default]
    Ignores,
    /// Answers neighbours that look for our addresses, and keeps answers of a reflector; for whole
    /// frames.
    Neighbours(Responder),
    /// Keeps answers of a reflector; for UDP payloads.
    Payloads(Answers),
}

/// Settings by which a receiver verifies packets.
#[derive(Debug)]
pub struct Checks {
    /// Recognises the packets of the run and checks their stamps.
    pub verifier: Verifier,
    /// Duplicate window: the number of latest packets of a lane among which duplicates are found.
    pub window: usize,
}

/// Receives from queues of one or more ports.
pub struct Receiver<R> {
    queues: Vec<PortQueue<R>>,
    clock: Clock,
    check: Option<Check>,
    interval_ns: u64,
    last_turn: Option<u64>,
    outbox: Outbox<ReceiverReport>,
}

/// State of the verification.
#[derive(Debug)]
struct Check {
    verifier: Verifier,
    lanes: Vec<Lane>,
    interval_ns: u64,
    /// The interval in which the previous packet was sent, and its start. They save a division for
    /// each packet.
    interval: u64,
    interval_start: u64,
}

impl<R: Receive> PortQueue<R> {
    /// Passes the frames of the burst to the handler, unless it ignores them.
    fn answer_all(&mut self, received: usize) {
        if !matches!(self.foreign_handler, ForeignFrameHandler::Ignores) {
            (0..received)
                .for_each(|number| self.foreign_handler.handle_frame(self.rx.frame(number)));
        }
    }
}

impl ForeignFrameHandler {
    #[inline]
    fn handle_frame(&mut self, frame: &[u8]) {
        match self {
            Self::Ignores => {}
            Self::Neighbours(responder) => responder.handle_frame(frame),
            Self::Payloads(answers) => answers.push(read_answer_payload(frame)),
        }
    }
}

impl Check {
    /// Verifies the frames of a burst; true if one of them is of this run.
    #[inline(always)]
    fn check_all<R: Receive>(
        &mut self,
        queue: &mut PortQueue<R>,
        received: usize,
        now: u64,
        report: &mut ReceiverReport,
    ) -> bool {
        let mut has_ours = false;
        for number in 0..received {
            let frame = queue.rx.frame(number);
            let finding = match R::IS_PAYLOAD {
                true => self.verifier.examine_payload(frame),
                false => self.verifier.examine(frame),
            };
            if finding == Finding::Foreign {
                queue.foreign_handler.handle_frame(frame);
            }
            has_ours |= finding != Finding::Foreign;
            self.count(finding, queue.port, now, report);
        }
        has_ours
    }

    #[inline(always)]
    fn count(&mut self, finding: Finding, port: usize, now: u64, report: &mut ReceiverReport) {
        match finding {
            Finding::Good(stamp) => self.count_good(stamp, port, now, report),
            Finding::Foreign => report.foreign += 1,
            Finding::Damaged(stamp) => {
                report.damaged += 1;
                let lane = stamp.and_then(|stamp| self.lanes.get_mut(usize::from(stamp.lane)));
                if let Some(lane) = lane {
                    lane.note_damage();
                }
            }
        }
    }

    #[inline(always)]
    fn count_good(&mut self, stamp: Stamp, port: usize, now: u64, report: &mut ReceiverReport) {
        let Some(lane) = self.lanes.get_mut(usize::from(stamp.lane)) else {
            report.foreign += 1;
            return;
        };
        let transit = now.saturating_sub(stamp.sent_ns);
        if lane.add(stamp, port, transit) {
            if stamp.sent_ns.wrapping_sub(self.interval_start) >= self.interval_ns {
                self.interval = stamp.sent_ns / self.interval_ns;
                self.interval_start = self.interval * self.interval_ns;
            }
            report.arrived.add(self.interval, 1);
            report.latency[port].saturating_record(transit.max(1));
        }
    }
}

impl<R: Receive> Receiver<R> {
    /// Makes a receiver that counts frames from `queues`. With `checks`, it also verifies each
    /// packet; the run has this number of lanes.
    pub(crate) fn new(
        queues: Vec<PortQueue<R>>,
        clock: Clock,
        (outbox, interval_ns): (Outbox<ReceiverReport>, u64),
        (lanes, checks): (usize, Option<Checks>),
    ) -> Self {
        let check = checks.map(|Checks { verifier, window }| {
            let lanes = (0..lanes).map(|_| Lane::new(window)).collect();
            Check { verifier, lanes, interval_ns, interval: 0, interval_start: 0 }
        });
        Self { queues, clock, check, interval_ns, last_turn: None, outbox }
    }

    fn hand_over(&mut self, now: u64) {
        let report = self.outbox.current();
        if let Some(check) = &self.check {
            for (to, lane) in report.lanes.iter_mut().zip(&check.lanes) {
                *to = lane.report();
            }
        }
        if let Some(next) = self.outbox.hand_over(now) {
            next.interval = now / self.interval_ns;
        }
    }
}

impl<R: Receive> Task for Receiver<R> {
    #[inline]
    fn turn(&mut self, now: u64, _stage: Stage, laps: &mut Laps) -> bool {
        if self.outbox.is_due(now) {
            self.hand_over(now);
            laps.lap(Work::Count);
        }
        let report = self.outbox.current();
        let gap = self.last_turn.replace(now).map_or(0, |before| now - before);
        report.longest_gap_ns = report.longest_gap_ns.max(gap);
        let mut is_any = false;
        for (number, queue) in self.queues.iter_mut().enumerate() {
            let received = queue.rx.receive();
            if received == 0 {
                continue;
            }
            is_any = true;
            let counts = &mut report.queues[number];
            counts.packets += received as u64;
            counts.bytes += queue.rx.bytes();
            // A burst that is not full has emptied the queue.
            let is_full = received == queue.rx.most();
            let behind = if is_full { queue.rx.waiting() } else { Some(0) };
            counts.is_lower_bound |= behind.is_none();
            let waiting = received as u64 + u64::from(behind.unwrap_or(0));
            counts.waiting_max = counts.waiting_max.max(waiting);
            laps.lap(Work::Rx);
            let has_ours = match &mut self.check {
                // This time is later than the send time of every packet of the burst.
                Some(check) => {
                    let now = self.clock.now_after_loads();
                    check.check_all(queue, received, now, report)
                }
                None => {
                    queue.answer_all(received);
                    true
                }
            };
            if has_ours {
                report.span.widen(now);
            }
            laps.lap(Work::Verify);
            queue.rx.free();
        }
        laps.lap(Work::Rx);
        is_any
    }

    fn finish(&mut self, now: u64) {
        self.hand_over(now);
    }
}
