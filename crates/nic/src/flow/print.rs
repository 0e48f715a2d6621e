// SPDX-License-Identifier: BSD-3-Clause
//! Prints a rule in the shell's syntax. Parsing the output gives the same rule.

use super::fields::{Field, Form, whole};
use super::grammar::{prefix, rss_types};
use dpdk::flow::{Action, HashFunction, Item, Rss, Rule};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Returns a rule as it stands behind `flow create PORT`: `ingress pattern eth / end actions drop /
/// end`.
pub fn print_rule(rule: &Rule) -> String {
    let attributes = &rule.attributes;
    let mut words = Vec::new();
    if attributes.group != 0 {
        words.push(format!("group {}", attributes.group));
    }
    if attributes.priority != 0 {
        words.push(format!("priority {}", attributes.priority));
    }
    let flags = [
        (attributes.ingress, "ingress"),
        (attributes.egress, "egress"),
        (attributes.transfer, "transfer"),
    ];
    words.extend(flags.into_iter().filter(|(set, _)| *set).map(|(_, name)| name.to_owned()));
    words.push("pattern".to_owned());
    words.extend(rule.pattern.iter().map(|item| format!("{} /", print_item(item))));
    words.push("end actions".to_owned());
    words.extend(rule.actions.iter().map(|action| format!("{} /", print_action(action))));
    words.push("end".to_owned());
    words.join(" ")
}

/// Returns the text of an item: `ipv4 src is 10.0.0.1`.
pub(super) fn print_item(item: &Item) -> String {
    let fields = whole(item.kind);
    let mut words = vec![item.kind.name().to_owned()];
    let mut printed = [false; 3];
    for field in fields {
        let [spec, last, mask] = [item.spec, item.last, item.mask]
            .map(|value| value.map_or(0, |value| value.bits(field.first, field.width)));
        let say = |word: &str, bits| match word {
            "mask" if field.form == Form::Number => format!("{} mask {bits:#x}", field.name),
            _ => format!("{} {word} {}", field.name, print(field, bits)),
        };
        let ones = mask.count_ones() as usize;
        let is_whole = ones == field.width;
        if is_whole && item.spec.is_some() {
            words.push(say("is", spec));
            printed = [true, printed[1], true];
        } else {
            if spec != 0 {
                words.push(say("spec", spec));
                printed[0] = true;
            }
            let is_address = [Form::Ipv4, Form::Ipv6].contains(&field.form);
            if mask != 0 && is_address && mask == prefix(ones, field.width) {
                words.push(format!("{} prefix {ones}", field.name));
                printed[2] = true;
            } else if mask != 0 {
                words.push(say("mask", mask));
                printed[2] = true;
            }
        }
        if last != 0 {
            words.push(say("last", last));
            printed[1] = true;
        }
    }
    // A value of zeros is printed: the driver gets a pointer to it, and null without it.
    let given = [item.spec, item.last, item.mask].map(|value| value.is_some());
    for (place, word) in ["spec", "last", "mask"].into_iter().enumerate() {
        if let Some(field) = fields.first().filter(|_| given[place] && !printed[place]) {
            words.push(format!("{} {word} {}", field.name, print(field, 0)));
        }
    }
    words.join(" ")
}

fn print(field: &Field, bits: u128) -> String {
    match field.form {
        Form::Number if field.name.contains("type") && field.width == 16 => format!("{bits:#06x}"),
        Form::Number => bits.to_string(),
        Form::Mac => {
            let octets = bits.to_be_bytes();
            octets[10..].iter().map(|octet| format!("{octet:02x}")).collect::<Vec<_>>().join(":")
        }
        Form::Ipv4 => Ipv4Addr::from(bits as u32).to_string(),
        Form::Ipv6 => Ipv6Addr::from(bits).to_string(),
    }
}

/// Returns the text of an action: `mark id 5`.
fn print_action(action: &Action) -> String {
    let name = action.name();
    match action {
        Action::Void | Action::Flag | Action::Drop | Action::Passthru => name.to_owned(),
        Action::Count(0) => name.to_owned(),
        Action::Count(id) => format!("{name} identifier {id}"),
        Action::Mark(id) | Action::PortId(Some(id)) => format!("{name} id {id}"),
        Action::PortId(None) => format!("{name} original 1"),
        Action::Queue(index) => format!("{name} index {index}"),
        Action::Age(seconds) => format!("{name} timeout {seconds}"),
        Action::Jump(group) => format!("{name} group {group}"),
        Action::RepresentedPort(port) => format!("{name} ethdev_port_id {port}"),
        Action::PortRepresentor(port) => format!("{name} port_id {port}"),
        Action::Rss(rss) => print_rss(rss),
    }
}

/// Returns the text of an `rss` without the parts that are empty or default. Types and queues are
/// always there, because the parser has other defaults for them.
pub(super) fn print_rss(rss: &Rss) -> String {
    let mut words = vec!["rss".to_owned()];
    let function = HashFunction::ALL.iter().find(|(function, _)| *function == rss.func);
    if let Some((_, name)) = function.filter(|_| rss.func != HashFunction::Default) {
        words.push(format!("func {name}"));
    }
    if rss.level != 0 {
        words.push(format!("level {}", rss.level));
    }
    words.push(format!("types {}end", print_types(rss.types)));
    if !rss.key.is_empty() {
        let key: String = rss.key.iter().map(|byte| format!("{byte:02x}")).collect();
        words.push(format!("key {key}"));
    } else if rss.null_key_len != 0 {
        words.push(format!("key_len {}", rss.null_key_len));
    }
    words.push("queues".to_owned());
    words.extend(rss.queues.iter().map(u16::to_string));
    words.push("end".to_owned());
    words.join(" ")
}

/// Returns the names of single types, and the other bits as a number, each followed by a blank.
fn print_types(types: u64) -> String {
    let mut text = String::new();
    let mut rest = types;
    for (name, bit) in rss_types().filter(|(_, bits)| bits.count_ones() == 1) {
        if types & bit != 0 {
            text += &format!("{name} ");
            rest &= !bit;
        }
    }
    if rest != 0 {
        text += &format!("{rest:#x} ");
    }
    text
}
