// SPDX-License-Identifier: BSD-3-Clause
//! Reads personalities: facts about the flow rules of a NIC, such as accepted rules, refusals,
//! capacity and speed.
//!
//! A [`Personality`] is a TOML file. The files of `personalities/` are part of the model; the
//! prober writes the file of a NIC that it examined. Where a file says nothing, every rule and
//! packet that is possible is accepted. docs/personalities.md describes the file for users.

mod builtin;
mod notation;
mod parts;
mod patterns;

pub use builtin::{NAMES, builtin};
pub(crate) use notation::Walk;
pub use notation::{Step, Steps};
pub use parts::{
    ActionFacts, AgeFacts, AttributeFacts, Capacity, Check, CountFacts, Duplicate, FdirFacts,
    Latency, MarkFacts, OnStop, Operations, PortFacts, RefusalFacts, RssFacts, TableFacts,
};
pub use patterns::INNER;
pub use patterns::{
    Chain, Conflict, Exclusive, FieldFacts, ItemFacts, LastParser, MaskRule, Pattern, Ports,
    Structure,
};

use crate::pattern::Proto;
use crate::refusal::Refusal;
use crate::rule_check::{Rule, RuleChecker};
use crate::table::Stage;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Maximum number of conflicts in a file: a rule has two bits in a word for each.
pub const CONFLICTS_MAX: usize = 16;

/// The known facts of a NIC.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Personality {
    /// Name, one word.
    pub name: String,
    /// Product, driver and version, one line.
    pub title: String,
    /// Sources of the facts; `source` in a part of the file refers to these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// A note about unknown facts, if there are so many that the file is a placeholder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placeholder: Option<String>,
    /// Order in which the parts of a rule are checked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<Check>,
    /// `errno` of refusals that name none; `EINVAL` if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno: Option<crate::refusal::Errno>,
    /// Groups, priorities, directions.
    #[serde(skip_serializing_if = "is_default")]
    pub attributes: AttributeFacts,
    /// Patterns as a whole.
    #[serde(skip_serializing_if = "is_default")]
    pub pattern: Pattern,
    /// Lists of headers that are accepted; all that make sense if there are none.
    #[serde(rename = "chain", skip_serializing_if = "Vec::is_empty")]
    pub chains: Vec<Chain>,
    /// Parsers that are tried after the others have refused.
    #[serde(rename = "last_parser", skip_serializing_if = "Vec::is_empty")]
    pub last_parsers: Vec<LastParser>,
    /// Headers by their names.
    #[serde(rename = "item", skip_serializing_if = "BTreeMap::is_empty")]
    pub items: BTreeMap<String, ItemFacts>,
    /// Headers of which only one may have bits that count.
    #[serde(rename = "exclusive", skip_serializing_if = "Vec::is_empty")]
    pub exclusives: Vec<Exclusive>,
    /// Rules that exclude each other.
    #[serde(rename = "conflict", skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<Conflict>,
    /// Lists of actions.
    #[serde(skip_serializing_if = "is_default")]
    pub actions: ActionFacts,
    /// Marks.
    #[serde(skip_serializing_if = "is_default")]
    pub mark: MarkFacts,
    /// Counters.
    #[serde(skip_serializing_if = "is_default")]
    pub count: CountFacts,
    /// Ages.
    #[serde(skip_serializing_if = "is_default")]
    pub age: AgeFacts,
    /// The table of rules.
    #[serde(skip_serializing_if = "is_default")]
    pub table: TableFacts,
    /// What the driver says of its flow director, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fdir: Option<FdirFacts>,
    /// Times of calls.
    #[serde(skip_serializing_if = "is_default")]
    pub latency: Latency,
    /// The port's state.
    #[serde(skip_serializing_if = "is_default")]
    pub port: PortFacts,
    /// Calls that the NIC supports.
    #[serde(skip_serializing_if = "is_default")]
    pub operations: Operations,
    /// An engine that is tried before this one, and that packets reach before it. It has facts
    /// about rules and their number only; all other facts are in the main part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead: Option<Box<Personality>>,
}

