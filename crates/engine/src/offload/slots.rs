// SPDX-License-Identifier: BSD-3-Clause
//! What marks name: a slot, and through it the record of a connection.
//!
//! A slot has one connection at a time and a generation for each. It is used again only when no
//! packet with one of its marks can be left: the NIC has none of its rules any more, and what was
//! in the receive queues then has come out of them.
//!
//! Where there are as many slots as records, each is of the record with its number, and no packet
//! has to look that up: one cache line less of three. A flow whose record had another a moment ago
//! waits for its slot then. Where there are fewer, those free for longest are used first.

use super::score::Score;
use crate::api::{MarkLayout, RuleId, Side};
use crate::base::{HugeRegion, MemoryUse, Tick};
use std::collections::VecDeque;

/// In place of the number of a slot: none.
pub(crate) const NO_SLOT: u32 = u32::MAX;

/// Packets that wait in a receive queue at most, in any NIC.
const QUEUE_MAX: u32 = 1 << 15;

/// In place of the number of a record: none.
const NO_RECORD: u32 = u32::MAX;

/// Fewest generations of a slot that is of one record only, and so comes round faster than if all
/// had their turn: a NIC that forgets to forget a rule is found by the keys that are compared.
const GENERATIONS_MIN: u16 = 63;

/// Where one rule stands, by what the worker knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RuleLifecycle {
    /// There is none.
    None,
    /// In somebody else's hands.
    Asked,
    /// The NIC has it, and no packet had its mark yet.
    Installed,
    /// Packets had its mark.
    Effective,
    /// Asked for, not answered, and to go.
    Recalled,
    /// To go.
    Leaving,
}

impl RuleLifecycle {
    /// Whether a mark may be of it.
    pub(crate) fn is_live(self) -> bool {
        matches!(self, RuleLifecycle::Asked | RuleLifecycle::Installed | RuleLifecycle::Effective)
    }
}

/// The rule of one direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleEntry {
    pub(crate) standing: RuleLifecycle,
    /// Where its packets arrive.
    pub(crate) side: Side,
    /// As it is counted among those that are live.
    pub(crate) weight: Score,
    /// Looks in a row at which a packet had no mark.
    pub(crate) misses: u8,
    /// Packets whose keys are compared before its mark is enough.
    pub(crate) checks: u8,
    /// Whether a packet had its mark.
    pub(crate) is_seen: bool,
    /// When it came to its standing.
    pub(crate) since: Tick,
    /// The NIC forwards its packets by itself.
    pub(crate) is_bypass: bool,
    /// Packets that its direction had had before the first with its mark.
    pub(crate) marked_from: u64,
    /// Packets that the NIC forwarded by itself.
    pub(crate) passed: u64,
}

impl RuleEntry {
    pub(crate) const NONE: RuleEntry = RuleEntry {
        standing: RuleLifecycle::None,
        side: Side::A,
        weight: Score::ZERO,
        misses: 0,
        checks: 0,
        is_seen: false,
        since: Tick::ZERO,
        is_bypass: false,
        marked_from: 0,
        passed: 0,
    };

    /// Whether the NIC may forward packets by it.
    pub(crate) fn is_forwarding(&self) -> bool {
        self.is_bypass && self.standing != RuleLifecycle::None
    }
}

/// A connection with rules, and its rules by direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MarkSlot {
    record: u32,
    pub(crate) generation: u16,
    /// That of the connection.
    pub(crate) zone: u16,
    /// It is nobody's, and packets with its marks may be left.
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

    /// The record whose flow has it, as long as that lives.
    pub(crate) fn record(&self) -> Option<u32> {
        (self.record != NO_RECORD).then_some(self.record)
    }

    /// Whether the NIC may have a rule of it.
    pub(super) fn has_rules(&self) -> bool {
        self.rules.iter().any(|rule| rule.standing != RuleLifecycle::None)
    }

    /// Whether a connection may take it.
    fn is_free(&self) -> bool {
        self.record == NO_RECORD && !self.has_rules() && !self.is_draining
    }
}

/// Which records slots name.
#[derive(Clone, Copy)]
pub(crate) enum SlotIndex<'a> {
    /// As many slots as these have a record, or had one: which is any, where there is none.
    Listed(&'a [u32]),
    /// So many slots are of the record with their number.
    Same(u32),
}

