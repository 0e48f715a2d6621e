// SPDX-License-Identifier: BSD-3-Clause

use super::*;
use std::collections::BTreeSet;
use toml::de::{DeTable, DeValue};

const EVERY_KEY: &str = include_str!("every_key.toml");

/// Returns `line:column key` of every problem.
fn places(text: &str) -> Vec<String> {
    let problems = Config::read(text).problems;
    let place = |problem: &Problem| match problem.place {
        Place::File { line, column } => format!("{line}:{column} {}", problem.key),
        other => format!("{other} {}", problem.key),
    };
    problems.iter().map(place).collect()
}

fn faults(text: &str) -> Vec<Fault> {
    Config::read(text).problems.into_iter().map(|problem| problem.fault).collect()
}

#[test]
fn every_key_is_read() {
    let config = Config::read(EVERY_KEY);
    assert!(config.problems.is_empty(), "{:?}", config.problems);
    let value = |written: &Option<Located<u32>>| written.as_ref().map(|written| written.value);
    assert_eq!(config.eal.huge.map(|huge| huge.value), Some(Huge::No));
    assert_eq!(value(&config.eal.memory_mb), Some(1024));
    assert_eq!(value(&config.eal.mbufs), Some(65_536));
    assert_eq!(config.eal.extra.unwrap().value, ["--single-file-segments", "é"]);
    assert_eq!(config.pairs.len(), 2);
    let pair = &config.pairs[0];
    assert_eq!(pair.b.as_ref().unwrap().value.to_string(), "0000:18:00.3");
    assert_eq!(pair.b.as_ref().unwrap().place, Place::File { line: 11, column: 5 });
    let workers = &pair.workers.as_ref().unwrap().value;
    assert_eq!(workers.iter().map(|worker| worker.value).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(workers[1].place, Place::File { line: 12, column: 15 });
    assert!(config.pairs[1].workers.is_none());
    assert_eq!(value(&config.table.capacity), Some(2_097_152));
    assert_eq!(config.table.when_full.unwrap().value, WhenFull::Drop);
    assert_eq!(config.policy.malformed.unwrap().value, MalformedPackets::Drop);
    let offload = &config.offload;
    assert_eq!(offload.policy.as_ref().map(|policy| policy.value), Some(Policy::After(8)));
    assert_eq!(offload.check.as_ref().map(|check| check.value), Some(sampled(16)));
    assert_eq!((value(&offload.rules_max), value(&offload.quarantine_ms)), (Some(7680), Some(20)));
    assert_eq!(offload.api.as_ref().map(|api| api.value), Some(RuleApi::Sync));
    assert_eq!(config.timeouts.icmp_first.unwrap().value, 0.25);
    assert_eq!((value(&config.limits.source_max), config.timeout_policies.len()), (Some(1000), 2));
    let zone = &config.zones[0];
    assert_eq!(zone.ids.as_ref().unwrap().value[1].value, 8);
    assert_eq!(value(&zone.connections_max), Some(10_000));
    assert_eq!(zone.timeouts.as_ref().unwrap().value, "short");
    let mark = &config.marks[0];
    assert_eq!(mark.proto.as_ref().map(|proto| proto.value), Some(6));
    assert_eq!(mark.set_mark.as_ref().unwrap().value.to_string(), "0x10/0xf0");
    assert!(mark.set_label.is_some() && config.marks[1].set_label.is_none());
}

#[test]
fn all_faults_are_reported_at_once_and_in_order() {
    let text = r#"[table]
capcity = 5
capacity_ipv6 = 0
when_full = "pass-untraked"
zone = 3
[[pair]]
a = "18:00"
workers = [0, "1", 5000]
[[pair]]
a = ""
b = 7
workers = []
rx_descriptors = 1.5
[timeouts]
udp_first = -1
tcp_close = "2 s"
icmp_reply = nan
[policies]
malformed = "pass"
"#;
    let expected = [
        "2:1 table.capcity",
        "3:17 table.capacity_ipv6",
        "4:13 table.when_full",
        "5:8 table.zone",
        "6:1 pair[0].b",
        "7:5 pair[0].a",
        "8:15 pair[0].workers[1]",
        "8:20 pair[0].workers[2]",
        "10:5 pair[1].a",
        "11:5 pair[1].b",
        "12:11 pair[1].workers",
        "13:18 pair[1].rx_descriptors",
        "15:13 timeouts.udp_first",
        "16:13 timeouts.tcp_close",
        "17:14 timeouts.icmp_reply",
        "18:2 policies",
    ];
    assert_eq!(places(text), expected);
}

#[test]
fn faults_name_the_nearest_word() {
    let unknown = |text| match &faults(text)[..] {
        [Fault::UnknownKey { nearest, .. }] => *nearest,
        other => panic!("{other:?}"),
    };
    assert_eq!(unknown("[table]\ncapcity = 5"), Some("capacity"));
    assert_eq!(unknown("[table]\nCapacity-IPv6 = 5"), Some("capacity_ipv6"));
    assert_eq!(unknown("[tabel]"), Some("table"));
    assert_eq!(unknown("[timeouts]\ntcp_syn_send = 5"), Some("tcp_syn_sent"));
    assert_eq!(unknown("[table]\nbanana = 5"), None);
    let choice = |text| match &faults(text)[..] {
        [Fault::NotAChoice { nearest, .. }] => *nearest,
        other => panic!("{other:?}"),
    };
    assert_eq!(choice("[table]\nzone = \"outer_vlan\""), Some("\"outer-vlan\""));
    assert_eq!(choice("[eal]\nhuge = \"true\""), Some("true"));
    assert_eq!(choice("[eal]\nhuge = 1"), None);
}

#[test]
fn one_fault_reads_as_a_sentence() {
    let text = "[table]\ncapcity = 5\ncapacity = 0\n";
    let problems = Problems { file: "m.toml".to_owned(), list: Config::read(text).problems };
    assert_eq!(
        problems.to_string(),
        "m.toml:2:1: table.capcity: no such key; nearest: capacity (of capacity, capacity_ipv6, \
         labels, when_full, zone)\n\
         m.toml:3:12: table.capacity: 0 is out of range: must be 1 to 268435456"
    );
}

#[test]
fn what_a_file_says_cannot_break_a_line() {
    let text = "\"a\\nb c d\" = 1\n[table]\nzone = \"\\u001b[2J\"\n[eal]\nhuge = [1,\n2]\n";
    let problems = Problems { file: "m.toml".to_owned(), list: Config::read(text).problems };
    assert_eq!(
        problems.to_string(),
        "m.toml:1:1: a\\nb c d: no such key; allowed: eal, pair, table, policy, limits, fragments, \
         timeouts, timeout_policy, zone, zone_rule, mark, acl, set, list, offload, control, \
         snapshot\n\
         m.toml:3:8: table.zone: \"\\u{1b}[2J\" is not a valid value; allowed: \"none\", \
         \"outer-vlan\", \"inner-vlan\"\n\
         m.toml:5:8: eal.huge: [1,\\n2] is not a valid value; allowed: \"auto\", true, false"
    );
}

#[test]
fn limits_are_within_the_range_and_their_neighbours_are_not() {
    let cases = [
        (
            "table",
            "capacity",
            ["0", "268_435_457", "99999999999999999999", "-1"],
            ["1", "0x1000_0000"],
        ),
        ("eal", "memory_mb", ["15", "1048577", "-16", "0x7fffffffffffffff"], ["16", "1048576"]),
        ("eal", "mbuf_data_bytes", ["63", "16385", "65600", "-64"], ["64", "16384"]),
        ("timeouts", "udp_first", ["0", "0.0009", "2592000.1", "inf"], ["0.001", "2592000"]),
    ];
    for (section, key, wrong, right) in cases {
        let faults = |value| faults(&format!("[{section}]\n{key} = {value}\n"));
        for value in wrong {
            let found = faults(value);
            assert!(matches!(&found[..], [Fault::OutOfRange { .. }]), "{key} {value}: {found:?}");
        }
        for value in right {
            assert_eq!(faults(value), [], "{key} {value}");
        }
    }
}

#[test]
fn text_that_is_no_toml_gives_only_syntax_faults() {
    let twice = "[table]\ncapacity = 1\ncapacity = 2\nwrong = 3\n";
    assert_eq!(places(twice), ["3:1 "]);
    assert_eq!(faults(twice), [Fault::Syntax("duplicate key (capacity)".to_owned())]);
    assert_eq!(places("[pair]\n[[pair]]\n").len(), 1);
    assert_eq!(places("x = \n[table\n").len(), 2);
}

#[test]
fn what_offload_does_not_understand_is_reported_with_its_place() {
    let text = "[offload]\npolicy = \"after eight\"\ncheck = \"2/3\"\nrules_max = 0\n";
    let problems = Problems { file: "m.toml".to_owned(), list: Config::read(text).problems };
    assert_eq!(
        problems.to_string(),
        "m.toml:2:10: offload.policy: \"after eight\" is not a policy; write \"off\", \
         \"measured\", \"all\", \"after N\" (N packets), or \"rate > N\" (N packets per second), \
         with N of at least 1\n\
         m.toml:3:9: offload.check: \"2/3\" is not a value of check; write \"always\", or \
         \"1/N\" (one packet of N)\n\
         m.toml:4:13: offload.rules_max: 0 is out of range: must be 1 to 16777216"
    );
    assert_eq!(places("[offload]\npolicy = 8\n"), ["2:10 offload.policy"]);
}

#[test]
fn tables_and_lists_are_not_mistaken_for_each_other() {
    assert_eq!(places("[pair]\na = \"net_null0\"\n"), ["1:1 pair"]);
    assert_eq!(places("[[table]]\ncapacity = 5\n"), ["1:1 table"]);
    assert_eq!(places("pair = [1]\neal = 3\n"), ["1:9 pair[0]", "2:7 eal"]);
    assert_eq!(places("[eal]\nextra = \"-v\"\n"), ["2:9 eal.extra"]);
    assert_eq!(places("[eal]\nextra = [\"-v\", 1]\n"), ["2:16 eal.extra[1]"]);
}

/// Returns the full names of all keys of a text; `None` if it is no TOML.
fn keys(text: &str) -> Option<BTreeSet<String>> {
    fn collect(path: &str, table: &DeTable, keys: &mut BTreeSet<String>) {
        for (key, value) in table {
            let path = format!("{path}.{}", key.get_ref());
            match value.get_ref() {
                DeValue::Table(table) => collect(&path, table, keys),
                DeValue::Array(items) => {
                    for (index, item) in items.iter().enumerate() {
                        if let DeValue::Table(table) = item.get_ref() {
                            collect(&format!("{path}[{index}]"), table, keys);
                        }
                    }
                }
                _ => {}
            }
            keys.insert(path);
        }
    }
    let table = DeTable::parse(text).ok()?;
    let mut keys = BTreeSet::new();
    collect("", table.get_ref(), &mut keys);
    Some(keys)
}

/// Returns all texts with one typing error: a character lost, doubled, swapped with the next or
/// replaced.
fn typing_errors(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let with = |edit: &dyn Fn(&mut Vec<char>)| {
        let mut edited = characters.clone();
        edit(&mut edited);
        edited.into_iter().collect::<String>()
    };
    let mut texts = Vec::new();
    for at in 0..characters.len() {
        texts.push(with(&|text| {
            text.remove(at);
        }));
        texts.push(with(&|text| text.insert(at, text[at])));
        texts.push(with(&|text| {
            let next = (at + 1).min(text.len() - 1);
            text.swap(at, next);
        }));
        for replacement in ['a', 'z', '_', '-', '.', '0', ' ', '"', '[', '=', '\n', 'E'] {
            texts.push(with(&|text| text[at] = replacement));
            texts.push(with(&|text| text.insert(at, replacement)));
        }
    }
    texts
}

#[test]
fn no_typing_error_changes_a_key_unnoticed() {
    let right = keys(EVERY_KEY).unwrap();
    let mut changed_keys = 0;
    let mut tried = 0;
    // All of them take long, since each is a whole file. 8 has no divisor in common with the number
    // of kinds of errors, so that each kind is tried.
    let step = testkit::sized(8, 1) as usize;
    for text in typing_errors(EVERY_KEY).into_iter().step_by(step) {
        tried += 1;
        let problems = Config::read(&text).problems;
        match keys(&text) {
            None => assert!(!problems.is_empty(), "no TOML, yet accepted: {text}"),
            Some(keys) if keys != right => {
                changed_keys += 1;
                assert!(!problems.is_empty(), "keys differ, yet accepted: {text}");
            }
            Some(_) => {}
        }
    }
    assert!(tried > 10_000 / step && changed_keys > 1_000 / step, "{changed_keys} of {tried}");
}
