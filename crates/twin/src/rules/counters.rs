// SPDX-License-Identifier: BSD-3-Clause
//! Counts packets and bytes of rules, and notes the time of their last hit. Any thread counts; a
//! query may return older values.

use crate::personality::{CountFacts, Personality};
use crate::refusal::{Errno, Kind, Refusal};
use crate::rule_check::refusal;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Counts of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets.
    pub hits: u64,
    /// Bytes of their frames, if the NIC counts them.
    pub bytes: Option<u64>,
}

/// Age of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// Microseconds since the rule was last hit, or made.
    pub idle_us: u64,
    /// True if the rule was not hit during its timeout.
    pub is_aged: bool,
}

/// The counter of rules that count nothing and do not age.
pub(super) const NO_COUNTER: u32 = u32::MAX;

/// Properties of a counter that a rule requires.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CounterConfig {
    /// True if the counts may be queried.
    pub(crate) counts: bool,
    /// Timeout in microseconds; 0 for rules that do not age.
    pub(crate) timeout_us: u64,
    /// The application's value for the rule when it is aged.
    pub(crate) context: u64,
}

#[derive(Default)]
struct Counter {
    hits: AtomicU64,
    bytes: AtomicU64,
    /// The period in which the last packet was counted, and the count before it.
    period: AtomicU64,
    hits_before: AtomicU64,
    bytes_before: AtomicU64,
    last_hit_us: AtomicU64,
    /// True once the rule was reported as aged.
    is_reported: AtomicBool,
    config: CounterConfig,
}

pub(super) struct Counters {
    counters: Vec<Counter>,
    free: Vec<u32>,
    /// Number of counters of rules that count.
    counting: u32,
    /// Number of counters of rules that age.
    ageing: u32,
    /// Reading interval in microseconds; 0 if queries always return current values.
    period_us: u64,
    hits_only: bool,
}

impl Counters {
    pub(super) fn new(facts: &CountFacts) -> Self {
        Self {
            counters: Vec::new(),
            free: Vec::new(),
            counting: 0,
            ageing: 0,
            period_us: 1000 * u64::from(facts.refresh_ms),
            hits_only: facts.hits_only,
        }
    }

    pub(super) fn take(
        &mut self,
        personality: &Personality,
        config: CounterConfig,
        now_us: u64,
    ) -> Result<u32, Refusal> {
        let facts = &personality.count;
        if !config.counts && config.timeout_us == 0 {
            return Ok(NO_COUNTER);
        }
        if config.counts && facts.max.is_some_and(|max| self.counting >= max) {
            return Err(refusal(personality, facts.full.as_ref(), FULL));
        }
        self.counting += u32::from(config.counts);
        self.ageing += u32::from(config.timeout_us > 0);
        let last_hit_us = AtomicU64::new(now_us);
        let counter = Counter { config, last_hit_us, ..Counter::default() };
        Ok(match self.free.pop() {
            Some(free) => {
                self.counters[free as usize] = counter;
                free
            }
            None => {
                self.counters.push(counter);
                self.counters.len() as u32 - 1
            }
        })
    }

    pub(super) fn give_back(&mut self, counter: u32) {
        let Some(free) = self.counters.get_mut(counter as usize) else { return };
        self.counting -= u32::from(free.config.counts);
        self.ageing -= u32::from(free.config.timeout_us > 0);
        *free = Counter::default();
        self.free.push(counter);
    }

    pub(super) fn clear(&mut self) {
        self.counters.clear();
        self.free.clear();
        (self.counting, self.ageing) = (0, 0);
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
        if counter.config.timeout_us > 0 {
            counter.last_hit_us.store(now_us, Relaxed);
            counter.is_reported.store(false, Relaxed);
        }
    }

    /// Returns the counts of a rule; `None` if the rule does not count.
    pub(super) fn read(&self, counter: u32, reset: bool, now_us: u64) -> Option<Tally> {
        let counter = self.counters.get(counter as usize).filter(|one| one.config.counts)?;
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

    /// Returns the age of a rule; `None` if the rule does not age.
    pub(super) fn idle(&self, counter: u32, now_us: u64) -> Option<Idle> {
        let counter = self.counters.get(counter as usize)?;
        counter.config.timeout_us.checked_sub(1).map(|_| counter.idle(now_us))
    }

    /// Returns the number of counters that may belong to rules that age.
    pub(super) fn ageing(&self) -> usize {
        if self.ageing > 0 { self.counters.len() } else { 0 }
    }

    /// Returns the contexts of all rules that have aged.
    pub(super) fn aged(&self, now_us: u64) -> impl Iterator<Item = u64> {
        self.aged_among(0..self.ageing(), now_us).map(|counter| {
            counter.is_reported.store(true, Relaxed);
            counter.config.context
        })
    }

    /// True if rules of these have aged that neither [`Counters::aged`] nor an earlier call has
    /// reported.
    pub(super) fn has_new_aged(&self, among: Range<usize>, now_us: u64) -> bool {
        // All must be marked as reported.
        let is_new = |counter: &&Counter| !counter.is_reported.swap(true, Relaxed);
        self.aged_among(among, now_us).filter(is_new).count() > 0
    }

    fn aged_among(&self, among: Range<usize>, now_us: u64) -> impl Iterator<Item = &Counter> {
        let end = among.end.min(self.ageing());
        let counters = self.counters.get(among.start..end).unwrap_or_default();
        let ageing = counters.iter().filter(|counter| counter.config.timeout_us > 0);
        ageing.filter(move |counter| counter.idle(now_us).is_aged)
    }
}

impl Counter {
    fn idle(&self, now_us: u64) -> Idle {
        let idle_us = now_us.saturating_sub(self.last_hit_us.load(Relaxed));
        Idle { idle_us, is_aged: idle_us >= self.config.timeout_us }
    }
}

const FULL: Refusal = Refusal::new(Errno::ENOSPC, Kind::Action, c"there are no more counters");

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: CounterConfig = CounterConfig { counts: true, timeout_us: 0, context: 0 };

    #[test]
    fn a_query_sees_what_was_counted_before_the_last_refresh() {
        let facts = CountFacts { refresh_ms: 1000, ..CountFacts::default() };
        let mut counters = Counters::new(&facts);
        let counter = counters.take(&Personality::default(), COUNTS, 0).unwrap();
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

    #[test]
    fn a_rule_ages_until_it_is_hit() {
        let mut counters = Counters::new(&CountFacts::default());
        let config = CounterConfig { counts: false, timeout_us: 1000, context: 7 };
        let counter = counters.take(&Personality::default(), config, 500).unwrap();
        assert!(!counters.has_new_aged(0..9, 1499) && counters.aged(1499).next().is_none());
        assert!(
            counters.has_new_aged(0..9, 1500) && !counters.has_new_aged(0..9, 1600),
            "news once"
        );
        assert_eq!(counters.aged(1600).collect::<Vec<_>>(), [7]);
        counters.count(counter, 64, 2000);
        let idle = Idle { idle_us: 100, is_aged: false };
        assert_eq!(counters.idle(counter, 2100), Some(idle));
        assert!(!counters.has_new_aged(1..9, 3000) && counters.has_new_aged(0..1, 3000));
        assert_eq!(counters.read(counter, false, 0), None, "it does not count");
        counters.give_back(counter);
        assert!(counters.aged(9000).next().is_none());
    }
}
