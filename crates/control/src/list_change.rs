// SPDX-License-Identifier: BSD-3-Clause
//! Parses and writes changes of access lists, and the handles of their rules.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A change of the access lists in force. All of it is done, or nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ListChange {
    /// Puts rules into a list.
    Add {
        /// Name of the list.
        list: String,
        /// Index of the rule before which they are put; without it, they are last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<u32>,
        /// The rules as text; each may have several lines, and a rule on each.
        rules: Vec<String>,
    },
    /// Removes rules.
    Delete {
        /// Handles of the rules.
        handles: Vec<String>,
    },
    /// Puts a rule in the place of another.
    Replace {
        /// Handle of the rule to replace.
        handle: String,
        /// The new rule as text.
        rule: String,
    },
    /// Moves a rule within its list.
    Move {
        /// Handle of the rule.
        handle: String,
        /// Index that the rule has afterwards.
        to: u32,
    },
}

/// Names a rule of the access lists: `LIST:EPOCH:NUMBER`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RuleHandle {
    /// Name of the list.
    pub list: String,
    /// Number of changes of access lists before the one in which the rule has this number.
    pub epoch: u32,
    /// Index of the rule in its list.
    pub index: u32,
}

/// Error: the text is no handle of a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no handle of a rule: write LIST:EPOCH:NUMBER, as `millrace acl show` prints it")]
pub struct NoHandle(String);

impl RuleHandle {
    /// Returns the handle of a rule.
    pub fn new(list: &str, epoch: u32, index: u32) -> Self {
        Self { list: list.to_owned(), epoch, index }
    }
}

impl fmt::Display for RuleHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.list, self.epoch, self.index)
    }
}

impl FromStr for RuleHandle {
    type Err = NoHandle;

    fn from_str(text: &str) -> Result<Self, NoHandle> {
        // The name of a list may have colons in it.
        let mut parts = text.rsplitn(3, ':');
        let index = parts.next().and_then(|index| index.parse().ok());
        let epoch = parts.next().and_then(|epoch| epoch.parse().ok());
        match (parts.next(), epoch, index) {
            (Some(list), Some(epoch), Some(index)) => Ok(Self::new(list, epoch, index)),
            _ => Err(NoHandle(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_read_as_they_are_written() {
        for text in ["office:0:0", "new_from (answers):7:65535", "a:b:3:1", ":1:0"] {
            assert_eq!(text.parse::<RuleHandle>().unwrap().to_string(), text);
        }
        assert_eq!(RuleHandle::new("l", 2, 0).to_string(), "l:2:0");
        for text in ["", "office", "office:1", "office:x:1", "office:1:-1"] {
            let error = text.parse::<RuleHandle>().unwrap_err().to_string();
            assert!(error.contains("write LIST:EPOCH:NUMBER"), "{error}");
        }
    }
}
