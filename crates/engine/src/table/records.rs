// SPDX-License-Identifier: BSD-3-Clause
//! Allocates and frees records: from the list of freed records, else the next record that was never
//! used. Also links embryonic connections, and reads and writes connection marks.

use super::Table;
use super::columns::MarkColumns;
use crate::api::CtMark;
use crate::base::{BURST_MAX, NO_RECORD, TimerLink};

impl<const W: usize> Table<W> {
    /// Takes a free record and enters it into the index; `None` if either has no room.
    pub(crate) fn alloc_record(&mut self, hash: u64) -> Option<u32> {
        let record = self.pop_free()?;
        if self.index.insert(hash, record) {
            return Some(record);
        }
        self.free_record(record);
        None
    }

    fn pop_free(&mut self) -> Option<u32> {
        if self.free != NO_RECORD {
            let record = self.free;
            self.free = self.cold.0[record as usize].link.next;
            return Some(record);
        }
        let record = self.fresh;
        let is_left = (record as usize) < self.hot.len();
        self.fresh += u32::from(is_left);
        is_left.then_some(record)
    }

    pub(crate) fn free_record(&mut self, record: u32) {
        self.cold.0[record as usize].link = TimerLink::listed(self.free);
        self.free = record;
    }

    /// True if a burst of new connections may fill the table. The burst must then be tracked in
    /// packet order, so that the first packets get the room.
    pub(crate) fn is_near_full(&self) -> bool {
        let (records, embryonic) = (self.hot.len() as u32 - self.live, &self.embryonic);
        records.min(embryonic.max.saturating_sub(embryonic.len)) < BURST_MAX as u32
    }

    /// True if a burst of new connections may evict a connection. The evicted connection may have a
    /// NIC mark, so marked packets must be counted in packet order too.
    pub(crate) fn may_evict(&self) -> bool {
        self.embryonic.evicts && self.embryonic.len > 0 && self.is_near_full()
    }

    /// True if there is room for one more embryonic connection: every connection begins as one.
    pub(crate) fn can_start(&self) -> bool {
        self.embryonic.len < self.embryonic.max
    }

    /// Returns the number of embryonic connections of a zone.
    pub(crate) fn embryonic_in(&self, zone: u16) -> u32 {
        self.embryonic.of_zone[usize::from(zone)]
    }

    /// Adds a connection that has begun to the embryonic list, as its youngest.
    pub(crate) fn link_embryonic(&mut self, record: u32) {
        self.unlink_embryonic(record);
        self.embryonic.push((&mut self.hot, &mut self.cold), record);
    }

    /// Removes a connection that is assured, or has ended, from the embryonic list.
    pub(crate) fn unlink_embryonic(&mut self, record: u32) {
        if self.hot[record as usize].is_embryonic() {
            self.embryonic.remove((&mut self.hot, &mut self.cold), record);
        }
    }

    /// Returns the connection mark and label of a record.
    pub(crate) fn ct_mark(&self, record: u32) -> CtMark {
        let (MarkColumns { marks, labels, are_used }, at) = (&self.markings, record as usize);
        if !are_used {
            return CtMark::default();
        }
        CtMark { mark: marks[at], label: labels.as_ref().map_or(0, |labels| labels[at]) }
    }

    /// Sets the connection mark and label of a record. Without labels in the configuration, the
    /// label is lost.
    pub(crate) fn set_ct_mark(&mut self, record: u32, ct_mark: CtMark) {
        self.markings.are_used = true;
        self.markings.set(record, ct_mark);
    }
}
