// SPDX-License-Identifier: BSD-3-Clause
//! What rules count. Any thread counts; what a query sees may be older than what was counted.

use crate::judge::refusal;
use crate::personality::{CountFacts, Personality};
use crate::refusal::{Errno, Kind, Refusal};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a rule counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets.
    pub hits: u64,
    /// Bytes of their frames, where the NIC counts them.
    pub bytes: Option<u64>,
}

/// The counter of rules that count nothing.
pub(super) const NO_COUNTER: u32 = u32::MAX;

#[derive(Default)]
struct Counter {
    hits: AtomicU64,
    bytes: AtomicU64,
    /// The period in which the last packet was counted, and what had been counted before it.
    period: AtomicU64,
    hits_before: AtomicU64,
    bytes_before: AtomicU64,
}

pub(super) struct Counters {
    counters: Vec<Counter>,
    free: Vec<u32>,
    /// Microseconds; 0 for counters that are always fresh.
    period_us: u64,
    hits_only: bool,
}

impl Counters {
    pub(super) fn new(facts: &CountFacts) -> Self {
        Self {
            counters: Vec::new(),
            free: Vec::new(),
            period_us: 1000 * u64::from(facts.refresh_ms),
            hits_only: facts.hits_only,
        }
    }

    pub(super) fn take(&mut self, personality: &Personality) -> Result<u32, Refusal> {
        let facts = &personality.count;
        if let Some(free) = self.free.pop() {
            self.counters[free as usize] = Counter::default();
            return Ok(free);
        }
        if facts.max.is_some_and(|max| self.counters.len() as u64 >= max.into()) {
            return Err(refusal(personality, facts.full.as_ref(), FULL));
        }
        self.counters.push(Counter::default());
        Ok(self.counters.len() as u32 - 1)
    }

    pub(super) fn give_back(&mut self, counter: u32) {
        if counter != NO_COUNTER {
            self.free.push(counter);
        }
    }

    pub(super) fn clear(&mut self) {
        self.counters.clear();
        self.free.clear();
    }

    pub(super) fn count(&self, counter: u32, len: u32, now_us: u64) {
        let Some(counter) = self.counters.get(counter as usize) else { return };
        let period = now_us.checked_div(self.period_us);
        if period.is_some_and(|period| counter.period.swap(period, Relaxed) != period) {
            counter.hits_before.store(counter.hits.load(Relaxed), Relaxed);
            counter.bytes_before.store(counter.bytes.load(Relaxed), Relaxed);
        }
        counter.hits.fetch_add(1, Relaxed);
        counter.bytes.fetch_add(len.into(), Relaxed);
    }

    pub(super) fn read(&self, counter: u32, reset: bool, now_us: u64) -> Option<Tally> {
        let counter = self.counters.get(counter as usize)?;
        let period = now_us.checked_div(self.period_us);
        let is_old = period.is_some_and(|period| counter.period.load(Relaxed) == period);
        let (hits, bytes) = match is_old {
            true => (&counter.hits_before, &counter.bytes_before),
            false => (&counter.hits, &counter.bytes),
        };
        let (hits, bytes) = (hits.load(Relaxed), bytes.load(Relaxed));
        if reset {
            for (counter, seen) in [(&counter.hits, hits), (&counter.bytes, bytes)] {
                counter.fetch_sub(seen, Relaxed);
            }
            counter.hits_before.store(0, Relaxed);
            counter.bytes_before.store(0, Relaxed);
        }
        Some(Tally { hits, bytes: (!self.hits_only).then_some(bytes) })
    }
}

const FULL: Refusal = Refusal::new(Errno::ENOSPC, Kind::Action, c"there are no more counters");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_sees_what_was_counted_before_the_last_refresh() {
        let facts = CountFacts { refresh_ms: 1000, ..CountFacts::default() };
        let mut counters = Counters::new(&facts);
        let counter = counters.take(&Personality::default()).unwrap();
        let read = |counters: &Counters, now_ms: u64| {
            counters.read(counter, false, 1000 * now_ms).unwrap().hits
        };
        counters.count(counter, 64, 100_000);
        assert_eq!(read(&counters, 999), 0);
        assert_eq!(read(&counters, 1000), 1);
        counters.count(counter, 64, 1_500_000);
        counters.count(counter, 64, 1_600_000);
        assert_eq!(read(&counters, 1999), 1);
        assert_eq!(counters.read(counter, true, 1_999_000).unwrap().hits, 1);
        assert_eq!(read(&counters, 2500), 2);
    }
}
