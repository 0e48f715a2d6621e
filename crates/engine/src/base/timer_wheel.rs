// SPDX-License-Identifier: BSD-3-Clause
//! Hierarchical timer wheel that finds connections whose timeout may have passed.
//!
//! It has three levels of 256 slots. Each slot is a doubly linked list of record numbers; the links
//! are in the records. Packets never touch the wheel. A connection's deadline is its last packet
//! plus its timeout, and the caller re-arms a timer that expires early (lazy re-arming). Only if a
//! timeout became shorter, so that the timer would expire too late, must the caller re-arm it at
//! once.
//!
//! An entry never expires before its deadline, and at most one tick after it, if the caller keeps
//! up.

use super::cuckoo::NO_RECORD;
use super::time::Nanos;

/// Length of a tick: 2^13 microseconds = 8.2 ms. Packet times are whole microseconds, so some are
/// whole ticks.
const TICK: Nanos = 8_192_000;

const LEVEL_BITS: u32 = 8;

const SLOTS: usize = 1 << LEVEL_BITS;

const LEVELS: usize = 3;

/// Maximum distance of a deadline in ticks: 38 hours. Timers with later deadlines expire there and
/// are re-armed.
const HORIZON: u64 = (1 << (LEVEL_BITS * LEVELS as u32)) - 1;

/// The place of a record in the wheel. It is stored in the record.
///
/// It is packed so that the cold part of a record has 48 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(2))]
pub(crate) struct TimerLink {
    prev: u32,
    pub(crate) next: u32,
    slot: u16,
}

impl TimerLink {
    pub(crate) const UNLINKED: TimerLink = TimerLink { prev: NO_RECORD, next: NO_RECORD, slot: 0 };

    /// Creates a link of a singly linked list outside the wheel.
    pub(crate) const fn listed(next: u32) -> Self {
        TimerLink { next, ..Self::UNLINKED }
    }
}

/// A store with one link per record number.
pub(crate) trait LinkStore {
    /// Returns the link of `record`.
    fn link(&mut self, record: u32) -> &mut TimerLink;
}

/// The wheel: the heads of its lists, and its current tick.
pub(crate) struct TimerWheel {
    heads: Box<[u32]>,
    /// Number of armed timers per level.
    armed: [u32; LEVELS],
    /// The tick whose slots are being emptied.
    tick: u64,
}

