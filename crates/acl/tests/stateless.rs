// SPDX-License-Identifier: BSD-3-Clause
//! A device that has the stateless rules of a list, earlier ones with a higher priority, decides
//! about TCP and UDP packets by the rule that the list decides by, or not at all.

mod random;

use acl::{Action, Fragment, NotDropped, NotStateless, Search, StatelessRule, stateless_rules};
use proptest::prelude::*;

/// Returns the rule by which the device decides.
fn first_in_device(
    rules: &[Result<StatelessRule, NotStateless>],
    packet: &acl::Packet,
) -> Option<usize> {
    let ports = packet.ports.unwrap_or_default();
    let has = |rule: &StatelessRule| {
        rule.headers
            .iter()
            .any(|header| header.contains([packet.src, packet.dst], packet.proto, ports))
    };
    rules.iter().position(|rule| rule.as_ref().is_ok_and(has))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::sized(100, 2_000)))]

    #[test]
    fn a_device_decides_by_the_rule_of_the_list(
        list in random::list(),
        packets in prop::collection::vec(random::packet(), 60),
    ) {
        let rules = stateless_rules(&list);
        prop_assert_eq!(rules.len(), list.rules.len() + 1);
        let search = Search::new(&list).unwrap();
        for packet in &packets {
            let is_plain = packet.fragment == Fragment::None && [6, 17].contains(&packet.proto);
            let by_device = first_in_device(&rules, packet).filter(|_| is_plain);
            let Some(by_device) = by_device else { continue };
            let found = search.find(packet);
            let by_list = found.rule.map_or(list.rules.len(), |rule| rule as usize);
            prop_assert_eq!(by_device, by_list, "{:?}", packet);
            prop_assert!(!found.varies);
            // Whatever else matches comes before or after it, and is known to.
            for (index, rule) in rules.iter().enumerate() {
                let matches = first_in_device(std::slice::from_ref(rule), packet).is_some();
                if let (true, Ok(rule)) = (matches && index > by_device, rule) {
                    prop_assert!(rule.after.contains(&(by_device as u32)));
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::sized(200, 4_000)))]

    /// A device may have any of the rules that drop whole packets, in any order, and find or miss
    /// any header of other rules: the list denies each packet of one, and no rule that counts or
    /// logs sees it.
    #[test]
    fn the_list_denies_all_packets_of_a_rule_that_drops(
        list in random::list(),
        packets in prop::collection::vec(random::packet(), 60),
    ) {
        let rules = stateless_rules(&list);
        let search = Search::new(&list).unwrap();
        for packet in packets.iter().filter(|packet| packet.fragment == Fragment::None) {
            for rule in rules.iter().flatten().filter(|rule| rule.drop.is_ok()) {
                if first_in_device(&[Ok(rule.clone())], packet).is_none() {
                    continue;
                }
                let found = search.find(packet);
                let decides = found.rule.map_or(list.rules.len(), |rule| rule as usize);
                prop_assert_eq!(list.action(found.rule), Action::Deny, "{:?}", packet);
                let has_seen = &list.rules[..(decides + 1).min(list.rules.len())];
                let matching = has_seen.iter().filter(|rule| rule.criteria.matches(packet));
                for rule in matching {
                    prop_assert!(!rule.options.log && rule.action == Action::Deny, "{}", rule);
                }
            }
        }
    }
}

#[test]
fn reasons_not_to_drop_name_the_rule() {
    let rules = [
        "deny src 10.0.0.1",
        "deny src 10.0.0.0/24 proto udp",
        "permit proto icmp src 192.0.2.0/24",
        "deny src 192.0.2.1",
        "deny src 192.0.2.1 proto tcp",
        "deny log src 203.0.113.1",
        "reject src 203.0.113.2",
        "deny src 203.0.113.0/24 proto tcp dport 80",
        "permit src 198.51.100.0/24",
    ];
    let rules = rules.map(|text| acl::parse_rule(text, &|_| None).unwrap()).to_vec();
    let list = acl::AccessList { name: "l".into(), rules, default: Action::Deny };
    let reasons = stateless_rules(&list).into_iter().map(|rule| rule.map(|rule| rule.drop));
    let expected = [
        Ok(Ok(())),
        Ok(Ok(())),
        Err(NotStateless::OtherProtocols),
        Ok(Err(NotDropped::Follows(2))),
        Ok(Ok(())),
        Ok(Err(NotDropped::Logs)),
        Ok(Err(NotDropped::Action)),
        Ok(Err(NotDropped::Follows(5))),
        Ok(Err(NotDropped::Action)),
        Ok(Err(NotDropped::Follows(2))),
    ];
    assert_eq!(reasons.collect::<Vec<_>>(), expected);
}

#[test]
fn reasons_name_the_rule_and_the_field() {
    let rules = [
        "permit src 10.0.0.0/8 proto tcp dport 80",
        "permit ct established",
        "deny proto icmp",
        "deny src 10.0.0.1",
        "deny src 192.0.2.1 proto udp sport 1-65534",
        "count",
    ];
    let rules = rules.map(|text| acl::parse_rule(text, &|_| None).unwrap()).to_vec();
    let list = acl::AccessList { name: "l".into(), rules, default: acl::Action::Deny };
    let reasons: Vec<_> = stateless_rules(&list).into_iter().map(Result::err).collect();
    let expected = [
        None,
        Some(NotStateless::Names("states of connections")),
        Some(NotStateless::OtherProtocols),
        Some(NotStateless::Follows(1)),
        Some(NotStateless::Follows(1)),
        Some(NotStateless::Counts),
        Some(NotStateless::Follows(1)),
    ];
    assert_eq!(reasons, expected);
}
