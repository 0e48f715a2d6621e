// SPDX-License-Identifier: BSD-3-Clause
//! Owns the slots: a mark names a slot, and the slot names the record of a connection.
//!
//! A slot has one connection at a time, and a new generation for each. It is used again only when
//! no packet with one of its marks can arrive. For that, the NIC must have removed its rules, and
//! the worker must have received what was in the receive queues then.
//!
//! If there are as many slots as records, each slot belongs to the record with its number. No
//! packet has to look that up, which saves one cache line of three. A connection whose record held
//! another one a moment ago then waits for its slot. If there are fewer slots, those that have been
//! free longest are used first.

use super::score::Score;
use crate::api::{MarkLayout, RuleId, Side};
use crate::base::{HugeRegion, MemoryUse, Tick, prefetch};
use std::collections::VecDeque;

/// Stands for no slot.
pub(crate) const NO_SLOT: u32 = u32::MAX;

/// Most packets in a receive queue of any NIC.
const QUEUE_MAX: u32 = 1 << 15;

/// Stands for no record.
const NO_RECORD: u32 = u32::MAX;

/// Fewest generations for slots that belong to one record each. Such a slot is used again sooner
/// than if all slots took turns. If a NIC fails to remove a rule, the comparison of keys finds it.
const GENERATIONS_MIN: u16 = 63;

/// Lifecycle state of one rule, as far as the worker knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RuleLifecycle {
    /// There is no rule.
    None,
    /// It is requested; the result has not come.
    Requested,
    /// The NIC has it; no packet has had its mark yet.
    Installed,
    /// Packets have had its mark.
    Effective,
    /// Its removal is requested, and the request to install it has no result yet.
    Withdrawn,
    /// Its removal is requested.
    Removing,
}

impl RuleLifecycle {
    /// True if the rule is requested or installed, and its removal is not requested.
    pub(crate) fn is_live(self) -> bool {
        matches!(
            self,
            RuleLifecycle::Requested | RuleLifecycle::Installed | RuleLifecycle::Effective
        )
    }
}

/// The rule of one direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleEntry {
    pub(crate) lifecycle: RuleLifecycle,
    /// Side at which its packets arrive.
    pub(crate) side: Side,
    /// Score with which it is counted among the live rules.
    pub(crate) score: Score,
    /// Evaluations in a row at which a packet had no mark. For a bypass: at which a packet arrived.
    pub(crate) misses: u8,
    /// Packets whose keys are still to be compared before its mark is enough.
    pub(crate) checks: u8,
    /// True once a packet had its mark, or once the NIC counted packets for it.
    pub(crate) is_seen: bool,
    /// When it entered its lifecycle state.
    pub(crate) since: Tick,
    /// True if the NIC forwards its packets: it is a bypass.
    pub(crate) is_bypass: bool,
    /// Packets of its direction before the first one with its mark.
    pub(crate) marked_from: u64,
    /// Packets that the NIC has forwarded.
    pub(crate) passed: u64,
}

impl RuleEntry {
    pub(crate) const NONE: RuleEntry = RuleEntry {
        lifecycle: RuleLifecycle::None,
        side: Side::A,
        score: Score::ZERO,
        misses: 0,
        checks: 0,
        is_seen: false,
        since: Tick::ZERO,
        is_bypass: false,
        marked_from: 0,
        passed: 0,
    };

    /// True if the NIC may forward packets by this rule.
    pub(crate) fn is_forwarding(&self) -> bool {
        self.is_bypass && self.lifecycle != RuleLifecycle::None
    }
}

/// A connection with rules, and its rules by direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MarkSlot {
    record: u32,
    pub(crate) generation: u16,
    /// Zone of the connection.
    pub(crate) zone: u16,
    /// It has no connection, and packets with its marks may still arrive.
    is_draining: bool,
    pub(crate) rules: [RuleEntry; 2],
}

impl MarkSlot {
    const NONE: MarkSlot = MarkSlot {
        record: NO_RECORD,
        generation: 0,
        zone: 0,
        is_draining: false,
        rules: [RuleEntry::NONE; 2],
    };

    /// Returns the record of its connection, as long as that lives.
    pub(crate) fn record(&self) -> Option<u32> {
        (self.record != NO_RECORD).then_some(self.record)
    }

    /// True if the NIC may have a rule of this slot.
    pub(super) fn has_rules(&self) -> bool {
        self.rules.iter().any(|rule| rule.lifecycle != RuleLifecycle::None)
    }

