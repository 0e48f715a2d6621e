// SPDX-License-Identifier: BSD-3-Clause
//! Hands off packets whose connection another worker has: ICMP errors and fragments.
//!
//! A packet is parsed where it arrives. It then goes, with what the parser found, to the worker
//! that has the connection. That worker tracks it like any other, and never hands it on.

use super::steering::Steering;
use super::verdicts::{CtStates, Verdicts};
use crate::base::BURST_MAX;
use crate::packet::{Batch, Batches, Handoff, Key};

/// Hands off the ICMP errors in a batch that are about connections of other workers.
fn hand_off_errors<const W: usize>(batch: &mut Batch<W>, verdicts: &mut Verdicts<impl CtStates>) {
    let mut errors = batch.take_errors();
    while errors != 0 {
        let at = errors.trailing_zeros() as usize;
        errors &= errors - 1;
        if let Some(handoff) = batch.handoff(at, verdicts.steering) {
            batch.remove_at(at);
            verdicts.hand_off(handoff);
        }
    }
}

/// Hands off the ICMP errors in both batches that are about connections of other workers.
pub(crate) fn hand_off_all_errors(batches: &mut Batches, verdicts: &mut Verdicts<impl CtStates>) {
    if verdicts.steering.is_known() {
        hand_off_errors(&mut batches.v4, verdicts);
        hand_off_errors(&mut batches.v6, verdicts);
    }
}

impl<const W: usize> Batch<W> {
    /// Returns the hand-off for the packet at this place in the batch; `None` if its connection is
    /// ours.
    pub(crate) fn handoff(&self, at: usize, others: &Steering) -> Option<Handoff> {
        let at = at % BURST_MAX;
        let key = Key::from_words(&self.keys, at);
        match self.later_fragment(at) {
            Some(fragment) => others.handoff_of_fragment(&key, fragment),
            None => others.handoff(&key, self.metas[at], self.headers[at]),
        }
    }

    /// Returns the hand-off for a fragment of the batch; `None` if its connection is ours.
    pub(crate) fn handoff_of_fragment(&self, nth: usize, others: &Steering) -> Option<Handoff> {
        self.handoff(self.index_of_fragment(nth), others)
    }
}
