// SPDX-License-Identifier: BSD-3-Clause
//! Reads typed values from the maps of a file. Each error names the line, the key and the allowed
//! values.

use super::decimal::Decimal;
use super::error::{Note, Place, ProfileError};
use super::keys::{Section, Use};
use super::yaml::{Document, Kind, NodeId};
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

/// Maximum number of items of a list, such as templates or pools.
pub(super) const MAX_ITEMS: usize = 4096;

/// A map of the file. All its keys are known.
pub(super) struct Fields<'a> {
    document: &'a Document,
    section: &'static Section,
    line: usize,
    fields: Vec<Field<'a>>,
}

/// A key of a map, and its value.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    document: &'a Document,
    key: &'a str,
    key_line: usize,
    node: NodeId,
}

impl<'a> Fields<'a> {
    /// Reads `node` as a map of `section`. Keys without effect become notes.
    pub(super) fn new(
        document: &'a Document,
        node: NodeId,
        section: &'static Section,
        notes: &mut Vec<Note>,
    ) -> Result<Self, ProfileError> {
        let line = document.node(node).line;
        let Kind::Map(entries) = &document.node(node).kind else {
            let field = Field { document, key: section.name, key_line: line, node };
            return Err(field.refuse("a map of keys and values"));
        };
        let mut fields: Vec<Field<'a>> = Vec::new();
        for entry in entries.chunks_exact(2) {
            let field = Field::new(document, entry[0], entry[1])?;
            let place = document.place(field.key_line);
            if let Some(first) = fields.iter().find(|other| other.key == field.key) {
                let (key, first) = (field.key.to_owned(), first.key_line);
                return Err(ProfileError::Repeated { place, key, first });
            }
            field.check_use(section, place, notes)?;
            fields.push(field);
        }
        Ok(Self { document, section, line, fields })
    }

    pub(super) fn get(&self, key: &'static str) -> Option<Field<'a>> {
        debug_assert_eq!(self.section.find(key), Some(Use::Meant), "{key} is in the table of keys");
        self.fields.iter().find(|field| field.key == key).copied()
    }

    pub(super) fn need(&self, key: &'static str) -> Result<Field<'a>, ProfileError> {
        let absent =
            || ProfileError::Absent { place: self.place(), section: self.section.name, key };
        self.get(key).ok_or_else(absent)
    }

    /// Returns the first line of the map.
    pub(super) fn place(&self) -> Place {
        self.document.place(self.line)
    }

    /// Reads an optional value with `read`.
    pub(super) fn read<T>(
        &self,
        key: &'static str,
        read: impl FnOnce(Field<'a>) -> Result<T, ProfileError>,
    ) -> Result<Option<T>, ProfileError> {
        self.get(key).map(read).transpose()
    }
}

impl<'a> Field<'a> {
    fn new(document: &'a Document, key: NodeId, node: NodeId) -> Result<Self, ProfileError> {
        let key_line = document.node(key).line;
        match &document.node(key).kind {
            Kind::Scalar(key) => Ok(Self { document, key, key_line, node }),
            _ => Err(Self { document, key: "a key", key_line, node: key }.refuse("a word")),
        }
    }

    /// Returns the whole document as a value. Errors call it `key`.
    pub(super) fn root(document: &'a Document, key: &'static str) -> Self {
        Self { document, key, key_line: 1, node: document.root() }
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self.document.node(self.node).kind, Kind::List(_))
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self.document.node(self.node).kind, Kind::Map(_))
    }

    fn check_use(
        &self,
        section: &'static Section,
        place: Place,
        notes: &mut Vec<Note>,
    ) -> Result<(), ProfileError> {
        match section.find(self.key) {
            Some(Use::Meant) => Ok(()),
            Some(Use::Ignored(reason)) => {
                notes.push(Note { place, text: format!("{} is ignored: {reason}", self.key) });
                Ok(())
            }
            Some(Use::Refused(reason)) => {
                Err(ProfileError::Unsupported { place, key: self.key.to_owned(), reason })
            }
            None => {
                let (key, section, nearest) =
                    (shorten(self.key), section.name, section.nearest(self.key));
                Err(ProfileError::UnknownKey { place, key, section, nearest })
            }
        }
    }

    /// Returns the line of the value.
    pub(super) fn place(&self) -> Place {
        self.document.place(self.document.node(self.node).line)
    }

    /// Returns the line of the key.
    pub(super) fn key_place(&self) -> Place {
        self.document.place(self.key_line)
    }

    /// Returns the error that this value is not allowed.
    pub(super) fn refuse(&self, allowed: impl Into<String>) -> ProfileError {
        ProfileError::Value {
            place: self.place(),
            key: self.key.to_owned(),
            found: self.document.describe(self.node),
            allowed: allowed.into(),
        }
    }

    fn scalar(&self) -> Option<&'a str> {
        match &self.document.node(self.node).kind {
            Kind::Scalar(text) => Some(text),
            _ => None,
        }
    }

