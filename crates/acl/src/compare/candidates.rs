// SPDX-License-Identifier: BSD-3-Clause
//! Finds rules that may share packets with a rule, without comparing it with every other rule.
//!
//! Each rule has one range per field: from its least value to its greatest. For each field, masks
//! with one bit per rule hold the rules whose range begins at or below a value, or ends at or above
//! it. There is a mask for one value in [`VALUES`] only, so a few rules too many are found: the
//! caller compares all that it gets.

use crate::criteria::{Addresses, Criteria, Family};
use crate::ranges::{Number, Ranges};
use crate::rule::Rule;
use std::net::IpAddr;

/// Most masks for each end of each field.
const VALUES: usize = 256;

/// Fields that are compared: both addresses, both ports, protocol and zone.
const FIELDS: usize = 6;

/// A value of a field. Addresses of IPv4 come before those of IPv6.
type Value = (u8, u128);

/// The least and the greatest value that a rule has in each field.
type Hull = [[Value; 2]; FIELDS];

/// Masks of the rules with an end of their range at or before some values.
struct End {
    /// Some of the values in their order. The mask has the rules with smaller values, and some with
    /// this value. The last mask has all rules.
    masks: Vec<(Value, Vec<u64>)>,
}

impl End {
    /// Creates the masks of these values, of one rule each. Rules without a value are in none.
    fn new(mut values: Vec<(Value, u32)>, rules: usize) -> Self {
        values.sort_unstable();
        let step = values.len().div_ceil(VALUES).max(1);
        let mut mask = vec![0; rules.div_ceil(64)];
        let mut masks = Vec::with_capacity(VALUES);
        for part in values.chunks(step) {
            for (_, rule) in part {
                mask[*rule as usize / 64] |= 1 << (rule % 64);
            }
            masks.push((part[part.len() - 1].0, mask.clone()));
        }
        Self { masks }
    }

    /// Returns a mask that has all rules up to this value, and perhaps some more.
    fn up_to(&self, value: Value) -> Option<&[u64]> {
        let at = self.masks.partition_point(|(last, _)| *last <= value);
        self.masks.get(at).or(self.masks.last()).map(|(_, mask)| &mask[..])
    }
}

/// The masks of all rules of a list.
pub(super) struct Candidates {
    hulls: Vec<Option<Hull>>,
    /// By field: the masks of least values, and of greatest values, largest first.
    ends: [[End; 2]; FIELDS],
}

/// Relation of an earlier rule to a rule.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    /// It may match a packet that the rule matches.
    Meets,
    /// It may match every packet that the rule matches.
    Includes,
}

impl Candidates {
    /// Creates the masks of these rules. Rules for which `is_searched` is false are never found.
    pub(super) fn new(rules: &[Rule], is_searched: impl Fn(&Rule) -> bool) -> Self {
        let hulls: Vec<_> = rules.iter().map(|rule| hull(&rule.criteria)).collect();
        let searched: Vec<_> = (0..)
            .zip(rules.iter().zip(&hulls))
            .filter(|(_, (rule, _))| is_searched(rule))
            .filter_map(|(number, (_, hull))| Some((number, (*hull)?)))
            .collect();
        let end = |field: usize, end: usize| {
            let value = |(rule, hull): &(u32, Hull)| {
                let value = hull[field][end];
                (if end == 0 { value } else { negated(value) }, *rule)
            };
            End::new(searched.iter().map(value).collect(), rules.len())
        };
        let ends = std::array::from_fn(|field| [end(field, 0), end(field, 1)]);
        Self { hulls, ends }
    }

    /// Calls `visit` with each rule before `rule` that may have this relation to it, in their
    /// order, until it returns true. Returns that rule.
    pub(super) fn find(
        &self,
        rule: u32,
        relation: Relation,
        mut visit: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        let hull = self.hulls[rule as usize].as_ref()?;
        let mut masks: [&[u64]; 2 * FIELDS] = [&[]; 2 * FIELDS];
        for (field, [least, greatest]) in hull.iter().enumerate() {
            let [first, last] = match relation {
                Relation::Meets => [greatest, least],
                Relation::Includes => [least, greatest],
            };
            masks[2 * field] = self.ends[field][0].up_to(*first)?;
            masks[2 * field + 1] = self.ends[field][1].up_to(negated(*last))?;
        }
        for word in 0..=rule as usize / 64 {
            let mut found = masks.iter().fold(u64::MAX, |found, mask| found & mask[word]);
            while found != 0 {
                let candidate = word as u32 * 64 + found.trailing_zeros();
                if candidate >= rule {
                    return None;
                }
                if visit(candidate) {
                    return Some(candidate);
                }
                found &= found - 1;
            }
        }
        None
    }
}

/// Returns a value that is less for a greater one.
fn negated((kind, value): Value) -> Value {
    (u8::MAX - kind, u128::MAX - value)
}

/// Returns the ranges of a rule; `None` if no packet has an IP version that it matches.
fn hull(criteria: &Criteria) -> Option<Hull> {
    let families = Family::ALL.map(|(family, _)| criteria.has_family(family));
    let ends = |addresses| hull_of_addresses(addresses, families);
    Some([
        ends(&criteria.src)?,
        ends(&criteria.dst)?,
        hull_of_ranges(&criteria.sport),
        hull_of_ranges(&criteria.dport),
        hull_of_ranges(&criteria.proto),
        hull_of_ranges(&criteria.zone),
    ])
}

fn hull_of_ranges<T: Number + Into<u128>>(ranges: &Ranges<T>) -> [Value; 2] {
    let slice = ranges.as_slice();
    let first = slice.first().map_or(T::MIN, |[first, _]| *first);
    let last = slice.last().map_or(T::MAX, |[_, last]| *last);
    [(0, first.into()), (0, last.into())]
}

/// Returns the least and the greatest address of these IP versions.
fn hull_of_addresses(addresses: &Addresses, families: [bool; 2]) -> Option<[Value; 2]> {
    let value = |address: IpAddr| match address {
        IpAddr::V4(address) => (0, address.to_bits().into()),
        IpAddr::V6(address) => (1, address.to_bits()),
    };
    let Some(networks) = addresses.networks() else {
        let least = if families[0] { (0, 0) } else { (1, 0) };
        let greatest = if families[1] { (1, u128::MAX) } else { (0, u32::MAX.into()) };
        return families.contains(&true).then_some([least, greatest]);
    };
    let own = networks.iter().filter(|network| families[Family::of(network.addr()) as usize]);
    own.map(|network| [value(network.network()), value(network.broadcast())])
        .reduce(|[a, b], [c, d]| [a.min(c), b.max(d)])
}
