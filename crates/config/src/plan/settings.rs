// SPDX-License-Identifier: BSD-3-Clause
//! Collects the settings of a plan with their origins, and formats them.
//!
//! Their text is a configuration: reading it gives the same plan.

use crate::{
    Bypass, CHECKSUMS, Choices, Devargs, EVICT, FRAGMENTS, Folder, HUGE, Huge, INVALID, Located,
    MALFORMED, MARK_POLICY, MarkPolicy, NEIGHBOUR_DISCOVERY, PICK_UP, Place, Policy, RULE_API,
    RuleApi, Socket, TCP, TRACKING, WHEN_FULL, ZONE, check_words,
};
use engine::{
    ChecksumCheck, Evict, InvalidFragments, InvalidPackets, MalformedPackets, MarkVerification,
    NeighbourDiscovery, TcpPickup, TcpWindowCheck, Tracking, WhenFull, ZoneSource,
};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt;

/// Origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Origin {
    /// The configuration file.
    File,
    /// A flag of the command line.
    Flag,
    /// A default that is the same on every host and for every configuration.
    Default,
    /// Computed from other values or from the host.
    Computed,
}

impl From<Place> for Origin {
    fn from(place: Place) -> Self {
        match place {
            Place::File { .. } | Place::Whole {} => Self::File,
            Place::Flag { .. } => Self::Flag,
        }
    }
}

/// Every setting of a plan, in sections.
#[derive(Debug, Default)]
pub struct Settings(Vec<Section>);

#[derive(Debug)]
struct Section {
    name: &'static str,
    /// True for one of several sections of the same name, such as `[[pair]]`.
    repeats: bool,
    rows: Vec<(&'static str, Value, Origin)>,
}

impl Settings {
    /// Begins the section of the next values.
    pub(crate) fn open(&mut self, name: &'static str) {
        self.0.push(Section { name, repeats: false, rows: Vec::new() });
    }

    /// Begins another section of the same name.
    pub(crate) fn open_element(&mut self, name: &'static str) {
        self.0.push(Section { name, repeats: true, rows: Vec::new() });
    }

    /// Returns and notes the written value, or else the default.
    pub(crate) fn take<T: Show>(
        &mut self,
        key: &'static str,
        written: Option<Located<T>>,
        default: T,
    ) -> T {
        self.take_or(key, written, default, Origin::Default)
    }

    /// Returns and notes the written value, or else one that was computed.
    pub(crate) fn take_or_compute<T: Show>(
        &mut self,
        key: &'static str,
        written: Option<Located<T>>,
        computed: T,
    ) -> T {
        self.take_or(key, written, computed, Origin::Computed)
    }

    /// Returns and notes the written value, if there is one; it is shown as text.
    pub(crate) fn take_text<T>(
        &mut self,
        key: &'static str,
        written: Option<Located<T>>,
        show: impl Fn(&T) -> String,
    ) -> Option<T> {
        let Located { value, place } = written?;
        self.note(key, show(&value), place.into());
        Some(value)
    }

    /// Returns and notes the written value, which has no default.
    pub(crate) fn require<T: Show>(&mut self, key: &'static str, written: Located<T>) -> T {
        self.note(key, written.value, written.place.into())
    }

    /// Notes a value whose origin is known; returns it.
    pub(crate) fn note<T: Show>(&mut self, key: &'static str, value: T, origin: Origin) -> T {
        let section = self.0.last_mut().expect("a value belongs to a section");
        section.rows.push((key, value.show(), origin));
        value
    }

    fn take_or<T: Show>(
        &mut self,
        key: &'static str,
        written: Option<Located<T>>,
        otherwise: T,
        origin: Origin,
    ) -> T {
        match written {
            Some(Located { value, place }) => self.note(key, value, place.into()),
            None => self.note(key, otherwise, origin),
        }
    }

    /// Returns the text of every value under its full name, such as `pair[0].a`.
    pub(super) fn values(&self) -> Vec<(String, String)> {
        let (mut values, mut counts) = (Vec::new(), BTreeMap::new());
        for Section { name, repeats, rows } in &self.0 {
            let count = counts.entry(name).or_insert(0);
            let place = if *repeats { format!("[{count}]") } else { String::new() };
            *count += 1;
            let named =
                rows.iter().map(|(key, value, _)| (format!("{name}{place}.{key}"), toml(value)));
            values.extend(named);
        }
        values
    }

