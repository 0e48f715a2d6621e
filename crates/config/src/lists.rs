// SPDX-License-Identifier: BSD-3-Clause
//! Reads `[acl]`, `[[set]]` and `[[list]]`: access lists and the sets of networks that they name.

use super::problem::{Fault, Located, Place};
use super::section::Section;
use super::{Choices, YES_OR_NO};
use acl::Action;
use engine::{ListDirection, Side};

/// `[acl]`: settings of all access lists.
#[derive(Default)]
pub(crate) struct Acl {
    pub(crate) new_from: Option<Located<Side>>,
    pub(crate) memory_mb: Option<Located<u32>>,
    pub(crate) nic_rules_max: Option<Located<u32>>,
    pub(crate) rejects_per_second: Option<Located<u32>>,
    pub(crate) logs_per_second: Option<Located<u32>>,
    pub(crate) recall_ms: Option<Located<u32>>,
    pub(crate) nic_drop: Option<Located<bool>>,
}

/// A `[[set]]`: networks under one name.
pub(crate) struct Set {
    /// `None` only if there is a problem.
    pub(crate) name: Option<Located<String>>,
    pub(crate) networks: Option<Located<Vec<String>>>,
    pub(crate) file: Option<Located<String>>,
}

/// A `[[list]]`: rules, and the port whose packets they judge.
pub(crate) struct List {
    /// `None` only if there is a problem.
    pub(crate) name: Option<Located<String>>,
    /// Index of the pair; all pairs if it is missing.
    pub(crate) pair: Option<Located<u32>>,
    pub(crate) port: Option<Located<Side>>,
    pub(crate) direction: Option<Located<ListDirection>>,
    pub(crate) kind: Option<Located<ListKind>>,
    pub(crate) default: Option<Located<Action>>,
    /// Rules as text, a rule on each line.
    pub(crate) rules: Option<Located<String>>,
    /// File with such text.
    pub(crate) file: Option<Located<String>>,
    /// `[[list.rule]]`.
    pub(crate) rule_tables: Vec<RuleTable>,
}

/// Which packets a list judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// IP packets.
    Ip,
    /// Frames that are not IP.
    Ethernet,
}

/// A `[[list.rule]]`.
pub(crate) struct RuleTable {
    pub(crate) place: Place,
    /// `None` only if there is a problem.
    pub(crate) action: Option<Located<String>>,
    pub(crate) family: Option<Located<String>>,
    pub(crate) log: Option<Located<bool>>,
    pub(crate) no_offload: Option<Located<bool>>,
    /// `set_mark` and `set_label`, as far as they are written.
    pub(crate) marks: Vec<(&'static str, Located<String>)>,
    /// The fields that are written, by name.
    pub(crate) fields: Vec<(&'static str, Located<String>)>,
}

/// Fields of a rule, as keys.
const FIELDS: [&str; 15] = [
    "src",
    "dst",
    "proto",
    "sport",
    "dport",
    "icmp_type",
    "icmp_code",
    "tcp_flags",
    "fragment",
    "zone",
    "ct",
    "mark",
    "ether_type",
    "src_mac",
    "dst_mac",
];

pub(crate) const PORT: &Choices<Side> =
    &[("\"a\"", Side::A), ("\"b\"", Side::B), ("\"A\"", Side::A), ("\"B\"", Side::B)];
pub(crate) const DIRECTION: &Choices<ListDirection> =
    &[("\"in\"", ListDirection::In), ("\"out\"", ListDirection::Out)];
pub(crate) const KIND: &Choices<ListKind> =
    &[("\"ip\"", ListKind::Ip), ("\"ethernet\"", ListKind::Ethernet)];
pub(crate) const DEFAULT_ACTION: &Choices<Action> =
    &[("\"deny\"", Action::Deny), ("\"permit\"", Action::Permit), ("\"reject\"", Action::Reject)];

impl Acl {
    pub(super) fn read(section: Section) -> Self {
        let acl = Self {
            new_from: section.choice("new_from", PORT),
            memory_mb: section.integer("memory_mb", 1..=1 << 16),
            nic_rules_max: section.integer("nic_rules_max", 0..=1 << 16),
            rejects_per_second: section.integer("rejects_per_second", 0..=1_000_000),
            logs_per_second: section.integer("logs_per_second", 0..=1_000_000),
            recall_ms: section.integer("recall_ms", 0..=60_000),
            nic_drop: section.choice("nic_drop", YES_OR_NO),
        };
        section.end();
        acl
    }
}

impl Set {
    pub(super) fn read(section: Section) -> Self {
        section.one_of(["networks", "file"], Fault::MissingNetworks);
        let set = Self {
            name: section.named("name", Fault::MissingListName),
            networks: section.strings("networks"),
            file: section.text("file"),
        };
        section.end();
        set
    }
}

impl List {
    pub(super) fn read(section: Section) -> Self {
        let list = Self {
            name: section.named("name", Fault::MissingListName),
            pair: section.integer("pair", 0..=1023),
            port: section.choice("port", PORT),
            direction: section.choice("direction", DIRECTION),
            kind: section.choice("kind", KIND),
            default: section.choice("default", DEFAULT_ACTION),
            rules: section.text("rules"),
            file: section.text("file"),
            rule_tables: section.sections("rule").into_iter().map(RuleTable::read).collect(),
        };
        section.end();
        list
    }
}

impl RuleTable {
    fn read(section: Section) -> Self {
        let field = |name: &&'static str| Some((*name, section.words(name)?));
        let rule = Self {
            place: section.place(),
            action: section.named("action", Fault::MissingAction),
            family: section.text("family"),
            log: section.choice("log", YES_OR_NO),
            no_offload: section.choice("no_offload", YES_OR_NO),
            marks: ["set_mark", "set_label"].iter().filter_map(field).collect(),
            fields: FIELDS.iter().filter_map(field).collect(),
        };
        section.end();
        rule
    }
}
