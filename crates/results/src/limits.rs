// SPDX-License-Identifier: BSD-3-Clause
//! Checks the values in files from other sources against limits. No run has values beyond them, and
//! tables or plots of such values would be useless.

use crate::run::ReadError;
use serde_json::Value;
use std::ops::RangeInclusive;

/// Limits of packets, nanoseconds and rates: a little more than 64 bits.
pub(crate) const COUNT: RangeInclusive<f64> = 0.0..=1e20;
/// Limits of seconds: 300 years.
const SECONDS: RangeInclusive<f64> = 0.0..=1e10;
/// Limits of the length of an interval, in seconds.
pub(crate) const LENGTH_S: RangeInclusive<f64> = 1e-6..=1e10;
/// Limits of milliseconds: those of [`SECONDS`].
pub(crate) const MILLISECONDS: RangeInclusive<f64> = 0.0..=1e13;
/// Limits of a share.
pub(crate) const SHARE: RangeInclusive<f64> = 0.0..=1.0;

/// Checks JSON results. Fails at the first number beyond its limits, or the first interval that
/// does not begin after the previous one.
pub(crate) fn check_json(results: &Value) -> Result<(), ReadError> {
    check_value("", "", results)?;
    let starts = results["intervals"].as_array().into_iter().flatten();
    let starts: Vec<_> = starts.map(|interval| interval["start_s"].as_f64()).collect();
    match starts.windows(2).position(|pair| pair[0] >= pair[1]) {
        Some(place) => {
            let member = format!("intervals[{}].start_s", place + 1);
            Err(ReadError::Order(member))
        }
        None => Ok(()),
    }
}

/// Checks a value and its members; `key` is the last name in `path`.
fn check_value(path: &str, key: &str, value: &Value) -> Result<(), ReadError> {
    match value {
        Value::Number(number) => {
            let range = match key {
                "length_s" => LENGTH_S,
                key if key.ends_with("_s") => SECONDS,
                _ => COUNT,
            };
            let value = number.as_f64().unwrap_or(f64::INFINITY);
            match range.contains(&value) {
                true => Ok(()),
                false => Err(ReadError::beyond(path, value, range)),
            }
        }
        Value::Array(values) => values
            .iter()
            .enumerate()
            .try_for_each(|(number, value)| check_value(&format!("{path}[{number}]"), key, value)),
        Value::Object(members) => members.iter().try_for_each(|(key, value)| {
            let point = if path.is_empty() { "" } else { "." };
            check_value(&format!("{path}{point}{key}"), key, value)
        }),
        _ => Ok(()),
    }
}
