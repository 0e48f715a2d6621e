// SPDX-License-Identifier: BSD-3-Clause
//! What holds in a zone: how long its connections live, how they are judged, how many there may be.
//!
//! It may change while there are connections. New ones go by it at once, and so does every look at
//! a timer; those that are there are reviewed, a few records at a time.

use crate::api::{Config, MarkRule, ZONES, ZonePolicy};
use crate::base::Nanos;
use crate::conn::State;

/// The policy of every zone, and what else of a configuration may change while it holds.
#[derive(Clone, Debug)]
pub struct ZonePolicies {
    /// The first is of all zones that are not named.
    policies: Box<[ZonePolicy]>,
    /// By zone, the place of its policy. Empty where there is but one.
    places: Box<[u16]>,
    /// What is written to connections as they begin.
    mark_rules: Box<[MarkRule]>,
    /// Timeouts of each policy by the bits of a phase: which one comes next nobody foretells, so a
    /// branch for each would be a wrong guess most of the time.
    by_phase: Box<[[Nanos; State::BITS]]>,
}

impl ZonePolicies {
    /// Entries that a configuration may have.
    pub const MAX: usize = u16::MAX as usize;

    /// Those of a configuration. Of several entries that name a zone the last one holds.
    ///
    /// # Panics
    /// If there are more than [`ZonePolicies::MAX`] entries.
    pub fn new(config: &Config) -> Self {
        let others = config.zones.iter().map(|(_, policy)| *policy);
        let policies: Box<[_]> = std::iter::once(config.policy()).chain(others).collect();
        let len = if config.zones.is_empty() { 0 } else { ZONES };
        let mut places: Box<[u16]> = vec![0; len].into();
        for (place, (zones, _)) in (1..).zip(&config.zones) {
            let place = u16::try_from(place).expect("one policy at most for each zone");
            zones.iter().for_each(|zone| places[usize::from(*zone)] = place);
        }
        let of_policy = |policy: &ZonePolicy| {
            std::array::from_fn(|bits| State::of_bits(bits as u8).timeout(&policy.timeouts))
        };
        let by_phase = policies.iter().map(of_policy).collect();
        Self { policies, places, mark_rules: config.mark_rules.as_slice().into(), by_phase }
    }

    /// How long a flow of this zone lives in this phase without a packet.
    #[inline(always)]
    pub(crate) fn timeout(&self, zone: u16, phase: State) -> Nanos {
        self.by_phase[self.place(zone)][phase as usize % State::BITS]
    }

    #[inline(always)]
    fn place(&self, zone: u16) -> usize {
        self.places.get(usize::from(zone)).map_or(0, |place| usize::from(*place))
    }

    /// What is written to connections as they begin.
    #[inline(always)]
    pub(crate) fn mark_rules(&self) -> &[MarkRule] {
        &self.mark_rules
    }

    /// The policy of a zone.
    pub fn of(&self, zone: u16) -> &ZonePolicy {
        &self.policies[self.place(zone)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_has_the_last_policy_that_names_it() {
        let of = |max| ZonePolicy { connections_max: Some(max), ..Config::default().policy() };
        let zones = vec![(vec![1, 65_535], of(1)), (vec![2, 1], of(2))];
        let zones = ZonePolicies::new(&Config { zones, ..Config::default() });
        let max = [0, 1, 2, 3, 65_535].map(|zone| zones.of(zone).connections_max);
        assert_eq!(max, [None, Some(2), Some(2), None, Some(1)]);
    }
}
