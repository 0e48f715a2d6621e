// SPDX-License-Identifier: BSD-3-Clause
//! Owns the list links of embryonic connections: those not yet confirmed by both ends.
//!
//! Their originator has no answer yet, or has not confirmed it. A flood consists of them, so they
//! are kept in a list of their own.
//!
//! The links take no memory: they lie in the high words of the responder's counters. These words
//! are 0 until the responder has sent 2^13 packets or 2^25 bytes; then the connection leaves the
//! list.

use super::record::{ConnCold, ConnHot};

/// Neighbours of a connection in the list, oldest connection first. [`NO_RECORD`] if there is none.
///
/// [`NO_RECORD`]: crate::base::NO_RECORD
#[derive(Clone, Copy)]
pub(crate) struct ListLinks {
    pub(crate) older: u32,
    pub(crate) younger: u32,
}

impl<const W: usize> ConnHot<W> {
    /// True if the connection is in the list.
    pub(crate) fn is_embryonic(&self) -> bool {
        self.state_word.is_embryonic()
    }

    /// Enters the connection into the list, between these neighbours.
    pub(crate) fn set_embryonic(&mut self, cold: &mut ConnCold, neighbours: ListLinks) {
        self.state_word = self.state_word.with_embryonic(true);
        cold.set_neighbours(neighbours);
    }

    /// Removes the connection from the list and returns its former neighbours.
    pub(crate) fn clear_embryonic(&mut self, cold: &mut ConnCold) -> ListLinks {
        self.state_word = self.state_word.with_embryonic(false);
        let neighbours = cold.neighbours();
        (cold.packets_high[1], cold.bytes_high[1]) = (0, 0);
        neighbours
    }
}

impl ConnCold {
    pub(crate) fn neighbours(&self) -> ListLinks {
        ListLinks { older: self.packets_high[1], younger: self.bytes_high[1] }
    }

    pub(crate) fn set_neighbours(&mut self, neighbours: ListLinks) {
        self.packets_high[1] = neighbours.older;
        self.bytes_high[1] = neighbours.younger;
    }
}
