// SPDX-License-Identifier: BSD-3-Clause
//! Packets whose connection another worker has: ICMP errors and fragments.
//!
//! They are parsed where they arrive and go, with what is known of them, to the worker that has the
//! connection. There they are tracked like any other; nothing goes further.

use super::steering::Others;
use super::verdicts::{States, Told};
use crate::base::BURST_MAX;
use crate::packet::{Errand, Key, Lane, Lanes};

/// ICMP errors in a lane about connections of other workers leave it.
fn send_errors_away<const W: usize>(lane: &mut Lane<W>, told: &mut Told<impl States>) {
    let mut errors = lane.take_errors();
    while errors != 0 {
        let at = errors.trailing_zeros() as usize;
        errors &= errors - 1;
        if let Some(errand) = lane.errand(at, &told.books.others) {
            lane.refuse_at(at);
            told.send_away(errand);
        }
    }
}

/// The same of both lanes.
pub(crate) fn send_all_errors_away(lanes: &mut Lanes, told: &mut Told<impl States>) {
    if told.books.others.are_known() {
        send_errors_away(&mut lanes.v4, told);
        send_errors_away(&mut lanes.v6, told);
    }
}

impl<const W: usize> Lane<W> {
    /// With what the packet at this place in the lane goes to another worker, if that has its
    /// connection.
    pub(crate) fn errand(&self, at: usize, others: &Others) -> Option<Errand> {
        let at = at % BURST_MAX;
        let key = Key::from_words(&self.keys, at);
        match self.further(at) {
            Some(fragment) => others.errand_of_fragment(&key, fragment),
            None => others.errand(&key, self.metas[at], self.openings[at]),
        }
    }

    /// The same of a fragment.
    pub(crate) fn errand_of_piece(&self, which: usize, others: &Others) -> Option<Errand> {
        self.errand(self.place(which), others)
    }
}