impl SlotIndex<'_> {
    pub(crate) const NONE: SlotIndex<'static> = SlotIndex::Same(0);

    /// The same without a branch: any record, and false, if there is no such slot.
    #[inline(always)]
    pub(crate) fn by_or_any(self, slot: usize) -> (u32, bool) {
        match self {
            SlotIndex::Listed(records) => {
                let is_one = slot < records.len();
                (records.get(if is_one { slot } else { 0 }).copied().unwrap_or(0), is_one)
            }
            SlotIndex::Same(count) => {
                let is_one = slot < count as usize;
                (if is_one { slot as u32 } else { 0 }, is_one)
            }
        }
    }

    /// The record that a slot names, if there is such a slot.
    #[inline(always)]
    pub(crate) fn by(self, slot: usize) -> Option<u32> {
        match self {
            SlotIndex::Listed(records) => records.get(slot).copied(),
            SlotIndex::Same(count) => (slot < count as usize).then_some(slot as u32),
        }
    }
}

/// What has come out of the receive queue of each side; both come round.
#[derive(Clone, Copy, Debug, Default)]
struct QueueDrain {
    /// Times that it was seen empty.
    empty: [u32; 2],
    packets: [u32; 2],
}

/// All that is kept for one slot: what is here, and two rules that are to go.
pub(super) const SLOT_BYTES: u64 = (size_of::<MarkSlot>()
    + 3 * size_of::<u32>()
    + size_of::<QueueDrain>()
    + 2 * size_of::<(RuleId, Side)>()) as u64;

/// All slots of a table.
pub(crate) struct MarkSlots {
    layout: MarkLayout,
    first_index: u32,
    /// By slot, for the packet path; 0, which is as wrong as any other, where there is none.
    /// `None`: each is of the record with its number.
    records: Option<HugeRegion<u32>>,
    slots: HugeRegion<MarkSlot>,
    /// Slots from here on were never used.
    used: u32,
    /// Those that were, unless each is of one record.
    free: VecDeque<u32>,
    /// Without a rule in the NIC, from some time on.
    draining: VecDeque<(u32, QueueDrain)>,
    progress: QueueDrain,
}

impl MarkSlots {
    /// For so many records; slots are as many at most.
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

    /// Which records they name.
    #[inline(always)]
    pub(crate) fn named(&self) -> SlotIndex<'_> {
        match &self.records {
            Some(records) => SlotIndex::Listed(records),
            None => SlotIndex::Same(self.slots.len() as u32),
        }
    }

    /// Slots in use, or that were: those below this number.
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

    /// The slot that a rule is of, if there is one and it is of this generation.
    pub(crate) fn of_rule(&self, rule: RuleId) -> Option<u32> {
        let slot = rule.index.wrapping_sub(self.first_index);
        let is_so = |slot: &&MarkSlot| slot.generation == rule.generation;
        self.get(slot).filter(is_so).map(|_| slot)
    }

    /// Names the rule of a direction.
    pub(crate) fn rule(&self, slot: u32, direction: u8) -> RuleId {
        let generation = self.slots[slot as usize].generation;
        RuleId { index: self.first_index + slot, generation, direction }
    }

    /// The mark of the direction 0.
    pub(crate) fn mark(&self, slot: u32) -> u32 {
        self.layout.encode(self.rule(slot, 0))
    }

    /// A slot for the connection in `record`, if one is free.
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
        self.name(slot, record);
        Some(slot)
    }

    /// Its connection is no more.
    pub(crate) fn leave(&mut self, slot: u32) {
        self.slots[slot as usize].record = NO_RECORD;
        self.name(slot, 0);
        self.settle(slot);
    }

    fn name(&mut self, slot: u32, record: u32) {
        if let Some(records) = &mut self.records {
            records[slot as usize] = record;
        }
    }

    /// If neither a connection nor the NIC has anything of it, it is free once the queues are
    /// drained.
    pub(crate) fn settle(&mut self, slot: u32) {
        let state = &mut self.slots[slot as usize];
        if state.is_free() {
            state.is_draining = true;
            self.draining.push_back((slot, self.progress));
        }
    }

    /// Packets have come out of the receive queue of a side.
    #[inline(always)]
    pub(crate) fn received(&mut self, side: Side, packets: usize) {
        self.progress.packets[side as usize] =
            self.progress.packets[side as usize].wrapping_add(packets as u32);
    }

    /// The receive queue of a side was empty.
    pub(crate) fn queue_drained(&mut self, side: Side) {
        let empty = &mut self.progress.empty[side as usize];
        *empty = empty.wrapping_add(1);
    }

    /// Frees some slots whose packets have come out of both queues.
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
