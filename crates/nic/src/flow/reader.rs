// SPDX-License-Identifier: BSD-3-Clause
//! Reads a line word by word, and remembers which words were possible where reading stopped. Errors
//! and completion show these words.

use super::fields::Form;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// A word or value that the grammar accepts at some place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// This word.
    Word(&'static str),
    /// A value, by its name in usage texts, such as `PORT`.
    Value(&'static str),
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expected::Word(text) | Expected::Value(text) => f.write_str(text),
        }
    }
}

/// A line that is no command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The bytes of the line that are wrong; an empty range behind the last word if a word is
    /// missing.
    pub place: Range<usize>,
    /// The problem with these bytes.
    pub problem: String,
    /// Words and values that may stand there.
    pub expected: Vec<Expected>,
}

/// A line being read.
pub(super) struct Reader<'a> {
    line: &'a str,
    words: Vec<Range<usize>>,
    at: usize,
    expected: Vec<Expected>,
}

impl<'a> Reader<'a> {
    /// Splits a line into words at blanks. A word that begins with `#` starts a comment, up to the
    /// end of the line.
    pub(super) fn new(line: &'a str) -> Self {
        let mut words = Vec::new();
        let mut from = 0;
        while let Some(skipped) = line[from..].find(|c: char| !c.is_whitespace()) {
            let start = from + skipped;
            let rest = &line[start..];
            if rest.starts_with('#') {
                break;
            }
            from = start + rest.find(char::is_whitespace).unwrap_or(rest.len());
            words.push(start..from);
        }
        Self { line, words, at: 0, expected: Vec::new() }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.words.len()
    }

