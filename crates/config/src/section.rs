// SPDX-License-Identifier: BSD-3-Clause
//! Reads TOML key by key, with the place of every value and a problem for every fault.
//!
//! A [`Section`] remembers the keys that were read; [`Section::end`] refuses all others. So the
//! code that reads a key is the only list of keys.

use super::problem::{Fault, Located, Place, Problem, nearest};
use super::{Choices, Devargs};
use doctor::host::CPU_MAX;
use std::cell::RefCell;
use std::fmt::Display;
use std::iter;
use std::ops::{Range, RangeInclusive};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Range of timeouts in seconds: a millisecond to thirty days.
const SECONDS: RangeInclusive<f64> = 0.001..=2_592_000.0;

/// The text of a configuration, its tables, and the problems found so far.
pub(crate) struct Document<'a> {
    text: &'a str,
    /// Offset of each line of the text.
    lines: Vec<usize>,
    /// `None` if the text is no TOML.
    root: Option<DeTable<'a>>,
    problems: RefCell<Vec<Problem>>,
}

/// A table of a document.
pub(crate) struct Section<'a> {
    document: &'a Document<'a>,
    table: &'a DeTable<'a>,
    /// Full name with a final dot; empty for the root.
    path: String,
    place: Place,
    known: RefCell<Vec<&'static str>>,
}

impl<'a> Document<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let (root, errors) = DeTable::parse_recoverable(text);
        let is_toml = errors.is_empty();
        let behind = |(newline, _): (usize, &str)| newline + 1;
        let document = Self {
            text,
            lines: iter::once(0).chain(text.match_indices('\n').map(behind)).collect(),
            root: is_toml.then(|| root.into_inner()),
            problems: RefCell::new(Vec::new()),
        };
        for error in errors {
            let span = error.span().unwrap_or(0..0);
            let token = text.get(span.clone()).unwrap_or_default().trim();
            let fault = match token {
                "" => Fault::Syntax(error.message().to_owned()),
                token => Fault::Syntax(format!("{} ({token})", error.message())),
            };
            document.problem(&span, "", fault);
        }
        document
    }

    /// Returns the root table; `None` if the text is no TOML.
    pub(crate) fn root(&'a self) -> Option<Section<'a>> {
        self.root.as_ref().map(|table| Section {
            document: self,
            table,
            path: String::new(),
            place: Place::Whole {},
            known: RefCell::default(),
        })
    }

    /// Returns all problems, in the order of the text.
    pub(crate) fn into_problems(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| match problem.place {
            Place::File { line, column } => (line, column),
            Place::Flag { .. } | Place::Whole {} => (0, 0),
        });
        problems
    }

    fn place(&self, span: &Range<usize>) -> Place {
        let at = span.start.min(self.text.len());
        let line = self.lines.partition_point(|begin| *begin <= at);
        let before = self.text.get(self.lines[line - 1]..at).unwrap_or_default();
        Place::File { line, column: before.chars().count() + 1 }
    }

    fn problem(&self, span: &Range<usize>, key: &str, fault: Fault) {
        let problem = Problem { place: self.place(span), key: key.to_owned(), fault };
        self.problems.borrow_mut().push(problem);
    }
}

