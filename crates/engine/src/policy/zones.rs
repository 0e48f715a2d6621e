// SPDX-License-Identifier: BSD-3-Clause
//! Owns the policy of each zone: timeouts, window check, limits of connections.
//!
//! The policies can be replaced while there are connections. New connections use the new ones at
//! once, and so does each expired timer. A review updates existing connections, a few records at a
//! time.

use crate::api::{Config, MarkRule, Tracking, ZONES, ZonePolicy};
use crate::base::Nanos;
use crate::conn::State;

/// The policy of every zone, and other configuration that can change at run time.
#[derive(Clone, Debug)]
pub struct ZonePolicies {
    /// True if some zone is tracked.
    tracks_any: bool,
    /// Policies; the first one is for all zones that are not listed.
    policies: Box<[ZonePolicy]>,
    /// Index of each zone's policy. Empty if there is only one policy.
    places: Box<[u16]>,
    /// Rules that write marks and labels to new connections.
    mark_rules: Box<[MarkRule]>,
    /// Timeouts of each policy by the bits of a state. States come in no predictable order, so a
    /// table is faster than branches.
    by_state: Box<[[Nanos; State::BITS]]>,
}

impl ZonePolicies {
    /// Maximum number of entries in [`Config::zones`].
    pub const MAX: usize = u16::MAX as usize;

    /// Creates the policies of a configuration. If several entries list a zone, the last one
    /// applies.
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
            // What was tracked before its zone was switched off ends at once.
            let is_off = policy.tracking == Tracking::Off;
            let timeout = |state: State| if is_off { 0 } else { state.timeout(&policy.timeouts) };
            std::array::from_fn(|bits| timeout(State::of_bits(bits as u8)))
        };
        let by_state = policies.iter().map(of_policy).collect();
        let tracks_any = policies.iter().any(|policy| policy.tracking != Tracking::Off);
        Self {
            tracks_any,
            policies,
            places,
            mark_rules: config.mark_rules.as_slice().into(),
            by_state,
        }
    }

    /// True if some zone is tracked.
    #[inline(always)]
    pub(crate) fn tracks_any(&self) -> bool {
        self.tracks_any
    }

    /// Returns the timeout of a connection of this zone in this state.
    #[inline(always)]
    pub(crate) fn timeout(&self, zone: u16, state: State) -> Nanos {
        self.by_state[self.place(zone)][state as usize % State::BITS]
    }

    #[inline(always)]
    fn place(&self, zone: u16) -> usize {
        self.places.get(usize::from(zone)).map_or(0, |place| usize::from(*place))
    }

    /// Returns the rules that write marks and labels to new connections.
    #[inline(always)]
    pub(crate) fn mark_rules(&self) -> &[MarkRule] {
        &self.mark_rules
    }

    /// Returns the policy of a zone.
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
