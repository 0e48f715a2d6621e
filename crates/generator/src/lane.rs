// SPDX-License-Identifier: BSD-3-Clause
//! Counts the packets of one lane at a receiver. A lane is a stream and the worker that sends it.

use traffic::{Arrival, Sequence, Stamp};

/// Packets of a lane since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneReport {
    /// Good packets that arrived for the first time, by port of arrival.
    pub good: [u64; 2],
    /// Packets of `good` that arrived after a later one.
    pub reordered: u64,
    /// Greatest distance, in packet numbers, between a reordered packet and the latest packet
    /// before it.
    pub extent_max: u64,
    /// Packets that arrived again.
    pub duplicates: u64,
    /// Packets older than the duplicate window. Whether they had arrived before is unknown.
    pub too_late: u64,
    /// Packets with a stamp of this lane that were damaged.
    pub damaged: u64,
    /// Jitter by RFC 3550 section 6.4.1, in sixteenths of a nanosecond.
    pub jitter_16: u64,
    /// Sum of the latencies of good packets, in nanoseconds.
    pub latency_sum: u64,
    /// Least latency of a good packet, in nanoseconds; 0 if there was none.
    pub latency_min: u64,
    /// Greatest latency of a good packet, in nanoseconds.
    pub latency_max: u64,
}

impl LaneReport {
    /// Returns the number of good packets at both ports.
    pub fn received(&self) -> u64 {
        self.good[0] + self.good[1]
    }

    /// Returns the counts since `before`. Greatest extent, jitter and latency remain those since
    /// the start.
    pub(crate) fn since(self, before: &Self) -> Self {
        Self {
            good: [self.good[0] - before.good[0], self.good[1] - before.good[1]],
            reordered: self.reordered - before.reordered,
            duplicates: self.duplicates - before.duplicates,
            too_late: self.too_late - before.too_late,
            damaged: self.damaged - before.damaged,
            ..self
        }
    }

    /// Returns the sum of two reports, for example of two receivers that share a stream.
    pub(crate) fn plus(self, other: &Self) -> Self {
        let least = match (self.latency_min, other.latency_min) {
            (0, least) | (least, 0) => least,
            (one, two) => one.min(two),
        };
        Self {
            good: [self.good[0] + other.good[0], self.good[1] + other.good[1]],
            reordered: self.reordered + other.reordered,
            extent_max: self.extent_max.max(other.extent_max),
            duplicates: self.duplicates + other.duplicates,
            too_late: self.too_late + other.too_late,
            damaged: self.damaged + other.damaged,
            jitter_16: self.jitter_16.max(other.jitter_16),
            latency_sum: self.latency_sum + other.latency_sum,
            latency_min: least,
            latency_max: self.latency_max.max(other.latency_max),
        }
    }
}

/// A receiver's state of a lane.
#[derive(Debug)]
pub(crate) struct Lane {
    sequence: Sequence,
    report: LaneReport,
    /// Latency of the previous good packet, in nanoseconds.
    transit: Option<u64>,
}

impl Lane {
    /// Makes a lane that finds duplicates among the latest `window` packets.
    pub(crate) fn new(window: usize) -> Self {
        Self { sequence: Sequence::new(window), report: LaneReport::default(), transit: None }
    }

    /// Returns the counters so far.
    pub(crate) fn report(&self) -> LaneReport {
        self.report
    }

    /// Counts a packet that was damaged on the way.
    pub(crate) fn note_damage(&mut self) {
        self.report.damaged += 1;
    }

    /// Counts an intact packet that arrived at `port` after `transit` nanoseconds; true if it
    /// arrived for the first time.
    #[inline(always)]
    pub(crate) fn add(&mut self, stamp: Stamp, port: usize, transit: u64) -> bool {
        let counts = &mut self.report;
        match self.sequence.add(stamp.full_index(self.sequence.next())) {
            Arrival::InOrder => {}
            Arrival::Reordered(extent) => {
                counts.reordered += 1;
                counts.extent_max = counts.extent_max.max(extent);
            }
            Arrival::Duplicate => {
                counts.duplicates += 1;
                return false;
            }
            Arrival::TooLate => {
                counts.too_late += 1;
                return false;
            }
        }
        counts.good[port] += 1;
        counts.latency_sum += transit;
        counts.latency_max = counts.latency_max.max(transit);
        match self.transit.replace(transit) {
            Some(before) => {
                let difference = transit.abs_diff(before);
                counts.jitter_16 = counts.jitter_16 + difference - (counts.jitter_16 + 8) / 16;
                counts.latency_min = counts.latency_min.min(transit.max(1));
            }
            None => counts.latency_min = transit.max(1),
        }
        true
    }
}
