// SPDX-License-Identifier: BSD-3-Clause
//! Finds the connections of fragments, holds those that came before the first of their datagram,
//! and passes or drops those without a connection.

use super::admission::access;
use super::in_order::track_in_order;
use super::pass::Passes;
use super::verdicts::{CtStates, Verdicts};
use crate::account::Accounts;
use crate::api::{CtState, UntrackedReason, Verdict};
use crate::base::Nanos;
use crate::fragments::{
    DatagramId, FamilyDatagrams, FamilyStore, FragmentOutcome, FragmentStore, HeldFragment,
    HeldPacket, HoldQueue, ReadyFragments,
};
use crate::packet::{Batch, BatchFragment, Batches, Burst, LaterFragment};
use crate::tracker::Tracker;
use wire::Packet;

impl FragmentStore {
    /// Finds the connections of the fragments in both batches, in order of arrival. Removes those
    /// that wait, have no connection, or go to another worker.
    #[inline(never)]
    pub(crate) fn resolve(
        &mut self,
        batches: &mut Batches,
        now: Nanos,
        verdicts: &mut Verdicts<impl CtStates>,
    ) {
        self.expire_overdue(now, verdicts.accounts);
        let (mut v4, mut v6) = (0, 0);
        loop {
            let next = (batches.v4.fragment(v4), batches.v6.fragment(v6));
            let is_v4 = match next {
                (None, None) => break,
                (Some(a), Some(b)) => a.position < b.position,
                (a, _) => a.is_some(),
            };
            if is_v4 {
                self.resolve_one::<2>(&mut batches.v4, v4, now, verdicts);
                v4 += 1;
            } else {
                self.resolve_one::<5>(&mut batches.v6, v6, now, verdicts);
                v6 += 1;
            }
        }
        batches.v4.resolved();
        batches.v6.resolved();
    }

    fn resolve_one<const W: usize>(
        &mut self,
        batch: &mut Batch<W>,
        nth: usize,
        now: Nanos,
        verdicts: &mut Verdicts<impl CtStates>,
    ) where
        Self: FamilyStore<W>,
    {
        let Some(BatchFragment { header, position, conn, meta }) = batch.fragment(nth) else {
            return;
        };
        let may_wait = self.hold.is_on();
        let (known, hold) = self.of();
        let mut refuse = |first, reason| release_held(hold, first, reason, verdicts.accounts);
        match known.datagrams.take(&header, conn, (now, may_wait), &mut refuse) {
            FragmentOutcome::First => {
                let due = known.datagrams.ready(&header, position, hold);
                match batch.handoff_of_fragment(nth, verdicts.steering) {
                    Some(handoff) => {
                        batch.remove(nth);
                        verdicts.hand_off(handoff);
                        due.iter().for_each(|due| due.hand_off(hold, verdicts));
                    }
                    None => known.due.extend(due),
                }
            }
            FragmentOutcome::Of(key, swapped, reach) => {
                batch.attach(nth, (key, swapped), reach);
                if let Some(handoff) = batch.handoff_of_fragment(nth, verdicts.steering) {
                    batch.remove(nth);
                    verdicts.hand_off(handoff);
                }
            }
            FragmentOutcome::Refused(reason) => {
                batch.remove(nth);
                verdicts.keyless(position, reason);
            }
            FragmentOutcome::Waits(number) => {
                batch.remove(nth);
                if hold.is_full() {
                    self.expire_oldest_held(verdicts.accounts);
                }
                let (known, hold) = self.of();
                let is_denied_alone = verdicts.accounts.drops.denies_unjudged;
                let waiting = HeldFragment { meta, end: header.span.end, is_denied_alone };
                match known.datagrams.hold(number, hold, (waiting, now)) {
                    Ok(slot) => {
                        self.held.push(HeldPacket { position, slot });
                        verdicts.hold(position);
                    }
                    Err(reason) => verdicts.keyless(position, reason),
                }
            }
        }
    }

    /// Releases packets that have waited too long.
    pub(crate) fn expire_overdue(&mut self, now: Nanos, accounts: &mut Accounts) {
        while let Some(owner) = self.hold.overdue(now) {
            self.expire_held(owner, accounts);
        }
    }

    /// Releases all packets that wait.
    pub(crate) fn expire_all_held(&mut self, accounts: &mut Accounts) {
        while self.hold.oldest().is_some() {
            self.expire_oldest_held(accounts);
        }
    }

    fn expire_oldest_held(&mut self, accounts: &mut Accounts) {
        if let Some(owner) = self.hold.oldest() {
            self.expire_held(owner, accounts);
        }
    }

    fn expire_held(&mut self, DatagramId { is_v6, datagram }: DatagramId, accounts: &mut Accounts) {
        let hold = &mut self.hold;
        let mut refuse = |first, reason| release_held(hold, first, reason, accounts);
        match is_v6 {
            true => self.v6.datagrams.expire_held(datagram, &mut refuse),
            false => self.v4.datagrams.expire_held(datagram, &mut refuse),
        }
    }

