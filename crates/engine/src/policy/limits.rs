// SPDX-License-Identifier: BSD-3-Clause
//! Limits the number of connections of a zone and of a source, and of new connections per second.
//!
//! A connection that ends makes room at once. Sources are prefixes, and there are more prefixes
//! than memory for counters. So each source has two counters that it shares with other sources, and
//! the lower one is compared with the limit. No source exceeds its limit, but a source may get
//! slightly fewer connections if the table is full.

use super::zones::ZonePolicies;
use crate::api::{Config, UntrackedReason, ZONES};
use crate::base::{BURST_MAX, KeyDomain, KeyedHasher, Nanos, derive};
use crate::packet::Key;
use std::net::IpAddr;

const SECOND: Nanos = 1_000_000_000;

/// Counts connections of both tables, and checks limits.
pub(crate) struct Limits {
    of_zone: Box<[u32]>,
    new_rates: Box<[ZoneRate]>,
    pub(crate) sources: Option<SourceSketch>,
    limiter: Option<RateLimiter>,
}

/// Number of connections of a zone that began in a second, and in the second before it.
#[derive(Clone, Copy, Default)]
pub(crate) struct ZoneRate {
    second: u32,
    begun: u32,
    before: u32,
}

/// Number of connections by the prefix of their originator.
pub(crate) struct SourceSketch {
    max: u32,
    hasher: KeyedHasher,
    /// Two counters for each prefix, each shared with other prefixes.
    pub(crate) counts: [Box<[u32]>; 2],
}

/// Number of new connections in the current second, and its maximum.
struct RateLimiter {
    max: u32,
    second: u64,
    begun: u32,
}

impl Limits {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            of_zone: vec![0; ZONES].into(),
            new_rates: vec![ZoneRate::default(); ZONES].into(),
            sources: config.source_max.map(|max| SourceSketch::new(max, config)),
            limiter: config.new_per_second.map(|max| RateLimiter { max, second: 0, begun: 0 }),
        }
    }

    /// True if a limit may be reached within a burst in which connections replace others.
    ///
    /// The burst must then be processed in packet order. Limits of zones do not matter here: a
    /// replaced connection leaves the count of its zone unchanged.
    pub(crate) fn is_near_limit(&mut self, now: Nanos) -> bool {
        let is_near = |limiter: &mut RateLimiter| limiter.left(now) < BURST_MAX as u32;
        self.sources.is_some() || self.limiter.as_mut().is_some_and(is_near)
    }

    /// Checks whether a connection may begin now.
    ///
    /// # Errors
    /// [`UntrackedReason`] of the first limit that is reached: zone, source, or new connections per
    /// second.
    pub(crate) fn check<const W: usize>(
        &mut self,
        zones: &ZonePolicies,
        (key, swapped): (&Key<W>, u8),
        now: Nanos,
    ) -> Result<(), UntrackedReason> {
        let zone = key.zone();
        let count = self.of_zone[usize::from(zone)];
        if zones.of(zone).connections_max.is_some_and(|max| count >= max) {
            return Err(UntrackedReason::ZoneFull);
        }
        let is_full = |sources: &SourceSketch| sources.count(zone, key.end(swapped)) >= sources.max;
        if self.sources.as_ref().is_some_and(is_full) {
            return Err(UntrackedReason::SourceFull);
        }
        self.check_new_rate(now)
    }

    /// Checks whether a connection may replace the one with its key, from originator `before` to
    /// `next`.
    ///
    /// The count of its zone does not change, nor that of its source if the source is the same.
    ///
    /// # Errors
    /// [`UntrackedReason`] of the first limit that is reached: source, or new connections per
    /// second.
    pub(crate) fn check_next<const W: usize>(
        &mut self,
        key: &Key<W>,
        [before, next]: [u8; 2],
        now: Nanos,
    ) -> Result<(), UntrackedReason> {
        let zone = key.zone();
        if let Some(sources) = &self.sources {
            let [before, next] = [before, next].map(|swapped| key.end(swapped));
            let is_same = sources.places(zone, before) == sources.places(zone, next);
            if !is_same && sources.count(zone, next) >= sources.max {
                return Err(UntrackedReason::SourceFull);
            }
        }
        self.check_new_rate(now)
    }

    fn check_new_rate(&mut self, now: Nanos) -> Result<(), UntrackedReason> {
        match self.limiter.as_mut().is_some_and(|limiter| limiter.left(now) == 0) {
            true => Err(UntrackedReason::NewRate),
            false => Ok(()),
        }
    }

    /// Returns the number of connections of a zone.
    pub(crate) fn of_zone(&self, zone: u16) -> u32 {
        self.of_zone[usize::from(zone)]
    }

    /// Returns the number of connections of a zone that began in the previous second.
    pub(crate) fn new_rate(&self, zone: u16, now: Nanos) -> u32 {
        self.new_rates[usize::from(zone)].at(now).before
    }

    /// Counts a new connection of this zone, begun by a packet from `source`.
    pub(crate) fn count_new(&mut self, zone: u16, source: impl FnOnce() -> IpAddr, now: Nanos) {
        self.count(zone, source);
        let new_rate = &mut self.new_rates[usize::from(zone)];
        *new_rate = new_rate.at(now);
        new_rate.begun += 1;
        if let Some(limiter) = &mut self.limiter {
            limiter.begun += u32::from(limiter.left(now) > 0);
        }
    }

    /// Counts a restored connection. It does not count as new in the current second.
    pub(crate) fn count_restored(&mut self, zone: u16, source: IpAddr) {
        self.count(zone, || source);
    }

    fn count(&mut self, zone: u16, source: impl FnOnce() -> IpAddr) {
        self.of_zone[usize::from(zone)] += 1;
        if let Some(sources) = &mut self.sources {
            sources.each(zone, source(), |count| *count += 1);
        }
    }

    /// Counts the end of a connection of this zone, which a packet from `source` had begun.
    pub(crate) fn count_end(&mut self, zone: u16, source: impl FnOnce() -> IpAddr) {
        self.of_zone[usize::from(zone)] -= 1;
        if let Some(sources) = &mut self.sources {
            sources.each(zone, source(), |count| *count -= 1);
        }
    }
}

