// SPDX-License-Identifier: BSD-3-Clause
//! Turns rules into regions and packets into points of one space.
//!
//! The dimensions are the words of source and destination, then source port, destination port,
//! protocol and zone. Type and code of ICMP are in the dimensions of ports, beyond all ports.

use super::SearchError;
use crate::criteria::{Addresses, Criteria, Family, MaskedValue};
use crate::packet::{CtStates, Packet};
use crate::ranges::{Number, Ranges};
use crate::rule::{AccessList, Action};
use ipnet::IpNet;

/// Dimensions of IPv4 and of IPv6, rounded up so that they fill cache lines. Those beyond the
/// fields are 0 in every point.
pub(super) const WIDTH_V4: usize = 8;
pub(super) const WIDTH_V6: usize = 16;

/// Dimensions of the fields behind the addresses.
const SPORT: usize = 0;
const DPORT: usize = 1;
const PROTO: usize = 2;
const ZONE: usize = 3;

/// Numbers in the dimensions of ports: a packet without ports, and type or code 0 of ICMP.
const NO_PORT: u32 = 1 << 16;
const ICMP: u32 = 1 << 17;

/// Most regions of a list.
pub(super) const REGIONS_MAX: usize = 1_000_000;

/// Number of sets of each end that are looked up. Networks of further sets become regions.
pub(super) const SETS: usize = 64;

/// No set.
const NO_SET: u8 = u8::MAX;

/// A range of numbers in each dimension: `low` and how many numbers follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub(super) struct Region<const W: usize> {
    pub(super) low: [u32; W],
    pub(super) span: [u32; W],
}

const _: () = assert!(size_of::<Region<WIDTH_V4>>() == 64);

impl<const W: usize> Region<W> {
    /// The whole space.
    pub(super) const EVERYTHING: Self = Self { low: [0; W], span: [u32::MAX; W] };

    /// True if the point lies in the region.
    #[inline(always)]
    pub(super) fn contains(&self, at: &[u32; W]) -> bool {
        let mut outside = 0;
        for ((at, low), span) in at.iter().zip(&self.low).zip(&self.span) {
            outside |= u32::from(at.wrapping_sub(*low) > *span);
        }
        outside == 0
    }

    pub(super) fn high(&self, dimension: usize) -> u32 {
        self.low[dimension] + self.span[dimension]
    }

    fn with(mut self, dimension: usize, [first, last]: [u32; 2]) -> Self {
        (self.low[dimension], self.span[dimension]) = (first, last - first);
        self
    }
}

/// Criteria of a rule that are no ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) rule: u32,
    /// Set that must contain the source, and the destination; [`NO_SET`] for none.
    sets: [u8; 2],
    /// TCP flags; without TCP header, none match a mask that is not 0.
    flags: MaskedValue<u8>,
    /// Bits of the kinds of fragment.
    fragments: u8,
    ct: CtStates,
    mark: MaskedValue<u32>,
    /// True if packets of one connection can differ in whether they match, or the rule only counts.
    pub(super) varies: bool,
    pub(super) only_counts: bool,
}

impl Check {
    fn new(rule: u32, criteria: &Criteria, action: Action) -> Self {
        let only_counts = action == Action::Count;
        Self {
            rule,
            sets: [NO_SET; 2],
            flags: criteria.tcp_flags.unwrap_or(MaskedValue { value: 0, mask: 0 }),
            fragments: criteria.fragment.map_or(u8::MAX, |kind| kind.bit()),
            ct: criteria.ct,
            mark: criteria.mark.unwrap_or(MaskedValue { value: 0, mask: 0 }),
            varies: only_counts || criteria.varies_by_packet(),
            only_counts,
        }
    }

    /// True if the sets and the connection state match, so that only what varies by packet is left.
    #[inline(always)]
    pub(super) fn may_match<const W: usize>(&self, point: &Point<W>) -> bool {
        let is_in = |end: usize| {
            self.sets[end] == NO_SET || point.sets[end] >> (self.sets[end] % 64) & 1 == 1
        };
        self.ct.intersects(point.ct) && is_in(0) && is_in(1)
    }

    /// True if what varies by packet matches.
    #[inline(always)]
    pub(super) fn matches<const W: usize>(&self, point: &Point<W>) -> bool {
        let has_flags =
            self.flags.mask == 0 || point.tcp_flags.is_some_and(|flags| self.flags.is(flags));
        has_flags
            && self.fragments & point.fragment != 0
            && point.mark & self.mark.mask == self.mark.value
    }

    /// True if every point of its region matches.
    pub(super) fn is_of_region_alone(&self) -> bool {
        !self.varies && self.ct == CtStates::ANY && self.sets == [NO_SET; 2]
    }
}

/// The place of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point<const W: usize> {
    pub(super) at: [u32; W],
    /// Bit by bit, the sets that contain the source, and the destination.
    pub(super) sets: [u64; 2],
    tcp_flags: Option<u8>,
    fragment: u8,
    ct: CtStates,
    mark: u32,
}

impl<const W: usize> Point<W> {
    /// Returns the place of a packet with these words of addresses. It is in no set.
    #[inline(always)]
    pub(super) fn new<const A: usize>(packet: &Packet, addresses: [u32; A]) -> Self {
        let [sport, dport] = match (packet.ports, packet.icmp) {
            (Some(ports), _) => ports.map(u32::from),
            (None, Some(icmp)) => icmp.map(|number| ICMP + u32::from(number)),
            (None, None) => [NO_PORT; 2],
        };
        let mut at = [0; W];
        at[..A].copy_from_slice(&addresses);
        at[A..A + 4].copy_from_slice(&[sport, dport, packet.proto.into(), packet.zone.into()]);
        Point {
            at,
            sets: [0; 2],
            tcp_flags: packet.tcp_flags,
            fragment: packet.fragment.bit(),
            ct: packet.ct,
            mark: packet.mark,
        }
    }
}

