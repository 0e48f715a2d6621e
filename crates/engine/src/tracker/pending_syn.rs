// SPDX-License-Identifier: BSD-3-Clause
//! Connections that both ends have forgotten, which nobody saw, and that this table has not.
//!
//! What they begin then on the same ports is a SYN where there is a connection. An end that has it
//! still answers with an ACK of its own (RFC 5961 section 4.2); a SYN+ACK that acknowledges just
//! this SYN says that neither has it any more. So some SYNs that were none of their connection's
//! are kept until that answer comes. There are few places: a SYN that has lost its place is sent
//! again.
//!
//! A stranger can make up a SYN, and learns nothing by it; to end a connection of others he has to
//! make up its answer as well, at the other side of the bump, before the end that has got his SYN
//! says anything that fits. Whoever can do that is on both ways between the ends: he sees the
//! numbers, and could end it with an RST.

use super::Tracker;
use crate::api::{Irregular, Side};
use crate::base::Nanos;
use crate::conn::Event;
use crate::packet::{ACK, Arrival, SYN, Segment};

/// Places for SYNs.
const PLACES: usize = 1024;

/// Bytes of those of a table.
pub(crate) const FORGOTTEN_BYTES: usize = PLACES * size_of::<Option<Asked>>();

/// A SYN that was none of its connection's.
#[derive(Clone, Copy)]
struct Asked {
    record: u32,
    /// Who sent it: 0 for the originator.
    direction: usize,
    /// Where it came in, if that is known.
    side: Option<Side>,
    syn: Segment,
    /// When something was seen last that fitted into the connection.
    last_seen: Nanos,
}

/// Those that wait for an answer: each record has one place, which it shares with others.
pub(crate) struct Forgotten {
    asked: Box<[Option<Asked>]>,
}

impl Forgotten {
    pub(crate) fn new() -> Self {
        Self { asked: vec![None; PLACES].into() }
    }

    fn place(&mut self, record: u32) -> &mut Option<Asked> {
        &mut self.asked[record as usize % PLACES]
    }

    /// The connection in a record has ended.
    pub(crate) fn end(&mut self, record: u32) {
        let place = self.place(record);
        if place.is_some_and(|asked| asked.record == record) {
            *place = None;
        }
    }
}

impl<const W: usize> Tracker<W> {
    /// A packet that changes nothing was let pass: if it is a SYN, there may be an answer to it.
    pub(super) fn keep_asked(&mut self, record: u32, packet: &Arrival) {
        let hot = &self.table.hot[record as usize];
        let is_syn = packet.meta.tcp_flags() & (SYN | ACK) == SYN;
        let Some(syn) = packet.segment().filter(|_| is_syn && packet.is_intact(&hot.key)) else {
            return;
        };
        let (direction, side) = (hot.direction(packet.meta), self.side);
        let last_seen = hot.last_seen(&self.table.cold.0[record as usize]);
        *self.forgotten.place(record) = Some(Asked { record, direction, side, syn, last_seen });
    }

    /// What a packet does that its connection cannot have for this reason: nothing, if it does not
    /// say that there is another connection.
    pub(super) fn agree(
        &mut self,
        record: u32,
        packet: &Arrival,
        reason: Irregular,
    ) -> Result<Event, Irregular> {
        let is_syn_ack = packet.meta.tcp_flags() & (SYN | ACK) == SYN | ACK;
        if !is_syn_ack || !matches!(reason, Irregular::TcpSyn | Irregular::TcpSynOfOther) {
            return Err(reason);
        }
        let hot = &self.table.hot[record as usize];
        let asked = self.forgotten.place(record).filter(|asked| asked.record == record);
        let (Some(answer), Some(asked)) = (packet.segment(), asked) else { return Err(reason) };
        let (from, now) = (hot.direction(packet.meta), self.side);
        // Nobody who knows of the connection has said anything since, but that it is over.
        let is_silent = hot.last_seen(&self.table.cold.0[record as usize]) == asked.last_seen
            || hot.phase().is_closing();
        // Answers come from where the SYN goes.
        let is_opposite = asked.direction != from && (now.is_none() || asked.side != now);
        let is_agreed = is_silent && is_opposite && asked.syn.is_answered_by(answer);
        match is_agreed && packet.is_intact(&hot.key) {
            true => Ok(Event::Agree(asked.syn)),
            false => Err(reason),
        }
    }
}
