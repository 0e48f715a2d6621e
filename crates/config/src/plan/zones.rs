// SPDX-License-Identifier: BSD-3-Clause
//! Plans the policies of zones: resolves names of timeout policies, and fills in general settings.

use super::{Settings, plan_timeouts};
use crate::{Fault, Located, Place, Problem};
use engine::{Config, Timeouts, ZonePolicies, ZonePolicy};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Name of the policy that `[timeouts]` defines.
const DEFAULT: &str = "default";

/// Numbers of zones, their policy, and the name of its timeouts.
type ZonePlan = ((Vec<u16>, ZonePolicy), String);

/// The policies of zones, with the names of their timeouts for the control socket.
pub struct ZoneRules {
    zones: Arc<ZonePolicies>,
    /// Names of the timeouts of configured zones.
    timeouts: BTreeMap<u16, String>,
}

/// Timeout policies by name, in the order of the configuration.
struct Named(Vec<(String, Timeouts)>);

/// Returns the configured zones, or all problems. `elsewhere` is the policy of all other zones.
pub(super) fn plan_zones(
    policies: Vec<crate::TimeoutPolicy>,
    zones: Vec<crate::Zone>,
    elsewhere: ZonePolicy,
    settings: &mut Settings,
) -> Result<Vec<ZonePlan>, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut named = Named(vec![(DEFAULT.to_owned(), elsewhere.timeouts)]);
    for (index, policy) in policies.into_iter().enumerate() {
        let Some(name) = policy.name else { continue };
        if named.get(&name.value).is_some() {
            let fault = Fault::NameTwice { name: name.value.clone() };
            let key = format!("timeout_policy[{index}].name");
            problems.push(Problem { place: name.place, key, fault });
        }
        settings.open_element("timeout_policy");
        let name = settings.require("name", name);
        let timeouts = plan_timeouts(policy.timeouts, elsewhere.timeouts, settings);
        named.0.push((name, timeouts));
    }
    let (found, most) = (zones.len(), ZonePolicies::MAX);
    if found > most {
        let fault = Fault::TooManyZones { found, most };
        let key = "zone".to_owned();
        return Err(vec![Problem { place: Place::Whole {}, key, fault }]);
    }
    let mut planned = Vec::new();
    for (index, zone) in zones.into_iter().enumerate() {
        let wanted = zone.timeouts.as_ref().map(|name| (name.value.clone(), name.place));
        match named.plan(zone, elsewhere, settings) {
            Ok(zone) => planned.extend(zone),
            Err(fault) => problems.extend(wanted.map(|(_, place)| Problem {
                place,
                key: format!("zone[{index}].timeouts"),
                fault,
            })),
        }
    }
    if problems.is_empty() { Ok(planned) } else { Err(problems) }
}

impl ZoneRules {
    /// Returns the policies of `config`; `names` are the names of its zones' timeouts.
    pub fn new(config: &Config, names: Vec<String>) -> Self {
        let named = config.zones.iter().zip(names);
        // The last entry for a zone wins, as in the engine.
        let timeouts =
            named.flat_map(|((ids, _), name)| ids.iter().map(move |id| (*id, name.clone())));
        Self { zones: Arc::new(ZonePolicies::new(config)), timeouts: timeouts.collect() }
    }

    /// Returns the policies for engines.
    pub fn zones(&self) -> Arc<ZonePolicies> {
        Arc::clone(&self.zones)
    }

    /// Returns the configured zones, in ascending order.
    pub fn named(&self) -> impl Iterator<Item = u16> {
        self.timeouts.keys().copied()
    }

    /// Returns the policy of a zone, and the name of its timeouts.
    pub fn of(&self, zone: u16) -> (&ZonePolicy, &str) {
        (self.zones.of(zone), self.timeouts.get(&zone).map_or(DEFAULT, String::as_str))
    }
}

impl Named {
    fn get(&self, name: &str) -> Option<Timeouts> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, timeouts)| *timeouts)
    }

    /// Returns the policy of a `[[zone]]`; `None` if it lists no zone, which is already a problem.
    fn plan(
        &self,
        zone: crate::Zone,
        elsewhere: ZonePolicy,
        settings: &mut Settings,
    ) -> Result<Option<ZonePlan>, Fault> {
        let Some(Located { value: ids, place }) = zone.ids else { return Ok(None) };
        settings.open_element("zone");
        let ids: Vec<u32> = ids.into_iter().map(|id| id.value).collect();
        let ids = settings.require("ids", Located { value: ids, place });
        let name = settings.take("timeouts", zone.timeouts, DEFAULT.to_owned());
        let names = || self.0.iter().map(|(name, _)| name.clone()).collect();
        let timeouts = self
            .get(&name)
            .ok_or_else(|| Fault::NoSuchPolicy { name: name.clone(), names: names() })?;
        let policy = ZonePolicy {
            timeouts,
            tracking: settings.take_or_compute("tracking", zone.tracking, elsewhere.tracking),
            tcp: settings.take_or_compute("tcp", zone.tcp, elsewhere.tcp),
            pick_up: settings.take_or_compute("pick_up", zone.pick_up, elsewhere.pick_up),
            connections_max: limit(settings.take("connections_max", zone.connections_max, 0)),
            when_full: settings.take_or_compute("when_full", zone.when_full, elsewhere.when_full),
        };
        Ok(Some(((ids.into_iter().map(|id| id as u16).collect(), policy), name)))
    }
}

/// Converts a limit of which 0 means none.
pub(super) fn limit(max: u32) -> Option<u32> {
    (max > 0).then_some(max)
}