impl<'a> Section<'a> {
    /// Returns the table under `key`.
    pub(crate) fn section(&self, key: &'static str) -> Option<Section<'a>> {
        let value = self.get(key)?;
        let path = self.path_of(key);
        match value.get_ref() {
            DeValue::Table(table) => Some(self.child(path, table, &value.span())),
            _ => self.wrong_type(value, &path, "a table"),
        }
    }

    /// Returns the tables of the array under `key`.
    pub(crate) fn sections(&self, key: &'static str) -> Vec<Section<'a>> {
        const WANT: &str = "an array of tables ([[...]])";
        let Some(value) = self.get(key) else { return Vec::new() };
        let DeValue::Array(array) = value.get_ref() else {
            self.wrong_type::<()>(value, &self.path_of(key), WANT);
            return Vec::new();
        };
        let children = array.iter().enumerate().filter_map(|(index, element)| {
            let path = format!("{}[{index}]", self.path_of(key));
            match element.get_ref() {
                DeValue::Table(table) => Some(self.child(path, table, &element.span())),
                _ => self.wrong_type(element, &path, WANT),
            }
        });
        children.collect()
    }

    /// Reads a whole number within `range`.
    pub(crate) fn integer<T>(
        &self,
        key: &'static str,
        range: RangeInclusive<T>,
    ) -> Option<Located<T>>
    where
        T: TryFrom<i64> + PartialOrd + Display,
    {
        self.integer_of(self.get(key)?, &self.path_of(key), &range)
    }

    /// Reads a list of cpus, with at least one.
    pub(crate) fn cpus(&self, key: &'static str) -> Option<Located<Vec<Located<u32>>>> {
        self.integers(key, 0..=CPU_MAX, Fault::NoWorkers)
    }

    /// Reads a list of zone numbers, with at least one. Its absence is a problem.
    pub(crate) fn zones(&self, key: &'static str) -> Option<Located<Vec<Located<u32>>>> {
        if !self.table.contains_key(key) {
            self.missing(key, Fault::MissingZones);
        }
        self.integers(key, 0..=u16::MAX.into(), Fault::MissingZones)
    }

    /// Reads a string.
    pub(crate) fn text(&self, key: &'static str) -> Option<Located<String>> {
        self.parsed(key, |text| Ok::<_, Fault>(text.to_owned()))
    }

    /// Reads a string. Its absence is this problem.
    pub(crate) fn named(&self, key: &'static str, if_missing: Fault) -> Option<Located<String>> {
        if !self.table.contains_key(key) {
            self.missing(key, if_missing);
        }
        self.text(key)
    }

    /// Returns the place where the section begins.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Reads words: a string, a whole number, or a list of them, which is joined by commas.
    pub(crate) fn words(&self, key: &'static str) -> Option<Located<String>> {
        let value = self.get(key)?;
        let path = self.path_of(key);
        let word = |item: &Spanned<DeValue>| match item.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(integer) if integer.radix() == 10 => {
                Some(integer.as_str().replace('_', ""))
            }
            _ => self.wrong_type(item, &path, "a string, a whole number, or a list of them"),
        };
        let words = match value.get_ref() {
            DeValue::Array(array) => array.iter().map(word).collect::<Option<Vec<_>>>()?.join(","),
            _ => word(value)?,
        };
        Some(self.written(value, words))
    }

    /// Adds a problem unless at least one of these keys is there.
    pub(crate) fn one_of<const N: usize>(&self, keys: [&'static str; N], fault: Fault) {
        if !keys.iter().any(|key| self.table.contains_key(*key)) {
            self.missing(keys[0], fault);
        }
    }

    fn missing(&self, key: &str, fault: Fault) {
        let problem = Problem { place: self.place, key: self.path_of(key), fault };
        self.document.problems.borrow_mut().push(problem);
    }

    /// Reads a list of whole numbers, each within `range`, with at least one.
    fn integers(
        &self,
        key: &'static str,
        range: RangeInclusive<u32>,
        if_empty: Fault,
    ) -> Option<Located<Vec<Located<u32>>>> {
        let value = self.get(key)?;
        let path = self.path_of(key);
        let DeValue::Array(array) = value.get_ref() else {
            return self.wrong_type(value, &path, "a list of whole numbers");
        };
        if array.is_empty() {
            return self.refuse(value, &path, if_empty);
        }
        let numbers = array
            .iter()
            .enumerate()
            .filter_map(|(at, item)| self.integer_of(item, &format!("{path}[{at}]"), &range));
        Some(self.written(value, numbers.collect()))
    }

    /// Reads a time in seconds, a decimal number.
    pub(crate) fn seconds(&self, key: &'static str) -> Option<Located<f64>> {
        let value = self.get(key)?;
        let path = self.path_of(key);
        let digits = match value.get_ref() {
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
            DeValue::Float(float) => float.as_str(),
            _ => return self.wrong_type(value, &path, "a number of seconds"),
        };
        match digits.parse().ok().filter(|seconds| SECONDS.contains(seconds)) {
            Some(seconds) => Some(self.written(value, seconds)),
            None => self.refuse(value, &path, out_of_range(digits, &SECONDS)),
        }
    }

    /// Reads one of a few values.
    pub(crate) fn choice<T: Copy>(
        &self,
        key: &'static str,
        choices: &Choices<T>,
    ) -> Option<Located<T>> {
        let value = self.get(key)?;
        let found = match value.get_ref() {
            DeValue::String(text) => format!("\"{text}\""),
            DeValue::Boolean(truth) => truth.to_string(),
            _ => self.document.text[value.span()].to_owned(),
        };
        if let Some((_, choice)) = choices.iter().find(|(spelling, _)| *spelling == found) {
            return Some(self.written(value, *choice));
        }
        let choices: Vec<_> = choices.iter().map(|(spelling, _)| *spelling).collect();
        let nearest = nearest(&found, &choices);
        self.refuse(value, &self.path_of(key), Fault::NotAChoice { found, nearest, choices })
    }

    /// Reads a string that `parse` accepts.
    pub(crate) fn parsed<T, E: Into<Fault>>(
        &self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Option<Located<T>> {
        let value = self.get(key)?;
        let path = self.path_of(key);
        let DeValue::String(text) = value.get_ref() else {
            return self.wrong_type(value, &path, "a string");
        };
        match parse(text) {
            Ok(parsed) => Some(self.written(value, parsed)),
            Err(error) => self.refuse(value, &path, error.into()),
        }
    }

    /// Reads a list of strings.
    pub(crate) fn strings(&self, key: &'static str) -> Option<Located<Vec<String>>> {
        let value = self.get(key)?;
        let path = self.path_of(key);
        let DeValue::Array(array) = value.get_ref() else {
            return self.wrong_type(value, &path, "a list of strings");
        };
        let strings = array.iter().enumerate().filter_map(|(at, item)| match item.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            _ => self.wrong_type(item, &format!("{path}[{at}]"), "a string"),
        });
        Some(self.written(value, strings.collect()))
    }

    /// Reads the device of a port. Its absence is a problem.
    pub(crate) fn device(&self, key: &'static str) -> Option<Located<Devargs>> {
        let path = self.path_of(key);
        let Some(value) = self.get(key) else {
            self.missing(key, Fault::MissingPort);
            return None;
        };
        let DeValue::String(text) = value.get_ref() else {
            return self.wrong_type(value, &path, "a string");
        };
        match Devargs::parse(text) {
            Ok(device) => Some(self.written(value, device)),
            Err(fault) => self.refuse(value, &path, fault.into()),
        }
    }

    /// Refuses every key that was not read.
    pub(crate) fn end(self) {
        let known = self.known.into_inner();
        for key in self.table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
            let nearest = nearest(key.get_ref(), &known);
            let fault = Fault::UnknownKey { nearest, known: known.clone() };
            self.document.problem(&key.span(), &format!("{}{}", self.path, key.get_ref()), fault);
        }
    }

    fn get(&self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.known.borrow_mut().push(key);
        self.table.get(key)
    }

    fn path_of(&self, key: &str) -> String {
        format!("{}{key}", self.path)
    }

    fn child(&self, path: String, table: &'a DeTable<'a>, span: &Range<usize>) -> Section<'a> {
        Section {
            document: self.document,
            table,
            path: path + ".",
            place: self.document.place(span),
            known: RefCell::default(),
        }
    }

