// SPDX-License-Identifier: BSD-3-Clause
//! Lists the cases of access lists: the load of the VPP article, 20,000 UDP flows of 64 bytes,
//! without list, with lists of 1 to 10,000 rules, and with their rules in the NIC.

use crate::captures::Traffic;
use crate::cases::{Case, Load, NicRules, PacketSource, SHORT_TUPLES, Threshold};
use engine::Tracking;
use traffic::access_rules;

/// An access list for the packets that arrive at the port of the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RuleList {
    pub(crate) rules: u32,
    /// True if the NIC may have its rules.
    pub(crate) is_in_nic: bool,
    /// True if it is reloaded again and again.
    pub(crate) is_reloaded: bool,
}

/// The line before the first rule in a configuration.
const OPENING: &str = "rules = \"\"\"\n";

const FLOWS: u32 = 20_000;
const MANY_FLOWS: u32 = 1_000_000;

impl RuleList {
    /// Returns the list as a configuration. No packet matches a rule but the last, which reflects
    /// its connection.
    pub(crate) fn configuration(self) -> String {
        let nic_rules_max = if self.is_in_nic { 2048 } else { 0 };
        let mut text = format!(
            "[acl]\nnic_rules_max = {nic_rules_max}\n\
             [[list]]\nname = \"bench\"\nport = \"a\"\n{OPENING}"
        );
        for rule in access_rules(self.rules) {
            text += &rule;
            text.push('\n');
        }
        text + "\"\"\"\n"
    }
}

/// Returns a configuration whose list has one rule more, that no packet matches.
pub(crate) fn with_another_rule(configuration: &str) -> String {
    configuration.replacen(OPENING, &format!("{OPENING}deny src 192.0.2.1\n"), 1)
}

fn case(name: String, (traffic, group): (Traffic, &str), lists: Option<RuleList>) -> Case {
    let load = match traffic {
        Traffic::ShortTcp(_) => Load::PortReuse,
        _ => Load::Stable,
    };
    let source = PacketSource::Twin { rules: NicRules::None, personality: None };
    let group = format!("lists-{group}");
    Case { name, group, lists, source, ..Case::with_one_worker(traffic, load, vec![]) }
}

fn software(rules: u32) -> Option<RuleList> {
    Some(RuleList { rules, is_in_nic: false, is_reloaded: false })
}

fn at_least(than: &str, must: f64, goal: f64) -> Threshold {
    Threshold::MppsAtLeast { than: vec![than.to_owned()], must, goal: Some(goal) }
}

/// Returns the cases.
pub(crate) fn cases() -> Vec<Case> {
    [tracked(), reloaded(), untracked(), without_states(), marked(), new_connections()].concat()
}

/// Software: established connections, whose decision is stored.
fn tracked() -> Vec<Case> {
    let traffic = (Traffic::OneWay(FLOWS), "tracked");
    let none = case("lists-none-one-way-20k".to_owned(), traffic, None);
    let of_size = |(rules, must, goal): (u32, f64, f64)| {
        let name = format!("lists-{rules}-one-way-20k");
        let mut thresholds = vec![at_least(&none.name, must, goal)];
        if rules > 1 {
            let than = "lists-1-one-way-20k".to_owned();
            thresholds.push(Threshold::CyclesAtMost { than, must: 1.03 });
        }
        Case { thresholds, ..case(name, traffic, software(rules)) }
    };
    let sizes = [(1, 0.8, 0.9), (100, 0.8, 0.9), (10_000, 0.75, 0.88)].map(of_size);
    [none].into_iter().chain(sizes).collect()
}

/// A list that is reloaded all the time, and the same list left alone.
fn reloaded() -> Vec<Case> {
    let traffic = (Traffic::OneWay(FLOWS), "reload");
    let alone = case("lists-10000-alone".to_owned(), traffic, software(10_000));
    let lists = alone.lists.map(|list| RuleList { is_reloaded: true, ..list });
    let name = "lists-10000-reloaded".to_owned();
    let thresholds = vec![at_least(&alone.name, 0.95, 0.99)];
    vec![alone, Case { thresholds, ..case(name, traffic, lists) }]
}

/// Pairs that track nothing: every packet is searched, or decided by its mark. Two groups, because
/// more programs at a time need more hugepages than are reserved.
fn untracked() -> Vec<Case> {
    let name = |way: &str| format!("lists-off-{way}-one-way-20k");
    let off = |way: &str, group, lists| Case {
        tracking: Tracking::Off,
        ..case(name(way), (Traffic::OneWay(FLOWS), group), lists)
    };
    let in_nic = |personality| {
        let lists = software(100).map(|list| RuleList { is_in_nic: true, ..list });
        let rules = NicRules::None;
        Case {
            source: PacketSource::Twin { rules, personality: Some(personality) },
            thresholds: vec![at_least(&name("100"), 1.6, 2.0)],
            ..off(&format!("100-{personality}"), "untracked-nic", lists)
        }
    };
    vec![
        off("none", "untracked", None),
        off("1", "untracked", software(1)),
        off("10000", "untracked", software(10_000)),
        off("100", "untracked-nic", software(100)),
        in_nic("ideal"),
        in_nic("cx5"),
    ]
}

/// Flows without states have records, so marks of flows carry what the list has decided.
fn without_states() -> Vec<Case> {
    let flows = |way: &str| Case {
        tracking: Tracking::Flows,
        ..case(format!("lists-flows-100-{way}"), (Traffic::OneWay(FLOWS), "flows"), software(100))
    };
    let software = flows("software");
    let (rules, personality) = (NicRules::Marks, Some("ideal"));
    let marked = Case {
        source: PacketSource::Twin { rules, personality },
        thresholds: vec![at_least(&software.name, 1.6, 2.0)],
        ..flows("ideal")
    };
    vec![software, marked]
}

/// Connections' own marks, which carry what the list has decided.
fn marked() -> Vec<Case> {
    let of_size = |flows| {
        let size = if flows == FLOWS { "20k" } else { "1m" };
        let traffic = (Traffic::OneWay(flows), size);
        let software = case(format!("lists-100-software-{size}"), traffic, software(100));
        let marked = |personality: &'static str| {
            let threshold = match flows {
                FLOWS => {
                    let than = software.name.clone();
                    Threshold::NetRatioAtLeast { than, must: 2.0, goal: 2.5 }
                }
                _ => at_least(&software.name, 1.5, 2.0),
            };
            let rules = NicRules::Marks;
            Case {
                name: format!("lists-100-{personality}-{size}"),
                source: PacketSource::Twin { rules, personality: Some(personality) },
                thresholds: vec![threshold],
                ..software.clone()
            }
        };
        // A ConnectX-5 has room for 65,536 rules.
        let personalities = if flows == FLOWS { &["ideal", "cx5"][..] } else { &["ideal"] };
        let marked: Vec<_> = personalities.iter().map(|name| marked(name)).collect();
        [software].into_iter().chain(marked)
    };
    [FLOWS, MANY_FLOWS].into_iter().flat_map(of_size).collect()
}

/// Short connections: one search for every eight packets.
fn new_connections() -> Vec<Case> {
    let traffic = (Traffic::ShortTcp(SHORT_TUPLES), "new");
    let none = case("lists-none-short-tcp".to_owned(), traffic, None);
    let one = case("lists-1-short-tcp".to_owned(), traffic, software(1));
    let name = "lists-10000-short-tcp".to_owned();
    let thresholds = vec![at_least(&one.name, 0.8, 0.9)];
    vec![none, one, Case { thresholds, ..case(name, traffic, software(10_000)) }]
}
