// SPDX-License-Identifier: BSD-3-Clause
//! Publishes the counters of a running worker to other threads.
//!
//! The worker copies its counters here about a thousand times a second, with plain stores and no
//! lock. A reader may see one counter slightly older than the next. Only the longest gap is also
//! written by a reader, which resets it.

use crate::live::counters::stages::StageSample;
use engine::MemoryUse;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of a worker at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Packets and frame bytes (without FCS) sent, by direction: up, down.
    pub(crate) sent: [(u64, u64); 2],
    /// Packets received from both ports.
    pub(crate) received: u64,
    /// Packets dropped for any reason.
    pub(crate) dropped: u64,
    /// Connections in the table.
    pub(crate) active: u64,
    /// Packets counted by a mark of the NIC.
    pub(crate) marked: u64,
    /// Packets decided by a mark of an access list's rule.
    pub(crate) by_list_mark: u64,
    /// Kinds of rules set aside because they had no effect, by port: A, B.
    pub(crate) aside: [u64; 2],
    /// Cycles in turns with packets.
    pub(crate) busy_cycles: u64,
    /// Cycles in turns without packets.
    pub(crate) idle_cycles: u64,
    /// Cycles in turns that were interrupted.
    pub(crate) stalled_cycles: u64,
    /// Memory of the engine.
    pub(crate) memory: MemoryUse,
    /// Measurements of the sampled bursts.
    pub(crate) sample: StageSample,
}

impl Snapshot {
    fn plus(self, next: Self) -> Self {
        let pair = |i: usize| (self.sent[i].0 + next.sent[i].0, self.sent[i].1 + next.sent[i].1);
        let aside = [0, 1].map(|port| self.aside[port] + next.aside[port]);
        Snapshot {
            sent: [pair(0), pair(1)],
            received: self.received + next.received,
            dropped: self.dropped + next.dropped,
            active: self.active + next.active,
            marked: self.marked + next.marked,
            by_list_mark: self.by_list_mark + next.by_list_mark,
            aside,
            busy_cycles: self.busy_cycles + next.busy_cycles,
            idle_cycles: self.idle_cycles + next.idle_cycles,
            stalled_cycles: self.stalled_cycles + next.stalled_cycles,
            memory: [self.memory, next.memory].into_iter().sum(),
            sample: self.sample.plus(next.sample),
        }
    }
}

impl std::iter::Sum for Snapshot {
    fn sum<I: Iterator<Item = Self>>(snapshots: I) -> Self {
        snapshots.fold(Self::default(), Self::plus)
    }
}

/// The counters of a worker, which it writes and other threads read.
#[derive(Debug, Default)]
pub(crate) struct PublishedCounters {
    counters: [AtomicU64; 17],
    sample: [AtomicU64; StageSample::COUNTERS],
    /// Longest time between two polls, in cycles, since it was last read.
    longest_gap: AtomicU64,
    /// Packets with wrong checksums.
    wrong_checksums: AtomicU64,
}

impl PublishedCounters {
    pub(crate) fn write(&self, snapshot: &Snapshot) {
        let Snapshot { sent: [up, down], received, dropped, active, .. } = *snapshot;
        let Snapshot { marked, by_list_mark, aside, busy_cycles, idle_cycles, .. } = *snapshot;
        let Snapshot { stalled_cycles, memory, .. } = *snapshot;
        let MemoryUse { bytes, huge_page_bytes, refused_bytes } = memory;
        let [bytes, huge, refused] = [bytes, huge_page_bytes, refused_bytes].map(|n| n as u64);
        let counters = [up.0, up.1, down.0, down.1, received, dropped, active, marked];
        let rest = [by_list_mark, busy_cycles, idle_cycles, stalled_cycles, bytes, huge, refused];
        let values = counters.into_iter().chain(aside).chain(rest);
        let values = values.chain(snapshot.sample.to_counters());
        for (place, value) in self.counters.iter().chain(&self.sample).zip(values) {
            place.store(value, Ordering::Relaxed);
        }
    }

    /// Sets the number of packets with wrong checksums so far.
    pub(crate) fn set_wrong_checksums(&self, packets: u64) {
        self.wrong_checksums.store(packets, Ordering::Relaxed);
    }

    /// Returns the number of packets with wrong checksums so far.
    pub(crate) fn wrong_checksums(&self) -> u64 {
        self.wrong_checksums.load(Ordering::Relaxed)
    }

    /// Records a wait of the worker's queues of `cycles`, if it is the longest.
    pub(crate) fn add_gap(&self, cycles: u64) {
        self.longest_gap.fetch_max(cycles, Ordering::Relaxed);
    }

    /// Returns the longest wait of the worker's queues in cycles since the last call.
    pub(crate) fn take_longest_gap(&self) -> u64 {
        self.longest_gap.swap(0, Ordering::Relaxed)
    }

    pub(crate) fn read(&self) -> Snapshot {
        let sample = self.sample.each_ref().map(|place| place.load(Ordering::Relaxed));
        let sample = StageSample::from_counters(sample);
        let values = self.counters.each_ref().map(|place| place.load(Ordering::Relaxed));
        let [up, up_bytes, down, down_bytes, received, dropped, active, marked, rest @ ..] = values;
        let [aside_a, aside_b, by_list_mark, rest @ ..] = rest;
        let [busy_cycles, idle_cycles, stalled_cycles, memory @ ..] = rest;
        let [bytes, huge_page_bytes, refused_bytes] = memory.map(|n| n as usize);
        let sent = [(up, up_bytes), (down, down_bytes)];
        let memory = MemoryUse { bytes, huge_page_bytes, refused_bytes };
        Snapshot {
            sent,
            received,
            dropped,
            active,
            marked,
            by_list_mark,
            aside: [aside_a, aside_b],
            busy_cycles,
            idle_cycles,
            stalled_cycles,
            memory,
            sample,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let published = PublishedCounters::default();
        assert_eq!(published.read(), Snapshot::default());
        let snapshot = Snapshot {
            sent: [(1, 2), (3, 4)],
            received: 5,
            dropped: 6,
            active: 7,
            marked: 13,
            by_list_mark: 19,
            aside: [14, 15],
            busy_cycles: 8,
            idle_cycles: 9,
            stalled_cycles: 16,
            memory: MemoryUse { bytes: 10, huge_page_bytes: 11, refused_bytes: 12 },
            sample: StageSample { bursts: 17, housekeeping_cycles: 18, ..StageSample::default() },
        };
        published.write(&snapshot);
        assert_eq!(published.read(), snapshot);
        [3, 7, 5].into_iter().for_each(|cycles| published.add_gap(cycles));
        assert_eq!((published.take_longest_gap(), published.take_longest_gap()), (7, 0));
    }
}
