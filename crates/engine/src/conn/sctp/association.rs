// SPDX-License-Identifier: BSD-3-Clause
//! Determines the effect of an SCTP packet on its association by chunks and tag, or its anomaly.

use super::tags::TagOutcome;
use crate::api::Anomaly;
use crate::conn::event::Transition;
use crate::conn::record::ConnHot;
use crate::conn::state::State;
use crate::packet::{ChunkKind, PacketView, SctpChunks};

impl<const W: usize> ConnHot<W> {
    /// Returns the effect of this packet on the association.
    ///
    /// # Errors
    /// [`Anomaly`] if the packet does not fit the association. A packet that would change anything
    /// must have a right checksum ([`Anomaly::Checksum`]).
    pub(crate) fn event_of_association(
        &mut self,
        packet: &PacketView,
        chunks: &SctpChunks,
    ) -> Result<Transition, Anomaly> {
        let before = *self;
        let event = self.event_of_chunks(packet, chunks);
        // An INIT is remembered though it changes no state.
        let is_more = self.window != before.window
            || self.state_word.scales() != before.state_word.scales()
            || event.is_ok_and(|event| event != Transition::None);
        if is_more && !packet.is_intact(&self.key) {
            *self = before;
            return Err(Anomaly::Checksum);
        }
        event
    }

    fn event_of_chunks(
        &mut self,
        packet: &PacketView,
        chunks: &SctpChunks,
    ) -> Result<Transition, Anomaly> {
        let (state, kind) = (self.state(), chunks.main_chunk());
        let direction = self.direction(packet.meta);
        if self.checks_window() && chunks.is_garbled {
            return Err(Anomaly::SctpChunk);
        }
        let is_over = state.is_over_for_sctp();
        if is_over && kind == ChunkKind::Init {
            return Ok(Transition::Reuse);
        }
        let outcome = match (self.checks_window(), is_over) {
            (true, false) => {
                let mut tags = self.tags();
                let from = (direction, packet.side);
                let outcome = tags.take(from, chunks, state == State::SctpInit);
                self.set_tags(&tags);
                outcome?
            }
            (true, true) if !self.tags().has_left(direction, chunks) => {
                return Err(Anomaly::SctpTag);
            }
            _ => TagOutcome::Fits,
        };
        let next = match (outcome, kind.next_state(state, direction)) {
            (TagOutcome::Unknown, _) => state,
            (TagOutcome::Restarts, State::SctpShutdown | State::SctpShutdownAck) => {
                State::SctpEstablished
            }
            (_, next) => next,
        };
        Ok(Transition::entering(next, state))
    }
}
