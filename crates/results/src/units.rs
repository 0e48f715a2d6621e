// SPDX-License-Identifier: BSD-3-Clause
//! Formats numbers for users: byte counts, spans of time, packet rates, thousands.

use std::sync::atomic::{AtomicBool, Ordering};

/// Formats bytes in decimal units: `999 B`, `1.50 kB`, `12.3 MB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if count < 1000 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1000.0;
    let mut unit = 0;
    // The limit is 999.5: a value that would be printed as 1000 belongs to the next unit.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{} {}", three_digits(value), UNITS[unit])
}

/// Formats a span of time in a suitable unit: `250 ns`, `1.50 ms`, `86400 s`.
pub fn duration(nanos: u64) -> String {
    match nanos {
        0 => "0 s".to_owned(),
        1..1_000 => format!("{nanos} ns"),
        1_000..999_500 => format!("{} µs", three_digits(nanos as f64 / 1e3)),
        999_500..999_500_000 => format!("{} ms", three_digits(nanos as f64 / 1e6)),
        _ => format!("{} s", three_digits(nanos as f64 / 1e9)),
    }
}

/// Formats packets per second: `0.06`, `9.50`, `224`. Rates are compared with thresholds below one.
pub fn pps(rate: f64) -> String {
    if rate == 0.0 || rate >= 9.995 { format!("{rate:.0}") } else { format!("{rate:.2}") }
}

/// Formats packets per second in a suitable unit: `0.50 pps`, `12.3 kpps`, `14.881 Mpps`.
pub fn packet_rate(rate: f64) -> String {
    match rate {
        0.0 => "0 pps".to_owned(),
        ..999.5 => format!("{} pps", three_digits(rate)),
        ..999_500.0 => format!("{} kpps", three_digits(rate / 1e3)),
        _ => format!("{:.3} Mpps", rate / 1e6),
    }
}

/// Returns a suitable unit for rates up to `most` packets per second, and the packets per second in
/// one unit.
pub fn rate_unit(most: f64) -> (&'static str, f64) {
    match most {
        ..999.5 => ("pps", 1.0),
        ..999_500.0 => ("kpps", 1e3),
        _ => ("Mpps", 1e6),
    }
}

/// True if numbers are printed as other programs read them. A process decides that once, by its
/// command line, so it is no argument of every table.
static PRINTS_RAW: AtomicBool = AtomicBool::new(false);

/// Makes [`thousands`] print digits only, from now on.
pub fn print_raw_numbers() {
    PRINTS_RAW.store(true, Ordering::Relaxed);
}

/// Returns text that another process has formatted, in the form that this one prints: without `_`
/// between digits after [`print_raw_numbers`].
pub fn as_printed_here(text: String) -> String {
    if PRINTS_RAW.load(Ordering::Relaxed) { without_separators(&text) } else { text }
}

/// Removes each `_` between two digits of a number. A name with letters keeps its own.
fn without_separators(text: &str) -> String {
    let is_number = |word: &str| {
        let digits = word.trim_matches(|c: char| !c.is_ascii_digit());
        digits.chars().all(|c| c.is_ascii_digit() || matches!(c, '_' | '.'))
            && !word.contains(|c: char| c.is_ascii_alphabetic())
    };
    let words = text.split_inclusive(|c: char| c.is_whitespace());
    words.map(|word| if is_number(word) { word.replace('_', "") } else { word.into() }).collect()
}

/// Formats a count with its thousands set apart: `1_234_567`. After [`print_raw_numbers`] they are
/// not.
pub fn thousands(count: u64) -> String {
    if PRINTS_RAW.load(Ordering::Relaxed) {
        return count.to_string();
    }
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

/// Formats a share in percent: `0 %`, `0.0003 %`, `12.3 %`.
pub fn percent(percent: f64) -> String {
    match percent.abs() {
        0.0 => "0 %".to_owned(),
        ..0.00005 => format!("{percent:.1e} %"),
        ..0.05 => format!("{percent:.4} %"),
        _ => format!("{} %", three_digits(percent)),
    }
}

/// Formats a time since 1970-01-01 UTC: `2023-11-14 22:13:20 UTC`.
pub fn date(unix_s: u64) -> String {
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    // Years begin in March here, so that the leap day is their last. The first of 400 such years
    // began 719468 days before 1970 (the algorithm of H. Hinnant's `civil_from_days`).
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Formats a value with at least three significant digits; more only before the point.
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

    /// Names of ports and files keep theirs.
    #[test]
    fn separators_go_from_numbers_only() {
        let text = "flows: 304_638 created,\n  1_234.5 kpps (2_000) net_pcap0 a_1_2 1_b\n";
        let raw = "flows: 304638 created,\n  1234.5 kpps (2000) net_pcap0 a_1_2 1_b\n";
        assert_eq!(without_separators(text), raw);
    }

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
    fn low_rates_are_distinguished() {
        assert_eq!(
            [0.0, 0.0625, 9.99, 9.999, 1234.5].map(pps),
            ["0", "0.06", "9.99", "10", "1234"]
        );
    }

    #[test]
    fn packet_rates_change_units_where_their_digits_run_out() {
        let rates = [0.0, 0.5, 499.6, 999.4, 999.5, 12_345.0, 999_499.0, 999_500.0, 14_880_952.0];
        let expected = [
            "0 pps",
            "0.50 pps",
            "500 pps",
            "999 pps",
            "1.00 kpps",
            "12.3 kpps",
            "999 kpps",
            "1.000 Mpps",
            "14.881 Mpps",
        ];
        assert_eq!(rates.map(packet_rate), expected);
        let units = [0.0, 1e3, 1e6].map(|most| rate_unit(most).0);
        assert_eq!(units, ["pps", "kpps", "Mpps"]);
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_000), "1_000");
        assert_eq!(thousands(12_345_678), "12_345_678");
    }

    /// The dates are those that `date -u -d @SECONDS` prints.
    #[test]
    fn dates_are_those_of_the_calendar() {
        let dates = [0, 951_782_399, 951_782_400, 1_700_000_000, 4_107_542_400].map(date);
        let expected = [
            "1970-01-01 00:00:00",
            "2000-02-28 23:59:59",
            "2000-02-29 00:00:00",
            "2023-11-14 22:13:20",
            "2100-03-01 00:00:00",
        ];
        assert_eq!(dates, expected.map(|date| format!("{date} UTC")));
    }

    #[test]
    fn small_shares_are_distinguished() {
        let shares = [0.0, 0.000001, 0.0003, 1.5, 100.0].map(percent);
        assert_eq!(shares, ["0 %", "1.0e-6 %", "0.0003 %", "1.50 %", "100 %"]);
    }
}
