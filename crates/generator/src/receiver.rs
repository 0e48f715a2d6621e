// SPDX-License-Identifier: BSD-3-Clause
//! Receives frames and, if they are to be verified, judges each of them: loss, order, duplicates,
//! damage, latency.

use crate::Clock;
use crate::reports::{Outbox, Report};
use crate::sender::{count_interval, delays, widen};
use crate::task::{Stage, Task};
use dpdk::{Burst, Mbuf, RxQueue};
use hdrhistogram::Histogram;
use traffic::{Arrival, Finding, ROOM, Sequence, Stamp, Verifier};
use wire::Packet;

/// Counters of an interval; those of lanes count since the start.
#[derive(Clone, Debug)]
pub struct ReceiverReport {
    /// Number of the interval in which it began.
    pub interval: u64,
    /// Frames received.
    pub packets: u64,
    /// Bytes without FCS.
    pub bytes: u64,
    /// Damaged frames.
    pub damaged: u64,
    /// Frames of others.
    pub foreign: u64,
    /// Verified packets that came for the first time, by the interval in which they were sent.
    pub arrived: [(u64, u64); 4],
    /// From when a packet was made to when it arrived, in nanoseconds, of good packets.
    pub latency: Histogram<u64>,
    /// What is known of each lane.
    pub lanes: Vec<LaneReport>,
    /// When frames came first and last, in nanoseconds of the run; 0 if none did.
    pub span: (u64, u64),
    /// Longest time between two looks at the queues, in nanoseconds.
    pub longest_gap_ns: u64,
}

/// Packets of a lane since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneReport {
    /// Good packets that came for the first time.
    pub good: u64,
    /// Those among them that came behind a later one.
    pub reordered: u64,
    /// Greatest distance between such a packet and the latest before it.
    pub extent_max: u64,
    /// Packets that came once more.
    pub duplicates: u64,
    /// Packets behind so many others that nobody can tell whether they came before.
    pub too_late: u64,
    /// Packets with a stamp of this lane that were damaged.
    pub damaged: u64,
    /// Jitter by RFC 3550 section 6.4.1, in sixteenths of a nanosecond.
    pub jitter_16: u64,
}

impl ReceiverReport {
    /// An empty report of this many lanes.
    pub fn new(lanes: usize) -> Self {
        Self {
            interval: 0,
            packets: 0,
            bytes: 0,
            damaged: 0,
            foreign: 0,
            arrived: [(0, 0); 4],
            latency: delays(),
            lanes: vec![LaneReport::default(); lanes],
            span: (0, 0),
            longest_gap_ns: 0,
        }
    }
}

impl Report for ReceiverReport {
    fn clear(&mut self) {
        (self.packets, self.bytes, self.damaged, self.foreign) = (0, 0, 0, 0);
        (self.arrived, self.longest_gap_ns, self.span) = ([(0, 0); 4], 0, (0, 0));
        self.latency.reset();
    }
}

/// Receives from queues of one or more ports.
pub struct Receiver {
    queues: Vec<RxQueue>,
    clock: Clock,
    burst: Burst,
    check: Option<Check>,
    interval_ns: u64,
    last_turn: Option<u64>,
    outbox: Outbox<ReceiverReport>,
}

/// What is known of packets so far.
#[derive(Debug)]
struct Check {
    verifier: Verifier,
    lanes: Vec<Lane>,
    /// A packet in several segments is copied here.
    copy: Vec<u8>,
}

#[derive(Debug)]
struct Lane {
    sequence: Sequence,
    report: LaneReport,
    /// Latency of the packet before.
    transit: Option<u64>,
}

impl Check {
    /// Of this many lanes, each with a window of `window` packets.
    fn new(verifier: Verifier, lanes: usize, window: usize) -> Self {
        let lane = |_| Lane {
            sequence: Sequence::new(window),
            report: LaneReport::default(),
            transit: None,
        };
        Self { verifier, lanes: (0..lanes).map(lane).collect(), copy: vec![0; ROOM] }
    }

