// SPDX-License-Identifier: BSD-3-Clause
//! Fragments find their connection, wait for their first one, or pass without it.

use super::in_order::track_in_order;
use super::verdicts::{States, Told, Unasked};
use crate::account::Books;
use crate::api::{CtState, Reason, Verdict};
use crate::base::Nanos;
use crate::fragments::{Due, Fate, Fragments, Held, Hold, Known, Of, Owner, Waiting};
use crate::packet::{Arrived, Burst, Further, Lane, Lanes};
use crate::tracker::Tracker;
use wire::Packet;

impl Fragments {
    /// Finds the connections of the fragments in both lanes, in the order in which they came, and
    /// takes those that have none out.
    #[inline(never)]
    pub(crate) fn settle(&mut self, lanes: &mut Lanes, now: Nanos, told: &mut Told<impl States>) {
        self.give_up_overdue(now, told.books);
        let (mut v4, mut v6) = (0, 0);
        loop {
            let next = (lanes.v4.piece(v4), lanes.v6.piece(v6));
            let is_v4 = match next {
                (None, None) => break,
                (Some(a), Some(b)) => a.position < b.position,
                (a, _) => a.is_some(),
            };
            if is_v4 {
                self.settle_one::<2>(&mut lanes.v4, v4, now, told);
                v4 += 1;
            } else {
                self.settle_one::<5>(&mut lanes.v6, v6, now, told);
                v6 += 1;
            }
        }
        lanes.v4.settled();
        lanes.v6.settled();
    }

    fn settle_one<const W: usize>(
        &mut self,
        lane: &mut Lane<W>,
        which: usize,
        now: Nanos,
        told: &mut Told<impl States>,
    ) where
        Self: Of<W>,
    {
        let Some(Arrived { piece, position, way, meta }) = lane.piece(which) else { return };
        let may_wait = self.hold.is_on();
        let (known, hold) = self.of();
        let mut refuse = |first, reason| release_held(hold, first, reason, told.books);
        match known.datagrams.take(&piece, way, (now, may_wait), &mut refuse) {
            Fate::First => {
                let due = known.datagrams.due(&piece, position, hold);
                match lane.errand_of_piece(which, &told.books.others) {
                    Some(errand) => {
                        lane.refuse(which);
                        told.send_away(errand);
                        due.iter().for_each(|due| due.send_away(hold, told.books));
                    }
                    None => known.due.extend(due),
                }
            }
            Fate::Of(key, swapped, reach) => {
                lane.belongs(which, (key, swapped), reach);
                if let Some(errand) = lane.errand_of_piece(which, &told.books.others) {
                    lane.refuse(which);
                    told.send_away(errand);
                }
            }
            Fate::Refused(reason) => {
                lane.refuse(which);
                told.refuse(position, reason);
            }
            Fate::Waits(number) => {
                lane.refuse(which);
                if hold.is_full() {
                    self.give_up_oldest(told.books);
                }
                let (known, hold) = self.of();
                let waiting = Waiting { meta, end: piece.span.end };
                match known.datagrams.keep(number, hold, (waiting, now)) {
                    Ok(slot) => {
                        told.books.stats.held += 1;
                        self.held.push(Held { position, slot });
                        told.verdicts[usize::from(position)] = Verdict::Hold;
                        told.states.tell(position, || CtState::UNTRACKED);
                    }
                    Err(reason) => told.refuse(position, reason),
                }
            }
        }
    }

    /// Lets go of those that have waited for too long.
    pub(crate) fn give_up_overdue(&mut self, now: Nanos, books: &mut Books) {
        while let Some(owner) = self.hold.overdue(now) {
            self.give_up(owner, books);
        }
    }

    /// Lets go of all that wait.
    pub(crate) fn give_up_all(&mut self, books: &mut Books) {
        while self.hold.oldest().is_some() {
            self.give_up_oldest(books);
        }
    }

    fn give_up_oldest(&mut self, books: &mut Books) {
        if let Some(owner) = self.hold.oldest() {
            self.give_up(owner, books);
        }
    }

