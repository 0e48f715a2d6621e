// SPDX-License-Identifier: BSD-3-Clause
//! Numbers for people: byte counts, spans of time, packet rates, thousands.

/// Bytes in decimal units: `999 B`, `1.50 kB`, `12.3 MB`.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if count < 1000 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1000.0;
    let mut unit = 0;
    // Not 1000: what is printed as 1000 belongs to the next unit.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{} {}", three_digits(value), UNITS[unit])
}

/// A span of time in the unit that suits it: `250 ns`, `1.50 ms`, `86400 s`.
pub(crate) fn duration(nanos: u64) -> String {
    match nanos {
        0 => "0 s".to_owned(),
        1..1_000 => format!("{nanos} ns"),
        1_000..999_500 => format!("{} µs", three_digits(nanos as f64 / 1e3)),
        999_500..999_500_000 => format!("{} ms", three_digits(nanos as f64 / 1e6)),
        _ => format!("{} s", three_digits(nanos as f64 / 1e9)),
    }
}

/// Packets per second: `0.06`, `9.50`, `224`. Rates are compared with thresholds below one.
pub(crate) fn pps(rate: f64) -> String {
    if rate == 0.0 || rate >= 9.995 { format!("{rate:.0}") } else { format!("{rate:.2}") }
}

/// A count with its thousands set apart: `1_234_567`.
pub(crate) fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push('_');
        }
        text.push(digit);
    }
    text
}

/// At least three significant digits; more only before the point.
fn three_digits(value: f64) -> String {
    let decimals = match value {
        ..9.995 => 2,
        9.995..99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_change_units_where_their_digits_run_out() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_000), "1.00 kB");
        assert_eq!(bytes(12_345), "12.3 kB");
        assert_eq!(bytes(999_499), "999 kB");
        assert_eq!(bytes(999_500), "1.00 MB");
        assert_eq!(bytes(u64::MAX), "18.4 EB");
    }

    #[test]
    fn durations_change_units_where_their_digits_run_out() {
        assert_eq!(duration(0), "0 s");
        assert_eq!(duration(999), "999 ns");
        assert_eq!(duration(1_500), "1.50 µs");
        assert_eq!(duration(999_499), "999 µs");
        assert_eq!(duration(999_500), "1.00 ms");
        assert_eq!(duration(86_400_000_000_000), "86400 s");
    }

    #[test]
    fn low_rates_are_told_apart() {
        assert_eq!(
            [0.0, 0.0625, 9.99, 9.999, 1234.5].map(pps),
            ["0", "0.06", "9.99", "10", "1234"]
        );
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_000), "1_000");
        assert_eq!(thousands(12_345_678), "12_345_678");
    }
}
