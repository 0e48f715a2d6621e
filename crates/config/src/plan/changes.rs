// SPDX-License-Identifier: BSD-3-Clause
//! Decides which settings of a plan may change while it runs, and which need a restart.

use super::Settings;
use crate::{Fault, Place, Problem};
use std::collections::HashMap;

/// Sections in which every value may change, and single values of other sections. Engines get them
/// as `engine::ZonePolicies` and `engine::AccessUpdate`.
const SECTIONS: [&str; 7] = ["timeouts", "timeout_policy", "zone", "mark", "acl", "set", "list"];
const VALUES: [&str; 4] = ["table.when_full", "policy.tracking", "policy.tcp", "policy.pick_up"];

/// Values of these sections that ports read only when they start. Without `[acl]` there are none.
const OF_START: [&str; 1] = ["acl.nic_rules_max"];

/// A value that every configuration with access lists has.
const HAS_LISTS: &str = "acl.memory_mb";

/// Shown for a value that only one of the two configurations has.
const NONE: &str = "none";

impl Settings {
    /// Returns a problem for every difference to `wanted` that needs a restart.
    pub fn refuse_restart(&self, wanted: &Settings) -> Vec<Problem> {
        let (running, wanted) = (self.values(), wanted.values());
        let [of_running, of_wanted] = [&running, &wanted]
            .map(|values| values.iter().cloned().collect::<HashMap<String, String>>());
        let has_lists = |of: &[(String, String)]| of.iter().any(|(key, _)| key == HAS_LISTS);
        let lists = (!has_lists(&running) && has_lists(&wanted)).then(|| Problem {
            place: Place::Whole {},
            key: "acl".to_owned(),
            fault: Fault::NoLists,
        });
        let new = wanted.iter().map(|(key, _)| key);
        let gone = running.iter().map(|(key, _)| key).filter(|key| !of_wanted.contains_key(*key));
        let value = |of: &HashMap<String, String>, key: &str| {
            of.get(key).cloned().unwrap_or_else(|| NONE.to_owned())
        };
        let fault = |key: &String| {
            let (running, wanted) = (value(&of_running, key), value(&of_wanted, key));
            let is_of_start = OF_START.contains(&key.as_str())
                && [&of_running, &of_wanted].iter().all(|values| values.contains_key(key));
            (running != wanted && (is_of_start || !may_change(key))).then(|| Problem {
                place: Place::Whole {},
                key: key.clone(),
                fault: Fault::TakesRestart { wanted, running },
            })
        };
        new.chain(gone).filter_map(fault).chain(lists).collect()
    }
}

fn may_change(key: &str) -> bool {
    let section = key.split(['.', '[']).next().unwrap_or_default();
    SECTIONS.contains(&section) || VALUES.contains(&key)
}

#[cfg(test)]
mod tests {
    use crate::plan::{Plan, Settings};
    use crate::{Config, Problem};
    use doctor::host::Cpus;

    const EVERY_KEY: &str = include_str!("../every_key.toml");
    const PAIR: &str = "[[pair]]\na = \"net_null0\"\nb = \"net_null1\"\n";

    fn settings(text: &str) -> Settings {
        let cpus: Vec<u32> = (0..64).collect();
        let cpus = Cpus { online: cpus.clone(), allowed: cpus, ..Cpus::default() };
        Plan::new(Config::read(text), &cpus).expect("a plan").settings
    }

    fn refused(running: &str, wanted: &str) -> Vec<String> {
        let problems = settings(running).refuse_restart(&settings(wanted));
        let said = |Problem { key, fault, .. }: &Problem| format!("{key}: {fault}");
        problems.iter().map(said).collect()
    }

    #[test]
    fn what_zones_hold_may_change() {
        let more = "table.when_full = \"drop\"\npolicy.tcp = \"liberal\"\n\
            policy.pick_up = \"strict\"\ntimeouts.udp_first = 1\n";
        let zones = "[[timeout_policy]]\nname = \"dns\"\n[[zone]]\nids = [1]\n\
                     [[mark]]\nset_mark = \"1\"\n";
        let wanted = format!("{more}{PAIR}{zones}");
        assert!(refused(PAIR, &wanted).is_empty() && refused(&wanted, PAIR).is_empty());
    }

    #[test]
    fn all_else_is_refused_by_name() {
        let pair = PAIR.replace("net_null1", "net_null2");
        let wanted =
            format!("{pair}zone = 7\n[[zone_rule]]\nzone = 3\n[control]\nsocket = \"off\"\n");
        let takes = " needs a restart; the instance runs with ";
        let expected = [
            format!("pair[0].b: \"net_null2\"{takes}\"net_null1\""),
            format!("pair[0].zone: 7{takes}none"),
            format!("zone_rule[0].zone: 3{takes}none"),
            format!("control.socket: \"off\"{takes}\"auto\""),
        ];
        assert_eq!(refused(PAIR, &wanted), expected);
        let gone = refused(&wanted, PAIR);
        let expected = [("pair[0].zone", 7), ("zone_rule[0].zone", 3)]
            .map(|(key, zone)| format!("{key}: none{takes}{zone}"));
        assert_eq!(gone[gone.len() - 2..], expected);
    }

    #[test]
    fn what_ports_read_at_the_start_needs_a_restart() {
        let of = |rules: u32| format!("{PAIR}[acl]\nnic_rules_max = {rules}\n");
        let expected = ["acl.nic_rules_max: 8 needs a restart; the instance runs with 9"];
        assert_eq!(refused(&of(9), &of(8)), expected);
        assert_eq!(refused(&of(9), PAIR), [""; 0]);
    }

    #[test]
    fn a_configuration_is_no_change_to_itself() {
        assert_eq!(refused(EVERY_KEY, EVERY_KEY), [""; 0]);
    }
}
