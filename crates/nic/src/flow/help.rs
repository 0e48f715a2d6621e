// SPDX-License-Identifier: BSD-3-Clause
//! Makes the text of `help` from the tables of the grammar.

use super::fields::{Field, Form, Keeps, Variants, action_fields, fields, keeps, variants};
use super::grammar::{ACTIONS, COMMANDS, SET_USAGES, action_words};
use dpdk::flow::{ItemKind, OtherActionKind};

/// Returns the help for `word`, which is a command, an item or an action, or the overview without
/// one. `None` if there is no such word.
pub fn help(word: Option<&str>) -> Option<Vec<String>> {
    let Some(word) = word else { return Some(overview()) };
    let command = COMMANDS.iter().find(|(name, _)| *name == word).map(|(_, usage)| usage);
    let mut lines: Vec<String> = command.map(|usage| (*usage).to_owned()).into_iter().collect();
    match word {
        "set" => lines.extend(SET_USAGES.map(str::to_owned)),
        "show" => lines.extend(SHOW.map(str::to_owned)),
        _ => (),
    }
    if let Some(kind) = ItemKind::all().find(|kind| kind.name() == word) {
        lines.push(format!("item {word} [FIELD is|spec|last|mask VALUE | FIELD prefix BITS]..."));
        lines.extend(fields(kind).iter().map(line_of));
        lines.extend(variants(word).map(lines_of_types).unwrap_or_default());
    }
    if let Some(action) = ACTIONS.iter().find(|action| action.name == word) {
        let number = action.number.map(|(name, noun, _)| format!(" {name} {noun}"));
        lines.push(format!("action {word}{}", number.unwrap_or_default()));
    }
    if OtherActionKind::all().any(|kind| kind.name() == word) {
        lines.push(other_action(word));
    }
    let others = [("port_id", PORT_ID), ("rss", RSS)];
    lines.extend(
        others.iter().filter(|(name, _)| *name == word).map(|(_, text)| (*text).to_owned()),
    );
    (!lines.is_empty()).then_some(lines)
}

/// Returns the types of an item, each with its fields.
fn lines_of_types(variants: &Variants) -> Vec<String> {
    let mut lines = Vec::new();
    for variant in variants.list {
        lines.push(format!("  {} {}", variants.words.join(" "), variant.word));
        lines.extend(variant.fields.iter().map(|field| format!("  {}", line_of(field))));
    }
    lines
}

fn line_of(field: &Field) -> String {
    let noun = noun_of(field);
    match (field.name, field.width) {
        ("", bits) => format!("  {noun}  ({bits} bits, without a name: `is {noun}`)"),
        (name, 0) => format!("  {name} {noun}"),
        (name, bits) => format!("  {name} {noun}  ({bits} bits)"),
    }
}

fn noun_of(field: &Field) -> String {
    match field.form {
        Form::Word(words) if words.len() < 10 => words.join("|"),
        form => form.noun().to_owned(),
    }
}

/// Returns the usage of an action that only the shell uses.
fn other_action(name: &str) -> String {
    let fields = action_fields(name).iter();
    let fields: String =
        fields.map(|field| format!(" [{} {}]", field.name, noun_of(field))).collect();
    let data = match keeps(name) {
        Keeps::Nothing => "",
        Keeps::One => "  (its data: `help set`)",
        Keeps::Numbered => " [index INDEX]  (its data: `help set`)",
        Keeps::Number => " ACTION_ID  (its action: `help indirect_action`)",
    };
    format!("action {name}{fields}{data}")
}

const SHOW: [&str; 2] = ["show port info|stats|fdir PORT|all", "show port PORT info|stats|fdir"];

/// How to see what rules do.
const HITS: &str = "hits: give a rule the action `count`; `flow query PORT RULE count` prints the \
                    packets that it has matched. The shell sends no packets: send some to the \
                    port, for example with `millrace gen`.";

const PORT_ID: &str = "action port_id [original 0|1] [id PORT]";
const RSS: &str = "action rss [func FUNCTION] [level LEVEL] [types TYPE... end] [key HEX] \
                   [key_len BYTES] [queues QUEUE... end]";

const ATTRIBUTES: &str = "attributes: group NUMBER, priority NUMBER, ingress, egress, transfer, \
                          user_id NUMBER";

fn overview() -> Vec<String> {
    let mut lines: Vec<_> = COMMANDS.iter().map(|(_, usage)| (*usage).to_owned()).collect();
    lines.extend(SHOW.map(str::to_owned));
    lines.push("set ...  (data that actions refer to: `help set`)".to_owned());
    lines.push("help [COMMAND|ITEM|ACTION]".to_owned());
    lines.push("quit".to_owned());
    let items: Vec<_> = ItemKind::all().map(ItemKind::name).collect();
    let actions: Vec<_> = action_words().collect();
    lines.push(String::new());
    lines.push(ATTRIBUTES.to_owned());
    lines.push(format!("items: {}", items.join(", ")));
    lines.push(format!("actions: {}", actions.join(", ")));
    lines.push(HITS.to_owned());
    lines
}

#[cfg(test)]
mod tests {
    use super::super::grammar::help_words;
    use super::*;

    #[test]
    fn every_word_has_its_help() {
        let all = help(None).unwrap().join("\n");
        for word in help_words() {
            assert!(all.contains(word), "{word}");
            assert!(help(Some(word)).is_some(), "{word}");
        }
        // An item and an action.
        assert_eq!(help(Some("mark")).unwrap().len(), 3);
        assert!(help(Some("ipv4")).unwrap().contains(&"  src IPV4  (32 bits)".to_owned()));
        assert_eq!(help(Some("nonsense")), None);
    }
}
