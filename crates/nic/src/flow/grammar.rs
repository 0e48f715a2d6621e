// SPDX-License-Identifier: BSD-3-Clause
//! Parses commands: testpmd's syntax for flow rules, of DPDK 22.11 and 24.11.

mod actions;
mod not_here;
mod pattern;
mod set;

use super::reader::{Expected, Reader, SyntaxError};
pub(super) use actions::{ACTIONS, rss_types};
use dpdk::flow::{Action, Attributes, ItemKind, OtherActionKind, Rule};
pub(super) use pattern::prefix;
pub use set::Setting;
pub(super) use set::{DEFAULTS, SET_USAGES};

/// One line of the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Check whether the NIC would accept a rule.
    Validate {
        /// Number of the port.
        port: u16,
        /// The rule to check.
        rule: Rule,
        /// What else the line says of it.
        options: RuleOptions,
    },
    /// Make a rule.
    Create {
        /// Number of the port.
        port: u16,
        /// The rule to make.
        rule: Rule,
        /// What else the line says of it.
        options: RuleOptions,
    },
    /// Remove rules.
    Destroy {
        /// Number of the port.
        port: u16,
        /// The rules.
        rules: Vec<RuleName>,
    },
    /// Remove all rules of a port.
    Flush {
        /// Number of the port.
        port: u16,
    },
    /// Print counters, age or queues of a rule.
    Query {
        /// Number of the port.
        port: u16,
        /// The rule.
        rule: RuleName,
        /// The property to query.
        query: Query,
    },
    /// List the rules of a port.
    List {
        /// Number of the port.
        port: u16,
        /// Only rules of these groups, if any is given.
        groups: Vec<u32>,
    },
    /// Begin or end isolated mode, in which only packets that match rules arrive.
    Isolate {
        /// Number of the port.
        port: u16,
        /// True to begin it.
        isolate: bool,
    },
    /// Print the driver's own description of its rules.
    Dump {
        /// Number of the port.
        port: u16,
        /// Only this rule.
        rule: Option<RuleName>,
        /// The file to write to, instead of the terminal.
        file: Option<String>,
    },
    /// List the rules whose timeout is over.
    Aged {
        /// Number of the port.
        port: u16,
        /// True to remove them as well.
        destroy: bool,
    },
    /// Print how many rules fit into the table of the port.
    Space {
        /// Number of the port.
        port: u16,
    },
    /// Print the port's resources for rules by templates.
    Info {
        /// Number of the port.
        port: u16,
    },
    /// Do something with actions that rules share.
    Indirect {
        /// Number of the port.
        port: u16,
        /// What to do.
        what: Indirect,
    },
    /// Keep data that actions refer to.
    Set(Setting),
    /// Print something about a port.
    Show {
        /// What to print.
        what: Show,
        /// Number of the port; all ports if there is none.
        port: Option<u16>,
    },
    /// A command of testpmd that this shell does not carry out, and the reason.
    NotHere {
        /// First words of the command.
        name: String,
        /// Why not, and what to use instead.
        reason: &'static str,
    },
    /// Explain the commands, or the one with this name.
    Help(Option<String>),
    /// Leave the shell.
    Quit,
}

/// What a line says of a rule that is not part of it for the NIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleOptions {
    /// The user's own number for the rule.
    pub user_id: Option<u64>,
    /// The tunnel that the rule belongs to.
    pub tunnel: Option<u32>,
}

/// How a command names a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleName {
    /// By the shell's number.
    Number(u64),
    /// By the number that the user gave it.
    UserId(u64),
}

/// Properties of a rule that can be queried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    Count,
    Age,
    Rss,
    /// An action that has nothing to query.
    Other(&'static str),
}

/// What to do with an indirect action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Indirect {
    /// Create it.
    Create { id: Option<u32>, attributes: Attributes, action: Action },
    /// Change it for all rules that have it.
    Update { id: u32, action: Action },
    /// Destroy some.
    Destroy { ids: Vec<u32> },
    /// Print its counters or age.
    Query { id: u32 },
}

/// What `show port` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    Info,
    Stats,
    Fdir,
}

/// Names of values for which completion offers existing ports, rules and queues.
pub(super) const PORT: &str = "PORT";
pub(super) const RULE: &str = "RULE";
pub(super) const QUEUE: &str = "QUEUE";

