// SPDX-License-Identifier: BSD-3-Clause
//! Escapes and shortens names that users choose, so that they are safe for a terminal.

/// Maximum number of characters of a name in a table.
const SHORT: usize = 32;

/// Returns a name with its control characters escaped: `\u{1b}[2J`. A terminal would obey them.
pub fn printable(name: &str) -> String {
    escaped(name, is_command)
}

/// Returns text of one or more lines in which control characters are escaped, except line feeds and
/// tabs.
pub fn printable_lines(text: &str) -> String {
    escaped(text, |letter| is_command(letter) && !matches!(letter, '\n' | '\t'))
}

fn escaped(text: &str, is_unsafe: fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match is_unsafe(letter) {
            true => escaped.extend(letter.escape_unicode()),
            false => escaped.push(letter),
        }
    }
    escaped
}

/// True for characters that change how a terminal shows others: control characters, and those that
/// turn the direction of writing (Unicode Standard Annex 9).
fn is_command(letter: char) -> bool {
    let turns = matches!(
        letter,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    letter.is_control() || turns
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
        assert_eq!(printable("a b ä\x1b[2J\n\u{9b}"), "a b ä\\u{1b}[2J\\u{a}\\u{9b}");
        assert_eq!(printable("a\u{202e}b\u{2066}"), "a\\u{202e}b\\u{2066}");
        assert_eq!(printable_lines("a\n\tb\r\x07"), "a\n\tb\\u{d}\\u{7}");
        assert_eq!(short(&"ä".repeat(32)), "ä".repeat(32));
        assert_eq!(short(&"a".repeat(33)), "a".repeat(31) + "…");
    }
}
