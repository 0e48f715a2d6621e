// SPDX-License-Identifier: BSD-3-Clause
//! Owns the slots of fragments that wait for the first of their datagram. The caller keeps the
//! packets, each in the slot that the engine named. The engine keeps what it needs to count and
//! release them.
//!
//! A slot stays taken until the caller has fetched the release of its packet. The slots that a
//! burst frees and those that it takes are not the same. So there are [`BURST_MAX`] more slots than
//! packets that may wait.

use crate::api::Verdict;
use crate::base::{BURST_MAX, HugeRegion, Links, List, MemoryUse, NONE, Nanos};
use crate::packet::{Handoff, PacketMeta};
use std::collections::VecDeque;

/// Verdict for a packet that the caller has kept.
#[derive(Clone, Copy)]
pub struct Release {
    /// The slot of the packet.
    pub slot: u16,
    /// Any but [`Verdict::Hold`].
    pub verdict: Verdict,
    /// The hand-off, if the verdict is [`Verdict::Elsewhere`].
    pub handoff: Option<Handoff>,
}

/// A packet of the last burst that the caller must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldPacket {
    /// Its place in the burst.
    pub position: u8,
    /// Where to put it: below [`Engine::hold_slots`](crate::Engine::hold_slots), and free.
    pub slot: u16,
}

/// Identifies a datagram: its IP version, and its number in that table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DatagramId {
    pub(crate) is_v6: bool,
    pub(crate) datagram: u32,
}

/// What the engine needs to count a waiting packet.
#[derive(Clone, Copy)]
pub(crate) struct HeldFragment {
    pub(crate) meta: PacketMeta,
    /// Offset in the datagram, in bytes, behind its last byte.
    pub(crate) end: u16,
    /// True if access lists drop the packet unless its connection is found.
    pub(crate) is_denied_alone: bool,
}

#[derive(Clone, Copy)]
struct Slot {
    waiting: HeldFragment,
    since: Nanos,
    owner: DatagramId,
    /// Slot of the next waiting packet of the datagram.
    next: u32,
}

/// Slots, waiting packets in order of arrival, and releases for the caller.
pub(crate) struct HoldQueue {
    slots: HugeRegion<Slot>,
    links: Links,
    free: Vec<u16>,
    waiting: List,
    waiting_len: usize,
    /// Most packets that may wait.
    budget: usize,
    hold_timeout: Nanos,
    releases: VecDeque<Release>,
}

impl HoldQueue {
    /// Makes room for `budget` packets, each of which waits for `hold_timeout` at most.
    pub(super) fn new(budget: u16, hold_timeout: Nanos) -> Self {
        let len = if budget == 0 { 0 } else { usize::from(budget) + BURST_MAX };
        let owner = DatagramId { is_v6: false, datagram: NONE };
        let slot = Slot {
            waiting: HeldFragment { meta: PacketMeta::EMPTY, end: 0, is_denied_alone: false },
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
            // No packet may expire within its own burst.
            hold_timeout: hold_timeout.max(1),
            releases: VecDeque::with_capacity(len),
        }
    }

    pub(super) fn memory(&self) -> MemoryUse {
        [self.slots.memory(), self.links.memory()].into_iter().sum()
    }

    /// True if packets may wait at all.
    pub(crate) fn is_on(&self) -> bool {
        self.budget > 0
    }

    /// Number of slots, free or not.
    pub(super) fn len(&self) -> usize {
        if self.is_on() { self.slots.len() } else { 0 }
    }

    /// True if no more packets may wait.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting_len >= self.budget
    }

    /// Returns the datagram of the packet that has waited longest.
    pub(crate) fn oldest(&self) -> Option<DatagramId> {
        self.slots.get(self.waiting.first as usize).map(|slot| slot.owner)
    }

    /// Returns the datagram of the packet that has waited longest, if its time is over at `now`.
    pub(crate) fn overdue(&self, now: Nanos) -> Option<DatagramId> {
        let slot = self.slots.get(self.waiting.first as usize)?;
        (slot.since.saturating_add(self.hold_timeout) <= now).then_some(slot.owner)
    }

    /// Takes a slot for a packet and links it behind `last`, the last waiting packet of its
    /// datagram. Returns `None` if no slot is free.
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

    /// Ends the wait of the packet in slot `first` and of those behind it in its datagram.
    pub(crate) fn end_wait(&mut self, first: u32) {
        let mut at = first;
        while let Some(slot) = self.slots.get(at as usize) {
            let next = slot.next;
            self.links.remove(&mut self.waiting, at);
            self.waiting_len -= 1;
            at = next;
        }
    }

    /// Returns the packet in a slot, and the slot of the next packet of its datagram.
    pub(crate) fn packet(&self, slot: u32) -> Option<(HeldFragment, u32)> {
        self.slots.get(slot as usize).map(|slot| (slot.waiting, slot.next))
    }

    /// Queues the verdict for the packet in a slot.
    pub(crate) fn release(&mut self, slot: u16, verdict: Verdict) {
        self.releases.push_back(Release { slot, verdict, handoff: None });
    }

    /// Queues the hand-off of the packet in a slot to another worker.
    pub(crate) fn hand_off(&mut self, slot: u16, handoff: Handoff) {
        let verdict = Verdict::Elsewhere;
        self.releases.push_back(Release { slot, verdict, handoff: Some(handoff) });
    }

    pub(crate) fn has_releases(&self) -> bool {
        !self.releases.is_empty()
    }

    /// Takes the next release. Its slot is free from then on.
    pub(crate) fn next_release(&mut self) -> Option<Release> {
        let release = self.releases.pop_front()?;
        self.free.push(release.slot);
        Some(release)
    }
}
