// SPDX-License-Identifier: BSD-3-Clause
//! How many connections there may be, of all, of a zone and of a source, and how many may begin in
//! a second.
//!
//! Who ends makes room at once. Sources are prefixes, of which there are more than anybody has
//! memory for: they are counted together with some others, in two ways, and the lower number holds.
//! So no source has more than its share, and one may have a few less where the table is full.

use super::zones::ZonePolicies;
use crate::api::{Config, UntrackedReason, ZONES};
use crate::base::{BURST_MAX, KeyDomain, KeyedHasher, Nanos, derive};
use crate::packet::Key;
use std::net::IpAddr;

const SECOND: Nanos = 1_000_000_000;

/// Counts connections of both tables.
pub(crate) struct Limits {
    of_zone: Box<[u32]>,
    paces: Box<[ZoneRate]>,
    pub(crate) sources: Option<SourceSketch>,
    valve: Option<RateLimiter>,
}

/// Connections of a zone that have begun in a second, and in the one before.
#[derive(Clone, Copy, Default)]
pub(crate) struct ZoneRate {
    second: u32,
    begun: u32,
    before: u32,
}

/// Connections by the prefix of who began them.
pub(crate) struct SourceSketch {
    max: u32,
    hasher: KeyedHasher,
    /// Two counts of each prefix, each shared with others.
    pub(crate) counts: [Box<[u32]>; 2],
}

/// New connections in the second that runs.
struct RateLimiter {
    max: u32,
    second: u64,
    begun: u32,
}

impl Limits {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            of_zone: vec![0; ZONES].into(),
            paces: vec![ZoneRate::default(); ZONES].into(),
            sources: config.source_max.map(|max| SourceSketch::new(max, config)),
            valve: config.new_per_second.map(|max| RateLimiter { max, second: 0, begun: 0 }),
        }
    }

    /// Whether one of them might be met within a burst of which some packets take the place of
    /// others' connections. Then what comes first counts first. A zone has no more by that.
    pub(crate) fn is_near_limit(&mut self, now: Nanos) -> bool {
        let is_valve_near = |valve: &mut RateLimiter| valve.left(now) < BURST_MAX as u32;
        self.sources.is_some() || self.valve.as_mut().is_some_and(is_valve_near)
    }

    /// Whether a connection may begin now, and if not, why.
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
        self.check_valve(now)
    }

    /// Whether a connection may begin in the place of another one with its key, and if not, why.
    /// Its zone has no more by that, nor has its source if it is the same.
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
        self.check_valve(now)
    }

    fn check_valve(&mut self, now: Nanos) -> Result<(), UntrackedReason> {
        match self.valve.as_mut().is_some_and(|valve| valve.left(now) == 0) {
            true => Err(UntrackedReason::NewRate),
            false => Ok(()),
        }
    }

    /// Connections of a zone.
    pub(crate) fn of_zone(&self, zone: u16) -> u32 {
        self.of_zone[usize::from(zone)]
    }

    /// Connections of a zone that began in the second before this one.
    pub(crate) fn pace(&self, zone: u16, now: Nanos) -> u32 {
        self.paces[usize::from(zone)].at(now).before
    }

    /// A connection of this zone has begun, by a packet from `source`.
    pub(crate) fn began(&mut self, zone: u16, source: impl FnOnce() -> IpAddr, now: Nanos) {
        self.count(zone, source);
        let pace = &mut self.paces[usize::from(zone)];
        *pace = pace.at(now);
        pace.begun += 1;
        if let Some(valve) = &mut self.valve {
            valve.begun += u32::from(valve.left(now) > 0);
        }
    }

    /// One has that began elsewhere: not in the second that runs.
    pub(crate) fn restored(&mut self, zone: u16, source: IpAddr) {
        self.count(zone, || source);
    }

    fn count(&mut self, zone: u16, source: impl FnOnce() -> IpAddr) {
        self.of_zone[usize::from(zone)] += 1;
        if let Some(sources) = &mut self.sources {
            sources.each(zone, source(), |count| *count += 1);
        }
    }

    /// One has ended.
    pub(crate) fn ended(&mut self, zone: u16, source: impl FnOnce() -> IpAddr) {
        self.of_zone[usize::from(zone)] -= 1;
        if let Some(sources) = &mut self.sources {
            sources.each(zone, source(), |count| *count -= 1);
        }
    }
}

impl ZoneRate {
    /// How it stands at this time.
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
    /// How many more may begin in this second.
    fn left(&mut self, now: Nanos) -> u32 {
        if self.second != now / SECOND {
            (self.second, self.begun) = (now / SECOND, 0);
        }
        self.max - self.begun
    }
}

impl SourceSketch {
    /// Bits of an IPv4 address, and of an IPv6 address, that are one source.
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

    /// Half as many as connections: two of a full table share one.
    pub(crate) fn counts(config: &Config) -> usize {
        let connections = config.capacity_ipv4 as usize + config.capacity_ipv6 as usize;
        (connections / 2).next_power_of_two().max(1 << 14)
    }

    /// Where the counts of a source are.
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

    /// Connections of a source, and some of others at most.
    fn count(&self, zone: u16, source: IpAddr) -> u32 {
        let [first, second] = self.places(zone, source);
        self.counts[0][first].min(self.counts[1][second])
    }
}
