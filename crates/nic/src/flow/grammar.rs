// SPDX-License-Identifier: BSD-3-Clause
//! Parses commands: testpmd's `flow` syntax, for the items and actions that the shell knows.

use super::fields::{Field, fields};
use super::reader::{Expected, Reader, SyntaxError};
use dpdk::flow::{Action, Attributes, HashFunction, Item, ItemKind, RSS_TYPES, Rss, Rule, Value};

/// One line of the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Check whether the NIC would accept a rule.
    Validate {
        /// Number of the port.
        port: u16,
        /// The rule to check.
        rule: Rule,
    },
    /// Make a rule.
    Create {
        /// Number of the port.
        port: u16,
        /// The rule to make.
        rule: Rule,
    },
    /// Remove rules.
    Destroy {
        /// Number of the port.
        port: u16,
        /// Numbers of the rules.
        rules: Vec<u32>,
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
        /// Number of the rule.
        rule: u32,
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
        rule: Option<u32>,
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
    /// Explain the commands, or the one with this name.
    Help(Option<String>),
    /// Leave the shell.
    Quit,
}

/// Properties of a rule that can be queried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    Count,
    Age,
    Rss,
}

/// Names of values for which completion offers existing ports, rules and queues.
pub(super) const PORT: &str = "PORT";
pub(super) const RULE: &str = "RULE";
pub(super) const QUEUE: &str = "QUEUE";

/// The commands of `flow`, each with its usage.
pub(super) const COMMANDS: [(&str, &str); 10] = [
    (
        "validate",
        "flow validate PORT [ATTRIBUTE]... pattern ITEM / ... / end actions ACTION / ... / end",
    ),
    (
        "create",
        "flow create PORT [ATTRIBUTE]... pattern ITEM / ... / end actions ACTION / ... / end",
    ),
    ("destroy", "flow destroy PORT rule RULE [rule RULE]..."),
    ("flush", "flow flush PORT"),
    ("query", "flow query PORT RULE count|age|rss"),
    ("list", "flow list PORT [group GROUP]..."),
    ("isolate", "flow isolate PORT 0|1"),
    ("dump", "flow dump PORT all|rule RULE"),
    ("aged", "flow aged PORT [destroy]"),
    ("space", "flow space PORT"),
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
    } else if reader.take("help") {
        let known = reader.take_one(help_words().map(|word| (word, word)));
        Command::Help(known.or_else(|| reader.any()).map(str::to_owned))
    } else if reader.take("quit") || reader.take("exit") {
        Command::Quit
    } else {
        return Err(reader.unexpected());
    };
    reader.end()?;
    Ok(command)
}

/// Returns the words that `help` explains.
fn help_words() -> impl Iterator<Item = &'static str> {
    let commands = COMMANDS.iter().map(|(name, _)| *name);
    let items = ItemKind::ALL.iter().map(|kind| kind.name());
    commands.chain(items).chain(action_words())
}

/// Returns the names of all actions.
pub(super) fn action_words() -> impl Iterator<Item = &'static str> {
    ACTIONS.iter().map(|action| action.name).chain(["port_id", "rss"])
}

fn flow(reader: &mut Reader<'_>, queues: u16) -> Result<Command, SyntaxError> {
    let Some(name) = reader.take_one(COMMANDS.map(|(name, _)| (name, name))) else {
        return Err(reader.unexpected());
    };
    let port = reader.fitting(PORT)?;
    Ok(match name {
        "validate" => Command::Validate { port, rule: rule(reader, queues)? },
        "create" => Command::Create { port, rule: rule(reader, queues)? },
        "destroy" => {
            reader.need("rule")?;
            let mut rules = vec![reader.fitting(RULE)?];
            while reader.take("rule") {
                rules.push(reader.fitting(RULE)?);
            }
            Command::Destroy { port, rules }
        }
        "flush" => Command::Flush { port },
        "query" => Command::Query { port, rule: reader.fitting(RULE)?, query: query(reader)? },
        "list" => {
            let mut groups = Vec::new();
            while reader.take("group") {
                groups.push(reader.fitting("GROUP")?);
            }
            Command::List { port, groups }
        }
        "isolate" => Command::Isolate { port, isolate: truth(reader)? },
        "dump" => {
            let all = reader.take("all");
            let rule = if all { None } else { Some(one_rule(reader)?) };
            Command::Dump { port, rule }
        }
        "space" => Command::Space { port },
        _ => Command::Aged { port, destroy: reader.take("destroy") },
    })
}