    /// Counts the packets of a burst, and after each first fragment those that waited for it.
    #[inline(never)]
    pub(super) fn count_ready<P: Packet>(
        &mut self,
        passes: Passes,
        burst: Burst<P>,
        verdicts: &mut Verdicts<impl CtStates>,
    ) {
        let Self { v4, v6, hold, .. } = self;
        track_in_order(passes, burst, verdicts, &mut |position, of_v4, of_v6, verdicts| {
            v4.count_ready(position, hold, of_v4, verdicts);
            v6.count_ready(position, hold, of_v6, verdicts);
        });
        v4.due.clear();
        v6.due.clear();
    }
}

impl<const W: usize> FamilyDatagrams<W> {
    fn count_ready(
        &self,
        position: usize,
        hold: &mut HoldQueue,
        tracker: &mut Tracker<W>,
        verdicts: &mut Verdicts<impl CtStates>,
    ) {
        // A requested connection state is that of the first fragment.
        let mut verdicts = verdicts.without_ct_states();
        let is_here = |due: &&ReadyFragments<W>| usize::from(due.position) == position;
        for ReadyFragments { position, key, swapped, extent, first_held } in
            self.due.iter().filter(is_here)
        {
            let mut at = *first_held;
            while let Some((waiting, next)) = hold.packet(at) {
                verdicts.accounts.stats.held -= 1;
                let (meta, reach) = (waiting.meta.sent_by(*swapped), extent.reach(waiting.end));
                let fragment = LaterFragment { meta, position: *position, reach };
                if access::denies_held(tracker, key, meta, &mut verdicts) {
                    verdicts.accounts.stats.dropped[UntrackedReason::Denied as usize] += 1;
                    hold.release(at as u16, Verdict::Drop);
                    at = next;
                    continue;
                }
                let step = tracker.track_held(key, fragment, verdicts.now, verdicts.accounts);
                let verdict = match step {
                    Some(step) => {
                        verdicts.write(*position, key.zone(), step, || CtState::UNTRACKED);
                        verdicts.accounts.stats.tracked += 1;
                        Verdict::Forward
                    }
                    None => verdicts.accounts.drop_or_pass(UntrackedReason::Fragment),
                };
                hold.release(at as u16, verdict);
                at = next;
            }
        }
    }
}

impl<const W: usize> ReadyFragments<W> {
    /// Hands the waiting packets to the worker of the first fragment's connection.
    fn hand_off(&self, hold: &mut HoldQueue, verdicts: &mut Verdicts<impl CtStates>) {
        let mut at = self.first_held;
        while let Some((waiting, next)) = hold.packet(at) {
            let meta = waiting.meta.sent_by(self.swapped);
            let reach = self.extent.reach(waiting.end);
            let fragment = LaterFragment { meta, position: self.position, reach };
            verdicts.accounts.stats.held -= 1;
            match verdicts.steering.handoff_of_fragment(&self.key, fragment) {
                Some(handoff) => {
                    verdicts.accounts.stats.handed += 1;
                    hold.hand_off(at as u16, handoff);
                }
                None => {
                    hold.release(
                        at as u16,
                        verdicts.accounts.drop_or_pass(UntrackedReason::Fragment),
                    );
                }
            }
            at = next;
        }
    }
}

/// Releases waiting packets that have no connection, from slot `first` of a datagram on.
fn release_held(
    hold: &mut HoldQueue,
    first: u32,
    reason: UntrackedReason,
    accounts: &mut Accounts,
) {
    let mut at = first;
    hold.end_wait(first);
    // The lists that judge a packet are those of its own burst.
    let of_this_burst = accounts.drops.denies_unjudged;
    while let Some((waiting, next)) = hold.packet(at) {
        accounts.stats.held -= 1;
        accounts.drops.denies_unjudged = waiting.is_denied_alone;
        let verdict = accounts.drop_or_pass(reason);
        hold.release(at as u16, verdict);
        at = next;
    }
    accounts.drops.denies_unjudged = of_this_burst;
}

/// Removes later fragments from both batches, and hands off first fragments of other workers'
/// connections. Used if the configuration has no store of fragments.
pub(crate) fn remove_later_fragments(
    batches: &mut Batches,
    verdicts: &mut Verdicts<impl CtStates>,
) {
    remove_later_fragments_of(&mut batches.v4, verdicts);
    remove_later_fragments_of(&mut batches.v6, verdicts);
}

fn remove_later_fragments_of<const W: usize>(
    batch: &mut Batch<W>,
    verdicts: &mut Verdicts<impl CtStates>,
) {
    let mut nth = 0;
    while let Some(BatchFragment { position, conn, .. }) = batch.fragment(nth) {
        if conn.is_none() {
            batch.remove(nth);
            verdicts.keyless(position, UntrackedReason::Fragment);
        } else if let Some(handoff) = batch.handoff_of_fragment(nth, verdicts.steering) {
            batch.remove(nth);
            verdicts.hand_off(handoff);
        }
        nth += 1;
    }
    batch.resolved();
}