    fn integer_of<T>(
        &self,
        value: &Spanned<DeValue>,
        path: &str,
        range: &RangeInclusive<T>,
    ) -> Option<Located<T>>
    where
        T: TryFrom<i64> + PartialOrd + Display,
    {
        let DeValue::Integer(integer) = value.get_ref() else {
            return self.wrong_type(value, path, "a whole number");
        };
        let number = i64::from_str_radix(integer.as_str(), integer.radix()).ok();
        match number.and_then(|number| T::try_from(number).ok()).filter(|it| range.contains(it)) {
            Some(number) => Some(self.written(value, number)),
            None => self.refuse(value, path, out_of_range(&integer.to_string(), range)),
        }
    }

    fn written<T>(&self, value: &Spanned<DeValue>, inner: T) -> Located<T> {
        Located { value: inner, place: self.document.place(&value.span()) }
    }

    fn refuse<T>(&self, value: &Spanned<DeValue>, path: &str, fault: Fault) -> Option<T> {
        self.document.problem(&value.span(), path, fault);
        None
    }

    fn wrong_type<T>(&self, value: &Spanned<DeValue>, path: &str, want: &'static str) -> Option<T> {
        let found = match value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a number with a fraction",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.refuse(value, path, Fault::WrongType { want, found })
    }
}

fn out_of_range<T: Display>(found: &str, range: &RangeInclusive<T>) -> Fault {
    Fault::OutOfRange {
        found: found.to_owned(),
        least: range.start().to_string(),
        most: range.end().to_string(),
    }
}