impl TimerWheel {
    pub(crate) fn new() -> Self {
        Self { heads: vec![NO_RECORD; LEVELS * SLOTS].into(), armed: [0; LEVELS], tick: 0 }
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.heads)
    }

    /// Advances the wheel to `now` if it is empty. Timers that are armed before the next
    /// [`pop`](Self::pop) are then placed relative to `now`.
    pub(crate) fn catch_up(&mut self, now: Nanos) {
        if self.armed == [0; LEVELS] {
            self.tick = self.tick.max(now / TICK);
        }
    }

    /// Arms the timer of `record`, which must not be armed.
    pub(crate) fn arm(&mut self, links: &mut impl LinkStore, record: u32, deadline: Nanos) {
        let slot = self.slot_of(deadline);
        let head = self.heads[slot];
        *links.link(record) = TimerLink { prev: NO_RECORD, next: head, slot: slot as u16 };
        if head != NO_RECORD {
            links.link(head).prev = record;
        }
        self.heads[slot] = record;
        self.armed[slot / SLOTS] += 1;
    }

    /// Removes `record`, whose timer must be armed, from the wheel.
    pub(crate) fn disarm(&mut self, links: &mut impl LinkStore, record: u32) {
        let TimerLink { prev, next, slot } = *links.link(record);
        let slot = usize::from(slot);
        match prev {
            NO_RECORD => self.heads[slot] = next,
            prev => links.link(prev).next = next,
        }
        if next != NO_RECORD {
            links.link(next).prev = prev;
        }
        self.armed[slot / SLOTS] -= 1;
    }

    /// True if the armed timer with this link expires by `deadline` without re-arming.
    pub(crate) fn comes_by(&self, link: TimerLink, deadline: Nanos) -> bool {
        let (level, slot) = (usize::from(link.slot) / SLOTS, u64::from(link.slot) % SLOTS as u64);
        let shift = LEVEL_BITS * level as u32;
        let range = self.tick >> shift;
        let ahead = slot.wrapping_sub(range) % SLOTS as u64;
        // An entry in the slot of the current range was placed there for the next round.
        let ahead = if ahead == 0 && level > 0 { SLOTS as u64 } else { ahead };
        (range + ahead) << shift <= deadline.div_ceil(TICK)
    }

    /// Removes and returns the next record whose slot is due by `now`; `None` if no slot is due.
    ///
    /// The caller ends the connection or re-arms its timer. A timer with a future deadline is never
    /// placed in the slot that is being emptied.
    pub(crate) fn pop(&mut self, links: &mut impl LinkStore, now: Nanos) -> Option<u32> {
        let now = now / TICK;
        loop {
            // Coarse levels first: an entry of level 1 or 2 whose range begins now may be due now.
            for level in (0..LEVELS).rev() {
                let shift = LEVEL_BITS * level as u32;
                let range_begins = self.tick & ((1 << shift) - 1) == 0;
                let slot = level * SLOTS + (self.tick >> shift) as usize % SLOTS;
                if range_begins && self.heads[slot] != NO_RECORD {
                    let record = self.heads[slot];
                    self.disarm(links, record);
                    return Some(record);
                }
            }
            if self.tick >= now {
                return None;
            }
            self.tick = self.next_tick().min(now);
        }
    }

    /// Returns the next tick at which a slot may hold an entry.
    fn next_tick(&self) -> u64 {
        let round_up = |shift: u32| ((self.tick >> shift) + 1) << shift;
        match self.armed {
            [0, 0, 0] => u64::MAX,
            [0, 0, _] => round_up(2 * LEVEL_BITS),
            [0, _, _] => round_up(LEVEL_BITS),
            _ => self.tick + 1,
        }
    }

    fn slot_of(&self, deadline: Nanos) -> usize {
        // Rounded up, so that no timer expires early.
        let due = deadline.div_ceil(TICK).clamp(self.tick, self.tick + HORIZON);
        let level = match due - self.tick {
            0..0x100 => 0,
            0x100..0x1_0000 => 1,
            _ => 2,
        };
        level * SLOTS + (due >> (LEVEL_BITS * level as u32)) as usize % SLOTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    struct Table(Vec<TimerLink>);
    impl LinkStore for Table {
        fn link(&mut self, record: u32) -> &mut TimerLink {
            &mut self.0[record as usize]
        }
    }

    fn table(len: usize) -> Table {
        Table(vec![TimerLink::UNLINKED; len])
    }

    /// Pops until no slot is due and re-arms early timers, like the engine. Returns the due
    /// records.
    fn due(
        wheel: &mut TimerWheel,
        table: &mut Table,
        now: u64,
        ends: &mut BTreeMap<u32, u64>,
    ) -> Vec<u32> {
        let mut over = vec![];
        while let Some(record) = wheel.pop(table, now) {
            match ends[&record] {
                end if end <= now => {
                    ends.remove(&record);
                    over.push(record);
                }
                end => wheel.arm(table, record, end),
            }
        }
        over.sort_unstable();
        over
    }

    proptest! {
        #[test]
        fn never_early_and_at_most_a_tick_late(
            steps in prop::collection::vec((0..4_u8, 0..50_u32, any::<u64>(), 0..40_u32), 1..300),
            start in any::<u32>(),
        ) {
            let (mut wheel, mut table) = (TimerWheel::new(), table(50));
            let mut now = u64::from(start) << 20;
            let mut ends = BTreeMap::new();
            prop_assert!(wheel.pop(&mut table, now).is_none());
            for (what, record, random, magnitude) in steps {
                let span = random >> (64 - 8 - magnitude);
                match what {
                    0 | 1 => {
                        if ends.remove(&record).is_some() {
                            wheel.disarm(&mut table, record);
                        }
                        if what == 0 {
                            wheel.arm(&mut table, record, now + span);
                            ends.insert(record, now + span);
                        }
                    }
                    // A packet arrived: the deadline moves, the wheel is not updated.
                    2 if random & 1 == 0 => {
                        if let Some(end) = ends.get_mut(&record) {
                            *end = (*end).max(now + span);
                        }
                    }
                    // The deadline moves, maybe closer: the timer is re-armed only if it would
                    // expire too late.
                    2 => if let Some(end) = ends.get_mut(&record) {
                        *end = now + span;
                        if !wheel.comes_by(*table.link(record), now + span) {
                            wheel.disarm(&mut table, record);
                            wheel.arm(&mut table, record, now + span);
                        }
                    },
                    _ => {
                        now += span;
                        let must: Vec<u32> = ends.iter()
                            .filter(|(_, end)| **end + TICK <= now).map(|(r, _)| *r).collect();
                        let over = due(&mut wheel, &mut table, now, &mut ends);
                        prop_assert!(must.iter().all(|r| over.contains(r)), "late");
                        prop_assert_eq!(wheel.armed.iter().sum::<u32>() as usize, ends.len());
                    }
                }
            }
        }
    }

    #[test]
    fn a_timer_in_the_slot_of_now_comes_a_round_later() {
        let (mut wheel, mut table) = (TimerWheel::new(), table(1));
        wheel.catch_up(0xff * TICK);
        wheel.arm(&mut table, 0, (0xff + 0xffff) * TICK);
        let comes_by = |tick| wheel.comes_by(table.0[0], tick * TICK);
        assert!(!comes_by(0xff + 0x200) && !comes_by(0xffff) && comes_by(0x1_0000));
    }

    #[test]
    fn a_leap_of_ten_years_takes_no_time_and_ends_all() {
        let (mut wheel, mut table) = (TimerWheel::new(), table(8));
        let mut ends = BTreeMap::new();
        for (record, hours) in [(0, 0), (1, 1), (2, 30), (3, 50), (4, 1000)] {
            let end = hours * 3_600_000_000_000;
            wheel.arm(&mut table, record, end);
            ends.insert(record, end);
        }
        let ten_years = 10 * 365 * 24 * 3_600_000_000_000;
        assert_eq!(due(&mut wheel, &mut table, ten_years, &mut ends), [0, 1, 2, 3, 4]);
        wheel.arm(&mut table, 7, u64::MAX);
        assert!(wheel.pop(&mut table, ten_years + TICK).is_none());
    }
}
