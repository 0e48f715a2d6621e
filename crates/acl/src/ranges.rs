// SPDX-License-Identifier: BSD-3-Clause
//! Owns sets of numbers as ranges: ports, types, codes, zones, protocols.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// A set of numbers: sorted ranges that do not touch. No range at all means any number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranges<T>(Vec<[T; 2]>);

/// A number that a range can have.
pub trait Number: Copy + Ord + fmt::Display + FromStr<Err = ParseIntError> {
    /// The largest number.
    const MAX: Self;

    /// The smallest number.
    const MIN: Self;

    /// True if `next` is the number after this one.
    fn is_before(self, next: Self) -> bool;
}

impl Number for u8 {
    const MAX: u8 = u8::MAX;
    const MIN: u8 = 0;

    fn is_before(self, next: u8) -> bool {
        self.checked_add(1) == Some(next)
    }
}

impl Number for u16 {
    const MAX: u16 = u16::MAX;
    const MIN: u16 = 0;

    fn is_before(self, next: u16) -> bool {
        self.checked_add(1) == Some(next)
    }
}

impl<T: Number> Ranges<T> {
    /// Any number.
    pub const ANY: Ranges<T> = Ranges(Vec::new());

    /// Creates the set of the numbers in these ranges, each with its first and last number. Ranges
    /// that touch are joined. All numbers together are [`Ranges::ANY`], as is no range at all.
    pub fn new(mut ranges: Vec<[T; 2]>) -> Self {
        ranges.sort_unstable();
        let mut joined: Vec<[T; 2]> = Vec::with_capacity(ranges.len());
        for [first, last] in ranges {
            match joined.last_mut() {
                Some(before) if first <= before[1] || before[1].is_before(first) => {
                    before[1] = before[1].max(last);
                }
                _ => joined.push([first, last]),
            }
        }
        if joined == [[T::MIN, T::MAX]] {
            joined.clear();
        }
        Ranges(joined)
    }

    /// Creates the set of one number.
    pub fn one(number: T) -> Self {
        Ranges(vec![[number, number]])
    }

    /// True for any number.
    pub fn is_any(&self) -> bool {
        self.0.is_empty()
    }

    /// True if the number is in the set.
    pub fn contains(&self, number: T) -> bool {
        self.is_any() || self.0.iter().any(|[first, last]| *first <= number && number <= *last)
    }

    /// Returns the ranges; none means any number.
    pub fn as_slice(&self) -> &[[T; 2]] {
        &self.0
    }

    /// True if every number of `other` is in this set.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        let has = |[a, b]: &[T; 2]| self.0.iter().any(|[first, last]| first <= a && b <= last);
        self.is_any() || !other.is_any() && other.0.iter().all(has)
    }

    /// True if a number is in both sets.
    pub(crate) fn intersects(&self, other: &Self) -> bool {
        let meets = |[a, b]: &[T; 2]| self.0.iter().any(|[first, last]| first <= b && a <= last);
        self.is_any() || other.is_any() || other.0.iter().any(meets)
    }
}

impl<T: Number> fmt::Display for Ranges<T> {
    /// Writes the ranges as they are read: `80,8000-8100`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_any() {
            return f.write_str("any");
        }
        for (i, [first, last]) in self.0.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}
