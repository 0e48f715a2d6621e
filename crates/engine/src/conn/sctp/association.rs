// SPDX-License-Identifier: BSD-3-Clause
//! SCTP by its chunks and its tags: what a packet does to its association, or why it is none of its
//! own.

use super::tags::Told;
use crate::api::Irregular;
use crate::conn::event::Event;
use crate::conn::record::Hot;
use crate::conn::state::Phase;
use crate::packet::{Arrival, Chunks, Kind};

impl<const W: usize> Hot<W> {
    /// What this packet does to the association, if it came as it was sent.
    pub(crate) fn event_of_association(
        &mut self,
        packet: &Arrival,
        chunks: &Chunks,
    ) -> Result<Event, Irregular> {
        let untouched = *self;
        let event = self.event_of_chunks(packet, chunks);
        // An INIT is remembered though it changes nothing else.
        let is_more = self.window != untouched.window
            || self.vital.scales() != untouched.vital.scales()
            || event.is_ok_and(|event| event != Event::None);
        if is_more && !packet.is_intact(&self.key) {
            *self = untouched;
            return Err(Irregular::Checksum);
        }
        event
    }

    fn event_of_chunks(&mut self, packet: &Arrival, chunks: &Chunks) -> Result<Event, Irregular> {
        let (phase, kind) = (self.phase(), chunks.meant());
        let direction = self.direction(packet.meta);
        if self.is_judged() && chunks.is_garbled {
            return Err(Irregular::SctpChunk);
        }
        let is_over = phase.is_over_for_sctp();
        if is_over && kind == Kind::Init {
            return Ok(Event::Reuse);
        }
        let told = match (self.is_judged(), is_over) {
            (true, false) => {
                let mut tags = self.tags();
                let from = (direction, packet.side);
                let told = tags.take(from, chunks, phase == Phase::SctpInit);
                self.set_tags(&tags);
                told?
            }
            (true, true) if !self.tags().has_left(direction, chunks) => {
                return Err(Irregular::SctpTag);
            }
            _ => Told::Fits,
        };
        let next = match (told, kind.leads(phase, direction)) {
            (Told::Unknown, _) => phase,
            (Told::Restarts, Phase::SctpShutdown | Phase::SctpShutdownAck) => {
                Phase::SctpEstablished
            }
            (_, next) => next,
        };
        Ok(Event::entering(next, phase))
    }
}
