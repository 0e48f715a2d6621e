// SPDX-License-Identifier: BSD-3-Clause
//! Describes problems of a configuration, and their place.

use super::control::SocketWords;
use super::devargs::{DeviceFault, PairError};
use super::offload::{BypassWords, CheckWords, PolicyWords};
use super::snapshot::FolderWords;
use engine::{MaskedBitsError, PrefixError};
use serde::Serialize;
use std::fmt;
use std::process::ExitCode;
use wire::proto_names::NoProtocol;

/// Exit status for wrong use, as for an unknown flag.
const WRONG_USE: u8 = 2;

/// A value and the place where it was written.
#[derive(Clone, Debug)]
pub(crate) struct Located<T> {
    pub(crate) value: T,
    pub(crate) place: Place,
}

/// The place where something was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Place {
    /// A place in the file. Both numbers count from 1; `column` counts characters.
    File {
        /// Number of the line.
        line: usize,
        /// Number of the character in its line.
        column: usize,
    },
    /// A flag of the command line.
    Flag {
        /// The flag, with its dashes.
        flag: &'static str,
    },
    /// The configuration as a whole.
    Whole {},
}

impl Place {
    /// Returns the place after `text`, which is the beginning of a file.
    pub(super) fn after(text: &str) -> Self {
        let line_start = text.rfind('\n').map_or(0, |newline| newline + 1);
        Self::File {
            line: text.matches('\n').count() + 1,
            column: text[line_start..].chars().count() + 1,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { line, column } => write!(f, "line {line}, column {column}"),
            Self::Flag { flag } => f.write_str(flag),
            Self::Whole {} => f.write_str("the configuration"),
        }
    }
}

/// One fault at one place.
#[derive(Debug)]
pub struct Problem {
    /// Place of the fault.
    pub place: Place,
    /// Full name of the key, such as `table.capacity` or `pair[0].a`; empty if there is none.
    pub(crate) key: String,
    pub(crate) fault: Fault,
}

