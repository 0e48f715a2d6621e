// SPDX-License-Identifier: BSD-3-Clause
//! Reads the values of a varying field as the user writes them.
//!
//! `80` is one value. `1024-2047` gives each value in turn, `1024-2047+16` in steps of 16.
//! `53,80,443` gives a list in turn, `198.18.0.0/16` every address of a prefix. `random:` before
//! any of these draws one of the values at random.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Kind of the values of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ipv4,
    Ipv6,
    Mac,
    /// A number from 0 to this one.
    Number(u64),
}

/// The values of a field, in the order in which packets take them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Values {
    /// Runs of values, one after the other; at least one.
    runs: Vec<Run>,
    pub(crate) is_random: bool,
}

/// Values at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: u128,
    pub(crate) step: u64,
    pub(crate) count: u64,
}

/// Reason why a text is no list of values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValuesError {
    /// The text is no value of its kind.
    #[error("{text:?} is no {kind}")]
    NotOne {
        /// The part of the text that is wrong.
        text: String,
        /// The kind of value that is expected.
        kind: String,
    },
    /// A range ends before it begins.
    #[error("the range {0:?} ends before it begins")]
    Backwards(String),
    /// The step is no number from 1.
    #[error("{0:?} is no step: a number from 1")]
    BadStep(String),
    /// The prefix is longer than an address, or the address has bits behind the prefix.
    #[error("{0:?} is no prefix: a network address and up to 32 bits, of IPv6 up to 128")]
    BadPrefix(String),
    /// There are more than 2^63 values.
    #[error("{0:?} has more than 2^63 values: of IPv6 name at most a /65 or a shorter range")]
    TooMany(String),
}

impl Kind {
    fn name(self) -> String {
        match self {
            Kind::Ipv4 => "IPv4 address".to_owned(),
            Kind::Ipv6 => "IPv6 address".to_owned(),
            Kind::Mac => "MAC address, such as 02:00:00:00:00:0a".to_owned(),
            Kind::Number(max) => format!("number from 0 to {max}"),
        }
    }

    fn parse(self, text: &str) -> Result<u128, ValuesError> {
        let value = match self {
            Kind::Ipv4 => text.parse::<Ipv4Addr>().ok().map(|it| u128::from(it.to_bits())),
            Kind::Ipv6 => text.parse::<Ipv6Addr>().ok().map(Ipv6Addr::to_bits),
            Kind::Mac => parse_mac(text).map(u128::from),
            Kind::Number(max) => parse_number(text).filter(|it| *it <= max).map(u128::from),
        };
        value.ok_or_else(|| ValuesError::NotOne { text: text.to_owned(), kind: self.name() })
    }

    /// Returns the bits of an address; `None` for kinds without prefixes.
    fn prefix_bits(self) -> Option<u32> {
        match self {
            Kind::Ipv4 => Some(32),
            Kind::Ipv6 => Some(128),
            Kind::Mac | Kind::Number(_) => None,
        }
    }
}

fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn parse_mac(text: &str) -> Option<u64> {
    let bytes: Vec<&str> = text.split(':').collect();
    let is_mac = bytes.len() == 6 && bytes.iter().all(|byte| byte.len() == 2);
    let digits = bytes.concat();
    is_mac.then(|| u64::from_str_radix(&digits, 16).ok()).flatten()
}

impl Values {
    /// Reads values of this kind: a value, a range, a prefix, or a list of these.
    ///
    /// # Errors
    /// A part of the text is no such value, or there are more than 2^63 values.
    pub(crate) fn parse(text: &str, kind: Kind) -> Result<Self, ValuesError> {
        let (is_random, text) = match text.strip_prefix("random:") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let runs = text.split(',').map(|part| Run::parse(part.trim(), kind));
        let runs: Vec<Run> = runs.collect::<Result<_, _>>().map_err(|error| match error {
            // If a part is empty, as in "-1" or "53,,80", the error names the whole text.
            ValuesError::NotOne { text: part, kind } if part.is_empty() => {
                ValuesError::NotOne { text: text.to_owned(), kind }
            }
            error => error,
        })?;
        let total = runs.iter().try_fold(0_u64, |sum, run| sum.checked_add(run.count));
        match total.filter(|total| *total <= 1 << 63) {
            Some(_) => Ok(Self { runs, is_random }),
            None => Err(ValuesError::TooMany(text.to_owned())),
        }
    }

    /// Returns the number of values.
    pub(crate) fn count(&self) -> u64 {
        self.runs.iter().map(|run| run.count).sum()
    }

    /// Returns the first value.
    pub(crate) fn first(&self) -> u128 {
        self.runs[0].first
    }

    /// True if `value` is one of them.
    pub(crate) fn contains(&self, value: u128) -> bool {
        self.runs.iter().any(|run| {
            let distance = value.checked_sub(run.first);
            let step = u128::from(run.step.max(1));
            let is_in = |it: u128| it % step == 0 && it / step < run.count.into();
            distance.is_some_and(is_in)
        })
    }

    /// Returns value number `index`, below `count`.
    pub(crate) fn at(&self, index: u64) -> u128 {
        let (run, in_run) = self.find(index);
        run.at(in_run)
    }

