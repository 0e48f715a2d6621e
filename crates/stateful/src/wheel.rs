// SPDX-License-Identifier: BSD-3-Clause
//! Wakes ends of connections at their deadlines. A deadline costs nothing but the links in the
//! record.
//!
//! The wheel has two levels: slots of a tick, and slots of a whole turn of the first level. A
//! record whose deadline is more than two minutes away comes out after these, and is put back.

use crate::endpoint::{Endpoint, EndpointId, WAKE_TICKS};

/// No record, or no deadline.
pub(crate) const NONE: u32 = u32::MAX;
/// Microseconds in a tick, as a power of two.
const TICK_SHIFT: u32 = 7;
/// Slots of a level, as a power of two.
const SLOT_BITS: u32 = 12;
const SLOTS: u32 = 1 << SLOT_BITS;
const LEVELS: u32 = 2;
/// Furthest place in ticks: what [`Endpoint::wake`] can tell apart.
const FURTHEST: u32 = 1_000_000;
/// In `prev` of the first record of a slot: the number of the slot.
const HEAD: u32 = 1 << 31;

/// Returns the tick of a time in microseconds. Ticks last 128 us, and wrap after six days.
#[inline(always)]
pub(crate) fn tick_of(us: u64) -> u32 {
    (us >> TICK_SHIFT) as u32
}

/// True if tick `at` is not after `now`. The two are less than three days apart.
#[inline(always)]
pub(crate) fn is_over(at: u32, now: u32) -> bool {
    now.wrapping_sub(at) as i32 >= 0
}

/// Returns the earlier of two deadlines, which may be [`NONE`].
#[inline(always)]
pub(crate) fn earlier(a: u32, b: u32) -> u32 {
    match (a, b) {
        (NONE, other) | (other, NONE) => other,
        _ if is_over(a, b) => a,
        _ => b,
    }
}

/// Longest wait in ticks: a day and a half, less than half of the ticks until they wrap.
const WAIT_MAX: u64 = 1 << 30;

/// Returns the ticks that a delay lasts, at least 1.
pub(crate) fn ticks_of_ms(ms: u32) -> u32 {
    (u64::from(ms) * 1000 >> TICK_SHIFT).clamp(1, WAIT_MAX) as u32
}

/// Returns the ticks that a delay in microseconds lasts, at least 1.
pub(crate) fn ticks_of_us(us: u32) -> u32 {
    tick_of(us.into()).max(1)
}

/// Deadlines of records.
#[derive(Debug)]
pub(crate) struct Wheel {
    /// First record of each slot, level after level.
    heads: Box<[u32]>,
    /// The next tick that expires.
    tick: u32,
    /// Number of records in all slots.
    linked: u32,
}

impl Wheel {
    pub(crate) fn new() -> Self {
        let slots = (LEVELS * SLOTS) as usize;
        Self { heads: vec![NONE; slots].into(), tick: 0, linked: 0 }
    }

    /// Puts a record into the slot of `at`, or of the next tick if `at` is over.
    pub(crate) fn link(&mut self, records: &mut [Endpoint], id: EndpointId, at: u32) {
        if records[id as usize].is_linked() {
            self.unlink(records, id);
        }
        let is_due = is_over(at, self.tick);
        let distance = if is_due { 0 } else { at.wrapping_sub(self.tick).min(FURTHEST) };
        let at = self.tick.wrapping_add(distance);
        records[id as usize].wake = at.div_ceil(WAKE_TICKS) as u16;
        let slot = if distance < SLOTS { at % SLOTS } else { SLOTS + (at >> SLOT_BITS) % SLOTS };
        self.push(records, id, slot);
    }

    fn push(&mut self, records: &mut [Endpoint], id: EndpointId, slot: u32) {
        self.linked += 1;
        let first = std::mem::replace(&mut self.heads[slot as usize], id);
        if first != NONE {
            records[first as usize].prev = id;
        }
        let record = &mut records[id as usize];
        (record.prev, record.next) = (HEAD | slot, first);
    }

    /// Takes a record out of its slot.
    pub(crate) fn unlink(&mut self, records: &mut [Endpoint], id: EndpointId) {
        self.linked -= 1;
        let record = &mut records[id as usize];
        let (prev, next) = (record.prev, record.next);
        (record.prev, record.next) = (NONE, NONE);
        match prev & HEAD {
            0 => records[prev as usize].next = next,
            _ => self.heads[(prev ^ HEAD) as usize] = next,
        }
        if next != NONE {
            records[next as usize].prev = prev;
        }
    }

