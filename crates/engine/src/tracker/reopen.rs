// SPDX-License-Identifier: BSD-3-Clause
//! A flow that begins in the place of another one of the same ports, which ends by the same packet.

use super::Tracker;
use crate::api::{EndReason, Reason};
use crate::conn::{Cold, Event};
use crate::packet::Arrival;
use crate::pipeline::Outcome;

impl<const W: usize> Tracker<W> {
    /// The flow in `record` ends, and another begins there, if there may be one more now.
    pub(super) fn replace(
        &mut self,
        record: u32,
        packet: &Arrival,
        event: Event,
        outcome: &mut impl Outcome,
    ) -> Result<(), Reason> {
        let hot = &self.table.hot[record as usize];
        let swapped = packet.meta.swapped();
        let next = if let Event::Agree(_) = event { swapped ^ 1 } else { swapped };
        outcome.check_next(&hot.key, [hot.originator(), next])?;
        match outcome.keeps() {
            true => outcome.ended(self.record(record, EndReason::Reuse)),
            false => outcome.ended_unkept(&hot.key, hot.originator(), EndReason::Reuse),
        }
        if let Some(oldest) = self.make_room_for_reuse(record) {
            outcome.ended(oldest);
        }
        self.begin_anew(record, packet, event);
        let hot = &self.table.hot[record as usize];
        outcome.replaced(&hot.key, hot.originator());
        Ok(())
    }

    fn begin_anew(&mut self, record: u32, packet: &Arrival, event: Event) {
        let hot = &mut self.table.hot[record as usize];
        if let Some(rules) = &mut self.rules {
            rules.end(record, hot);
        }
        self.waiting = self.waiting.filter(|due| !due.is_of(record));
        self.forgotten.end(record);
        self.out_of_sync.end(record);
        self.table.leave_embryonic(record);
        let hot = &mut self.table.hot[record as usize];
        let cold = &mut self.table.cold.0[record as usize];
        match event {
            Event::Agree(syn) => hot.begin_answered(syn, packet),
            _ => hot.begin(hot.key, packet),
        }
        *cold = Cold::begin(packet.opening, packet.now, cold.link);
        self.table.join_embryonic(record);
        self.mark_new(record);
    }
}
