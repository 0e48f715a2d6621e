// SPDX-License-Identifier: BSD-3-Clause
//! Escapes and shortens names that users choose, so that they are safe for a terminal.

/// Maximum number of characters of a name in a table.
const SHORT: usize = 32;

/// Returns a name with its control characters escaped: `\u{1b}[2J`. A terminal would obey them.
pub fn printable(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter.is_control() {
            true => text.extend(letter.escape_default()),
            false => text.push(letter),
        }
    }
    text
}

/// Returns a printable name of at most 32 characters; `…` stands for the rest of a longer name.
pub fn short(name: &str) -> String {
    let text = printable(name);
    if text.chars().count() <= SHORT {
        return text;
    }
    text.chars().take(SHORT - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_long_names_cut() {
        assert_eq!(printable("a b ä\x1b[2J\n\u{9b}"), "a b ä\\u{1b}[2J\\n\\u{9b}");
        assert_eq!(short(&"ä".repeat(32)), "ä".repeat(32));
        assert_eq!(short(&"a".repeat(33)), "a".repeat(31) + "…");
    }
}