    /// Returns the run of value number `index`, and the value's number in that run. `index` must be
    /// below `count`.
    #[inline(always)]
    pub(crate) fn find(&self, mut index: u64) -> (&Run, u64) {
        for run in &self.runs {
            match index.checked_sub(run.count) {
                Some(rest) => index = rest,
                None => return (run, index),
            }
        }
        unreachable!("an index below the count")
    }
}

impl Run {
    /// Returns value number `index`, below `count`.
    #[inline(always)]
    pub(crate) fn at(&self, index: u64) -> u128 {
        self.first + u128::from(self.step) * u128::from(index)
    }

    fn parse(text: &str, kind: Kind) -> Result<Self, ValuesError> {
        if let (Some((network, bits)), Some(width)) = (text.split_once('/'), kind.prefix_bits()) {
            let network = kind.parse(network)?;
            return Self::prefix(network, bits, width)
                .ok_or_else(|| ValuesError::BadPrefix(text.to_owned()))?
                .ok_or_else(|| ValuesError::TooMany(text.to_owned()));
        }
        let Some((first, rest)) = text.split_once('-') else {
            return Ok(Self { first: kind.parse(text)?, step: 1, count: 1 });
        };
        let (last, step) = rest.split_once('+').unwrap_or((rest, "1"));
        let (first, last) = (kind.parse(first.trim())?, kind.parse(last.trim())?);
        let step = parse_number(step.trim()).filter(|step| *step > 0);
        let step = step.ok_or_else(|| ValuesError::BadStep(text.to_owned()))?;
        let span = last.checked_sub(first);
        let span = span.ok_or_else(|| ValuesError::Backwards(text.to_owned()))?;
        let count = u64::try_from(span / u128::from(step)).ok().and_then(|n| n.checked_add(1));
        let count = count.ok_or_else(|| ValuesError::TooMany(text.to_owned()))?;
        Ok(Self { first, step, count })
    }

    /// Returns the addresses of a prefix. The outer `None` means that it is no prefix; the inner
    /// one that it has too many addresses.
    fn prefix(network: u128, bits: &str, width: u32) -> Option<Option<Self>> {
        let bits: u32 = bits.parse().ok().filter(|bits| *bits <= width)?;
        let free = width - bits;
        let is_network = free == 128 || network & ((1 << free) - 1) == 0;
        is_network.then_some(())?;
        let count = (free < 64).then(|| 1_u64 << free);
        Some(count.map(|count| Self { first: network, step: 1, count }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str, kind: Kind) -> Vec<u128> {
        let values = Values::parse(text, kind).unwrap();
        (0..values.count()).map(|index| values.at(index)).collect()
    }

    #[test]
    fn every_way_to_write_values() {
        let port = Kind::Number(65535);
        assert_eq!(all("80", port), [80]);
        assert_eq!(all("0x50", port), [80]);
        assert_eq!(all("1-4", port), [1, 2, 3, 4]);
        assert_eq!(all("1-8+3", port), [1, 4, 7]);
        assert_eq!(all("5,1-2,9", port), [5, 1, 2, 9]);
        assert_eq!(all("10.0.0.254-10.0.1.1", Kind::Ipv4).len(), 4);
        assert_eq!(all("10.0.0.4/30", Kind::Ipv4)[3], u128::from(0x0a00_0007_u32));
        assert_eq!(all("2001:2::/120", Kind::Ipv6).len(), 256);
        assert_eq!(all("02:00:00:00:00:0a-02:00:00:00:00:0b", Kind::Mac)[1], 0x0200_0000_000b);
        assert!(Values::parse("random:1-9", port).unwrap().is_random);
        assert_eq!(Values::parse("0.0.0.0/0", Kind::Ipv4).unwrap().count(), 1 << 32);
    }

    #[test]
    fn what_names_no_values_is_refused() {
        let refusal = |text: &str, kind: Kind| Values::parse(text, kind).unwrap_err().to_string();
        let port = Kind::Number(65535);
        assert_eq!(refusal("65536", port), "\"65536\" is no number from 0 to 65535");
        assert_eq!(refusal("", port), "\"\" is no number from 0 to 65535");
        assert_eq!(refusal("-1", port), "\"-1\" is no number from 0 to 65535");
        assert_eq!(refusal("53,,80", port), "\"53,,80\" is no number from 0 to 65535");
        assert_eq!(refusal("1-", port), "\"1-\" is no number from 0 to 65535");
        assert_eq!(refusal("53,http", port), "\"http\" is no number from 0 to 65535");
        assert_eq!(refusal("9-1", port), "the range \"9-1\" ends before it begins");
        assert!(refusal("1-9+0", port).contains("is no step"));
        assert!(refusal("10.0.0.1/24", Kind::Ipv4).contains("is no prefix"));
        assert!(refusal("10.0.0.0/33", Kind::Ipv4).contains("is no prefix"));
        assert!(refusal("2001:2::/48", Kind::Ipv6).contains("more than 2^63"));
        assert!(refusal("::/0", Kind::Ipv6).contains("more than 2^63"));
        assert!(refusal("::-ffff::", Kind::Ipv6).contains("more than 2^63"));
        assert!(refusal("2:0:0:0:0:0", Kind::Mac).contains("MAC address"));
        assert!(refusal("10.0.0.1", Kind::Ipv6).contains("IPv6 address"));
    }
}
