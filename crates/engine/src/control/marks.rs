// SPDX-License-Identifier: BSD-3-Clause
//! Writes marks and labels to connections, a bounded part at a time.

use super::place::Place;
use crate::api::{Cursor, Filter, MarkChange};
use crate::engine::Engine;

/// Result of one part of a walk that writes marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkProgress {
    /// Connections that matched, including those that had this mark and label before.
    pub matched: u32,
    /// True if the walk is not complete.
    pub more: bool,
}

impl Engine {
    /// Continues a walk that changes the marks and labels of the matching connections. Visits up to
    /// `budget` places, and stops early if the event queue is full. It leaves connections that
    /// began after the walk unchanged.
    pub fn mark(
        &mut self,
        (filter, change): (&Filter, MarkChange),
        cursor: &mut Cursor,
        budget: u32,
    ) -> MarkProgress {
        let since = cursor.since(self.now);
        let mut marked = MarkProgress { more: true, ..MarkProgress::default() };
        for _ in 0..budget {
            let record = match self.place(cursor) {
                Place::Record(record) => record,
                Place::NextTable => continue,
                Place::End => {
                    marked.more = false;
                    break;
                }
            };
            if self.accounts.events.is_full() {
                break;
            }
            cursor.next += 1;
            let (is_meant, event) = match cursor.is_v6 {
                false => self.trackers.v4.mark_one(record, filter, change, since),
                true => self.trackers.v6.mark_one(record, filter, change, since),
            };
            marked.matched += u32::from(is_meant);
            if let Some(event) = event.filter(|_| self.accounts.events.has_subscribers()) {
                self.accounts.events.push(event);
            }
        }
        marked
    }
}
