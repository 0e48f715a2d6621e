// SPDX-License-Identifier: BSD-3-Clause
//! Packets in a lane whose connection another worker may have. Fragments: those that came, whose
//! they are once that is known, and those that leave it again as nobody knows. ICMP errors.

use super::{Burst, Lane, Outcome};
use crate::base::BURST_MAX;
use crate::errands::{Errand, Others};
use crate::fragments::{Arrived, Piece};
use crate::key::Key;
use crate::offload::Never;
use crate::parse::{Meta, Opening, Reach};
use crate::table::FlowTable;
use wire::Packet;

/// A fragment behind the first of its datagram, as a packet of the connection of that.
#[derive(Clone, Copy)]
pub(crate) struct Further {
    pub(crate) meta: Meta,
    /// Place in the burst.
    pub(crate) position: u8,
    pub(crate) reach: Reach,
}

impl<const W: usize> Lane<W> {
    /// The same of a packet that may be a fragment: a first one with the key of its connection,
    /// another with anything in its place.
    pub(crate) fn push_any(
        &mut self,
        key: Key<W>,
        meta: Meta,
        opening: Opening,
        piece: Option<Piece<W>>,
    ) {
        if let Some(piece) = piece {
            self.pieces.push((piece, self.len as u8));
            self.fragments |= 1 << (self.len % BURST_MAX);
        }
        self.push(key, meta, opening);
    }

    /// The same of a packet that was parsed elsewhere; a segment reaches so far if it is another
    /// fragment of it.
    pub(crate) fn push_parsed(&mut self, key: Key<W>, meta: Meta, opening: Opening, reach: Reach) {
        self.reaches[usize::from(opening.position) % BURST_MAX] = reach;
        self.push(key, meta, opening);
    }

    /// The same of an ICMP error.
    pub(crate) fn push_error(&mut self, key: Key<W>, meta: Meta, opening: Opening) {
        self.errors |= 1 << (self.len % BURST_MAX);
        self.push(key, meta, opening);
    }

    /// Whether there are any.
    #[inline(always)]
    pub(crate) fn has_wanderers(&self) -> bool {
        !self.pieces.is_empty() || self.errors != 0
    }

    /// ICMP errors in the lane, a bit for each place, that were not taken before.
    pub(crate) fn take_errors(&mut self) -> u64 {
        std::mem::take(&mut self.errors)
    }

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

    /// One of them.
    pub(crate) fn piece(&self, which: usize) -> Option<Arrived<W>> {
        let (piece, at) = self.pieces.get(which)?;
        let at = usize::from(*at) % BURST_MAX;
        let (meta, position) = (self.metas[at], self.openings[at].position);
        let way = piece.is_first().then(|| (Key::from_words(&self.keys, at), meta.swapped()));
        Some(Arrived { piece: *piece, position, way, meta: meta.without_flags() })
    }

    /// Where in the lane one of them is.
    fn place(&self, which: usize) -> usize {
        self.pieces.get(which).map_or(0, |(_, at)| usize::from(*at)) % BURST_MAX
    }

    /// One of them belongs to this connection and comes from this end of it. A segment reaches so
    /// far with it.
    pub(crate) fn belongs(&mut self, which: usize, (key, swapped): (Key<W>, u8), reach: Reach) {
        let at = self.place(which);
        key.to_words(&mut self.keys, at);
        self.metas[at] = self.metas[at].sent_by(swapped);
        let position = self.openings[at].position;
        self.openings[at] = Opening::further(position);
        self.reaches[usize::from(position) % BURST_MAX] = reach;
    }

    /// The packet at this place, if it is a fragment behind the first of its datagram.
    pub(super) fn further(&self, at: usize) -> Option<Further> {
        let Opening { position, .. } = self.openings[at];
        let reach = self.reaches[usize::from(position) % BURST_MAX];
        self.openings[at].is_further().then(|| Further { meta: self.metas[at], position, reach })
    }

    /// Tells what becomes of packet `i`, an ICMP error, by the record of what it quotes. It comes
    /// in its turn among the packets of that connection: those before it are known, those behind
    /// not.
    pub(super) fn relate(
        &self,
        table: &FlowTable<W>,
        i: usize,
        record: Option<u32>,
        outcome: &mut impl Outcome,
    ) {
        let opening = &self.openings[i];
        let seq = opening.quoted().unwrap_or(0);
        let is_related = record.map(|record| table.has_sent(record, self.metas[i], seq));
        // Who has sent what is quoted is told about it.
        let is_reply = record.is_some_and(|record| !table.is_reply(record, self.metas[i]));
        outcome.error(opening.position, is_related, is_reply);
    }

    /// One of them has none.
    pub(crate) fn refuse(&mut self, which: usize) {
        self.refuse_at(self.place(which));
    }

    /// The packet at this place leaves the lane.
    pub(crate) fn refuse_at(&mut self, at: usize) {
        self.refused |= 1 << (at % BURST_MAX);
    }

    /// All of them are known: takes those out that have no connection here.
    pub(crate) fn settled(&mut self) {
        self.pieces.clear();
        self.errors = 0;
        if self.refused == 0 {
            return;
        }
        let (mut kept, fragments) = (0, std::mem::take(&mut self.fragments));
        for at in 0..self.len.min(BURST_MAX) {
            if self.refused >> at & 1 == 0 {
                Key::from_words(&self.keys, at).to_words(&mut self.keys, kept);
                (self.metas[kept], self.openings[kept]) = (self.metas[at], self.openings[at]);
                self.fragments |= (fragments >> at & 1) << kept;
                kept += 1;
            }
        }
        self.len = kept;
        self.refused = 0;
    }

    /// All of them have come by way of another worker: there are no others that do.
    pub(crate) fn are_all_pieces(&mut self) {
        self.fragments = u64::MAX;
    }

    /// Counts packets of known flows, some of which are fragments.
    #[cold]
    pub(super) fn track_pieces<P: Packet>(
        &mut self,
        table: &mut FlowTable<W>,
        burst: Burst<P>,
        outcome: &mut impl Outcome,
    ) {
        for i in 0..self.len.min(BURST_MAX) {
            self.track_any(table, i, burst, outcome);
        }
    }

    /// Counts one that may be a fragment. Rules are for packets that are whole: nobody looks at
    /// others, whether they have a mark, or are worth one.
    pub(super) fn track_any<P: Packet>(
        &mut self,
        table: &mut FlowTable<W>,
        i: usize,
        burst: Burst<P>,
        outcome: &mut impl Outcome,
    ) {
        let is_fragment = self.fragments >> (i % BURST_MAX) & 1 == 1;
        match table.looks().filter(|_| !is_fragment) {
            Some(looks) => self.track_one(table, (i, looks), burst, outcome),
            None => self.track_one(table, (i, Never), burst, outcome),
        }
    }
}