/// The commands of `flow`, each with its usage.
pub(super) const COMMANDS: [(&str, &str); 12] = [
    (
        "validate",
        "flow validate PORT [ATTRIBUTE]... pattern ITEM / ... / end actions ACTION / ... / end",
    ),
    (
        "create",
        "flow create PORT [ATTRIBUTE]... pattern ITEM / ... / end actions ACTION / ... / end",
    ),
    ("destroy", "flow destroy PORT rule RULE [rule RULE]... [user_id]"),
    ("flush", "flow flush PORT"),
    ("query", "flow query PORT RULE count|age|rss [user_id]"),
    ("list", "flow list PORT [group GROUP]..."),
    ("isolate", "flow isolate PORT 0|1"),
    ("dump", "flow dump PORT all|rule RULE [FILE]"),
    ("aged", "flow aged PORT [destroy]"),
    ("space", "flow space PORT"),
    ("info", "flow info PORT"),
    (
        "indirect_action",
        "flow indirect_action PORT create [action_id ID] [ingress|egress|transfer]... \
         action ACTION / end | update ID action ACTION / end | destroy action_id ID... | query ID",
    ),
];

/// Parses a line; returns `None` if it is empty. `queues` is the number of receive queues that an
/// `rss` without queues uses.
pub fn parse(line: &str, queues: u16) -> Result<Option<Command>, SyntaxError> {
    let mut reader = Reader::new(line);
    if reader.is_at_end() {
        return Ok(None);
    }
    command(&mut reader, queues).map(Some)
}

/// Returns the words and values that may follow `line`, the beginning of a command or a whole one;
/// none if it is neither.
pub(super) fn expected_after(line: &str) -> Vec<Expected> {
    let mut reader = Reader::new(line);
    match command(&mut reader, 1) {
        Ok(_) => reader.into_expected(),
        Err(error) if error.place.is_empty() => error.expected,
        Err(_) => Vec::new(),
    }
}

fn command(reader: &mut Reader<'_>, queues: u16) -> Result<Command, SyntaxError> {
    let command = if reader.take("flow") {
        flow(reader, queues)?
    } else if reader.take("set") {
        set::set(reader, queues)?
    } else if reader.take("show") {
        show(reader)?
    } else if reader.take("help") {
        let known = reader.take_one(help_words().map(|word| (word, word)));
        Command::Help(known.or_else(|| reader.any()).map(str::to_owned))
    } else if reader.take("quit") || reader.take("exit") {
        Command::Quit
    } else {
        not_here::other(reader).ok_or_else(|| reader.unexpected())?
    };
    reader.end()?;
    Ok(command)
}

/// Returns the words that `help` explains.
pub(super) fn help_words() -> impl Iterator<Item = &'static str> {
    let commands = COMMANDS.iter().map(|(name, _)| *name).chain(["set", "show"]);
    let items = ItemKind::all().map(ItemKind::name);
    commands.chain(items).chain(action_words())
}

/// Returns the names of all actions.
pub(super) fn action_words() -> impl Iterator<Item = &'static str> {
    let others = OtherActionKind::all().map(OtherActionKind::name);
    ACTIONS.iter().map(|action| action.name).chain(["port_id", "rss"]).chain(others)
}

fn flow(reader: &mut Reader<'_>, queues: u16) -> Result<Command, SyntaxError> {
    let shared = ("shared_action", "indirect_action");
    let names = COMMANDS.iter().map(|(name, _)| (*name, *name)).chain([shared]);
    let Some(name) = reader.take_one(names) else {
        return not_here::flow(reader).ok_or_else(|| reader.unexpected());
    };
    let port = reader.fitting(PORT)?;
    Ok(match name {
        "validate" => {
            let (rule, options) = rule(reader, queues)?;
            Command::Validate { port, rule, options }
        }
        "create" => {
            let (rule, options) = rule(reader, queues)?;
            Command::Create { port, rule, options }
        }
        "destroy" => {
            reader.need("rule")?;
            let mut rules = vec![reader.fitting(RULE)?];
            while reader.take("rule") {
                rules.push(reader.fitting(RULE)?);
            }
            let name = rule_name(reader);
            Command::Destroy { port, rules: rules.into_iter().map(name).collect() }
        }
        "flush" => Command::Flush { port },
        "query" => {
            let rule = reader.fitting(RULE)?;
            let query = query(reader)?;
            Command::Query { port, rule: rule_name(reader)(rule), query }
        }
        "list" => {
            let mut groups = Vec::new();
            while reader.take("group") {
                groups.push(reader.fitting("GROUP")?);
            }
            Command::List { port, groups }
        }
        "isolate" => Command::Isolate { port, isolate: reader.truth()? },
        "dump" => dump(reader, port)?,
        "space" => Command::Space { port },
        "info" => Command::Info { port },
        "indirect_action" => indirect(reader, port, queues)?,
        _ => Command::Aged { port, destroy: reader.take("destroy") },
    })
}

/// Reads `user_id`, if it is there; returns how the numbers before it name rules.
fn rule_name(reader: &mut Reader<'_>) -> fn(u64) -> RuleName {
    if reader.take("user_id") { RuleName::UserId } else { RuleName::Number }
}