    #[inline(always)]
    fn see(&mut self, mbuf: &Mbuf, now: u64, interval_ns: u64, report: &mut ReceiverReport) {
        let (head, len) = (mbuf.head(), mbuf.frame_len());
        let finding = if head.len() == len {
            self.verifier.examine(head)
        } else {
            let copied = mbuf.copy_to(&mut self.copy);
            self.verifier.examine(&self.copy[..copied])
        };
        match finding {
            Finding::Good(stamp) => self.count_good(stamp, now, interval_ns, report),
            Finding::Foreign => report.foreign += 1,
            Finding::Damaged(stamp) => {
                report.damaged += 1;
                let lane = stamp.and_then(|stamp| self.lanes.get_mut(usize::from(stamp.lane)));
                if let Some(lane) = lane {
                    lane.report.damaged += 1;
                }
            }
        }
    }

    #[inline(always)]
    fn count_good(
        &mut self,
        stamp: Stamp,
        now: u64,
        interval_ns: u64,
        report: &mut ReceiverReport,
    ) {
        let Some(lane) = self.lanes.get_mut(usize::from(stamp.lane)) else {
            report.foreign += 1;
            return;
        };
        let counts = &mut lane.report;
        match lane.sequence.add(stamp.full_index(lane.sequence.next())) {
            Arrival::InOrder => {}
            Arrival::Reordered(extent) => {
                counts.reordered += 1;
                counts.extent_max = counts.extent_max.max(extent);
            }
            Arrival::Duplicate => return counts.duplicates += 1,
            Arrival::TooLate => return counts.too_late += 1,
        }
        counts.good += 1;
        count_interval(&mut report.arrived, stamp.sent_ns / interval_ns, 1);
        let transit = now.saturating_sub(stamp.sent_ns);
        report.latency.saturating_record(transit.max(1));
        if let Some(before) = lane.transit.replace(transit) {
            let difference = transit.abs_diff(before);
            counts.jitter_16 = counts.jitter_16 + difference - (counts.jitter_16 + 8) / 16;
        }
    }
}

impl Receiver {
    /// Receives from `queues` and counts.
    pub fn new(
        queues: Vec<RxQueue>,
        clock: Clock,
        outbox: Outbox<ReceiverReport>,
        interval_ns: u64,
    ) -> Self {
        Self {
            clock,
            queues,
            burst: Burst::new(),
            check: None,
            interval_ns,
            last_turn: None,
            outbox,
        }
    }

    /// Verifies each packet too. Each of the `lanes` has a window of `window` packets, in which
    /// duplicates are found.
    #[must_use]
    pub fn verifying(mut self, verifier: Verifier, lanes: usize, window: usize) -> Self {
        self.check = Some(Check::new(verifier, lanes, window));
        self
    }

    fn hand_over(&mut self, now: u64) {
        let report = self.outbox.current();
        if let Some(check) = &self.check {
            for (to, lane) in report.lanes.iter_mut().zip(&check.lanes) {
                *to = lane.report;
            }
        }
        if let Some(next) = self.outbox.hand_over(now) {
            next.interval = now / self.interval_ns;
        }
    }
}

impl Task for Receiver {
    #[inline]
    fn turn(&mut self, now: u64, _stage: Stage) -> bool {
        if self.outbox.is_due(now) {
            self.hand_over(now);
        }
        let report = self.outbox.current();
        let gap = self.last_turn.replace(now).map_or(0, |before| now - before);
        report.longest_gap_ns = report.longest_gap_ns.max(gap);
        let mut is_any = false;
        for queue in &mut self.queues {
            let received = queue.burst(&mut self.burst) as u64;
            if received == 0 {
                continue;
            }
            is_any = true;
            widen(&mut report.span, now);
            report.packets += received;
            report.bytes += self.burst.iter().map(|mbuf| mbuf.frame_len() as u64).sum::<u64>();
            if let Some(check) = &mut self.check {
                // Later than every packet of the burst was sent.
                let now = self.clock.now();
                for mbuf in self.burst.iter() {
                    check.see(mbuf, now, self.interval_ns, report);
                }
            }
            self.burst.free_all();
        }
        is_any
    }

    fn finish(&mut self, now: u64) {
        self.hand_over(now);
    }
}
