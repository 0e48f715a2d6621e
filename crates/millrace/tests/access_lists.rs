// SPDX-License-Identifier: BSD-3-Clause
//! Tests the commands for the access lists of a configuration as a user runs them: their output and
//! their exit status. No instance runs.

use serde_json::{Value, json};
use std::process::{Command, Output};
use testkit::scratch::ScratchFile;

fn acl(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_millrace")).arg("acl").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Writes a configuration with one pair, which is removed when the test ends.
fn write_config(name: &str, lists: &str) -> ScratchFile {
    let text = format!("[[pair]]\na = \"net_null0\"\nb = \"net_null1\"\n{lists}");
    ScratchFile::new(std::env::temp_dir(), &format!("{name}.toml"), text)
}

const SHADOWED: &str = r#"
[[list]]
name = "requests"
port = "a"
default = "deny"
rules = """
deny src 10.0.0.0/8 proto tcp dport 25
permit src 10.1.0.0/16
deny src 10.1.2.0/24 proto udp
permit+reflect src 10.2.0.0/16 proto tcp dport 25
permit src 192.0.2.1
"""
"#;

#[test]
fn check_names_rules_that_never_decide() {
    let config = write_config("shadowed", SHADOWED);
    let output = acl(&["check", config.path()]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    let printed = text(&output.stdout);
    assert!(printed.starts_with(
        "list \"requests\", pair 0: port a in\n  rules: 5; default: deny\n  search: 5 regions, 1 \
         trees, at most 5 steps; memory: "
    ));
    let (_, overlaps) = printed.split_once("memory: ").unwrap();
    let (_, overlaps) = overlaps.split_once('\n').unwrap();
    let expected = [
        "  rule 1 overlaps: permit src 10.1.0.0/16",
        "    rule 0 takes some of its packets: deny src 10.0.0.0/8 proto tcp dport 25",
        "  rule 2 is unreachable: deny src 10.1.2.0/24 proto udp",
        "    rule 1 takes all of its packets: permit src 10.1.0.0/16",
        "  rule 3 is unreachable: permit+reflect src 10.2.0.0/16 proto tcp dport 25",
        "    rule 0 takes all of its packets: deny src 10.0.0.0/8 proto tcp dport 25",
    ];
    assert_eq!(overlaps.lines().collect::<Vec<_>>(), expected);

    let output = acl(&["check", config.path(), "--strict", "--json"]);
    assert_eq!(output.status.code(), Some(1), "rules are unreachable");
    let list = &serde_json::from_slice::<Value>(&output.stdout).unwrap()["lists"][0];
    let numbers = |rows: &Value| {
        let row = |row: &Value| (row["rule"].clone(), row["earlier"].clone());
        rows.as_array().unwrap().iter().map(row).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&list["unreachable"]), [(json!(2), json!(1)), (json!(3), json!(0))]);
    assert_eq!(numbers(&list["overlaps"]), [(json!(1), json!(0))]);
    assert_eq!((&list["rules"], &list["compared"]), (&json!(5), &json!(5)));
}

#[test]
fn check_is_strict_only_about_unreachable_rules() {
    let overlapping = SHADOWED.lines().filter(|line| !line.contains("10.1.2.0"));
    let overlapping = overlapping.filter(|line| !line.contains("reflect"));
    let config = write_config("overlapping", &overlapping.collect::<Vec<_>>().join("\n"));
    let output = acl(&["check", config.path(), "--strict"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output.stdout).contains("rule 1 overlaps"));
    let none = write_config("no_lists", "");
    let output = acl(&["check", none.path(), "--strict"]);
    assert_eq!(text(&output.stdout), "there are no access lists\n");
    let refused = write_config("refused", "[[list]]\nname = \"l\"\nrules = \"permit sort 1\"\n");
    let output = acl(&["check", refused.path(), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let answer = serde_json::from_slice::<Value>(&output.stdout).unwrap();
    assert_eq!(answer["problems"][0]["key"], "list[0].rules");
}