    fn word(&self) -> Option<&'a str> {
        self.words.get(self.at).map(|place| &self.line[place.clone()])
    }

    /// Advances to the next word.
    fn pass(&mut self) {
        self.at += 1;
        self.expected.clear();
    }

    fn expect(&mut self, expected: Expected) {
        if !self.expected.contains(&expected) {
            self.expected.push(expected);
        }
    }

    /// Takes the word if it is `text`.
    pub(super) fn take(&mut self, text: &'static str) -> bool {
        let is_it = self.word() == Some(text);
        if is_it {
            self.pass();
        } else {
            self.expect(Expected::Word(text));
        }
        is_it
    }

    /// Takes the word if it is one of `choices`; returns the value of that choice.
    pub(super) fn take_one<T>(
        &mut self,
        choices: impl IntoIterator<Item = (&'static str, T)>,
    ) -> Option<T> {
        choices.into_iter().find_map(|(text, value)| self.take(text).then_some(value))
    }

    /// As [`Reader::take_one`], without offering the choices in errors and completion.
    pub(super) fn take_one_of_hidden<T>(
        &mut self,
        choices: impl IntoIterator<Item = (&'static str, T)>,
    ) -> Option<T> {
        let word = self.word()?;
        let (_, value) = choices.into_iter().find(|(text, _)| *text == word)?;
        self.pass();
        Some(value)
    }

    /// Fails unless the word is `text`.
    pub(super) fn need(&mut self, text: &'static str) -> Result<(), SyntaxError> {
        if self.take(text) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// Takes the word if `read` accepts it; `noun` is the name of the value in errors.
    fn value<T>(
        &mut self,
        noun: &'static str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, SyntaxError> {
        self.expect(Expected::Value(noun));
        let Some(word) = self.word() else { return Err(self.unexpected()) };
        match read(word) {
            Ok(value) => {
                self.pass();
                Ok(value)
            }
            Err(problem) => Err(self.fail(problem)),
        }
    }

    /// Reads a number of at most `max`.
    pub(super) fn number(&mut self, noun: &'static str, max: u128) -> Result<u128, SyntaxError> {
        self.value(noun, |word| match parse_number(word)? {
            number if number > max => Err(format!("{word:?} is more than {max}")),
            number => Ok(number),
        })
    }

    /// Reads a number up to the largest of `T`.
    pub(super) fn fitting<T: TryFrom<u128>>(
        &mut self,
        noun: &'static str,
    ) -> Result<T, SyntaxError> {
        self.number(noun, u128::MAX >> (128 - 8 * size_of::<T>())).map(|number| {
            T::try_from(number).unwrap_or_else(|_| unreachable!("its bits are as many as T's"))
        })
    }

    /// True if the word begins with a digit; notes that a number may stand here.
    pub(super) fn is_number(&mut self, noun: &'static str) -> bool {
        self.expect(Expected::Value(noun));
        self.word().is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit()))
    }

    /// Reads the bytes of a hexadecimal string.
    pub(super) fn hex(&mut self, noun: &'static str) -> Result<Vec<u8>, SyntaxError> {
        self.value(noun, |word| {
            let digits = word.strip_prefix("0x").unwrap_or(word).as_bytes();
            let byte = |pair: &[u8]| {
                let text = std::str::from_utf8(pair).ok().filter(|_| pair.len() == 2)?;
                // `from_str_radix` takes a sign.
                u8::from_str_radix(text, 16).ok().filter(|_| !text.starts_with('+'))
            };
            let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
            bytes.ok_or_else(|| format!("{word:?} is no string of hexadecimal bytes"))
        })
    }

    /// Reads at most `max` bytes of a hexadecimal string.
    pub(super) fn short_hex(
        &mut self,
        noun: &'static str,
        max: usize,
    ) -> Result<Vec<u8>, SyntaxError> {
        let digits = self.word().map_or(0, |word| word.trim_start_matches("0x").len());
        if digits > 2 * max {
            self.expect(Expected::Value(noun));
            return Err(self.fail(format!("{} digits are more than {}", digits, 2 * max)));
        }
        self.hex(noun)
    }

    /// Reads the bytes of a field of any length.
    pub(super) fn long(&mut self, form: Form) -> Result<Vec<u8>, SyntaxError> {
        let bytes = match form {
            Form::Hex => self.hex(form.noun())?,
            _ => self.value(form.noun(), |word| Ok(word.as_bytes().to_vec()))?,
        };
        Ok(bytes)
    }

    /// Reads a word for true or false.
    pub(super) fn truth(&mut self) -> Result<bool, SyntaxError> {
        let words = [("0", false), ("1", true), ("false", false), ("true", true)];
        let more = [("off", false), ("on", true), ("no", false), ("yes", true)];
        self.take_one(words.into_iter().chain(more)).ok_or_else(|| self.unexpected())
    }

    /// Reads a word of any kind; `noun` is its name in errors.
    pub(super) fn word_for(&mut self, noun: &'static str) -> Result<String, SyntaxError> {
        self.value(noun, |word| Ok(word.to_owned()))
    }

    /// Takes all words that are left.
    pub(super) fn rest(&mut self) {
        self.at = self.words.len();
        self.expected.clear();
    }

    /// Reads any word.
    pub(super) fn any(&mut self) -> Option<&'a str> {
        let word = self.word()?;
        self.pass();
        Some(word)
    }

    /// Reads a value of `width` bits, written in `form`.
    pub(super) fn formed(&mut self, form: Form, width: usize) -> Result<u128, SyntaxError> {
        match form {
            Form::Number => self.number(form.noun(), u128::MAX >> (128 - width)),
            Form::Truth => self.truth().map(u128::from),
            Form::Word(words) => match self.take_one(words.iter().copied().zip(0u128..)) {
                Some(place) => Ok(place),
                None if self.is_number("NUMBER") => {
                    self.number("NUMBER", u128::MAX >> (128 - width))
                }
                None => Err(self.unexpected()),
            },
            Form::Signed => self.value(form.noun(), |word| {
                let digits = word.strip_prefix('-').unwrap_or(word);
                let number = parse_number(digits)?;
                match number < 1 << (width - 1) {
                    true if digits == word => Ok(number),
                    true => Ok(number.wrapping_neg() & u128::MAX >> (128 - width)),
                    false => Err(format!("{word:?} does not fit into {width} bits with a sign")),
                }
            }),
            Form::Text | Form::Hex => unreachable!("bytes of any length are no number"),
            Form::Mac => self.value(form.noun(), parse_mac),
            Form::Ipv4 => self.value(form.noun(), |word| {
                let address: Option<Ipv4Addr> = word.parse().ok();
                address
                    .map(|address| u32::from(address).into())
                    .ok_or_else(|| format!("{word:?} is no IPv4 address, such as 10.0.0.1"))
            }),
            Form::Ipv6 => self.value(form.noun(), |word| {
                let address: Option<Ipv6Addr> = word.parse().ok();
                address
                    .map(u128::from)
                    .ok_or_else(|| format!("{word:?} is no IPv6 address, such as 2001:db8::1"))
            }),
        }
    }

    /// Fails unless the line has ended.
    pub(super) fn end(&mut self) -> Result<(), SyntaxError> {
        if self.is_at_end() { Ok(()) } else { Err(self.unexpected()) }
    }

    /// Returns the words and values that could follow a line that was read completely.
    pub(super) fn into_expected(self) -> Vec<Expected> {
        self.expected
    }

    /// Returns the error of a word that is not allowed here, or is missing.
    pub(super) fn unexpected(&mut self) -> SyntaxError {
        let problem = match self.word() {
            None => "the line ends too early".to_owned(),
            Some(word) if self.expected.is_empty() => format!("{word:?} is too much"),
            Some(word) => match nearest(word, &self.expected) {
                Some(near) => format!("{word:?} may not stand here; nearest: {near}"),
                None => format!("{word:?} may not stand here"),
            },
        };
        self.fail(problem)
    }

    fn fail(&mut self, problem: String) -> SyntaxError {
        let end = self.words.last().map_or(0, |last| last.end);
        let place = self.words.get(self.at).cloned().unwrap_or(end..end);
        SyntaxError { place, problem, expected: std::mem::take(&mut self.expected) }
    }
}

