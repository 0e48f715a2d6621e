// SPDX-License-Identifier: BSD-3-Clause
//! Owns the set of connections that a packet of the burst may end. Later packets with their marks
//! may belong to new connections.

use crate::base::BURST_MAX;
use crate::tracker::Tracker;

/// Connections of one tracker. As long as they are in the set, their records expect no mark, so no
/// packet is counted by its mark alone.
pub(super) struct ConflictSet {
    /// One bit for each, by the lowest bits of its record. Usually none is set.
    any: u64,
    len: usize,
    records: [u32; BURST_MAX],
    /// Their expected marks, until the end of the burst.
    expected: [u32; BURST_MAX],
}

impl ConflictSet {
    pub(super) const NONE: ConflictSet =
        ConflictSet { any: 0, len: 0, records: [0; BURST_MAX], expected: [0; BURST_MAX] };

    /// True if the connection in this record is in the set.
    #[inline(always)]
    pub(super) fn has(&self, record: u32) -> bool {
        self.any & Self::bit(record) != 0 && self.records[..self.len].contains(&record)
    }

    /// Adds the connection in this record, unless it is in the set already.
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

    /// Ends the burst: restores the expected marks and empties the set.
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