    /// Takes one record out whose slot is over at tick `now`; `None` if there is none.
    pub(crate) fn pop(&mut self, records: &mut [Endpoint], now: u32) -> Option<EndpointId> {
        while self.linked > 0 && is_over(self.tick, now) {
            let slot = self.tick % SLOTS;
            if slot == 0 {
                self.spread(records);
            }
            let first = self.heads[slot as usize];
            if first != NONE {
                self.unlink(records, first);
                return Some(first);
            }
            self.tick = self.tick.wrapping_add(1);
        }
        // A wheel that is new may be half of all ticks behind, or more.
        if self.linked == 0 || is_over(self.tick, now) {
            self.tick = now.wrapping_add(1);
        }
        None
    }

    /// Moves the records of a slot of the second level to the first.
    fn spread(&mut self, records: &mut [Endpoint]) {
        let slot = SLOTS + (self.tick >> SLOT_BITS) % SLOTS;
        while self.heads[slot as usize] != NONE {
            let id = self.heads[slot as usize];
            self.unlink(records, id);
            let record = &records[id as usize];
            self.link(records, id, earlier(record.transport_at, record.program_at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records(count: usize) -> Vec<Endpoint> {
        vec![Endpoint { prev: NONE, next: NONE, ..Endpoint::default() }; count]
    }

    /// Returns a deadline that is not [`NONE`].
    fn deadline(start: u32, after: u32) -> u32 {
        match start.wrapping_add(1).wrapping_add(after) {
            NONE => 0,
            at => at,
        }
    }

    #[test]
    fn an_empty_wheel_begins_at_any_tick() {
        for now in [0, 1, 1 << 31, 3_000_000_000, u32::MAX - 1] {
            let (mut records, mut wheel) = (records(1), Wheel::new());
            assert_eq!(wheel.pop(&mut records, now), None);
            let at = deadline(now, 9);
            wheel.link(&mut records, 0, at);
            assert_eq!(wheel.pop(&mut records, at.wrapping_sub(1)), None);
            assert_eq!(wheel.pop(&mut records, at), Some(0));
        }
    }

    proptest! {
        /// Records come out at their ticks, neither before nor after, unless they were taken out.
        #[test]
        fn each_record_expires_at_its_tick(
            deadlines in prop::collection::vec((0u32..3_000_000, any::<bool>()), 1..30),
            start in prop_oneof![0u32..1_000_000, u32::MAX - 4_000_000..=u32::MAX],
        ) {
            let mut records = records(deadlines.len());
            let mut wheel = Wheel::new();
            wheel.tick = start;
            prop_assert_eq!(wheel.pop(&mut records, start), None);
            for (id, (after, _)) in deadlines.iter().enumerate() {
                let at = deadline(start, *after);
                (records[id].transport_at, records[id].program_at) = (at, NONE);
                wheel.link(&mut records, id as u32, at);
            }
            for (id, (_, is_taken_out)) in deadlines.iter().enumerate() {
                if *is_taken_out {
                    wheel.unlink(&mut records, id as u32);
                }
            }
            let mut left: Vec<_> = deadlines
                .iter()
                .enumerate()
                .filter(|(_, (_, is_taken_out))| !is_taken_out)
                .map(|(id, (after, _))| (*after, id as u32))
                .collect();
            left.sort_unstable();
            while let Some(&(after, _)) = left.first() {
                let at = deadline(start, after);
                // A record beyond the second level comes out early, and is put back.
                while let Some(id) = wheel.pop(&mut records, at.wrapping_sub(1)) {
                    let due = records[id as usize].transport_at;
                    prop_assert!(is_over(at, due), "record {} is late", id);
                    wheel.link(&mut records, id, due);
                }
                let mut popped = Vec::new();
                while let Some(id) = wheel.pop(&mut records, at) {
                    popped.push(id);
                }
                left.retain(|(_, id)| !popped.contains(id));
                prop_assert!(popped.iter().all(|id| records[*id as usize].transport_at == at));
            }
            prop_assert!(left.is_empty());
        }
    }
}
