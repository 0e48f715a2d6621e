// SPDX-License-Identifier: BSD-3-Clause
//! Keeps the counts of a run's intervals. The latest intervals stay open, because late packets may
//! still arrive.

use crate::ledger::{StreamTotals, joined};
use crate::receiver::QueueReport;
use crate::sender::delays;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// Maximum number of streams whose packets are counted in each interval.
pub(crate) const STREAMS_MAX: usize = 8;

/// Counts of an interval of a run.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Frames that ports A and B took.
    pub sent: [u64; 2],
    /// Bytes without FCS.
    pub sent_bytes: [u64; 2],
    /// Frames received, by port.
    pub received: [u64; 2],
    /// Bytes without FCS.
    pub received_bytes: [u64; 2],
    /// Counts of each receive queue, in the order of [`Totals::queues`](crate::Totals::queues).
    pub queues: Vec<QueueReport>,
    /// Frames that were made and stamped in this interval. Frames that had not left their sender
    /// when the interval was closed are not included.
    pub made: u64,
    /// Frames of `made` that arrived, in this interval or later.
    pub arrived: u64,
    /// Damaged frames received.
    pub damaged: u64,
    /// Foreign frames received.
    pub foreign: u64,
    /// Latency of packets received, in nanoseconds, by port.
    pub latency: [Histogram<u64>; 2],
    /// Longest time between two polls of a receiver, in nanoseconds.
    pub longest_gap_ns: u64,
    /// Packets sent and received in this interval, for each stamped stream; empty if there are more
    /// than 8.
    pub streams: Vec<StreamTotals>,
}

impl Interval {
    fn new(queues: usize, streams: usize) -> Self {
        Self {
            sent: [0; 2],
            sent_bytes: [0; 2],
            received: [0; 2],
            received_bytes: [0; 2],
            queues: vec![QueueReport::default(); queues],
            made: 0,
            arrived: 0,
            damaged: 0,
            foreign: 0,
            latency: [delays(), delays()],
            longest_gap_ns: 0,
            streams: vec![StreamTotals::default(); streams],
        }
    }

    /// Returns the latency of packets received at both ports.
    pub fn latency_of_all(&self) -> Histogram<u64> {
        joined(&self.latency)
    }

    /// Returns the number of frames that were made in this interval, left their sender, and did not
    /// arrive.
    pub fn lost(&self) -> u64 {
        self.made.saturating_sub(self.arrived)
    }
}

/// Intervals that the control thread has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Intervals {
    pub(crate) open: BTreeMap<u64, Interval>,
    /// Number of the first one that may be open.
    pub(crate) first: u64,
    /// Receive queues of the run.
    pub(crate) queues: usize,
    /// Streams that are counted in each interval.
    pub(crate) streams: usize,
}

impl Intervals {
    /// Returns interval `number`, for which a worker has reported; the oldest open interval if
    /// `number` is closed. Makes it if it is missing.
    pub(crate) fn reported(&mut self, number: u64) -> &mut Interval {
        let (queues, streams) = (self.queues, self.streams);
        let entry = self.open.entry(number.max(self.first));
        entry.or_insert_with(|| Interval::new(queues, streams))
    }

    /// Returns the interval in which packets were made, if it is open.
    pub(crate) fn made(&mut self, number: u64) -> Option<&mut Interval> {
        (number >= self.first).then(|| self.reported(number))
    }
}