fn dump(reader: &mut Reader<'_>, port: u16) -> Result<Command, SyntaxError> {
    let name = rule_name(reader);
    let rule = match reader.take("all") {
        true => None,
        false => {
            reader.need("rule")?;
            Some(name(reader.fitting(RULE)?))
        }
    };
    let file = (!reader.is_at_end()).then(|| reader.word_for("FILE")).transpose()?;
    Ok(Command::Dump { port, rule, file })
}

fn query(reader: &mut Reader<'_>) -> Result<Query, SyntaxError> {
    let kinds = [("count", Query::Count), ("age", Query::Age), ("rss", Query::Rss)];
    if let Some(query) = reader.take_one(kinds) {
        return Ok(query);
    }
    let others = action_words().map(|name| (name, Query::Other(name)));
    reader.take_one_of_hidden(others).ok_or_else(|| reader.unexpected())
}

fn indirect(reader: &mut Reader<'_>, port: u16, queues: u16) -> Result<Command, SyntaxError> {
    let words = ["create", "update", "destroy", "query"].map(|word| (word, word));
    let what = match reader.take_one(words) {
        Some("create") => return create_indirect(reader, port, queues),
        Some("update") => {
            let id = reader.fitting(ACTION_ID)?;
            reader.need("action")?;
            Indirect::Update { id, action: one_action(reader, queues)? }
        }
        Some("destroy") => {
            reader.need("action_id")?;
            let mut ids = vec![reader.fitting(ACTION_ID)?];
            while reader.take("action_id") {
                ids.push(reader.fitting(ACTION_ID)?);
            }
            Indirect::Destroy { ids }
        }
        Some(_) => Indirect::Query { id: reader.fitting(ACTION_ID)? },
        None => return not_here::indirect(reader).ok_or_else(|| reader.unexpected()),
    };
    Ok(Command::Indirect { port, what })
}

const ACTION_ID: &str = "ACTION_ID";

fn create_indirect(
    reader: &mut Reader<'_>,
    port: u16,
    queues: u16,
) -> Result<Command, SyntaxError> {
    let (mut id, mut attributes) = (None, Attributes::default());
    loop {
        if reader.take("action_id") {
            id = Some(reader.fitting(ACTION_ID)?);
        } else if reader.take("ingress") {
            attributes.ingress = true;
        } else if reader.take("egress") {
            attributes.egress = true;
        } else if reader.take("transfer") {
            attributes.transfer = true;
        } else if let Some(not_here) = not_here::indirect(reader) {
            return Ok(not_here);
        } else {
            break reader.need("action")?;
        }
    }
    let action = one_action(reader, queues)?;
    Ok(Command::Indirect { port, what: Indirect::Create { id, attributes, action } })
}

/// Reads one action and the `end` behind it.
fn one_action(reader: &mut Reader<'_>, queues: u16) -> Result<Action, SyntaxError> {
    match actions::action(reader, queues)? {
        Some(action) => {
            reader.need("end")?;
            Ok(action)
        }
        None => Err(reader.unexpected()),
    }
}

fn rule(reader: &mut Reader<'_>, queues: u16) -> Result<(Rule, RuleOptions), SyntaxError> {
    let (mut rule, mut options) = (Rule::default(), RuleOptions::default());
    let Attributes { group, priority, ingress, egress, transfer } = &mut rule.attributes;
    loop {
        if reader.take("group") {
            *group = reader.fitting("GROUP")?;
        } else if reader.take("priority") {
            *priority = reader.fitting("PRIORITY")?;
        } else if reader.take("ingress") {
            *ingress = true;
        } else if reader.take("egress") {
            *egress = true;
        } else if reader.take("transfer") {
            *transfer = true;
        } else if reader.take("tunnel_set") || reader.take("tunnel_match") {
            options.tunnel = Some(reader.fitting("TUNNEL")?);
        } else if reader.take("user_id") {
            options.user_id = Some(reader.fitting("NUMBER")?);
        } else {
            break reader.need("pattern")?;
        }
    }
    rule.pattern = pattern::items(reader, "end")?;
    reader.need("actions")?;
    rule.actions = actions::actions(reader, queues)?;
    Ok((rule, options))
}

/// Reads what follows `show`.
fn show(reader: &mut Reader<'_>) -> Result<Command, SyntaxError> {
    if !reader.take("port") {
        return not_here::show(reader).ok_or_else(|| reader.unexpected());
    }
    let kinds = [("info", Show::Info), ("stats", Show::Stats), ("fdir", Show::Fdir)];
    if let Some(what) = reader.take_one(kinds) {
        let port = (!reader.take("all")).then(|| reader.fitting(PORT)).transpose()?;
        return Ok(Command::Show { what, port });
    }
    if reader.is_number(PORT) {
        let port = Some(reader.fitting(PORT)?);
        if let Some(what) = reader.take_one(kinds) {
            return Ok(Command::Show { what, port });
        }
    }
    not_here::show(reader).ok_or_else(|| reader.unexpected())
}