    /// Reads a text that is not empty and has no control characters.
    pub(super) fn text(self) -> Result<&'a str, ProfileError> {
        let is_text = |text: &&str| !text.is_empty() && !text.contains(char::is_control);
        self.scalar().filter(is_text).ok_or_else(|| self.refuse("a text on one line"))
    }

    /// Reads one of `words`. Returns its index.
    pub(super) fn word(self, words: &[&str]) -> Result<usize, ProfileError> {
        let found = self.scalar().and_then(|text| words.iter().position(|word| *word == text));
        found.ok_or_else(|| self.refuse(words.join(", ")))
    }

    /// Reads a whole number in `range`: decimal, or hexadecimal with 0x.
    pub(super) fn integer(self, range: RangeInclusive<u64>) -> Result<u64, ProfileError> {
        let parse = |text: &str| match text.strip_prefix("0x") {
            Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
            Some(_) => None,
            None if text.starts_with('+') => None,
            None => text.parse().ok(),
        };
        let number = self.scalar().and_then(parse).filter(|number| range.contains(number));
        let (low, high) = (range.start(), range.end());
        number.ok_or_else(|| self.refuse(format!("a whole number from {low} to {high}")))
    }

    /// Reads a decimal number in `range`.
    pub(super) fn decimal(self, range: RangeInclusive<Decimal>) -> Result<Decimal, ProfileError> {
        let number = self.scalar().and_then(|text| text.parse().ok());
        let (low, high) = (range.start(), range.end());
        let allowed = || format!("a number from {low} to {high}, with at most six decimal places");
        number.filter(|it| range.contains(it)).ok_or_else(|| self.refuse(allowed()))
    }

    /// Reads a boolean: true or false, yes or no, on or off, 1 or 0.
    pub(super) fn boolean(self) -> Result<bool, ProfileError> {
        match self.scalar() {
            Some("true" | "True" | "TRUE" | "yes" | "on" | "1") => Ok(true),
            Some("false" | "False" | "FALSE" | "no" | "off" | "0") => Ok(false),
            _ => Err(self.refuse("true or false")),
        }
    }

    /// Reads a MAC address: six hexadecimal bytes with colons between them, or a list of six
    /// numbers.
    pub(super) fn mac(self) -> Result<[u8; 6], ProfileError> {
        const ALLOWED: &str = "a MAC address, such as \"00:01:02:03:04:05\" or a list of 6 bytes";
        let mut mac = [0; 6];
        if self.is_list() {
            let items = self.list().map_err(|_| self.refuse(ALLOWED))?;
            if items.len() != mac.len() {
                return Err(self.refuse(ALLOWED));
            }
            for (byte, item) in mac.iter_mut().zip(items) {
                *byte = item.integer(0..=0xff)? as u8;
            }
            return Ok(mac);
        }
        let mut bytes = self.scalar().unwrap_or_default().split(':').map(|digits| {
            let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)
        });
        for byte in &mut mac {
            *byte = bytes.next().flatten().ok_or_else(|| self.refuse(ALLOWED))?;
        }
        if bytes.next().is_some() { Err(self.refuse(ALLOWED)) } else { Ok(mac) }
    }

    /// Reads an IPv4 address.
    pub(super) fn address(self) -> Result<Ipv4Addr, ProfileError> {
        let address = self.scalar().and_then(|text| text.parse().ok());
        address.ok_or_else(|| self.refuse("an IPv4 address, such as \"16.0.0.1\""))
    }

    /// Reads a list of one to [`MAX_ITEMS`] items.
    pub(super) fn list(self) -> Result<Vec<Field<'a>>, ProfileError> {
        let Kind::List(items) = &self.document.node(self.node).kind else {
            return Err(self.refuse(format!("a list of 1 to {MAX_ITEMS} items")));
        };
        if items.is_empty() || items.len() > MAX_ITEMS {
            return Err(self.refuse(format!("a list of 1 to {MAX_ITEMS} items")));
        }
        Ok(items.iter().map(|&node| Field { node, ..self }).collect())
    }

    /// Reads a map of `section`.
    pub(super) fn map(
        self,
        section: &'static Section,
        notes: &mut Vec<Note>,
    ) -> Result<Fields<'a>, ProfileError> {
        Fields::new(self.document, self.node, section, notes)
    }

    /// Reads the first six groups of an IPv6 address, as a list of six numbers.
    pub(super) fn prefix(self) -> Result<[u8; 12], ProfileError> {
        const ALLOWED: &str = "a list of six numbers from 0 to 65535";
        let groups = self.list().map_err(|_| self.refuse(ALLOWED))?;
        let groups: &[Field<'_>; 6] =
            groups.as_slice().try_into().map_err(|_| self.refuse(ALLOWED))?;
        let mut prefix = [0; 12];
        for (bytes, group) in prefix.chunks_exact_mut(2).zip(groups) {
            bytes.copy_from_slice(&(group.integer(0..=0xffff)? as u16).to_be_bytes());
        }
        Ok(prefix)
    }
}

/// Returns the first 40 characters of a key, with control characters escaped.
fn shorten(key: &str) -> String {
    let shown: String = key.chars().take(40).flat_map(char::escape_debug).collect();
    if key.chars().nth(40).is_some() { shown + "..." } else { shown }
}
