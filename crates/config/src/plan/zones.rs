// SPDX-License-Identifier: BSD-3-Clause
//! What holds in which zone: names of timeout policies become the policies, and what a zone leaves
//! out is as elsewhere.

use super::{Settings, plan_timeouts};
use crate::{Fault, Located, Place, Problem};
use engine::{Config, Timeouts, ZonePolicies, ZonePolicy};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The name of `[timeouts]`.
const DEFAULT: &str = "default";

/// Zones, what holds there, and the name of its timeouts.
type ZonePlan = ((Vec<u16>, ZonePolicy), String);

/// What holds in which zone, for those who ask.
pub struct ZoneRules {
    zones: Arc<ZonePolicies>,
    /// Names of the timeouts of zones that are named.
    timeouts: BTreeMap<u16, String>,
}

/// Policies by name, in the order in which they were written.
struct Named(Vec<(String, Timeouts)>);

/// The zones of a configuration, or what is wrong with them. `elsewhere` holds where none is named.
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
    /// Those of an engine, of whose zones the timeouts have these names.
    pub fn new(config: &Config, names: Vec<String>) -> Self {
        let named = config.zones.iter().zip(names);
        // The last one that names a zone holds, as in the engine.
        let timeouts =
            named.flat_map(|((ids, _), name)| ids.iter().map(move |id| (*id, name.clone())));
        Self { zones: Arc::new(ZonePolicies::new(config)), timeouts: timeouts.collect() }
    }

    /// What engines go by.
    pub fn zones(&self) -> Arc<ZonePolicies> {
        Arc::clone(&self.zones)
    }

    /// Zones that are named, in order.
    pub fn named(&self) -> impl Iterator<Item = u16> {
        self.timeouts.keys().copied()
    }

    /// What holds in a zone, and the name of its timeouts.
    pub fn of(&self, zone: u16) -> (&ZonePolicy, &str) {
        (self.zones.of(zone), self.timeouts.get(&zone).map_or(DEFAULT, String::as_str))
    }
}

impl Named {
    fn get(&self, name: &str) -> Option<Timeouts> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, timeouts)| *timeouts)
    }

    /// `None` for a zone that names no zone, which is a problem already.
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
            tcp: settings.take_or_compute("tcp", zone.tcp, elsewhere.tcp),
            pick_up: settings.take_or_compute("pick_up", zone.pick_up, elsewhere.pick_up),
            connections_max: limit(settings.take("connections_max", zone.connections_max, 0)),
            when_full: settings.take_or_compute("when_full", zone.when_full, elsewhere.when_full),
        };
        Ok(Some(((ids.into_iter().map(|id| id as u16).collect(), policy), name)))
    }
}

/// 0 is none.
pub(super) fn limit(max: u32) -> Option<u32> {
    (max > 0).then_some(max)
}
