// SPDX-License-Identifier: BSD-3-Clause
//! Reads the notation for lists of items or actions that a NIC accepts: `eth? / ipv4|ipv6 / tcp`.
//!
//! Steps are separated by `/`; `|` separates the words that may stand at a step, and a step with
//! `?` may be left out.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A list of steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Steps(Vec<Step>);

/// One place of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Words that may stand here, at least one.
    pub words: Vec<String>,
    /// True if the step may be left out.
    pub optional: bool,
}

/// Result of comparing a list of words with steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Walk {
    /// The list matches the steps.
    Whole,
    /// The word with this number is not allowed at its place.
    Stray(usize),
    /// A step is missing at the end.
    Short,
}

impl Steps {
    /// Returns the steps, in order.
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// True if a list of words matches the steps.
    pub fn takes<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> bool {
        self.walk(words) == Walk::Whole
    }

    /// Compares a list of words with the steps. Each word takes the first step that has it, from
    /// the step after the previous word on.
    pub(crate) fn walk<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Walk {
        let mut steps = self.0.iter();
        for (number, word) in words.into_iter().enumerate() {
            loop {
                match steps.next() {
                    Some(step) if step.has(word) => break,
                    Some(Step { optional: true, .. }) => {}
                    _ => return Walk::Stray(number),
                }
            }
        }
        if steps.all(|step| step.optional) { Walk::Whole } else { Walk::Short }
    }
}

impl Step {
    /// True if a step has this word.
    pub fn has(&self, word: &str) -> bool {
        self.words.iter().any(|other| other == word)
    }
}

impl TryFrom<String> for Steps {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let step = |part: &str| {
            let part = part.trim();
            let (words, optional) = match part.strip_suffix('?') {
                Some(words) => (words, true),
                None => (part, false),
            };
            let words: Vec<_> = words.split('|').map(|word| word.trim().to_owned()).collect();
            let is_word = |word: &String| {
                !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            };
            match words.iter().all(is_word) {
                true => Ok(Step { words, optional }),
                false => Err(format!("\"{part}\" in \"{text}\" is no step such as tcp|udp?")),
            }
        };
        text.split('/').map(step).collect::<Result<_, _>>().map(Self)
    }
}

impl From<Steps> for String {
    fn from(steps: Steps) -> Self {
        steps.to_string()
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, Step { words, optional }) in self.0.iter().enumerate() {
            let separator = if number == 0 { "" } else { " / " };
            let mark = if *optional { "?" } else { "" };
            write!(f, "{separator}{}{mark}", words.join("|"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(steps: &str, words: &str) -> Walk {
        Steps::try_from(steps.to_owned()).unwrap().walk(words.split_whitespace())
    }

    #[test]
    fn lists_are_followed_to_the_word_that_strays() {
        let steps = "eth? / vlan? / ipv4|ipv6 / tcp|udp?";
        for good in ["eth ipv4 tcp", "ipv6", "eth vlan ipv4 udp", "vlan ipv4"] {
            assert_eq!(walk(steps, good), Walk::Whole, "{good}");
        }
        assert_eq!(walk(steps, "eth tcp"), Walk::Stray(1));
        assert_eq!(walk(steps, "ipv4 eth"), Walk::Stray(1));
        assert_eq!(walk(steps, "ipv4 tcp udp"), Walk::Stray(2));
        assert_eq!(walk(steps, "eth"), Walk::Short);
        assert_eq!(walk("queue|drop / mark?", ""), Walk::Short);
        assert_eq!(
            walk("eth / ipv4 / udp / vxlan / eth / ipv4", "eth ipv4 udp vxlan eth ipv4"),
            Walk::Whole
        );
    }

    #[test]
    fn what_is_written_can_be_read() {
        for text in ["eth? / ipv4|ipv6 / tcp", "queue"] {
            assert_eq!(Steps::try_from(text.to_owned()).unwrap().to_string(), text);
        }
        for bad in ["", "eth / / tcp", "eth ipv4", "eth??", "a||b"] {
            assert!(Steps::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