fn query(reader: &mut Reader<'_>) -> Result<Query, SyntaxError> {
    let kinds = [("count", Query::Count), ("age", Query::Age), ("rss", Query::Rss)];
    reader.take_one(kinds).ok_or_else(|| reader.unexpected())
}

fn truth(reader: &mut Reader<'_>) -> Result<bool, SyntaxError> {
    let words = [("0", false), ("1", true), ("false", false), ("true", true)];
    let more = [("off", false), ("on", true), ("no", false), ("yes", true)];
    reader.take_one(words.into_iter().chain(more)).ok_or_else(|| reader.unexpected())
}

fn one_rule(reader: &mut Reader<'_>) -> Result<u32, SyntaxError> {
    reader.need("rule")?;
    reader.fitting(RULE)
}

fn rule(reader: &mut Reader<'_>, queues: u16) -> Result<Rule, SyntaxError> {
    let mut rule = Rule::default();
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
        } else {
            break reader.need("pattern")?;
        }
    }
    while let Some(item) = item(reader)? {
        rule.pattern.push(item);
    }
    reader.need("actions")?;
    while let Some(action) = action(reader, queues)? {
        rule.actions.push(action);
    }
    Ok(rule)
}

/// Reads an item and the `/` behind it; returns `None` at the `end`.
fn item(reader: &mut Reader<'_>) -> Result<Option<Item>, SyntaxError> {
    let Some(kind) = reader.take_one(ItemKind::ALL.map(|kind| (kind.name(), kind))) else {
        return reader.need("end").map(|()| None);
    };
    let mut item = Item::any(kind);
    while !reader.take("/") {
        let Some(field) = reader.take_one(fields(kind).iter().map(|field| (field.name, field)))
        else {
            return Err(reader.unexpected());
        };
        constrain(reader, field, &mut item)?;
    }
    Ok(Some(item))
}

/// Reads what follows the name of a field. `is` is a spec with a mask of ones.
fn constrain(reader: &mut Reader<'_>, field: &Field, item: &mut Item) -> Result<(), SyntaxError> {
    let set = |value: &mut Option<Value>, bits| {
        value.get_or_insert(Value::ZERO).set_bits(field.first, field.width, bits);
    };
    if reader.take("is") {
        set(&mut item.spec, reader.formed(field.form, field.width)?);
        set(&mut item.mask, u128::MAX);
    } else if reader.take("spec") {
        set(&mut item.spec, reader.formed(field.form, field.width)?);
    } else if reader.take("last") {
        set(&mut item.last, reader.formed(field.form, field.width)?);
    } else if reader.take("mask") {
        set(&mut item.mask, reader.formed(field.form, field.width)?);
    } else if reader.take("prefix") {
        let ones = reader.number("BITS", field.width as u128)? as usize;
        set(&mut item.mask, prefix(ones, field.width));
    } else {
        return Err(reader.unexpected());
    }
    Ok(())
}

/// Returns a mask of `width` bits that begins with `ones` ones.
pub(super) fn prefix(ones: usize, width: usize) -> u128 {
    let zeros = width - ones;
    if ones == 0 { 0 } else { u128::MAX >> (128 - ones) << zeros }
}

/// An action with at most one number.
pub(super) struct Simple {
    pub(super) name: &'static str,
    /// The number: its name, the name of its values, and its width in bits.
    pub(super) number: Option<(&'static str, &'static str, usize)>,
    make: fn(u32) -> Action,
}

const fn bare(name: &'static str, make: fn(u32) -> Action) -> Simple {
    Simple { name, number: None, make }
}

/// All actions except `port_id` and `rss`. A number that is not given is 0.
pub(super) const ACTIONS: [Simple; 11] = [
    bare("void", |_| Action::Void),
    Simple { name: "mark", number: Some(("id", "NUMBER", 32)), make: Action::Mark },
    bare("flag", |_| Action::Flag),
    Simple {
        name: "queue",
        number: Some(("index", QUEUE, 16)),
        make: |index| Action::Queue(index as u16),
    },
    bare("drop", |_| Action::Drop),
    Simple { name: "count", number: Some(("identifier", "NUMBER", 32)), make: Action::Count },
    Simple { name: "age", number: Some(("timeout", "SECONDS", 24)), make: Action::Age },
    bare("passthru", |_| Action::Passthru),
    Simple { name: "jump", number: Some(("group", "GROUP", 32)), make: Action::Jump },
    Simple {
        name: "represented_port",
        number: Some(("ethdev_port_id", PORT, 16)),
        make: |port| Action::RepresentedPort(port as u16),
    },
    Simple {
        name: "port_representor",
        number: Some(("port_id", PORT, 16)),
        make: |port| Action::PortRepresentor(port as u16),
    },
];

