// SPDX-License-Identifier: BSD-3-Clause
//! Packets that go to other workers, and packets that come from them.

use super::Engine;
use crate::api::{Side, UntrackedReason, Verdict};
use crate::base::Nanos;
use crate::packet::{HandedOff, Handoff};
use wire::Packet;

impl Engine {
    /// Where the packets of the last burst belong whose verdict is [`Verdict::PortForwards`].
    pub fn handed(&self) -> &[HandedOff] {
        self.pipeline.handed()
    }

    /// The other worker has no room for a packet: what becomes of it then.
    pub fn handoff_failed(&mut self) -> Verdict {
        self.accounts.stats.handed -= 1;
        self.accounts.drop_or_pass(UntrackedReason::WorkerBusy)
    }

    /// Tracks packets that came to other workers and were parsed there, at most
    /// [`BURST_MAX`](crate::BURST_MAX), and writes one verdict for each: [`Verdict::Forward`] or
    /// [`Verdict::Drop`].
    ///
    /// # Panics If there are more than [`BURST_MAX`](crate::BURST_MAX) packets, or not as many
    /// errands, or fewer verdicts.
    pub fn process_handoffs<P: Packet>(
        &mut self,
        (side, now): (Side, Nanos),
        packets: &[P],
        errands: &[Handoff],
        verdicts: &mut [Verdict],
    ) {
        assert!(packets.len() == errands.len());
        let verdicts = self.arrive(Some(side), now, packets.len(), verdicts);
        let (pipeline, context) = self.parts();
        pipeline.process_handoffs(context, (packets, errands), verdicts);
    }
}
