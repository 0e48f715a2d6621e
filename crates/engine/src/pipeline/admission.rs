// SPDX-License-Identifier: BSD-3-Clause
//! Packets without a connection, in packet order: which of them begin one.
//!
//! The one place that asks whether a connection may begin: limits today, access lists later.

use super::verdicts::Outcome;
use crate::api::{CtState, Irregular, Reason};
use crate::base::BURST_MAX;
use crate::packet::{Burst, Key, Lane, Lanes, Opening};
use crate::tracker::Tracker;
use wire::Packet;

impl<const W: usize> Lane<W> {
    /// The same of the first packet that waits to begin a flow.
    fn waits_at(&self, miss: usize) -> usize {
        let i = self.misses.get(miss).filter(|_| miss < self.missed);
        i.map_or(usize::MAX, |&i| self.position(i.into()))
    }

    /// Begins a flow with the packet of this miss, if none of those before it did.
    pub(super) fn admit<P: Packet>(
        &mut self,
        tracker: &mut Tracker<W>,
        miss: usize,
        burst: Burst<P>,
        outcome: &mut impl Outcome,
    ) {
        let i = usize::from(self.misses[miss % BURST_MAX]) % BURST_MAX;
        let key = Key::from_words(&self.keys, i);
        let (mut gathered, hash) = (None, self.hashes[i]);
        if let Some(record) = tracker.table.find(hash, &key) {
            return self.track_found(tracker, (i, record), burst, outcome);
        }
        let Opening { position, .. } = self.openings[i];
        if self.openings[i].quoted().is_some() {
            return self.relate(tracker, i, None, outcome);
        }
        if self.openings[i].is_further() {
            return outcome.astray(position);
        }
        let packet = self.arrival(i, burst, tracker, &mut gathered);
        let (swapped, zone) = (packet.meta.swapped(), key.zone());
        if let Some(reason) = packet.unasked(&key).filter(|_| !tracker.picks_up(zone)) {
            return outcome.stray(position, reason);
        }
        if !packet.is_intact(&key) {
            return outcome.stray(position, Irregular::Checksum);
        }
        // Begins no connection; if nobody minds, what is seen of it is written down.
        if packet.unsound(&key).is_some_and(|reason| !outcome.irregular(position, reason)) {
            return;
        }
        if let Err(reason) = outcome.check(&key, swapped) {
            return outcome.full(position, zone, reason);
        }
        if let Some(evicted) = tracker.make_room() {
            outcome.ended(evicted);
        }
        match tracker.admit(hash, key, &packet) {
            true => {
                outcome.created(&key, swapped);
                tracker.tell_new(hash, &key, outcome);
                let is_none = packet.begins_nothing(&key);
                outcome.state(position, || if is_none { CtState::INVALID } else { CtState::NEW });
            }
            false => outcome.full(position, zone, Reason::TableFull),
        }
    }
}

/// Begins new flows of both IP versions in the order of their packets.
#[inline(never)]
pub(crate) fn admit<P: Packet>(
    lanes: &mut Lanes,
    (v4, v6): (&mut Tracker<2>, &mut Tracker<5>),
    burst: Burst<P>,
    outcome: &mut impl Outcome,
) {
    let (mut of_v4, mut of_v6) = (0, 0);
    while of_v4 < lanes.v4.missed || of_v6 < lanes.v6.missed {
        if lanes.v4.waits_at(of_v4) < lanes.v6.waits_at(of_v6) {
            lanes.v4.admit(v4, of_v4, burst, outcome);
            of_v4 += 1;
        } else {
            lanes.v6.admit(v6, of_v6, burst, outcome);
            of_v6 += 1;
        }
    }
}
