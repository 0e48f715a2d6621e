// SPDX-License-Identifier: BSD-3-Clause
//! Prints a rule in the shell's syntax. Parsing the output gives the same rule.

use super::fields::{Field, Form, Keeps, action_fields, keeps, variants, whole};
use super::grammar::{prefix, rss_types};
use dpdk::flow::{
    Action, ActionData, HashFunction, Item, LongValues, OtherAction, Rss, Rule, Value, bits_of,
};
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
    let mut words = vec![item.kind.name().to_owned()];
    let mut printed = [false; 3];
    let mut fields = whole(item.kind);
    if let Some(of_type) = variant(item, &mut words) {
        fields = of_type;
        printed = [true, false, true];
    }
    for field in fields.iter().filter(|field| !field.is_long()) {
        print_field(item, field, &mut words, &mut printed);
    }
    let long_field = fields.iter().find(|field| field.is_long());
    if let (Some(field), Some(long)) = (long_field, &item.long) {
        print_long(field, long, &mut words, &mut printed);
    }
    // A value of zeros is printed: the driver gets a pointer to it, and null without it.
    let given = [item.spec, item.last, item.mask].map(|value| value.is_some());
    for (place, word) in ["spec", "last", "mask"].into_iter().enumerate() {
        if let Some(field) = fields.first().filter(|_| given[place] && !printed[place]) {
            words.push(phrase(field, word, &print(field, 0)));
        }
    }
    words.join(" ")
}

/// Prints the type of an item that has types; returns the fields of that type.
fn variant(item: &Item, words: &mut Vec<String>) -> Option<&'static [Field]> {
    let variants = variants(item.kind.name())?;
    let bits = |value: Option<Value>| value.map(|value| value.bits(variants.first, variants.width));
    let number = bits(item.spec)?;
    bits(item.mask).filter(|mask| mask.count_ones() as usize == variants.width)?;
    let variant = variants.list.iter().find(|variant| variant.number == number)?;
    words.extend(variants.words.iter().chain([&variant.word]).map(|word| (*word).to_owned()));
    Some(variant.fields)
}

/// Returns `src is 10.0.0.1`, or `is 1` for a field without a name.
fn phrase(field: &Field, word: &str, value: &str) -> String {
    match field.name.is_empty() {
        true => format!("{word} {value}"),
        false => format!("{} {word} {value}", field.name),
    }
}

/// Prints the values of a field; notes which of spec, last and mask were printed.
fn print_field(item: &Item, field: &Field, words: &mut Vec<String>, printed: &mut [bool; 3]) {
    let [spec, last, mask] = [item.spec, item.last, item.mask]
        .map(|value| value.map_or(0, |value| value.bits(field.first, field.width)));
    let is_address = matches!(field.form, Form::Mac | Form::Ipv4 | Form::Ipv6);
    let say = |word: &str, bits| match word {
        "mask" if !is_address => phrase(field, word, &format!("{bits:#x}")),
        _ => phrase(field, word, &print(field, bits)),
    };
    let ones = mask.count_ones() as usize;
    if ones == field.width && item.spec.is_some() {
        words.push(say("is", spec));
        (printed[0], printed[2]) = (true, true);
    } else {
        if spec != 0 {
            words.push(say("spec", spec));
            printed[0] = true;
        }
        let is_ip = [Form::Ipv4, Form::Ipv6].contains(&field.form);
        if mask != 0 && is_ip && mask == prefix(ones, field.width) {
            words.push(phrase(field, "prefix", &ones.to_string()));
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

/// Prints bytes of any length.
fn print_long(field: &Field, long: &LongValues, words: &mut Vec<String>, printed: &mut [bool; 3]) {
    let parts = [("spec", &long.spec), ("last", &long.last), ("mask", &long.mask)];
    for ((word, bytes), printed) in parts.into_iter().zip(printed) {
        if !bytes.is_empty() {
            words.push(phrase(field, word, &hex(bytes)));
            *printed = true;
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn print(field: &Field, bits: u128) -> String {
    match field.form {
        Form::Number if field.name.contains("type") && field.width == 16 => format!("{bits:#06x}"),
        Form::Number | Form::Truth => bits.to_string(),
        Form::Mac => {
            let octets = bits.to_be_bytes();
            octets[10..].iter().map(|octet| format!("{octet:02x}")).collect::<Vec<_>>().join(":")
        }
        Form::Ipv4 => Ipv4Addr::from(bits as u32).to_string(),
        Form::Ipv6 => Ipv6Addr::from(bits).to_string(),
        Form::Signed => {
            let above = 128 - field.width;
            ((bits << above) as i128 >> above).to_string()
        }
        Form::Word(words) => match usize::try_from(bits).ok().and_then(|bits| words.get(bits)) {
            Some(word) => (*word).to_owned(),
            None => bits.to_string(),
        },
        Form::Text | Form::Hex => format!("{bits:0digits$x}", digits = field.width / 4),
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
        Action::Other(other) => print_other(other),
    }
}

/// Returns the text of an action that only the shell uses, with all of its fields.
fn print_other(action: &OtherAction) -> String {
    let name = action.kind.name();
    let mut words = vec![name.to_owned()];
    if name == "conntrack_update" {
        let bits = [("dir", 72 * 8 + 31), ("ctx", 72 * 8 + 30)];
        let is_set = |bit: &usize| bits_of(&action.conf, *bit, 1) == 1;
        words
            .extend(bits.iter().filter(|(_, bit)| is_set(bit)).map(|(word, _)| (*word).to_owned()));
    }
    for field in action_fields(name).iter().filter(|field| field.width > 0) {
        let value = print(field, bits_of(&action.conf, field.first, field.width));
        match (name, field.name) {
            // The numbers stand behind the name.
            ("shared_indirect", _) => words.push(value),
            // A timeout of which the driver is told.
            ("age_update", "timeout") if bits_of(&action.conf, 25, 1) == 0 => (),
            (_, field) => words.push(format!("{field} {value}")),
        }
    }
    match (keeps(name), &action.data) {
        (Keeps::Numbered, ActionData::Kept(number)) => words.push(format!("index {number}")),
        (Keeps::Number, ActionData::Kept(number)) => words.push(number.to_string()),
        (_, ActionData::Bytes(bytes)) if name == "modify_field" => {
            words.push(format!("src_ptr {}", hex(bytes)));
        }
        _ => (),
    }
    words.join(" ")
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