    /// True if a connection may take this slot.
    fn is_free(&self) -> bool {
        self.record == NO_RECORD && !self.has_rules() && !self.is_draining
    }
}

/// Most slots of a map that stays in the second-level cache, beside all else.
const NEAR_MAX: u32 = 1 << 15;

/// Maps slots to records.
#[derive(Clone, Copy)]
pub(crate) enum SlotIndex<'a> {
    /// Record of each slot, and the number of slots that were ever used. A slot without a
    /// connection has any record here.
    Listed(&'a [u32], u32),
    /// Each of this many slots belongs to the record with its number.
    Same(u32),
}

impl SlotIndex<'_> {
    pub(crate) const NONE: SlotIndex<'static> = SlotIndex::Same(0);

    /// True if the map is so large that the record of a slot is rarely in the caches of a core.
    #[inline(always)]
    pub(crate) fn is_far(self) -> bool {
        matches!(self, SlotIndex::Listed(_, used) if used > NEAR_MAX)
    }

    /// Starts to load the record of a slot.
    #[inline(always)]
    pub(crate) fn prefetch(self, slot: usize) {
        if let SlotIndex::Listed(records, _) = self {
            prefetch(records.as_ptr().wrapping_add(slot).cast());
        }
    }

    /// Returns the record of a slot and true, or any record and false if there is no such slot. Has
    /// no branch.
    #[inline(always)]
    pub(crate) fn by_or_any(self, slot: usize) -> (u32, bool) {
        match self {
            SlotIndex::Listed(records, _) => {
                let is_one = slot < records.len();
                (records.get(if is_one { slot } else { 0 }).copied().unwrap_or(0), is_one)
            }
            SlotIndex::Same(count) => {
                let is_one = slot < count as usize;
                (if is_one { slot as u32 } else { 0 }, is_one)
            }
        }
    }

    /// Returns the record that a slot names; `None` if there is no such slot.
    #[inline(always)]
    pub(crate) fn by(self, slot: usize) -> Option<u32> {
        match self {
            SlotIndex::Listed(records, _) => records.get(slot).copied(),
            SlotIndex::Same(count) => (slot < count as usize).then_some(slot as u32),
        }
    }
}

/// Progress of the receive queue of each side. All counters wrap.
#[derive(Clone, Copy, Debug, Default)]
struct QueueDrain {
    /// How often the queue was seen empty.
    empty: [u32; 2],
    packets: [u32; 2],
}

/// Bytes kept for one slot: its entries here, and two queued removals.
pub(super) const SLOT_BYTES: u64 = (size_of::<MarkSlot>()
    + 3 * size_of::<u32>()
    + size_of::<QueueDrain>()
    + 2 * size_of::<(RuleId, Side)>()) as u64;

/// The slots of one table.
pub(crate) struct MarkSlots {
    layout: MarkLayout,
    first_index: u32,
    /// Record of each slot, for the packet path; 0 if a slot has no connection. `None`: each slot
    /// belongs to the record with its number.
    records: Option<HugeRegion<u32>>,
    slots: HugeRegion<MarkSlot>,
    /// Slots from this number on were never used.
    used: u32,
    /// Free slots that were used before; empty if each slot belongs to one record.
    free: VecDeque<u32>,
    /// Slots to be freed, with the progress of the receive queues when their last rule was gone.
    draining: VecDeque<(u32, QueueDrain)>,
    progress: QueueDrain,
}

impl MarkSlots {
    /// Makes `count` slots for `records` records, but no more slots than records.
    pub(crate) fn new(
        (count, records): (u32, u32),
        layout: MarkLayout,
        first_index: u32,
        huge_pages: bool,
    ) -> Self {
        let count = count.min(records);
        let is_same = count == records && layout.generations() >= GENERATIONS_MIN;
        let len = count as usize;
        Self {
            layout,
            first_index,
            records: (!is_same).then(|| HugeRegion::new(len, 0, huge_pages)),
            slots: HugeRegion::new(len, MarkSlot::NONE, huge_pages),
            used: 0,
            free: VecDeque::with_capacity(if is_same { 0 } else { len }),
            draining: VecDeque::with_capacity(len),
            progress: QueueDrain::default(),
        }
    }

