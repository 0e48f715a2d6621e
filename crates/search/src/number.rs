// SPDX-License-Identifier: BSD-3-Clause
//! Reads and writes numbers with the units of cps_ndr.py: K, M and G, each a thousand of the one
//! before.

use std::fmt;

const UNITS: [&str; 4] = ["", "K", "M", "G"];

/// A number that is written in a few digits: `977`, `41.2K`, `215M`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Short(pub f64);

impl fmt::Display for Short {
    /// Below a thousand the fraction is cut off; from then on, numbers below 100 of a unit have one
    /// decimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut value, mut unit) = (self.0, 0);
        while value >= 1000.0 && unit + 1 < UNITS.len() {
            value /= 1000.0;
            unit += 1;
        }
        match unit {
            0 => write!(f, "{:.0}", value.trunc()),
            _ if value < 100.0 => write!(f, "{value:.1}{}", UNITS[unit]),
            _ => write!(f, "{value:.0}{}", UNITS[unit]),
        }
    }
}

/// Reads a number such as `500`, `1.5k` or `2M`.
///
/// # Errors
/// If it is no number of this form, or negative, or not finite.
pub fn parse_number(text: &str) -> Result<f64, String> {
    let digits = text.trim_end_matches(['k', 'K', 'm', 'M', 'g', 'G']);
    let factor = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" => Some(1.0),
        "K" => Some(1e3),
        "M" => Some(1e6),
        "G" => Some(1e9),
        _ => None,
    };
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number = digits.parse::<f64>().ok().filter(|_| is_plain);
    let product = factor.zip(number).map(|(factor, number)| factor * number);
    let finite = product.filter(|value| value.is_finite());
    finite.ok_or_else(|| format!("{text:?} is no number such as 500, 1.5k or 2M"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let cases = [
            (0.0, "0"),
            (977.9, "977"),
            (1000.0, "1.0K"),
            (41_218.75, "41.2K"),
            (100_000.0, "100K"),
            (345_400.0, "345K"),
            (215e6, "215M"),
            (1.8e9, "1.8G"),
            (2.5e13, "25000G"),
        ];
        for (value, text) in cases {
            assert_eq!(Short(value).to_string(), text);
        }
    }

    #[test]
    fn numbers_with_units_are_read() {
        for (text, value) in [("500", 500.0), ("1.5k", 1500.0), ("2M", 2e6), ("4G", 4e9)] {
            assert_eq!(parse_number(text), Ok(value), "{text}");
        }
        for text in ["", "k", "-1", "1kk", "1 k", "nan", "inf", "1e3", "0x10"] {
            assert!(parse_number(text).is_err(), "{text}");
        }
    }
}
