// SPDX-License-Identifier: BSD-3-Clause
//! Packets whose connection another worker has: ICMP errors and fragments.
//!
//! They are parsed where they arrive and go, with what is known of them, to the worker that has the
//! connection. There they are tracked like any other; nothing goes further.

use super::steering::Steering;
use super::verdicts::{CtStates, Verdicts};
use crate::base::BURST_MAX;
use crate::packet::{Batch, Batches, Handoff, Key};

/// ICMP errors in a batch about connections of other workers leave it.
fn hand_off_errors<const W: usize>(batch: &mut Batch<W>, verdicts: &mut Verdicts<impl CtStates>) {
    let mut errors = batch.take_errors();
    while errors != 0 {
        let at = errors.trailing_zeros() as usize;
        errors &= errors - 1;
        if let Some(errand) = batch.handoff(at, verdicts.steering) {
            batch.remove_at(at);
            verdicts.hand_off(errand);
        }
    }
}

/// The same of both batches.
pub(crate) fn hand_off_all_errors(batches: &mut Batches, verdicts: &mut Verdicts<impl CtStates>) {
    if verdicts.steering.are_known() {
        hand_off_errors(&mut batches.v4, verdicts);
        hand_off_errors(&mut batches.v6, verdicts);
    }
}

impl<const W: usize> Batch<W> {
    /// With what the packet at this place in the batch goes to another worker, if that has its
    /// connection.
    pub(crate) fn handoff(&self, at: usize, others: &Steering) -> Option<Handoff> {
        let at = at % BURST_MAX;
        let key = Key::from_words(&self.keys, at);
        match self.later_fragment(at) {
            Some(fragment) => others.handoff_of_fragment(&key, fragment),
            None => others.handoff(&key, self.metas[at], self.headers[at]),
        }
    }

    /// The same of a fragment.
    pub(crate) fn handoff_of_fragment(&self, which: usize, others: &Steering) -> Option<Handoff> {
        self.handoff(self.index_of_fragment(which), others)
    }
}