    pub(crate) fn memory(&self) -> MemoryUse {
        let waiting = self.free.capacity() * size_of::<u32>()
            + self.draining.capacity() * size_of::<(u32, QueueDrain)>();
        let waiting = MemoryUse { bytes: waiting, ..MemoryUse::default() };
        let records = self.records.as_ref().map_or(MemoryUse::default(), HugeRegion::memory);
        [records, self.slots.memory(), waiting].into_iter().sum()
    }

    /// Returns the map from slots to records.
    #[inline(always)]
    pub(crate) fn slot_index(&self) -> SlotIndex<'_> {
        match &self.records {
            Some(records) => SlotIndex::Listed(records, self.used),
            None => SlotIndex::Same(self.slots.len() as u32),
        }
    }

    /// Returns the number of slots that were ever used; they come first.
    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    /// Starts to load a slot.
    pub(crate) fn prefetch(&self, slot: u32) {
        self.slots.prefetch(slot as usize, 0);
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&MarkSlot> {
        self.slots.get(slot as usize)
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut MarkSlot> {
        self.slots.get_mut(slot as usize)
    }

    /// Returns the slot of a rule, if it exists and has the rule's generation.
    pub(crate) fn of_rule(&self, rule: RuleId) -> Option<u32> {
        let slot = rule.index.wrapping_sub(self.first_index);
        let is_so = |slot: &&MarkSlot| slot.generation == rule.generation;
        self.get(slot).filter(is_so).map(|_| slot)
    }

    /// Returns the identifier of a direction's rule.
    pub(crate) fn rule(&self, slot: u32, direction: u8) -> RuleId {
        let generation = self.slots[slot as usize].generation;
        RuleId { index: self.first_index + slot, generation, direction }
    }

    /// Returns the mark of direction 0.
    pub(crate) fn mark(&self, slot: u32) -> u32 {
        self.layout.encode(self.rule(slot, 0))
    }

    /// Takes a slot for the connection in `record`; `None` if none is free for it.
    pub(crate) fn take(&mut self, record: u32) -> Option<u32> {
        let slot = match &mut self.records {
            None => Some(record).filter(|&slot| self.slots[slot as usize].is_free()),
            Some(_) => self
                .free
                .pop_front()
                .or_else(|| Some(self.used).filter(|&unused| (unused as usize) < self.slots.len())),
        }?;
        self.used = self.used.max(slot + 1);
        let generation = self.layout.next(self.slots[slot as usize].generation);
        self.slots[slot as usize] = MarkSlot { record, generation, ..MarkSlot::NONE };
        self.set_record(slot, record);
        Some(slot)
    }

    /// Detaches a slot from its connection.
    pub(crate) fn detach(&mut self, slot: u32) {
        self.slots[slot as usize].record = NO_RECORD;
        self.set_record(slot, 0);
        self.settle(slot);
    }

    fn set_record(&mut self, slot: u32, record: u32) {
        if let Some(records) = &mut self.records {
            records[slot as usize] = record;
        }
    }

    /// Starts to drain a slot without connection and rules. It is free once both receive queues are
    /// drained.
    pub(crate) fn settle(&mut self, slot: u32) {
        let state = &mut self.slots[slot as usize];
        if state.is_free() {
            state.is_draining = true;
            self.draining.push_back((slot, self.progress));
        }
    }

    /// Notes packets that were received from the queue of a side.
    #[inline(always)]
    pub(crate) fn received(&mut self, side: Side, packets: usize) {
        self.progress.packets[side as usize] =
            self.progress.packets[side as usize].wrapping_add(packets as u32);
    }

    /// Notes that the receive queue of a side was empty.
    pub(crate) fn queue_drained(&mut self, side: Side) {
        let empty = &mut self.progress.empty[side as usize];
        *empty = empty.wrapping_add(1);
    }

    /// Frees up to 64 slots whose packets have left both receive queues.
    pub(crate) fn drain(&mut self) {
        for _ in 0..64 {
            let Some((slot, since)) = self.draining.front() else { return };
            let (slot, now) = (*slot, &self.progress);
            let is_drained = |side: usize| {
                now.empty[side] != since.empty[side]
                    || now.packets[side].wrapping_sub(since.packets[side]) >= QUEUE_MAX
            };
            if !(is_drained(0) && is_drained(1)) {
                return;
            }
            self.draining.pop_front();
            self.slots[slot as usize].is_draining = false;
            if self.records.is_some() {
                self.free.push_back(slot);
            }
        }
    }
}