/// The reason why a file is no personality.
#[derive(Debug, thiserror::Error)]
pub enum PersonalityError {
    /// The file cannot be read.
    #[error("personality {path}: {error}")]
    Read {
        /// The text that was given.
        path: String,
        /// The error of the system.
        error: std::io::Error,
    },
    /// The text is not valid.
    #[error("personality {path}: {message}")]
    Text {
        /// The text that was given.
        path: String,
        /// The error, with line and column.
        message: String,
    },
    /// The name is neither a built-in personality nor a path.
    #[error(
        "there is no personality {name}; there are {}, and files, whose names have a / or end in \
         .toml", NAMES.join(", ")
    )]
    Unknown {
        /// The text that was given.
        name: String,
    },
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Personality {
    /// Returns the built-in personality with this name, or reads the file with this path.
    ///
    /// # Errors
    ///
    /// If there is none, or the file is no personality.
    pub fn named(name: &str) -> Result<Self, PersonalityError> {
        if let Some(text) = builtin(name) {
            return Self::parse(text, name);
        }
        if !name.contains('/') && !name.ends_with(".toml") {
            return Err(PersonalityError::Unknown { name: name.to_owned() });
        }
        let text = read_regular(Path::new(name))
            .map_err(|error| PersonalityError::Read { path: name.to_owned(), error })?;
        Self::parse(&text, name)
    }

    /// Reads a personality from its text; `path` is for messages.
    ///
    /// # Errors
    ///
    /// If the form is wrong, or a name of a header, field or action does not exist.
    pub fn parse(text: &str, path: &str) -> Result<Self, PersonalityError> {
        let fail = |message: String| PersonalityError::Text { path: path.to_owned(), message };
        let personality: Self =
            toml::from_str(text).map_err(|error| fail(in_short(&error, text)))?;
        personality.names_are_good().map_err(fail)?;
        Ok(personality)
    }

    /// Checks whether a port of a switch with `queues` receive queues accepts a rule, as far as
    /// this depends on the rule alone.
    ///
    /// # Errors
    ///
    /// If the NIC refuses it.
    pub fn takes(&self, rule: Rule<'_>, queues: u16) -> Result<(), Refusal> {
        RuleChecker::new(self, queues, true).check(rule).map(drop)
    }

    /// Returns the engine for the rules of a stage.
    pub(crate) fn engine(&self, stage: Stage) -> &Self {
        let ahead = self.ahead.as_deref().filter(|_| stage == Stage::Ahead);
        ahead.unwrap_or(self)
    }

    /// Returns the text of the file.
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(self).expect("nothing in it is beyond TOML")
    }

    /// Checks that all named headers, fields and actions exist.
    fn names_are_good(&self) -> Result<(), String> {
        let proto = |name: &str| match Proto::of_name(name) {
            Some(proto) => Ok(proto),
            None => Err(format!("there is no header {name}")),
        };
        for (name, facts) in &self.items {
            let header = proto(name)?;
            if let Some(field) = facts.fields.keys().find(|field| header.field(field).is_none()) {
                return Err(format!("[item.{name}.fields]: {name} has no field {field}"));
            }
        }
        if self.conflicts.len() > CONFLICTS_MAX {
            return Err(format!("more than {CONFLICTS_MAX} [[conflict]]"));
        }
        self.pattern.headers.iter().try_for_each(|name| proto(name).map(drop))?;
        let chains = self.chains.iter().map(|chain| &chain.items);
        let conflicts = self.conflicts.iter().flat_map(|conflict| [&conflict.one, &conflict.other]);
        for step in chains.chain(conflicts).flat_map(Steps::steps) {
            step.words.iter().try_for_each(|word| proto(word).map(drop))?;
        }
        for field in self.chains.iter().flat_map(Chain::fields) {
            let name = field.strip_prefix(INNER).unwrap_or(field);
            let parts = name.split_once('.').ok_or(format!("{field} is not HEADER.FIELD"))?;
            let found = proto(parts.0)?.field(parts.1);
            found.ok_or(format!("[[chain]]: {} has no field {}", parts.0, parts.1))?;
        }
        let ActionFacts { accepted, accepted_transfer, out_of_place, .. } = &self.actions;
        let steps = accepted.iter().chain(accepted_transfer).flat_map(Steps::steps);
        let words = steps.flat_map(|step| &step.words).chain(out_of_place.keys());
        if let Some(word) =
            words.into_iter().find(|word| !crate::action::NAMES.contains(&word.as_str()))
        {
            return Err(format!("there is no action {word}"));
        }
        self.ahead.as_deref().map_or(Ok(()), Self::is_good_ahead)
    }

    /// Checks that an engine ahead only has facts about rules, none about the port.
    fn is_good_ahead(&self) -> Result<(), String> {
        let of_port = Self {
            mark: self.mark.clone(),
            count: self.count.clone(),
            age: self.age.clone(),
            latency: self.latency.clone(),
            port: self.port.clone(),
            operations: self.operations.clone(),
            ahead: self.ahead.clone(),
            ..Self::default()
        };
        match of_port == Self::default() {
            true => self.names_are_good(),
            false => Err("[ahead] has attributes, pattern, chains, items, exclusive, conflict, \
                          actions and table; all else is of the port"
                .to_owned()),
        }
    }
}

/// Most bytes of a personality file; those that come with Millrace have a few thousand.
const FILE_MAX: u64 = 1 << 20;

/// Reads a file that must be a regular one, and short: others never end, or print a whole line of
/// any length in an error.
fn read_regular(path: &Path) -> io::Result<String> {
    // To open a pipe would block.
    let metadata = path.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let file = File::open(path)?;
    if metadata.len() > FILE_MAX {
        return Err(io::Error::other("it has more than 1 MiB: it is no personality"));
    }
    let mut text = String::new();
    file.take(FILE_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Returns the message of an error, without the line of the file if the file has long ones.
fn in_short(error: &toml::de::Error, file: &str) -> String {
    const LINE_MAX: usize = 200;
    match file.lines().all(|line| line.len() <= LINE_MAX) {
        true => error.to_string(),
        false => error.message().to_owned(),
    }
}