/// The regions of a list for one IP version, in the order of their rules, and the sets that
/// are looked up.
pub(super) struct Regions<'a, const W: usize> {
    pub(super) all: Vec<(Region<W>, Check)>,
    pub(super) sets: [Vec<&'a [IpNet]>; 2],
    /// Most regions.
    max: usize,
}

impl<'a, const W: usize> Regions<'a, W> {
    /// Turns the rules of a list for this IP version into regions.
    pub(super) fn of(
        list: &'a AccessList,
        family: Family,
        max_bytes: usize,
    ) -> Result<Self, SearchError> {
        let max = REGIONS_MAX.min(max_bytes / (size_of::<Region<W>>() + size_of::<Check>()));
        let mut regions = Self { all: Vec::new(), sets: [vec![], vec![]], max };
        for (index, rule) in (0..).zip(&list.rules) {
            if rule.criteria.has_family(family) {
                let check = Check::new(index, &rule.criteria, rule.action);
                regions.add(&rule.criteria, check, family)?;
            }
        }
        Ok(regions)
    }

    fn add(
        &mut self,
        criteria: &'a Criteria,
        mut check: Check,
        family: Family,
    ) -> Result<(), SearchError> {
        let needs_port = !criteria.sport.is_any() || !criteria.dport.is_any();
        if needs_port && (!criteria.icmp_type.is_any() || !criteria.icmp_code.is_any()) {
            // No packet has both.
            return Ok(());
        }
        let words = if family == Family::Ipv4 { 1 } else { 4 };
        let mut regions = vec![Region::EVERYTHING];
        let fields = 2 * words;
        let too_many = match self.max == REGIONS_MAX {
            true => SearchError::TooManyRegions { rule: check.rule, max: REGIONS_MAX },
            false => SearchError::TooMuchMemory,
        };
        let room = self.max - self.all.len();
        let icmp = |numbers: &Ranges<u8>| ranges_from(numbers, ICMP);
        for (dimension, ranges) in [
            (fields + SPORT, ranges_from(&criteria.sport, 0)),
            (fields + DPORT, ranges_from(&criteria.dport, 0)),
            (fields + SPORT, icmp(&criteria.icmp_type)),
            (fields + DPORT, icmp(&criteria.icmp_code)),
            (fields + PROTO, ranges_from(&criteria.proto, 0)),
            (fields + ZONE, ranges_from(&criteria.zone, 0)),
        ] {
            if !ranges.is_empty() {
                regions =
                    multiply(&regions, &ranges, room, |place, range| place.with(dimension, *range))
                        .ok_or(too_many)?;
            }
        }
        for (end, addresses) in [&criteria.src, &criteria.dst].into_iter().enumerate() {
            check.sets[end] = self.set_of(end, addresses);
            if check.sets[end] != NO_SET {
                continue;
            }
            if let Some(networks) = addresses.networks() {
                let own: Vec<_> = networks
                    .iter()
                    .filter(|network| Family::of(network.addr()) == family)
                    .copied()
                    .collect();
                regions = multiply(&regions, &own, room, |place, network| {
                    place.with_network(end * words, network)
                })
                .ok_or(too_many)?;
            }
        }
        if regions.len() > room {
            return Err(too_many);
        }
        self.all.extend(regions.into_iter().map(|place| (place, check)));
        Ok(())
    }

    /// Returns the number of the set that these addresses are, among those of this end. [`NO_SET`]
    /// if they are none, or there are too many.
    fn set_of(&mut self, end: usize, addresses: &'a Addresses) -> u8 {
        let Addresses::Set(set) = addresses else { return NO_SET };
        let sets = &mut self.sets[end];
        let known = sets.iter().position(|known| std::ptr::eq(*known, &set.networks[..]));
        match known {
            Some(number) => number as u8,
            None if sets.len() < SETS => {
                sets.push(&set.networks);
                (sets.len() - 1) as u8
            }
            None => NO_SET,
        }
    }
}

/// Returns the ranges, moved up by `offset`.
fn ranges_from<T: Number + Into<u32>>(ranges: &Ranges<T>, offset: u32) -> Vec<[u32; 2]> {
    ranges.as_slice().iter().map(|range| range.map(|number| offset + number.into())).collect()
}

/// Returns each region with each of the values; `None` if there are more than `max`.
fn multiply<const W: usize, T>(
    regions: &[Region<W>],
    values: &[T],
    max: usize,
    with: impl Fn(Region<W>, &T) -> Region<W>,
) -> Option<Vec<Region<W>>> {
    if regions.len().checked_mul(values.len())? > max {
        return None;
    }
    let pairs = regions.iter().flat_map(|place| values.iter().map(move |value| (*place, value)));
    Some(pairs.map(|(place, value)| with(place, value)).collect())
}

impl<const W: usize> Region<W> {
    /// Returns the part of the region whose address is in a network. The address begins at this
    /// dimension.
    fn with_network(mut self, first: usize, network: &IpNet) -> Self {
        let words: &[u32] = match network {
            IpNet::V4(network) => &[network.network().to_bits()],
            IpNet::V6(network) => {
                let bits = network.network().to_bits();
                &[96, 64, 32, 0].map(|shift| (bits >> shift) as u32)
            }
        };
        let len = u32::from(network.prefix_len());
        for ((dimension, word), before) in (first..).zip(words).zip((0..).step_by(32)) {
            let free = 32 - len.saturating_sub(before).min(32);
            let span = if free == 32 { u32::MAX } else { (1 << free) - 1 };
            self = self.with(dimension, [*word, word + span]);
        }
        self
    }
}
