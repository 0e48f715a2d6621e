// SPDX-License-Identifier: BSD-3-Clause
//! Fragments in a lane: those that came, whose they are once that is known, and those that leave
//! it again as nobody knows.

use super::Lane;
use crate::BURST_MAX;
use crate::fragments::{Arrived, Piece};
use crate::key::Key;
use crate::parse::{Meta, Opening, Reach};

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
            self.pieces[self.pieces_len % BURST_MAX] = (piece, self.len as u8);
            self.pieces_len += 1;
        }
        self.push(key, meta, opening);
    }

    /// Whether there are fragments whose connections are to be found.
    #[inline(always)]
    pub(crate) fn has_pieces(&self) -> bool {
        self.pieces_len > 0
    }

    /// One of them.
    pub(crate) fn piece(&self, which: usize) -> Option<Arrived<W>> {
        let (piece, at) = self.pieces[..self.pieces_len.min(BURST_MAX)].get(which)?;
        let at = usize::from(*at) % BURST_MAX;
        let (meta, position) = (self.metas[at], self.openings[at].position);
        let way = piece.is_first().then(|| (Key::from_words(&self.keys, at), meta.swapped()));
        Some(Arrived { piece: *piece, position, way, meta: meta.without_flags() })
    }

    /// One of them belongs to this connection and comes from this end of it. A segment reaches so
    /// far with it.
    pub(crate) fn belongs(&mut self, which: usize, (key, swapped): (Key<W>, u8), reach: Reach) {
        let at = usize::from(self.pieces[which % BURST_MAX].1) % BURST_MAX;
        key.to_words(&mut self.keys, at);
        self.metas[at] = self.metas[at].sent_by(swapped);
        self.openings[at] = Opening::further(self.openings[at].position, reach);
    }

    /// One of them has none.
    pub(crate) fn refuse(&mut self, which: usize) {
        self.refused |= 1 << (self.pieces[which % BURST_MAX].1 % BURST_MAX as u8);
    }

    /// All of them are known: takes those out that have no connection.
    pub(crate) fn settled(&mut self) {
        self.pieces_len = 0;
        if self.refused == 0 {
            return;
        }
        let mut kept = 0;
        for at in 0..self.len.min(BURST_MAX) {
            if self.refused >> at & 1 == 0 {
                Key::from_words(&self.keys, at).to_words(&mut self.keys, kept);
                (self.metas[kept], self.openings[kept]) = (self.metas[at], self.openings[at]);
                kept += 1;
            }
        }
        self.len = kept;
        self.refused = 0;
    }
}
