// SPDX-License-Identifier: BSD-3-Clause
//! Who may begin a connection, and who has to go for it, by lists that are searched to their end.

use super::reference::{Endpoint, Key};
use engine::{Config, Evict, UntrackedReason, ZonePolicy};
use std::net::IpAddr;

/// All connections, in the order in which they began.
pub(crate) struct Room {
    capacity: [u32; 2],
    percent: u32,
    evict: Evict,
    source_max: Option<u32>,
    new_per_second: Option<u32>,
    all: Vec<Begun>,
    /// Whole seconds in which connections began, with an entry for each.
    seconds: Vec<u64>,
}

struct Begun {
    key: Key,
    source: Endpoint,
    is_assured: bool,
}

/// What counts as one source.
pub(crate) fn prefix(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address) >> 8),
        IpAddr::V6(address) => u128::from(address) >> 64 | 1 << 127,
    }
}

impl Room {
    pub(crate) fn new(config: &Config) -> Self {
        Room {
            capacity: [config.capacity_ipv4, config.capacity_ipv6],
            percent: config.embryonic_percent.into(),
            evict: config.evict,
            source_max: config.source_max,
            new_per_second: config.new_per_second,
            all: vec![],
            seconds: vec![],
        }
    }

    fn capacity(&self, key: &Key) -> usize {
        self.capacity[usize::from(!key.is_v4())] as usize
    }

    /// Connections of the same IP version; embryonic ones among them.
    fn counts(&self, key: &Key) -> (usize, usize) {
        let of_version = || self.all.iter().filter(|begun| begun.key.is_v4() == key.is_v4());
        (of_version().count(), of_version().filter(|begun| !begun.is_assured).count())
    }

    fn is_quota_met(&self, key: &Key) -> bool {
        let quota = (self.capacity(key) * self.percent as usize / 100).max(1);
        self.counts(key).1 >= quota
    }

    fn oldest(&self, key: &Key) -> Option<Key> {
        let is_it = |begun: &&Begun| begun.key.is_v4() == key.is_v4() && !begun.is_assured;
        let oldest = self.all.iter().find(is_it).map(|begun| begun.key.clone());
        oldest.filter(|_| self.evict == Evict::Embryonic)
    }

    /// Whether limits allow one more, and who has to go for it.
    pub(crate) fn check(
        &self,
        key: &Key,
        source: Endpoint,
        policy: ZonePolicy,
        now: u64,
    ) -> Result<Option<Key>, UntrackedReason> {
        let of_zone = self.all.iter().filter(|begun| begun.key.zone == key.zone);
        let of_source = of_zone.clone().filter(|begun| {
            let (a, b) = (begun.source.0, source.0);
            a.is_ipv4() == b.is_ipv4() && prefix(a) == prefix(b)
        });
        let in_second = self.seconds.iter().filter(|second| **second == now / 1_000_000_000);
        let is_met = |max: Option<u32>, count: usize| max.is_some_and(|max| count >= max as usize);
        if is_met(policy.connections_max, of_zone.count()) {
            return Err(UntrackedReason::ZoneFull);
        }
        if is_met(self.source_max, of_source.count()) {
            return Err(UntrackedReason::SourceFull);
        }
        if is_met(self.new_per_second, in_second.count()) {
            return Err(UntrackedReason::NewRate);
        }
        let is_full = self.counts(key).0 == self.capacity(key) || self.is_quota_met(key);
        Ok(if is_full { self.oldest(key) } else { None })
    }

    /// Whether limits allow one that takes the place of another.
    pub(crate) fn check_next(
        &self,
        key: &Key,
        [before, next]: [Endpoint; 2],
        now: u64,
    ) -> Result<(), UntrackedReason> {
        let of_source = self
            .all
            .iter()
            .filter(|begun| begun.key.zone == key.zone && prefix(begun.source.0) == prefix(next.0));
        let in_second = self.seconds.iter().filter(|second| **second == now / 1_000_000_000);
        let is_met = |max: Option<u32>, count: usize| max.is_some_and(|max| count >= max as usize);
        if prefix(before.0) != prefix(next.0) && is_met(self.source_max, of_source.count()) {
            return Err(UntrackedReason::SourceFull);
        }
        if is_met(self.new_per_second, in_second.count()) {
            return Err(UntrackedReason::NewRate);
        }
        Ok(())
    }

    /// Whether there is room now.
    pub(crate) fn is_left(&self, key: &Key) -> Result<(), UntrackedReason> {
        match self.counts(key).0 == self.capacity(key) || self.is_quota_met(key) {
            true => Err(UntrackedReason::TableFull),
            false => Ok(()),
        }
    }

    /// Who has to go for a connection that begins where another one was.
    pub(crate) fn for_reuse(&self, key: &Key) -> Option<Key> {
        let was_assured = self.all.iter().any(|begun| begun.key == *key && begun.is_assured);
        if was_assured && self.is_quota_met(key) { self.oldest(key) } else { None }
    }

    /// What began in this second began elsewhere.
    pub(crate) fn forget_seconds(&mut self) {
        self.seconds.clear();
    }

    pub(crate) fn began(&mut self, key: &Key, source: Endpoint, now: u64) {
        self.all.push(Begun { key: key.clone(), source, is_assured: false });
        self.seconds.push(now / 1_000_000_000);
    }

    pub(crate) fn assured(&mut self, key: &Key) {
        for begun in self.all.iter_mut().filter(|begun| begun.key == *key) {
            begun.is_assured = true;
        }
    }

    pub(crate) fn ended(&mut self, key: &Key, source: Endpoint) {
        let place = self.all.iter().position(|begun| begun.key == *key).expect("it has begun");
        assert_eq!(self.all.remove(place).source, source);
    }
}
