// SPDX-License-Identifier: BSD-3-Clause
//! Flows of which nobody knows yet whether both ends want them: who has asked and got no answer, or
//! has not confirmed it. They are what a flood is made of, so they are kept in a list of their own.
//!
//! Its links take no memory: they lie in the high words of the responder's counters, which are 0
//! as long as it has not sent thousands of packets. A flow that comes so far leaves the list.

use super::record::{ConnCold, ConnHot};

/// Those beside a flow in the list, by the order in which they began; [`NO_RECORD`] for none.
///
/// [`NONE`]: crate::table::NO_RECORD
#[derive(Clone, Copy)]
pub(crate) struct ListLinks {
    pub(crate) older: u32,
    pub(crate) younger: u32,
}

impl<const W: usize> ConnHot<W> {
    /// Whether it is in the list.
    pub(crate) fn is_embryonic(&self) -> bool {
        self.state_word.is_embryonic()
    }

    /// It is from now on.
    pub(crate) fn join(&mut self, cold: &mut ConnCold, neighbours: ListLinks) {
        self.state_word = self.state_word.with_embryonic(true);
        cold.set_neighbours(neighbours);
    }

    /// It is no more. Returns those who were beside it.
    pub(crate) fn leave(&mut self, cold: &mut ConnCold) -> ListLinks {
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
