// SPDX-License-Identifier: BSD-3-Clause
//! Flows that a packet of the burst may end, so that those behind it may be of others.

use crate::base::BURST_MAX;
use crate::tracker::Tracker;

/// Flows of one tracker. No mark is expected of them: packets are not counted in passing.
pub(super) struct ConflictSet {
    /// One bit for each, by the lowest bits of its record: most often, none has it.
    any: u64,
    len: usize,
    records: [u32; BURST_MAX],
    /// Their marks, until they are settled.
    expected: [u32; BURST_MAX],
}

impl ConflictSet {
    pub(super) const NONE: ConflictSet =
        ConflictSet { any: 0, len: 0, records: [0; BURST_MAX], expected: [0; BURST_MAX] };

    /// Whether the flow of this record is one.
    #[inline(always)]
    pub(super) fn has(&self, record: u32) -> bool {
        self.any & Self::bit(record) != 0 && self.records[..self.len].contains(&record)
    }

    /// It is, from here on. One that is so already stays as it is.
    #[inline(always)]
    pub(super) fn add<const W: usize>(&mut self, record: u32, tracker: &mut Tracker<W>) {
        if self.has(record) || self.len == BURST_MAX {
            return;
        }
        self.any |= Self::bit(record);
        self.records[self.len] = record;
        self.expected[self.len] = tracker.set_expected_mark(record, 0);
        self.len += 1;
    }

    /// The burst is over: what will be in the next one is not behind these.
    #[inline(always)]
    pub(super) fn settle<const W: usize>(&mut self, tracker: &mut Tracker<W>) {
        for (&record, &expected) in self.records[..self.len].iter().zip(&self.expected) {
            tracker.set_expected_mark(record, expected);
        }
        (self.any, self.len) = (0, 0);
    }

    fn bit(record: u32) -> u64 {
        1 << (record % u64::BITS)
    }
}
