// SPDX-License-Identifier: BSD-3-Clause
//! Reads `--impair`: how frames are impaired between the connections and their ports.

use generator::{BadLink, Impairments};

/// Longest delay in milliseconds: of more, too many frames would be on their way.
const DELAY_MAX_MS: f64 = 1000.0;

/// Reads `loss=1%,dup=1%,reorder=1%,corrupt=0.1%,delay=1ms`; each key at most once.
pub(super) fn parse(text: &str) -> Result<BadLink, String> {
    let mut link = BadLink::default();
    let mut seen = Vec::new();
    for part in text.split(',') {
        let (key, value) =
            part.split_once('=').ok_or_else(|| format!("{part:?}: write KEY=VALUE"))?;
        if seen.contains(&key) {
            return Err(format!("{key} is given twice"));
        }
        seen.push(key);
        let Impairments { lost, duplicated, reordered, damaged } = &mut link.impairments;
        let share = match key {
            "loss" => lost,
            "dup" => duplicated,
            "reorder" => reordered,
            "corrupt" => damaged,
            "delay" => {
                link.delay_ns = delay(value)?;
                continue;
            }
            _ => return Err(format!("{key:?}: known are loss, dup, reorder, corrupt and delay")),
        };
        *share = per_million(value).map_err(|fault| format!("{key}: {fault}"))?;
    }
    let Impairments { lost, duplicated, reordered, damaged } = link.impairments;
    match lost + duplicated + reordered + damaged {
        0..=1_000_000 => Ok(link),
        _ => Err("the shares are more than 100 % together: a frame is impaired once".to_owned()),
    }
}

/// Reads a share in percent.
fn per_million(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    match number {
        Some(percent) if (0.0..=100.0).contains(&percent) => Ok((percent * 1e4).round() as u32),
        _ => Err(format!("{text:?} is no share, such as 0.1%")),
    }
}

/// Reads a time in milliseconds or microseconds; returns nanoseconds.
fn delay(text: &str) -> Result<u64, String> {
    let number = |unit, factor| {
        let number = text.strip_suffix(unit)?.parse::<f64>().ok()?;
        Some(number * factor)
    };
    match number("ms", 1.0).or_else(|| number("us", 1e-3)) {
        Some(ms) if (0.0..=DELAY_MAX_MS).contains(&ms) => Ok((ms * 1e6).round() as u64),
        _ => Err(format!("delay: {text:?} is no time up to 1000 ms, such as 1ms or 50us")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_are_read() {
        let link = parse("loss=1%,dup=2%,reorder=0.5%,corrupt=0.01%,delay=1.5ms").unwrap();
        let Impairments { lost, duplicated, reordered, damaged } = link.impairments;
        assert_eq!([lost, duplicated, reordered, damaged], [10_000, 20_000, 5000, 100]);
        assert_eq!(link.delay_ns, 1_500_000);
        assert_eq!(parse("delay=20us").unwrap().delay_ns, 20_000);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, told) in [
            ("loss", "\"loss\": write KEY=VALUE"),
            ("los=1%", "\"los\": known are loss, dup, reorder, corrupt and delay"),
            ("loss=1", "loss: \"1\" is no share"),
            ("loss=-1%", "loss: \"-1%\" is no share"),
            ("loss=NaN%", "is no share"),
            ("delay=1", "delay: \"1\" is no time"),
            ("delay=1001ms", "up to 1000 ms"),
            ("loss=1%,loss=2%", "loss is given twice"),
            ("loss=60%,dup=50%", "more than 100 % together"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
