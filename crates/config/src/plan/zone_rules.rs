// SPDX-License-Identifier: BSD-3-Clause
//! Plans the rules that assign zones to packets.

use super::Settings;
use crate::{Fault, Place, Problem};
use engine::{EndpointMatch, Prefix, ZoneRule};
use wire::proto_names;

/// Returns the rules of a configuration, or all problems.
pub(super) fn plan_zone_rules(
    rules: Vec<crate::ZoneRule>,
    settings: &mut Settings,
) -> Result<Vec<ZoneRule>, Vec<Problem>> {
    let (found, most) = (rules.len(), ZoneRule::MAX);
    if found > most {
        let (key, fault) = ("zone_rule".to_owned(), Fault::TooManyZoneRules { found, most });
        return Err(vec![Problem { place: Place::Whole {}, key, fault }]);
    }
    let problems: Vec<_> = (0..).zip(&rules).filter_map(two_versions).collect();
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(rules.into_iter().filter_map(|rule| plan_zone_rule(rule, settings)).collect())
}

fn two_versions((index, rule): (u32, &crate::ZoneRule)) -> Option<Problem> {
    let (address, peer) = (rule.address.as_ref()?, rule.peer_address.as_ref()?);
    let key = format!("zone_rule[{index}].peer_address");
    let differ = address.value.is_ipv4() != peer.value.is_ipv4();
    differ.then_some(Problem { place: peer.place, key, fault: Fault::TwoVersions })
}

/// Returns a rule; `None` if it has no zone, which is already a problem.
fn plan_zone_rule(rule: crate::ZoneRule, settings: &mut Settings) -> Option<ZoneRule> {
    settings.open_element("zone_rule");
    let text = |prefix: &Prefix| prefix.to_string();
    Some(ZoneRule {
        from: rule.from.map(|zone| settings.require("from", zone)),
        proto: settings.take_text("proto", rule.proto, |proto| proto_names::name(*proto)),
        end: EndpointMatch {
            address: settings.take_text("address", rule.address, text),
            port: rule.port.map(|port| settings.require("port", port)),
        },
        peer: EndpointMatch {
            address: settings.take_text("peer_address", rule.peer_address, text),
            port: rule.peer_port.map(|port| settings.require("peer_port", port)),
        },
        zone: settings.require("zone", rule.zone?),
    })
}

#[cfg(test)]
mod tests {
    use crate::plan::tests::{PAIR, faults, plan};
    use engine::{EndpointMatch, ZoneRule};

    #[test]
    fn each_section_is_a_rule_and_is_shown_as_it_was_written() {
        let sections = "[[zone_rule]]\nzone = 7\n\
             [[zone_rule]]\nfrom = 3\nproto = \"udp\"\naddress = \"10.0.0.0/8\"\nport = 53\n\
             peer_address = \"10.0.0.1\"\npeer_port = 2\nzone = 65535\n";
        let end = |net: &str, port| EndpointMatch { address: net.parse().ok(), port: Some(port) };
        let (from, proto, any) = (None, None, EndpointMatch::default());
        let all = ZoneRule { from, proto, end: any, peer: any, zone: 7 };
        let some = ZoneRule {
            from: Some(3),
            proto: Some(17),
            end: end("10.0.0.0/8", 53),
            peer: end("10.0.0.1", 2),
            zone: 65_535,
        };
        let planned = plan(&format!("{PAIR}{sections}")).unwrap();
        assert_eq!(planned.engine.zone_rules, [all, some]);
        let shown = planned.settings.to_string();
        assert_eq!(plan(&shown).unwrap().engine.zone_rules, [all, some]);
    }

    #[test]
    fn what_is_no_rule_is_reported() {
        let told = |rest: &str| faults(&format!("{PAIR}{rest}")).join("\n");
        assert_eq!(
            told("[[zone_rule]]\nproto = \"udp\"\n"),
            "zone_rule[0].zone: missing; give the zone for packets that match"
        );
        assert_eq!(
            told("[[zone_rule]]\nzone = 1\naddress = \"10.0.0.1\"\npeer_address = \"::/0\"\n"),
            "zone_rule[0].peer_address: not of the IP version of address: no packet has both"
        );
        assert_eq!(
            told(&"[[zone_rule]]\nzone = 1\n".repeat(ZoneRule::MAX + 1)),
            "zone_rule: there are 257 sections [[zone_rule]]; at most 256 are allowed"
        );
        for (key, value, says) in [
            ("zone", "65536", "0 to 65535"),
            ("from", "-1", "0 to 65535"),
            ("proto", "\"ip\"", "write tcp, udp,"),
            ("peer_address", "\"10/8\"", "write ADDRESS or ADDRESS/LENGTH"),
            ("port", "\"53\"", "a whole number"),
            ("src", "\"10.0.0.1\"", "no such key"),
        ] {
            let found = told(&format!("[[zone_rule]]\n{key} = {value}\n"));
            let key = format!("zone_rule[0].{key}: ");
            assert!(found.contains(&key) && found.contains(says), "{found}");
        }
    }
}
