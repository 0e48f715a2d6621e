// SPDX-License-Identifier: BSD-3-Clause
//! SCTP by its chunks and its tags: what a packet does to its association, or why it is none of its
//! own.

use super::phase::Phase;
use super::{Event, Hot};
use crate::api::{Irregular, PROTO_SCTP};
use crate::conn::{Tags, Told};
use crate::packet::{Arrival, Chunks, Kind, Meta};
use crate::tcp::{Scales, Window};

impl<const W: usize> Hot<W> {
    /// Notes what the first packet tells, and returns where it leads.
    pub(super) fn open_association(&mut self, chunks: Chunks) -> Phase {
        let phase = match chunks.is_sound() {
            true => chunks.meant().begins(),
            // What no association begins with is not to stand for one that does begin.
            false => Phase::SctpStray,
        };
        if chunks.is_judged && phase != Phase::SctpStray {
            self.set_tags(&Tags::first(&chunks));
        }
        phase
    }

    /// Of an association that is judged.
    fn tags(&self) -> Tags {
        self.window.tags(self.vital.scales())
    }

    pub(super) fn set_tags(&mut self, tags: &Tags) {
        self.vital = self.vital.with_scales(Scales::of_tags(tags));
        self.window = Window::of_tags(tags);
    }

    /// What this packet does to the association, if it came as it was sent.
    pub(super) fn event_of_association(
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

    /// The tags that packets of both sides carry, if they are known.
    pub(super) fn saved_tags(&self) -> [u32; 2] {
        let is_judged = self.key.proto() == PROTO_SCTP && self.is_judged();
        if is_judged { self.tags().known } else { [0; 2] }
    }

    /// Whether the sender of a quoted packet can have sent this tag, as far as anybody knows.
    pub(super) fn has_sent_tag(&self, meta: Meta, tag: u32) -> bool {
        let (phase, tags, direction) = (self.phase(), self.tags(), self.direction(meta));
        let is_asking = phase == Phase::SctpInit;
        // What ends an association may have the tag of its receiver, and quotes do not say so.
        let is_reflected = || phase.is_over_for_sctp() && tags.has_sent(1 - direction, tag, false);
        tags.has_sent(direction, tag, is_asking) || is_reflected()
    }
}