impl ZoneRate {
    /// Returns the counts as of `now`.
    fn at(self, now: Nanos) -> Self {
        let second = (now / SECOND) as u32;
        match second.wrapping_sub(self.second) {
            0 => self,
            1 => Self { second, begun: 0, before: self.begun },
            _ => Self { second, ..Self::default() },
        }
    }
}

impl RateLimiter {
    /// Returns how many more connections may begin in this second.
    fn left(&mut self, now: Nanos) -> u32 {
        if self.second != now / SECOND {
            (self.second, self.begun) = (now / SECOND, 0);
        }
        self.max - self.begun
    }
}

impl SourceSketch {
    /// Prefix length that defines a source: of an IPv4 address, and of an IPv6 address.
    const PREFIX_V4: u32 = 24;

    const PREFIX_V6: u32 = 64;

    fn new(max: u32, config: &Config) -> Self {
        let len = Self::counts(config);
        Self {
            max,
            hasher: KeyedHasher::new(derive(config.secret, KeyDomain::Sources)),
            counts: [vec![0; len].into(), vec![0; len].into()],
        }
    }

    /// Returns the number of counters per array: about half the connections, at least 2^14. So two
    /// connections of a full table share a counter.
    pub(crate) fn counts(config: &Config) -> usize {
        let connections = config.capacity_ipv4 as usize + config.capacity_ipv6 as usize;
        (connections / 2).next_power_of_two().max(1 << 14)
    }

    /// Returns the indices of the two counters of a source.
    fn places(&self, zone: u16, source: IpAddr) -> [usize; 2] {
        let prefix = match source {
            IpAddr::V4(address) => u64::from(u32::from(address) >> (32 - Self::PREFIX_V4)),
            IpAddr::V6(address) => (u128::from(address) >> (128 - Self::PREFIX_V6)) as u64,
        };
        let version = u64::from(source.is_ipv6());
        let hash = self.hasher.hash_one(&[prefix, u64::from(zone) << 1 | version]);
        let mask = self.counts[0].len() - 1;
        [hash as usize & mask, (hash >> 32) as usize & mask]
    }

    fn each(&mut self, zone: u16, source: IpAddr, change: impl Fn(&mut u32)) {
        let places = self.places(zone, source);
        for (counts, place) in self.counts.iter_mut().zip(places) {
            change(&mut counts[place]);
        }
    }

    /// Returns an upper bound of the connections of a source; it may include some of other sources.
    fn count(&self, zone: u16, source: IpAddr) -> u32 {
        let [first, second] = self.places(zone, source);
        self.counts[0][first].min(self.counts[1][second])
    }
}
