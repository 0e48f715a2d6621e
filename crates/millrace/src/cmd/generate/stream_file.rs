// SPDX-License-Identifier: BSD-3-Clause
//! Reads streams from a TOML file: a `[[stream]]` for each, with the keys of `--stream`.

use std::fs;
use std::io;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use traffic::stream::{SpecError, StreamSpec};

/// Keys and values of a stream.
pub(super) type Pairs = Vec<(String, String)>;

/// The reason why a file of streams is refused.
#[derive(Debug, thiserror::Error)]
#[error("{file}:{line}: {fault}")]
pub(super) struct StreamFileError {
    file: String,
    line: usize,
    fault: Fault,
}

#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    #[error("not TOML: {0}")]
    Syntax(String),
    #[error("there is no stream: write [[stream]], and its keys below")]
    NoStream,
    #[error("a file of streams has no key {0}, only tables [[stream]]")]
    UnknownKey(String),
    #[error("{key} is {found}; write a string or a whole number")]
    WrongType { key: String, found: &'static str },
    #[error(transparent)]
    Spec(#[from] SpecError),
}

/// Reads the streams of a file, in their order.
pub(super) fn read(path: &Path) -> Result<Vec<Pairs>, StreamFileError> {
    let file = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| StreamFileError {
        file: file.clone(),
        line: 1,
        fault: Fault::Unreadable(error),
    })?;
    parse(&text).map_err(|(offset, fault)| {
        let line = text.get(..offset).unwrap_or_default().matches('\n').count() + 1;
        StreamFileError { file, line, fault }
    })
}

/// A result whose error has a byte offset.
type At<T> = Result<T, (usize, Fault)>;

fn parse(text: &str) -> At<Vec<Pairs>> {
    let table = DeTable::parse(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        (offset, Fault::Syntax(error.message().to_owned()))
    })?;
    let mut streams = Vec::new();
    for (key, value) in table.get_ref() {
        let DeValue::Array(tables) = value.get_ref() else {
            return Err((key.span().start, Fault::UnknownKey(key.get_ref().to_string())));
        };
        if key.get_ref() != "stream" {
            return Err((key.span().start, Fault::UnknownKey(key.get_ref().to_string())));
        }
        for table in tables {
            streams.push(stream(streams.len(), table)?);
        }
    }
    if streams.is_empty() { Err((0, Fault::NoStream)) } else { Ok(streams) }
}

/// Reads one stream, and checks it.
fn stream(number: usize, value: &Spanned<DeValue>) -> At<Pairs> {
    let place = value.span().start;
    let DeValue::Table(table) = value.get_ref() else { return Err((place, Fault::NoStream)) };
    let mut pairs = Pairs::new();
    for (key, value) in table {
        let text = scalar(value.get_ref()).ok_or_else(|| {
            let (key, found) = (key.get_ref().to_string(), kind(value.get_ref()));
            (value.span().start, Fault::WrongType { key, found })
        })?;
        pairs.push((key.get_ref().to_string(), text));
    }
    let place_of = |key: &str| {
        let found = table.iter().find(|(name, _)| name.get_ref() == key);
        found.map_or(place, |(name, _)| name.span().start)
    };
    match StreamSpec::from_pairs(number, pairs.clone()) {
        Ok(_) => Ok(pairs),
        Err(error) => {
            let place = match &error {
                SpecError::UnknownKey { key } | SpecError::Twice(key) => place_of(key),
                SpecError::Value { key, .. } => place_of(key),
            };
            Err((place, error.into()))
        }
    }
}

fn scalar(value: &DeValue) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(integer) => {
            let number = i64::from_str_radix(integer.as_str(), integer.radix()).ok()?;
            Some(number.to_string())
        }
        _ => None,
    }
}

fn kind(value: &DeValue) -> &'static str {
    match value {
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
        DeValue::String(_) | DeValue::Integer(_) => "out of range",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_keys_of_the_command_line() {
        let text = "# two\n[[stream]]\nname = \"dns\"\nsize = 80\ndport = \"53,853\"\n\n\
                    [[stream]]\nside = \"b\"\nsport = 0x50\n";
        let streams = parse(text).unwrap();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(streams.len(), 2);
        for pair in [pair("name", "dns"), pair("size", "80"), pair("dport", "53,853")] {
            assert!(streams[0].contains(&pair), "{pair:?}");
        }
        assert!(streams[1].contains(&pair("sport", "80")));
    }

    #[test]
    fn what_is_wrong_is_reported_with_its_line() {
        let told = |text: &str| {
            let (offset, fault) = parse(text).unwrap_err();
            (text[..offset].matches('\n').count() + 1, fault.to_string())
        };
        assert_eq!(told("").1, "there is no stream: write [[stream]], and its keys below");
        assert_eq!(told("\nrate = 1\n").0, 2);
        assert!(told("[[flow]]\n").1.contains("no key flow, only tables [[stream]]"));
        let (line, fault) = told("[[stream]]\nsize = 64\nsizes = 65\n");
        assert!(line == 3 && fault.contains("a stream has no key \"sizes\""), "{line}: {fault}");
        let (line, fault) = told("[[stream]]\nname = \"a\"\nsize = 60\n");
        assert!(line == 3 && fault.contains("60 bytes: frames have 64"), "{line}: {fault}");
        let (line, fault) = told("[[stream]]\nsize = [64]\n");
        assert!(line == 2 && fault.starts_with("size is a list; write a string"), "{fault}");
        let (line, fault) = told("[[stream]]\nname = \"a\n");
        assert!(line == 2 && fault.starts_with("not TOML: "), "{fault}");
    }
}
