// SPDX-License-Identifier: BSD-3-Clause
//! Makes the text of `help` from the tables of the grammar.

use super::fields::fields;
use super::grammar::{ACTIONS, COMMANDS, action_words};
use dpdk::flow::ItemKind;

/// Returns the help for `word`, which is a command, an item or an action, or the overview without
/// one. `None` if there is no such word.
pub fn help(word: Option<&str>) -> Option<Vec<String>> {
    let Some(word) = word else { return Some(overview()) };
    let command = COMMANDS.iter().find(|(name, _)| *name == word).map(|(_, usage)| usage);
    let mut lines: Vec<String> = command.map(|usage| (*usage).to_owned()).into_iter().collect();
    if let Some(kind) = ItemKind::ALL.into_iter().find(|kind| kind.name() == word) {
        lines.push(format!("item {word} [FIELD is|spec|last|mask VALUE | FIELD prefix BITS]..."));
        lines.extend(fields(kind).iter().map(|field| {
            let (name, noun, bits) = (field.name, field.form.noun(), field.width);
            format!("  {name} {noun}  ({bits} bits)")
        }));
    }
    if let Some(action) = ACTIONS.iter().find(|action| action.name == word) {
        let number = action.number.map(|(name, noun, _)| format!(" {name} {noun}"));
        lines.push(format!("action {word}{}", number.unwrap_or_default()));
    }
    let others = [("port_id", PORT_ID), ("rss", RSS)];
    lines.extend(
        others.iter().filter(|(name, _)| *name == word).map(|(_, text)| (*text).to_owned()),
    );
    (!lines.is_empty()).then_some(lines)
}

const PORT_ID: &str = "action port_id [original 0|1] [id PORT]";
const RSS: &str = "action rss [func FUNCTION] [level LEVEL] [types TYPE... end] [key HEX] \
                   [key_len BYTES] [queues QUEUE... end]";

fn overview() -> Vec<String> {
    let mut lines: Vec<_> = COMMANDS.iter().map(|(_, usage)| (*usage).to_owned()).collect();
    lines.push("help [COMMAND|ITEM|ACTION]".to_owned());
    lines.push("quit".to_owned());
    let items: Vec<_> = ItemKind::ALL.iter().map(|kind| kind.name()).collect();
    let actions: Vec<_> = action_words().collect();
    lines.push(String::new());
    lines.push("attributes: group NUMBER, priority NUMBER, ingress, egress, transfer".to_owned());
    lines.push(format!("items: {}", items.join(", ")));
    lines.push(format!("actions: {}", actions.join(", ")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_has_its_help() {
        let all = help(None).unwrap().join("\n");
        for word in ["create", "aged", "ipv4", "mark", "rss", "represented_port"] {
            assert!(all.contains(word), "{word}");
            assert!(help(Some(word)).is_some(), "{word}");
        }
        // An item and an action.
        assert_eq!(help(Some("mark")).unwrap().len(), 3);
        assert!(help(Some("ipv4")).unwrap().contains(&"  src IPV4  (32 bits)".to_owned()));
        assert_eq!(help(Some("nonsense")), None);
    }
}
