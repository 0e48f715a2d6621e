// SPDX-License-Identifier: BSD-3-Clause
//! Hands packets to other workers, and tracks packets that come from them.

use super::Engine;
use crate::api::{Side, UntrackedReason, Verdict};
use crate::base::Nanos;
use crate::packet::{HandedOff, Handoff};
use wire::Packet;

impl Engine {
    /// Returns the hand-offs of the packets of the last burst whose verdict is
    /// [`Verdict::Elsewhere`].
    pub fn handed(&self) -> &[HandedOff] {
        self.pipeline.handed()
    }

    /// Returns the verdict for a packet that the other worker had no room for, and counts it.
    pub fn handoff_failed(&mut self) -> Verdict {
        self.accounts.stats.handed -= 1;
        self.accounts.drop_or_pass(UntrackedReason::WorkerBusy)
    }

    /// Tracks packets that arrived at other workers and were parsed there, at most
    /// [`BURST_MAX`](crate::BURST_MAX). Writes one verdict for each: [`Verdict::Forward`],
    /// [`Verdict::Drop`] or [`Verdict::Reject`].
    ///
    /// # Panics
    /// If there are more than [`BURST_MAX`](crate::BURST_MAX) packets, a different number of
    /// hand-offs, or fewer verdicts.
    pub fn process_handoffs<P: Packet>(
        &mut self,
        (side, now): (Side, Nanos),
        packets: &[P],
        handoffs: &[Handoff],
        verdicts: &mut [Verdict],
    ) {
        assert!(packets.len() == handoffs.len());
        let verdicts = self.arrive(Some(side), now, packets.len(), verdicts);
        let (pipeline, context) = self.parts();
        pipeline.process_handoffs(context, (packets, handoffs), verdicts);
    }
}
