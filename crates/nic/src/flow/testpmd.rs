// SPDX-License-Identifier: BSD-3-Clause
//! Reads the examples of testpmd's guides, and every item and action that testpmd has.

use super::{help, parse, print_rule};
use crate::flow::Command;

const GUIDES: [&str; 2] =
    [include_str!("testpmd/guide-22.11.flow"), include_str!("testpmd/guide-24.11.flow")];
const WORDS: &str = include_str!("testpmd/words.txt");

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.starts_with('#'))
}

/// A line is a whole command, or ends in `[...]` and only misses its end.
#[test]
fn every_line_of_the_guides_is_read() {
    let mut count = 0;
    for line in GUIDES.iter().flat_map(|guide| lines(guide)) {
        let (command, is_whole) = match line.strip_suffix(" [...]") {
            Some(beginning) => (beginning, false),
            None => (line, true),
        };
        match parse(command, 8) {
            Ok(Some(_)) => assert!(is_whole, "{line}"),
            Ok(None) => panic!("{line:?} is empty"),
            Err(error) => {
                assert!(!is_whole && error.place.is_empty(), "{line}: {}", error.message());
            }
        }
        count += 1;
    }
    assert!(count > 200, "{count} lines");
}

/// What the shell prints of the guides' rules is read as the same rules.
#[test]
fn rules_of_the_guides_are_printed_and_read_again() {
    let rule_of = |line: &str| match parse(line, 8) {
        Ok(Some(Command::Create { rule, .. } | Command::Validate { rule, .. })) => Some(rule),
        _ => None,
    };
    let mut count = 0;
    for line in GUIDES.iter().flat_map(|guide| lines(guide)) {
        let Some(rule) = rule_of(line) else { continue };
        let text = format!("flow create 0 {}", print_rule(&rule));
        assert_eq!(rule_of(&text), Some(rule), "{line}\n{text}");
        count += 1;
    }
    assert!(count > 100, "{count} rules");
}

#[test]
fn every_item_and_action_of_testpmd_is_a_word_with_help() {
    let mut count = 0;
    for line in lines(WORDS) {
        let words: Vec<_> = line.split(' ').collect();
        let [_, kind, word] = words[..] else { panic!("{line}") };
        let needed = match word {
            "conntrack" | "pppoe_proto_id" if kind == "item" => "is 1",
            "indirect" => "1",
            "shared_indirect" => "0 1",
            _ => "",
        };
        let rule = match kind {
            "item" => format!("pattern {word} {needed} / end actions end"),
            _ => format!("pattern end actions {word} {needed} / end"),
        };
        if let Err(error) = parse(&format!("flow create 0 {rule}"), 8) {
            panic!("{line}: {}", error.message());
        }
        let help = help(Some(word)).unwrap_or_else(|| panic!("{line}: no help"));
        assert!(help.iter().any(|line| line.starts_with(kind)), "{word}: {help:?}");
        count += 1;
    }
    assert!(count > 130, "{count} words");
}

/// Commands that the shell does not carry out are answered with the reason, not as errors.
#[test]
fn other_commands_of_testpmd_are_read() {
    for line in [
        "start",
        "set fwd io",
        "port stop 0",
        "show port summary all",
        "show fwd stats all",
        "set promisc all off",
        "flow configure 0 queues_number 1 queues_size 64",
        "flow tunnel create 0 type vxlan",
        "flow queue 0 create 0 template_table 0 pattern_template 0",
    ] {
        match parse(line, 8) {
            Ok(Some(Command::NotHere { name, reason })) => {
                assert!(line.starts_with(&name), "{line}: {name}");
                assert!(reason.contains("shell") || reason.contains("DPDK"), "{line}: {reason}");
            }
            other => panic!("{line}: {other:?}"),
        }
    }
}