    fn give_up(&mut self, Owner { is_v6, datagram }: Owner, books: &mut Books) {
        let hold = &mut self.hold;
        let mut refuse = |first, reason| release_held(hold, first, reason, books);
        match is_v6 {
            true => self.v6.datagrams.give_up(datagram, &mut refuse),
            false => self.v4.datagrams.give_up(datagram, &mut refuse),
        }
    }

    /// Counts the packets of a burst, and behind each first fragment those that waited for it.
    #[inline(never)]
    pub(crate) fn count_due<P: Packet>(
        &mut self,
        lanes: &mut Lanes,
        tables: (&mut Tracker<2>, &mut Tracker<5>),
        burst: Burst<P>,
        told: &mut Told<impl States>,
    ) {
        let Self { v4, v6, hold, .. } = self;
        track_in_order(lanes, tables, burst, told, &mut |position, of_v4, of_v6, told| {
            v4.count_due(position, hold, of_v4, told);
            v6.count_due(position, hold, of_v6, told);
        });
        v4.due.clear();
        v6.due.clear();
    }
}

impl<const W: usize> Known<W> {
    pub(crate) fn count_due(
        &self,
        position: usize,
        hold: &mut Hold,
        tracker: &mut Tracker<W>,
        told: &mut Told<impl States>,
    ) {
        // What is told is of the first one.
        let Told { books, verdicts, now, .. } = told;
        let mut told = Told { books, verdicts, states: &mut Unasked, now: *now };
        let is_here = |due: &&Due<W>| usize::from(due.position) == position;
        for Due { position, key, swapped, extent, first_held } in self.due.iter().filter(is_here) {
            let mut at = *first_held;
            while let Some((waiting, next)) = hold.packet(at) {
                told.books.stats.held -= 1;
                let (meta, reach) = (waiting.meta.sent_by(*swapped), extent.up_to(waiting.end));
                let fragment = Further { meta, position: *position, reach };
                let verdict = match tracker.follow(key, fragment, told.now, &mut told) {
                    true => {
                        told.books.stats.tracked += 1;
                        Verdict::Forward
                    }
                    false => told.books.without_key(Reason::Fragment),
                };
                hold.release(at as u16, verdict);
                at = next;
            }
        }
    }
}

impl<const W: usize> Due<W> {
    /// The connection is that of another worker: the packets follow the first one.
    fn send_away(&self, hold: &mut Hold, books: &mut Books) {
        let mut at = self.first_held;
        while let Some((waiting, next)) = hold.packet(at) {
            let meta = waiting.meta.sent_by(self.swapped);
            let reach = self.extent.up_to(waiting.end);
            let fragment = Further { meta, position: self.position, reach };
            match books.others.errand_of_fragment(&self.key, fragment) {
                Some(errand) => {
                    books.held_goes_away();
                    hold.send_away(at as u16, errand);
                }
                None => {
                    books.stats.held -= 1;
                    hold.release(at as u16, books.without_key(Reason::Fragment));
                }
            }
            at = next;
        }
    }
}

/// Releases packets that wait and have no connection, from this one of a datagram on.
fn release_held(hold: &mut Hold, first: u32, reason: Reason, books: &mut Books) {
    let mut at = first;
    hold.leave(first);
    while let Some((_, next)) = hold.packet(at) {
        books.stats.held -= 1;
        let verdict = books.without_key(reason);
        hold.release(at as u16, verdict);
        at = next;
    }
}

/// Takes all but first fragments out of the lanes.
pub(crate) fn refuse_further(lanes: &mut Lanes, told: &mut Told<impl States>) {
    refuse_further_of(&mut lanes.v4, told);
    refuse_further_of(&mut lanes.v6, told);
}

fn refuse_further_of<const W: usize>(lane: &mut Lane<W>, told: &mut Told<impl States>) {
    let mut which = 0;
    while let Some(Arrived { position, way, .. }) = lane.piece(which) {
        if way.is_none() {
            lane.refuse(which);
            told.refuse(position, Reason::Fragment);
        } else if let Some(errand) = lane.errand_of_piece(which, &told.books.others) {
            lane.refuse(which);
            told.send_away(errand);
        }
        which += 1;
    }
    lane.settled();
}
