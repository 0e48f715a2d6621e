// SPDX-License-Identifier: BSD-3-Clause
//! Where a walk over the records of both tables stands.

use crate::api::Cursor;
use crate::engine::Engine;

/// The place of a cursor.
pub(super) enum Place {
    /// At this record, of the table that the cursor names.
    Record(u32),
    /// It has left the IPv4 table and is at the first record of the IPv6 table.
    NextTable,
    /// Behind the last record.
    End,
}

impl Engine {
    /// Returns the place of a cursor; moves one at the end of the IPv4 table to the IPv6 table.
    pub(super) fn place(&self, cursor: &mut Cursor) -> Place {
        let used = match cursor.is_v6 {
            true => self.trackers.v6.table.used(),
            false => self.trackers.v4.table.used(),
        };
        if cursor.next < used {
            return Place::Record(cursor.next);
        }
        if cursor.is_v6 {
            return Place::End;
        }
        (cursor.is_v6, cursor.next) = (true, 0);
        Place::NextTable
    }
}
