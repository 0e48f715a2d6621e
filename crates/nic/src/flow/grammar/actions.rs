// SPDX-License-Identifier: BSD-3-Clause
//! Parses actions.

use super::{PORT, QUEUE};
use crate::flow::fields::{ActionField, Form, Keeps, action_fields, keeps};
use crate::flow::reader::{Reader, SyntaxError};
use dpdk::flow::{
    Action, ActionData, HashFunction, OtherAction, OtherActionKind, RSS_TYPES, Rss, set_bits_of,
};

/// Reads actions up to `end`.
pub(super) fn actions(reader: &mut Reader<'_>, queues: u16) -> Result<Vec<Action>, SyntaxError> {
    let mut actions = Vec::new();
    while let Some(action) = action(reader, queues)? {
        actions.push(action);
    }
    Ok(actions)
}

/// An action with at most one number.
pub(in crate::flow) struct Simple {
    pub(in crate::flow) name: &'static str,
    /// The number: its name, the name of its values, and its width in bits.
    pub(in crate::flow) number: Option<(&'static str, &'static str, usize)>,
    make: fn(u32) -> Action,
}

const fn bare(name: &'static str, make: fn(u32) -> Action) -> Simple {
    Simple { name, number: None, make }
}

/// All actions except `port_id` and `rss`. A number that is not given is 0.
pub(in crate::flow) const ACTIONS: [Simple; 11] = [
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
pub(super) fn action(reader: &mut Reader<'_>, queues: u16) -> Result<Option<Action>, SyntaxError> {
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
    if let Some(kind) = reader.take_one(OtherActionKind::all().map(|kind| (kind.name(), kind))) {
        return other(reader, kind).map(|other| Some(Action::Other(Box::new(other))));
    }
    reader.need("end").map(|()| None)
}

/// Reads what follows the name of an action that only the shell uses, and the `/` behind it.
fn other(reader: &mut Reader<'_>, kind: OtherActionKind) -> Result<OtherAction, SyntaxError> {
    let mut action = kind.zeroed();
    match (keeps(kind.name()), kind.name()) {
        (Keeps::Number, _) => action.data = ActionData::Kept(reader.fitting("ACTION_ID")?),
        (Keeps::One | Keeps::Numbered, _) => action.data = ActionData::Kept(0),
        // A mask that is not given has all bits.
        (_, "set_meta") => set_bits_of(&mut action.conf, 32, 32, u128::MAX),
        (_, "shared_indirect") => {
            let [port, id] = [reader.fitting::<u16>(PORT)?.into(), reader.fitting("ACTION_ID")?];
            set_bits_of(&mut action.conf, 0, 16, port);
            set_bits_of(&mut action.conf, 16, 32, id);
            reader.need("/")?;
            return Ok(action);
        }
        _ => (),
    }
    while !reader.take("/") {
        if keeps(kind.name()) == Keeps::Numbered && reader.take("index") {
            action.data = ActionData::Kept(reader.fitting::<u16>("INDEX")?.into());
        } else if kind.name() == "conntrack_update" {
            let bits = [("dir", 72 * 8 + 31), ("ctx", 72 * 8 + 30)];
            let Some(bit) = reader.take_one(bits) else { return Err(reader.unexpected()) };
            set_bits_of(&mut action.conf, bit, 1, 1);
        } else {
            set_field(reader, action_fields(kind.name()), &mut action)?;
        }
    }
    Ok(action)
}

/// Reads name and value of a field of an action.
fn set_field(
    reader: &mut Reader<'_>,
    fields: &'static [ActionField],
    action: &mut OtherAction,
) -> Result<(), SyntaxError> {
    let named = fields.iter().map(|field| (field.name, field));
    let Some(field) = reader.take_one(named) else { return Err(reader.unexpected()) };
    if field.form != Form::Hex {
        let value = reader.formed(field.form, field.width)?;
        set_bits_of(&mut action.conf, field.first, field.width, value);
        if action.kind.name() == "age_update" && field.name == "timeout" {
            set_bits_of(&mut action.conf, AGE_TIMEOUT_IS_GIVEN, 1, 1);
        }
        return Ok(());
    }
    let bytes = reader.short_hex(field.form.noun(), HEX_MAX)?;
    if field.width == 0 {
        let is_given = !bytes.is_empty();
        action.data = if is_given { ActionData::Bytes(bytes) } else { ActionData::None };
    } else {
        let room = &mut action.conf[field.first / 8..][..field.width / 8];
        room.fill(0);
        let len = bytes.len().min(room.len());
        room[..len].copy_from_slice(&bytes[..len]);
    }
    Ok(())
}

/// The bit of an `age_update` that says that it has a timeout.
const AGE_TIMEOUT_IS_GIVEN: usize = 25;
/// Bytes of the value that `modify_field` sets.
const HEX_MAX: usize = 16;

/// Reads what follows the name of `port_id`: a port, or `original` for the port of the rule.
fn port_id(reader: &mut Reader<'_>) -> Result<Action, SyntaxError> {
    let (mut id, mut is_original) = (0, false);
    while !reader.take("/") {
        if reader.take("original") {
            is_original = reader.truth()?;
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
pub(in crate::flow) fn rss_types() -> impl Iterator<Item = (&'static str, u64)> {
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
