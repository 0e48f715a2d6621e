// SPDX-License-Identifier: BSD-3-Clause
//! Fragments that wait for the first of their datagram. The packets themselves are with the caller,
//! each in the slot that it was told; here is what is to be known to count and release them.
//!
//! A slot is taken from the moment that a packet is to be kept until the caller has asked what
//! becomes of it. So there are more slots than may wait: those that a burst sets free and those
//! that it takes are not the same.

use crate::api::Verdict;
use crate::base::{BURST_MAX, HugeRegion, Links, List, MemoryUse, NONE, Nanos};
use crate::packet::{Handoff, PacketMeta};
use std::collections::VecDeque;

/// What has become of a packet that the caller keeps.
#[derive(Clone, Copy)]
pub struct Release {
    /// Where it is.
    pub slot: u16,
    /// Any but [`Verdict::Hold`].
    pub verdict: Verdict,
    /// What goes with it to another worker.
    pub handoff: Option<Handoff>,
}

/// A packet of the last burst that the caller is to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldPacket {
    /// Its place in the burst.
    pub position: u8,
    /// Where to put it: below [`Engine::hold_slots`](crate::Engine::hold_slots), and free.
    pub slot: u16,
}

/// Whose datagram it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DatagramId {
    pub(crate) is_v6: bool,
    pub(crate) datagram: u32,
}

/// What is to be known of a packet that waits.
#[derive(Clone, Copy)]
pub(crate) struct HeldFragment {
    pub(crate) meta: PacketMeta,
    /// Where it ends in its datagram.
    pub(crate) end: u16,
}

#[derive(Clone, Copy)]
struct Slot {
    waiting: HeldFragment,
    since: Nanos,
    owner: DatagramId,
    /// The next of its datagram.
    next: u32,
}

/// The slots, those that wait in the order in which they came, and what became of others.
pub(crate) struct HoldQueue {
    slots: HugeRegion<Slot>,
    links: Links,
    free: Vec<u16>,
    waiting: List,
    waiting_len: usize,
    /// Most that may wait.
    budget: usize,
    patience: Nanos,
    releases: VecDeque<Release>,
}

impl HoldQueue {
    /// Room for `budget` that wait, each for `patience` at most.
    pub(super) fn new(budget: u16, patience: Nanos) -> Self {
        let len = if budget == 0 { 0 } else { usize::from(budget) + BURST_MAX };
        let owner = DatagramId { is_v6: false, datagram: NONE };
        let slot = Slot {
            waiting: HeldFragment { meta: PacketMeta::EMPTY, end: 0 },
            since: 0,
            owner,
            next: NONE,
        };
        Self {
            slots: HugeRegion::new(len.max(1), slot, false),
            links: Links::new(len.max(1)),
            free: (0..len as u16).rev().collect(),
            waiting: List::EMPTY,
            waiting_len: 0,
            budget: budget.into(),
            // Within a burst nobody's time is over.
            patience: patience.max(1),
            releases: VecDeque::with_capacity(len),
        }
    }

    pub(super) fn memory(&self) -> MemoryUse {
        [self.slots.memory(), self.links.memory()].into_iter().sum()
    }

    /// Whether anything is ever kept.
    pub(crate) fn is_on(&self) -> bool {
        self.budget > 0
    }

    /// All slots.
    pub(super) fn len(&self) -> usize {
        if self.is_on() { self.slots.len() } else { 0 }
    }

    /// Whether as many wait as may.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting_len >= self.budget
    }

    /// The datagram of the one that has waited longest.
    pub(crate) fn oldest(&self) -> Option<DatagramId> {
        self.slots.get(self.waiting.first as usize).map(|slot| slot.owner)
    }

    /// The same if it has waited for too long.
    pub(crate) fn overdue(&self, now: Nanos) -> Option<DatagramId> {
        let slot = self.slots.get(self.waiting.first as usize)?;
        (slot.since.saturating_add(self.patience) <= now).then_some(slot.owner)
    }

    /// Takes a slot for a packet, behind the others of its datagram, of which `last` is the last.
    pub(crate) fn hold(
        &mut self,
        owner: DatagramId,
        last: u32,
        waiting: HeldFragment,
        since: Nanos,
    ) -> Option<u16> {
        let slot = self.free.pop()?;
        self.slots[usize::from(slot)] = Slot { waiting, since, owner, next: NONE };
        if let Some(last) = self.slots.get_mut(last as usize) {
            last.next = slot.into();
        }
        self.links.push(&mut self.waiting, slot.into());
        self.waiting_len += 1;
        Some(slot)
    }

    /// Takes packets from those that wait, from this one of a datagram on.
    pub(crate) fn leave(&mut self, first: u32) {
        let mut at = first;
        while let Some(slot) = self.slots.get(at as usize) {
            let next = slot.next;
            self.links.remove(&mut self.waiting, at);
            self.waiting_len -= 1;
            at = next;
        }
    }

    /// What is known of the packet in a slot, and the next one of its datagram.
    pub(crate) fn packet(&self, slot: u32) -> Option<(HeldFragment, u32)> {
        self.slots.get(slot as usize).map(|slot| (slot.waiting, slot.next))
    }

    /// What becomes of the packet in a slot.
    pub(crate) fn release(&mut self, slot: u16, verdict: Verdict) {
        self.releases.push_back(Release { slot, verdict, handoff: None });
    }

    /// The packet in a slot goes to another worker.
    pub(crate) fn hand_off(&mut self, slot: u16, errand: Handoff) {
        let verdict = Verdict::Elsewhere;
        self.releases.push_back(Release { slot, verdict, handoff: Some(errand) });
    }

    pub(crate) fn has_releases(&self) -> bool {
        !self.releases.is_empty()
    }

    /// The next release; its slot is free from then on.
    pub(crate) fn next_release(&mut self) -> Option<Release> {
        let release = self.releases.pop_front()?;
        self.free.push(release.slot);
        Some(release)
    }
}
