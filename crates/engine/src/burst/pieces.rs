// SPDX-License-Identifier: BSD-3-Clause
//! Packets in a lane whose connection another worker may have. Fragments: those that came, whose
//! they are once that is known, and those that leave it again as nobody knows. ICMP errors.

use super::Outcome;
use crate::base::BURST_MAX;
use crate::conn::Never;
use crate::errands::Others;
use crate::packet::{Burst, Errand, Key, Lane};
use crate::table::FlowTable;
use wire::Packet;

impl<const W: usize> Lane<W> {
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
