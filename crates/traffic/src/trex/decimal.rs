// SPDX-License-Identifier: BSD-3-Clause
//! Defines decimal numbers with six places, for rates, multipliers and times that must not drift.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A number from 0 to [`Decimal::MAX`], exact to the millionth.
///
/// `"2.776".parse::<Decimal>()` is exactly 2776/1000, so a flow rate that is read from a profile
/// has no rounding error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Decimal {
    millionths: u64,
}

/// Error: the text is not a [`Decimal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not a decimal number from 0 to 1000000000 with at most six places")]
pub struct DecimalError;

impl Decimal {
    /// Zero.
    pub const ZERO: Self = Self { millionths: 0 };
    /// A millionth, the smallest number above zero.
    pub const LEAST: Self = Self { millionths: 1 };
    /// One.
    pub const ONE: Self = Self::from_whole(1);
    /// A thousand million, the largest number.
    pub const MAX: Self = Self { millionths: 1_000_000_000 * Self::SCALE };

    const SCALE: u64 = 1_000_000;

    /// Returns the whole number `value`, or [`Decimal::MAX`] if it is larger.
    #[must_use]
    pub const fn from_whole(value: u32) -> Self {
        let millionths = value as u64 * Self::SCALE;
        let most = 1_000_000_000 * Self::SCALE;
        Self { millionths: if millionths < most { millionths } else { most } }
    }

    /// Returns the number times a million.
    #[must_use]
    pub const fn millionths(self) -> u64 {
        self.millionths
    }

    /// Returns the nearest floating-point number.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        self.millionths as f64 / Self::SCALE as f64
    }

    /// Returns the nanoseconds of this many microseconds, rounded down.
    pub(super) const fn micros_as_ns(self) -> u64 {
        self.millionths / 1000
    }
}

impl FromStr for Decimal {
    type Err = DecimalError;

    fn from_str(text: &str) -> Result<Self, DecimalError> {
        let (whole, places) = text.split_once('.').unwrap_or((text, ""));
        let places = places.trim_end_matches('0');
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
        if !has_digit || !is_digits(whole) || !is_digits(places) || places.len() > 6 {
            return Err(DecimalError);
        }
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().or(Err(DecimalError))? };
        let parts: u64 = format!("{places:0<6}").parse().or(Err(DecimalError))?;
        let millionths = whole.checked_mul(Self::SCALE).and_then(|it| it.checked_add(parts));
        match millionths {
            Some(millionths) if millionths <= Self::MAX.millionths => Ok(Self { millionths }),
            _ => Err(DecimalError),
        }
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, places) = (self.millionths / Self::SCALE, self.millionths % Self::SCALE);
        if places == 0 {
            return write!(f, "{whole}");
        }
        let places = format!("{places:06}");
        write!(f, "{whole}.{}", places.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_prints_exactly() {
        for (text, millionths, printed) in [
            ("0", 0, "0"),
            ("90615", 90_615_000_000, "90615"),
            ("2.776", 2_776_000, "2.776"),
            ("10.0", 10_000_000, "10"),
            (".5", 500_000, "0.5"),
            ("7.", 7_000_000, "7"),
            ("0.000001", 1, "0.000001"),
            ("1.50000000000", 1_500_000, "1.5"),
            ("1000000000", 1_000_000_000_000_000, "1000000000"),
        ] {
            let number: Decimal = text.parse().unwrap();
            assert_eq!((number.millionths(), number.to_string().as_str()), (millionths, printed));
        }
    }

    #[test]
    fn refuses_other_text() {
        let texts = ["", ".", "-1", "+1", "1e3", "0x10", "1.2.3", "1 ", "1.0000001", "nan"];
        for text in texts.into_iter().chain(["1000000000.000001", "99999999999999999999"]) {
            assert_eq!(text.parse::<Decimal>(), Err(DecimalError), "{text}");
        }
    }
}
