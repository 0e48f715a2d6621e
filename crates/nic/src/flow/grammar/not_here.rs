// SPDX-License-Identifier: BSD-3-Clause
//! Reads commands of testpmd that this shell does not carry out, and says what to use instead.

use super::Command;
use crate::flow::reader::Reader;

/// First words of commands, and why the shell does not carry them out.
type NotHere = (&'static str, &'static str);

const TEMPLATES: &str = "the shell makes one rule at a time, without templates and rule queues: \
                         use `flow create`; `millrace nic probe` measures rules by templates";
const TUNNELS: &str = "the shell has no tunnel offload (`rte_flow_tunnel`): match the tunnel's \
                       headers in the pattern";
const FLEX: &str = "the shell creates no flex items: match bytes with the item `raw`";
const GROUPS: &str = "DPDK sets the actions of a missed group for rules by templates only: make \
                      a rule of low priority in the group instead";
const HASH: &str = "the shell has no template tables, whose hashes these are";
const LISTS: &str = "the shell creates single indirect actions: \
                     `flow indirect_action PORT create action ACTION / end`";
const NO_TRAFFIC: &str = "the shell moves no packets: `millrace run` forwards, `millrace gen` \
                          sends, and `flow query PORT RULE count` shows the packets that a rule \
                          has matched";
const PORTS: &str = "the shell starts its ports itself and keeps them so: see `millrace nic flow \
                     --help` for queues and personalities";
const METERS: &str = "the shell creates no meters: limit rates in the switch before the port";
const SHOWN: &str = "the shell shows ports (`show port info|stats|fdir PORT`) and rules (`flow \
                     list PORT`, `flow query PORT RULE count`)";
const SETTINGS: &str = "the shell sets only what actions of rules refer to: see `help set`";

const FLOW: [NotHere; 11] = [
    ("configure", TEMPLATES),
    ("pattern_template", TEMPLATES),
    ("actions_template", TEMPLATES),
    ("template_table", TEMPLATES),
    ("queue", TEMPLATES),
    ("push", TEMPLATES),
    ("pull", TEMPLATES),
    ("tunnel", TUNNELS),
    ("flex_item", FLEX),
    ("group", GROUPS),
    ("hash", HASH),
];

const INDIRECT: [NotHere; 3] = [("list", LISTS), ("flow_conf", LISTS), ("query_update", LISTS)];

/// Commands that are not of `flow`.
const NOT_HERE: [NotHere; 21] = [
    ("start", NO_TRAFFIC),
    ("stop", NO_TRAFFIC),
    ("port", PORTS),
    ("vlan", PORTS),
    ("tx_vlan", PORTS),
    ("rx_vlan", PORTS),
    ("rx_vxlan_port", PORTS),
    ("mac_addr", PORTS),
    ("csum", PORTS),
    ("tso", PORTS),
    ("ddp", PORTS),
    ("ptype", PORTS),
    ("tunnel_udp_port", PORTS),
    ("clear", PORTS),
    ("write", PORTS),
    ("read", PORTS),
    ("add", METERS),
    ("create", METERS),
    ("del", METERS),
    ("enable", METERS),
    ("disable", METERS),
];

fn read(reader: &mut Reader<'_>, before: &str, list: &[NotHere]) -> Option<Command> {
    let (name, reason) = reader.take_one_of_hidden(list.iter().map(|entry| (entry.0, *entry)))?;
    reader.rest();
    Some(Command::NotHere { name: format!("{before}{name}"), reason })
}

pub(super) fn flow(reader: &mut Reader<'_>) -> Option<Command> {
    read(reader, "flow ", &FLOW)
}

pub(super) fn indirect(reader: &mut Reader<'_>) -> Option<Command> {
    read(reader, "flow indirect_action ", &INDIRECT)
}

pub(super) fn other(reader: &mut Reader<'_>) -> Option<Command> {
    read(reader, "", &NOT_HERE)
}

/// Reads what else testpmd shows.
pub(super) fn show(reader: &mut Reader<'_>) -> Option<Command> {
    reader.any()?;
    reader.rest();
    Some(Command::NotHere { name: "show".to_owned(), reason: SHOWN })
}

/// Reads what else testpmd sets.
pub(super) fn set(reader: &mut Reader<'_>) -> Option<Command> {
    let name = reader.any()?;
    let reason = match name {
        "fwd" | "txpkts" | "burst" | "corelist" | "nbcore" | "portlist" => NO_TRAFFIC,
        "flex_pattern" => FLEX,
        "port" | "promisc" | "allmulti" | "link-up" | "link-down" => PORTS,
        _ => SETTINGS,
    };
    reader.rest();
    Some(Command::NotHere { name: "set".to_owned(), reason })
}
