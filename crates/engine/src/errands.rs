// SPDX-License-Identifier: BSD-3-Clause
//! Packets of connections that another worker has: ICMP errors, and fragments.
//!
//! They are parsed where they come, and go with what is known of them, an [`Errand`], to the worker
//! that has the connection. There they are tracked like any other; nothing goes further.

use crate::Engine;
use crate::api::{CtState, Reason, Side, Steering, Verdict};
use crate::base::{BURST_MAX, Nanos};
use crate::books::{Books, Told};
use crate::burst::track_in_order;
use crate::packet::{Errand, Further, Handed, Key, Lane, Lanes, Meta, Opening, Reach};
use crate::pipeline::{States, Unasked};
use crate::steering::Trust;
use wire::Packet;

/// What an engine knows of others.
pub(crate) struct Others {
    steering: Option<Steering>,
    trust: Trust,
    /// Packets of this burst that are to go to them.
    handed: Vec<Handed>,
}

impl Others {
    pub(crate) fn new(steering: Option<Steering>) -> Self {
        let room = if steering.is_some() { BURST_MAX } else { 0 };
        Self { steering, trust: Trust::default(), handed: Vec::with_capacity(room) }
    }

    /// Whether it is known who has which connection.
    pub(crate) fn are_known(&self) -> bool {
        self.steering.is_some()
    }

    /// Whether a connection that is not here is nowhere. A port that mostly spreads as it says need
    /// not do so with two tags, extension headers or tunnels.
    pub(crate) fn have_none_more(&self) -> bool {
        self.steering.as_ref().is_some_and(|steering| !steering.doubt.is_there())
    }

    /// Begins a burst.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.handed.clear();
    }

    /// Packets of the burst, where the burst was a part of another one.
    pub(crate) fn handed_mut(&mut self) -> &mut [Handed] {
        &mut self.handed
    }

    /// With what a packet of this connection goes to another worker, if it is not ours.
    pub(crate) fn errand<const W: usize>(
        &self,
        key: &Key<W>,
        meta: Meta,
        opening: Opening,
    ) -> Option<Errand> {
        let Steering { spread, me, .. } = self.steering.as_ref()?;
        let worker = Some(spread.worker(key)).filter(|worker| worker != me)?;
        let words = std::array::from_fn(|word| key.0.get(word).copied().unwrap_or(0));
        Some(Errand { words, meta, opening, reach: Reach::NONE, worker, is_v6: W > 2 })
    }

    /// The same of a fragment behind the first of its datagram.
    pub(crate) fn errand_of_fragment<const W: usize>(
        &self,
        key: &Key<W>,
        Further { meta, position, reach }: Further,
    ) -> Option<Errand> {
        Some(Errand { reach, ..self.errand(key, meta, Opening::further(position))? })
    }

    /// A packet with this key has come here.
    fn check<const W: usize>(&mut self, key: &Key<W>) {
        let Some(Steering { spread, me, doubt }) = &self.steering else { return };
        let is_right = spread.worker(key) == *me;
        if !is_right {
            doubt.arise();
        }
        if !self.trust.holds_after(is_right) {
            self.steering = None;
        }
    }
}

impl<S: States> Told<'_, S> {
    /// The packet at this place goes to another worker.
    pub(crate) fn send_away(&mut self, errand: Errand) {
        let position = errand.opening.position;
        self.books.stats.handed += 1;
        self.books.others.handed.push(Handed { position, errand });
        self.verdicts[usize::from(position)] = Verdict::Elsewhere;
        self.states.tell(position, || CtState::UNTRACKED);
    }
}

/// ICMP errors in a lane about connections of other workers leave it.
fn send_errors_away<const W: usize>(lane: &mut Lane<W>, told: &mut Told<impl States>) {
    let mut errors = lane.take_errors();
    while errors != 0 {
        let at = errors.trailing_zeros() as usize;
        errors &= errors - 1;
        if let Some(errand) = lane.errand(at, &told.books.others) {
            lane.refuse_at(at);
            told.send_away(errand);
        }
    }
}

/// The same of both lanes.
pub(crate) fn send_all_errors_away(lanes: &mut Lanes, told: &mut Told<impl States>) {
    if told.books.others.are_known() {
        send_errors_away(&mut lanes.v4, told);
        send_errors_away(&mut lanes.v6, told);
    }
}

impl Books {
    /// A packet that waited goes to another worker. It was counted as held.
    pub(crate) fn held_goes_away(&mut self) {
        self.stats.held -= 1;
        self.stats.handed += 1;
    }
}

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

    /// Holds one packet of the last burst against what the port says of its queues.
    #[inline(never)]
    pub(crate) fn check_steering(&mut self) {
        if let Some((key, _)) = self.lanes.v4.first() {
            self.books.others.check(&key);
        } else if let Some((key, _)) = self.lanes.v6.first() {
            self.books.others.check(&key);
        }
    }
}