/// Reads an action and the `/` behind it; returns `None` at the `end`.
fn action(reader: &mut Reader<'_>, queues: u16) -> Result<Option<Action>, SyntaxError> {
    if let Some(action) = reader.take_one(ACTIONS.iter().map(|action| (action.name, action))) {
        let mut value = 0;
        while !reader.take("/") {
            let (name, noun, bits) = action.number.unwrap_or(("/", "", 0));
            reader.need(name)?;
            value = reader.number(noun, (1 << bits) - 1)? as u32;
        }
        return Ok(Some((action.make)(value)));
    }
    if reader.take("port_id") {
        return port_id(reader).map(Some);
    }
    if reader.take("rss") {
        return rss(reader, queues).map(|rss| Some(Action::Rss(rss)));
    }
    reader.need("end").map(|()| None)
}

/// Reads what follows the name of `port_id`: a port, or `original` for the port of the rule.
fn port_id(reader: &mut Reader<'_>) -> Result<Action, SyntaxError> {
    let (mut id, mut is_original) = (0, false);
    while !reader.take("/") {
        if reader.take("original") {
            is_original = truth(reader)?;
        } else {
            reader.need("id")?;
            id = reader.fitting(PORT)?;
        }
    }
    Ok(Action::PortId((!is_original).then_some(id)))
}

/// The types of an `rss` that names none: it hashes addresses.
const DEFAULT_RSS_TYPES: &str = "ip";

/// Returns names and bits of all types; `none` has no bit.
pub(super) fn rss_types() -> impl Iterator<Item = (&'static str, u64)> {
    RSS_TYPES.into_iter().chain([("none", 0)])
}

/// Bytes of the longest key that testpmd accepts (`RSS_HASH_KEY_LENGTH`).
const RSS_KEY_MAX: u128 = 64;

fn rss(reader: &mut Reader<'_>, queues: u16) -> Result<Rss, SyntaxError> {
    let default_types = rss_types().find(|(name, _)| *name == DEFAULT_RSS_TYPES);
    let mut rss = Rss {
        types: default_types.map_or(0, |(_, bits)| bits),
        queues: (0..queues).collect(),
        ..Rss::default()
    };
    while !reader.take("/") {
        if reader.take("func") {
            let functions = HashFunction::ALL.map(|(function, name)| (name, function));
            rss.func = reader.take_one(functions).ok_or_else(|| reader.unexpected())?;
        } else if reader.take("level") {
            rss.level = reader.fitting("LEVEL")?;
        } else if reader.take("types") {
            rss.types = types(reader)?;
        } else if reader.take("key") {
            (rss.key, rss.null_key_len) = (reader.hex("HEX")?, 0);
        } else if reader.take("key_len") {
            set_key_len(&mut rss, reader.number("BYTES", RSS_KEY_MAX)? as u32);
        } else if reader.take("queues") {
            rss.queues.clear();
            while !reader.take("end") {
                rss.queues.push(reader.fitting(QUEUE)?);
            }
        } else {
            return Err(reader.unexpected());
        }
    }
    Ok(rss)
}

/// Sets the length of the key as testpmd does: a given key is cut or filled with zeros; without a
/// key, only the length is set.
fn set_key_len(rss: &mut Rss, len: u32) {
    if rss.key.is_empty() {
        rss.null_key_len = len;
    } else {
        rss.key.resize(len as usize, 0);
    }
}

/// Reads the types up to the `end`; types without a name are given as a number.
fn types(reader: &mut Reader<'_>) -> Result<u64, SyntaxError> {
    let mut types = 0;
    while !reader.take("end") {
        types |= match reader.take_one(rss_types()) {
            Some(bits) => bits,
            None if reader.is_number("BITS") => reader.fitting("BITS")?,
            None => return Err(reader.unexpected()),
        };
    }
    Ok(types)
}
