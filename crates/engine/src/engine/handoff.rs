// SPDX-License-Identifier: BSD-3-Clause
//! Packets that go to other workers, and packets that come from them.

use super::Engine;
use crate::api::{Reason, Side, Verdict};
use crate::base::Nanos;
use crate::packet::{Errand, Handed, Key};
use crate::pipeline::{Told, Unasked, track_in_order};
use wire::Packet;

impl Engine {
    /// Where the packets of the last burst belong whose verdict is [`Verdict::Elsewhere`].
    pub fn handed(&self) -> &[Handed] {
        &self.books.others.handed
    }

    /// The other worker has no room for a packet: what becomes of it then.
    pub fn not_handed(&mut self) -> Verdict {
        self.books.stats.handed -= 1;
        self.books.without_key(Reason::WorkerBusy)
    }

    /// Tracks packets that came to other workers and were parsed there, at most [`BURST_MAX`], and
    /// writes one verdict for each: [`Verdict::Forward`] or [`Verdict::Drop`].
    ///
    /// # Panics
    /// If there are more than [`BURST_MAX`] packets, or not as many errands, or fewer verdicts.
    pub fn take_over<P: Packet>(
        &mut self,
        (side, now): (Side, Nanos),
        packets: &[P],
        errands: &[Errand],
        verdicts: &mut [Verdict],
    ) {
        assert!(packets.len() == errands.len());
        let verdicts = self.arrive(Some(side), now, packets.len(), verdicts);
        self.lanes.clear();
        for (position, errand) in (0..).zip(errands) {
            let mut opening = errand.opening;
            opening.position = position;
            let [a, b, ..] = errand.words;
            match errand.is_v6 {
                true => {
                    let key = Key(errand.words);
                    self.lanes.v6.push_parsed(key, errand.meta, opening, errand.reach);
                }
                false => {
                    let key = Key([a, b]);
                    self.lanes.v4.push_parsed(key, errand.meta, opening, errand.reach);
                }
            }
        }
        self.lanes.v4.are_all_pieces();
        self.lanes.v6.are_all_pieces();
        self.look_up();
        self.look_up();
        self.books.stats.taken += packets.len() as u64;
        self.books.stats.tracked += packets.len() as u64;
        let books = &mut self.books;
        let mut outcome = Told { books, verdicts, states: &mut Unasked, now: self.now };
        let (tables, burst) = ((&mut self.v4, &mut self.v6), (packets, self.now));
        track_in_order(&mut self.lanes, tables, burst, &mut outcome, &mut |_, _, _, _| ());
    }
}