    /// Returns `{"pair": [{"a": {"value": ..., "from": ...}}], "table": {...}}`.
    pub fn to_json(&self) -> Value {
        let mut all = Map::new();
        for section in &self.0 {
            let rows = section.rows.iter().map(|(key, value, origin)| {
                ((*key).to_owned(), json!({ "value": value, "from": origin }))
            });
            let rows = Value::Object(rows.collect());
            if section.repeats {
                let list = all.entry(section.name).or_insert_with(|| json!([]));
                list.as_array_mut().expect("a name repeats always or never").push(rows);
            } else {
                all.insert(section.name.to_owned(), rows);
            }
        }
        Value::Object(all)
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Section { name, repeats, rows }) in self.0.iter().enumerate() {
            let gap = if index == 0 { "" } else { "\n" };
            if *repeats {
                writeln!(f, "{gap}[[{name}]]")?;
            } else {
                writeln!(f, "{gap}[{name}]")?;
            }
            for (key, value, origin) in rows {
                let assignment = format!("{key} = {}", toml(value));
                match origin {
                    Origin::File => writeln!(f, "{assignment}")?,
                    Origin::Flag => writeln!(f, "{assignment:<39} # command line")?,
                    Origin::Default => writeln!(f, "{assignment:<39} # default")?,
                    Origin::Computed => writeln!(f, "{assignment:<39} # computed")?,
                }
            }
        }
        Ok(())
    }
}

/// Formats a value as TOML. JSON scalars and lists are TOML, except for control characters that
/// JSON does not escape. Thousands of numbers are grouped.
fn toml(value: &Value) -> String {
    match value {
        Value::Number(number) if number.is_u64() => grouped(&number.to_string()),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(toml).collect();
            format!("[{}]", items.join(", "))
        }
        other => {
            let escaped = |character: char| match character.is_control() {
                true => format!("\\u{:04x}", u32::from(character)),
                false => character.to_string(),
            };
            other.to_string().chars().map(escaped).collect()
        }
    }
}

/// Formats `1048576` as `1_048_576`; numbers of four digits stay as they are.
fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if digits.len() > 4 && index > 0 && (digits.len() - index) % 3 == 0 {
            text.push('_');
        }
        text.push(digit);
    }
    text
}

/// A value that can be shown in JSON and TOML.
pub(crate) trait Show {
    /// Returns the value as the configuration spells it.
    fn show(&self) -> Value;
}

impl Show for bool {
    fn show(&self) -> Value {
        json!(self)
    }
}

impl Show for u16 {
    fn show(&self) -> Value {
        json!(self)
    }
}

impl Show for u32 {
    fn show(&self) -> Value {
        json!(self)
    }
}

impl Show for f64 {
    fn show(&self) -> Value {
        json!(self)
    }
}

impl Show for String {
    fn show(&self) -> Value {
        json!(self)
    }
}

impl Show for Vec<u32> {
    fn show(&self) -> Value {
        json!(self)
    }
}

impl Show for Vec<String> {
    fn show(&self) -> Value {
        json!(self)
    }
}

impl Show for Devargs {
    fn show(&self) -> Value {
        json!(self.to_string())
    }
}

impl Show for Policy {
    fn show(&self) -> Value {
        json!(self.to_string())
    }
}

impl Show for Bypass {
    fn show(&self) -> Value {
        json!(self.to_string())
    }
}

impl Show for Socket {
    fn show(&self) -> Value {
        json!(self.to_string())
    }
}

impl Show for Folder {
    fn show(&self) -> Value {
        json!(self.to_string())
    }
}

impl Show for MarkVerification {
    fn show(&self) -> Value {
        json!(check_words(*self))
    }
}

impl Show for RuleApi {
    fn show(&self) -> Value {
        spelled(RULE_API, self)
    }
}

impl Show for MarkPolicy {
    fn show(&self) -> Value {
        spelled(MARK_POLICY, self)
    }
}

impl Show for Huge {
    fn show(&self) -> Value {
        spelled(HUGE, self)
    }
}

impl Show for WhenFull {
    fn show(&self) -> Value {
        spelled(WHEN_FULL, self)
    }
}

impl Show for MalformedPackets {
    fn show(&self) -> Value {
        spelled(MALFORMED, self)
    }
}

impl Show for Tracking {
    fn show(&self) -> Value {
        spelled(TRACKING, self)
    }
}

impl Show for TcpWindowCheck {
    fn show(&self) -> Value {
        spelled(TCP, self)
    }
}

impl Show for TcpPickup {
    fn show(&self) -> Value {
        spelled(PICK_UP, self)
    }
}

impl Show for Evict {
    fn show(&self) -> Value {
        spelled(EVICT, self)
    }
}

impl Show for ChecksumCheck {
    fn show(&self) -> Value {
        spelled(CHECKSUMS, self)
    }
}

impl Show for NeighbourDiscovery {
    fn show(&self) -> Value {
        spelled(NEIGHBOUR_DISCOVERY, self)
    }
}

impl Show for InvalidPackets {
    fn show(&self) -> Value {
        spelled(INVALID, self)
    }
}

impl Show for InvalidFragments {
    fn show(&self) -> Value {
        spelled(FRAGMENTS, self)
    }
}

impl Show for ZoneSource {
    fn show(&self) -> Value {
        spelled(ZONE, self)
    }
}

/// Returns the spelling of a choice, which is both TOML and JSON.
pub(crate) fn spelled<T: PartialEq>(choices: &Choices<T>, value: &T) -> Value {
    let spelling = choices.iter().find(|(_, choice)| choice == value).map(|(spelling, _)| spelling);
    spelling.and_then(|text| serde_json::from_str(text).ok()).expect("every value has a spelling")
}