/// Reads a number: decimal, or hexadecimal after `0x`. Refuses numbers such as `010`, which C reads
/// as 8 and people as 10.
fn parse_number(word: &str) -> Result<u128, String> {
    let is_digits = |digits: &str, radix| {
        !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix))
    };
    let (digits, radix) = match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (word, 10),
    };
    if !is_digits(digits, radix) {
        return Err(format!("{word:?} is no number"));
    }
    if radix == 10 && digits.len() > 1 && digits.starts_with('0') {
        return Err(format!("{word:?} begins with a zero: write it without, or 0x before it"));
    }
    u128::from_str_radix(digits, radix).map_err(|_| format!("{word:?} is too large"))
}

fn parse_mac(word: &str) -> Result<u128, String> {
    let octets: Vec<_> = word.split(':').collect();
    let read = |octet: &&str| {
        let is_hex = (1..=2).contains(&octet.len()) && octet.chars().all(|c| c.is_ascii_hexdigit());
        u128::from_str_radix(octet, 16).ok().filter(|_| is_hex)
    };
    let numbers: Option<Vec<u128>> = octets.iter().map(read).collect();
    match numbers.filter(|numbers| numbers.len() == 6) {
        Some(numbers) => Ok(numbers.iter().fold(0, |address, octet| address << 8 | octet)),
        None => Err(format!("{word:?} is no MAC address, such as 02:00:00:00:00:01")),
    }
}

/// Returns the expected word that was probably meant.
pub(super) fn nearest(word: &str, expected: &[Expected]) -> Option<&'static str> {
    let words = expected.iter().filter_map(|expected| match expected {
        Expected::Word(text) => Some(*text),
        Expected::Value(_) => None,
    });
    let likeness = words.map(|text| (strsim::jaro_winkler(word, text), text));
    let best = likeness.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > 0.7).then_some(best.1)
}

/// Number of words that a message about a wrong word names.
const EXPECTED_MAX: usize = 24;

impl SyntaxError {
    /// Returns the column at which [`SyntaxError::place`] begins, from 1.
    pub fn column(&self, line: &str) -> usize {
        line[..self.place.start].chars().count() + 1
    }

    /// Returns the problem, and the words and values that may stand there.
    pub fn message(&self) -> String {
        let words = self.expected.iter().take(EXPECTED_MAX).map(Expected::to_string);
        let words: Vec<_> = words.collect();
        let more = match self.expected.len() - words.len() {
            0 => String::new(),
            more => format!(" and {more} more (`help` lists them)"),
        };
        match words.is_empty() {
            true => self.problem.clone(),
            false => format!("{}; expected: {}{more}", self.problem, words.join(", ")),
        }
    }

    /// Returns marks to print below `line`, under the bytes that are wrong.
    pub fn marks(&self, line: &str) -> String {
        let before = line[..self.place.start].chars();
        let blanks: String = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let marks = line[self.place.clone()].chars().count().max(1);
        blanks + &"^".repeat(marks)
    }
}