/// The kind of fault. Each message says what to write instead.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("cannot be read: {0}")]
    Unreadable(String),
    #[error("not TOML: {0}")]
    Syntax(String),
    #[error("no such key; {}", hint(.nearest, .known))]
    UnknownKey { nearest: Option<&'static str>, known: Vec<&'static str> },
    #[error("missing; a pair needs both ports, a and b")]
    MissingPort,
    #[error("missing; list the zones that it applies to, such as [7, 8]")]
    MissingZones,
    #[error("missing; give the zone for packets that match")]
    MissingZone,
    #[error("there are {found} sections [[zone_rule]]; at most {most} are allowed")]
    TooManyZoneRules { found: usize, most: usize },
    #[error("not of the IP version of address: no packet has both")]
    TwoVersions,
    #[error("missing; zones refer to a timeout policy by its name")]
    MissingName,
    #[error("missing; write set_mark, set_label, or both")]
    MissingMark,
    #[error("there are {found} sections [[mark]]; at most {most} are allowed")]
    TooManyMarks { found: usize, most: usize },
    #[error("missing; give the list or set a name")]
    MissingListName,
    #[error("missing; write networks, file, or both")]
    MissingNetworks,
    #[error("missing; write permit, permit+reflect, deny, reject, or count")]
    MissingAction,
    #[error("the name {name:?} exists already")]
    ListNameTwice { name: String },
    #[error("{name:?} has control characters, which handles of rules cannot have")]
    ListName { name: String },
    #[error("{name:?} has spaces, control characters or #; rules could not name it as @NAME")]
    SetName { name: String },
    #[error(
        "new_from in [acl] makes a list for the packets that arrive at this port; remove new_from, \
         or write direction = \"out\""
    )]
    PlaceOfNewFrom,
    #[error("an ethernet list has the default \"deny\" or \"permit\"")]
    EthernetDefault,
    #[error("only rules for IP packets have this key; remove it, or write kind = \"ip\"")]
    NotOfEthernet,
    #[error("{found} rules; at most {most} are allowed in a list")]
    TooManyRules { found: usize, most: usize },
    #[error("{found} networks; at most {most} are allowed in a set")]
    TooManyNetworks { found: usize, most: usize },
    #[error("there are only {pairs} pairs; they count from 0")]
    NoSuchPair { pairs: usize },
    #[error(
        "access lists need a restart: the instance has been started without any. An empty [acl] \
         at the start is enough to add lists later"
    )]
    NoLists,
    #[error("{0}")]
    Rule(String),
    #[error("rule on line {line}, {error}")]
    RuleLine { line: usize, error: String },
    #[error(
        "the list {other:?} is bound to the same port and direction; put all rules in one list"
    )]
    SameListPlace { other: String },
    #[error(
        "the searches of the lists of a pair, up to the list {name:?}, need more than the {most} \
         MB of memory_mb in [acl]; write sets instead of many networks or ports in rules, or \
         raise memory_mb"
    )]
    ListMemory { name: String, most: u32 },
    #[error("connections have no labels; write labels = true in [table]")]
    NoLabels,
    #[error(
        "there are no connections to mark, since tracking is off in all zones; remove set-mark and \
         set-label, or write tracking = \"flows\" or \"connections\""
    )]
    NoMarks,
    #[error(transparent)]
    Protocol(#[from] NoProtocol),
    #[error(transparent)]
    Net(#[from] PrefixError),
    #[error(transparent)]
    Bits(#[from] MaskedBitsError),
    #[error("a timeout policy {name:?} exists already; \"default\" stands for [timeouts]")]
    NameTwice { name: String },
    #[error("there are {found} sections [[zone]]; at most {most} are allowed")]
    TooManyZones { found: usize, most: usize },
    #[error("there is no timeout policy {name:?}; the policies are {}", quoted(.names))]
    NoSuchPolicy { name: String, names: Vec<String> },
    #[error("must be {want}, not {found}")]
    WrongType { want: &'static str, found: &'static str },
    #[error("{found} is out of range: must be {least} to {most}")]
    OutOfRange { found: String, least: String, most: String },
    #[error("{found} is not a valid value; {}", hint(.nearest, .choices))]
    NotAChoice { found: String, nearest: Option<&'static str>, choices: Vec<&'static str> },
    #[error("{0}")]
    Policy(#[from] PolicyWords),
    #[error("{0}")]
    Check(#[from] CheckWords),
    #[error("{0}")]
    Bypass(#[from] BypassWords),
    #[error("{0}")]
    Socket(#[from] SocketWords),
    #[error(transparent)]
    Folder(#[from] FolderWords),
    #[error("must list at least one cpu; leave it out to let Millrace choose")]
    NoWorkers,
    #[error("{0}")]
    Device(#[from] DeviceFault),
    #[error("{0}")]
    Pair(#[from] PairError),
    #[error("no pair of ports: write [[pair]] with a and b, or give --pair A,B")]
    NoPair,
    #[error("{device} is already a port of this configuration ({first}); name it once")]
    PortTwice { device: String, first: Place },
    #[error("Linux interface {interface} already belongs to a port ({first})")]
    InterfaceTwice { interface: String, first: Place },
    #[error("cpu {cpu} already has a worker ({first}); a worker needs a cpu of its own")]
    CpuTwice { cpu: u32, first: Place },
    #[error("this host has no cpu {cpu}; it has {online}")]
    NoSuchCpu { cpu: u32, online: String },
    #[error("this process may not use cpu {cpu}; it may use {usable}")]
    CpuNotAllowed { cpu: u32, usable: String },
    #[error("{wanted} workers per pair need {needed} cpus; {free} are free for workers")]
    TooFewCpus { wanted: u32, needed: usize, free: usize },
    #[error(
        "{named} cpus cannot be divided evenly among {pairs} pairs; name a multiple of {pairs}"
    )]
    UnevenCpus { named: usize, pairs: usize },
    #[error(
        "{wanted} workers per pair need {needed} cpus, but --cpus names {named}; leave out one of \
         --workers and --cpus"
    )]
    CpusAndWorkers { wanted: u32, needed: usize, named: usize },
    #[error("{found} packet buffers are too few: {needed} can be in use at the same time")]
    TooFewMbufs { found: u32, needed: u64 },
    #[error(
        "{0:?} makes DPDK print its options and exit; remove it (dpdk-testpmd --help prints them)"
    )]
    AsksForHelp(String),
    #[error("{wanted} needs a restart; the instance runs with {running}")]
    TakesRestart { wanted: String, running: String },
    #[error("{found} MB are too little: packet buffers and ports need {needed} MB")]
    TooLittleMemory { found: u32, needed: u32 },
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

fn hint(nearest: &Option<&'static str>, all: &[&'static str]) -> String {
    match nearest {
        Some(nearest) => format!("nearest: {nearest} (of {})", all.join(", ")),
        None => format!("allowed: {}", all.join(", ")),
    }
}

/// Returns the candidate that a typing error most likely meant, if any is close.
pub(crate) fn nearest(word: &str, candidates: &[&'static str]) -> Option<&'static str> {
    let word = word.to_lowercase();
    candidates
        .iter()
        .map(|candidate| (strsim::osa_distance(&word, candidate), *candidate))
        .min()
        .filter(|(distance, candidate)| *distance <= candidate.len() / 3 + 1)
        .map(|(_, candidate)| candidate)
}

/// All problems of one configuration, in the order of the file.
#[derive(Debug)]
pub struct Problems {
    /// Name of the file; empty if there is none.
    pub file: String,
    /// The problems, in the order of the file.
    pub list: Vec<Problem>,
}

impl Problems {
    /// Returns the exit status of a command that refuses the configuration. It is that of wrong use
    /// if the command line is at fault, or if the file cannot be read. It is 1 if only the contents
    /// of the file are at fault.
    pub fn exit_code(&self) -> ExitCode {
        let is_of_command_line = |problem: &Problem| match problem.place {
            Place::Flag { .. } => true,
            Place::Whole {} => {
                self.file.is_empty() || matches!(problem.fault, Fault::Unreadable(_))
            }
            Place::File { .. } => false,
        };
        let is_wrong_use = self.list.iter().any(is_of_command_line);
        if is_wrong_use { ExitCode::from(WRONG_USE) } else { ExitCode::FAILURE }
    }
}

impl std::error::Error for Problems {}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Problem { place, key, fault }) in self.list.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            match place {
                Place::File { line, column } => write!(f, "{}:{line}:{column}: ", self.file)?,
                Place::Flag { flag } => write!(f, "{flag}: ")?,
                Place::Whole {} if self.file.is_empty() => {}
                Place::Whole {} => write!(f, "{}: ", self.file)?,
            }
            if !key.is_empty() {
                write!(f, "{}: ", printable(key))?;
            }
            f.write_str(&printable(&fault.to_string()))?;
        }
        Ok(())
    }
}

/// Escapes control characters in text that may come from a file, to protect the terminal.
fn printable(text: &str) -> String {
    let escaped = |character: char| match character.is_control() {
        true => character.escape_default().to_string(),
        false => character.to_string(),
    };
    text.chars().map(escaped).collect()
}

impl Serialize for Problem {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Row<'a> {
            #[serde(flatten)]
            place: Place,
            key: &'a str,
            message: String,
        }
        Row { place: self.place, key: &self.key, message: self.fault.to_string() }
            .serialize(serializer)
    }
}
