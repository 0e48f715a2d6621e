// SPDX-License-Identifier: BSD-3-Clause
//! Records that are not in use: those that were freed, in a list through their links, and those
//! that never were.

use super::FlowTable;
use crate::base::{NO_RECORD, TimerLink};

impl<const W: usize> FlowTable<W> {
    /// A record that is in the index.
    pub(super) fn take_indexed(&mut self, hash: u64) -> Option<u32> {
        let record = self.take_record()?;
        if self.index.insert(hash, record) {
            return Some(record);
        }
        self.give_back(record);
        None
    }

    fn take_record(&mut self) -> Option<u32> {
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

    pub(super) fn give_back(&mut self, record: u32) {
        self.cold.0[record as usize].link = TimerLink::listed(self.free);
        self.free = record;
    }
}
