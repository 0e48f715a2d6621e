// SPDX-License-Identifier: BSD-3-Clause
//! Reads the frame sizes of a stream as the user writes them, in bytes with FCS.

use super::values::{Kind, Values, ValuesError};
use wire::ethernet::MIN_FRAME;

/// Bytes of the frame check sequence, which ports append to each frame.
pub const FCS: usize = 4;
/// Allowed frame sizes in bytes with FCS.
pub const SIZES: std::ops::RangeInclusive<usize> = MIN_FRAME + FCS..=9216;
/// Maximum number of frames after which the sizes repeat.
const PATTERN_MAX: u64 = 16_384;

/// Frame sizes without FCS, in the order in which frames take them. The order repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sizes(Vec<u16>);

/// Reason why a text is no list of frame sizes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// The size is no number.
    #[error("{text:?} is no size: write {} to {} (bytes with FCS), imix, or genome:aaafg",
            SIZES.start(), SIZES.end())]
    NotOne {
        /// The text.
        text: String,
    },
    /// The sizes are no list or range of numbers.
    #[error(transparent)]
    Values(ValuesError),
    /// A frame is too short or too long.
    #[error("{size} bytes: frames have {} to {} bytes with FCS", SIZES.start(), SIZES.end())]
    Out {
        /// The size.
        size: u64,
    },
    /// A weight is no number from 1 to 1000, or its size is not a single one.
    #[error("{0:?} is no SIZE*WEIGHT: one size, and a number from 1 to 1000")]
    BadWeight(String),
    /// A letter is not one of RFC 6985.
    #[error("{0:?} is no letter of an IMIX genome: RFC 6985 has a to j, and z")]
    BadLetter(char),
    /// The genome has no letters.
    #[error("a genome is empty: write its letters, a to j and z of RFC 6985, as in genome:aaafg")]
    NoLetters,
    /// The sizes are to be drawn at random.
    #[error("sizes come in turn, not at random: {0:?}")]
    Random(String),
    /// There are too many sizes.
    #[error("{0} sizes are more than {PATTERN_MAX}: write steps (64-1518+2)")]
    TooMany(u64),
}

impl From<ValuesError> for SizeError {
    fn from(error: ValuesError) -> Self {
        match error {
            ValuesError::NotOne { text, .. } => Self::NotOne { text },
            error => Self::Values(error),
        }
    }
}

impl Sizes {
    /// Reads sizes: a number, a range, a list, a mix, or a genome.
    ///
    /// A mix is written as `64*7,594*4,1518*1`; the names `imix` and `imix-7-4-1` stand for this
    /// one, and `imix-7-5-1` for another. A genome is written as `genome:aaafg` (RFC 6985).
    pub(crate) fn parse(text: &str) -> Result<Self, SizeError> {
        match text {
            "imix" | "imix-7-4-1" => return Ok(mixed(&[(64, 7), (594, 4), (1518, 1)])),
            "imix-7-5-1" => return Ok(mixed(&[(64, 7), (594, 5), (1518, 1)])),
            _ => {}
        }
        if let Some(letters) = text.strip_prefix("genome:") {
            if letters.is_empty() {
                return Err(SizeError::NoLetters);
            }
            let sizes: Result<Vec<u16>, _> = letters.chars().map(genome_size).collect();
            return Self::checked(sizes?);
        }
        if text.contains('*') {
            let parts: Result<Vec<_>, _> = text.split(',').map(weighted).collect();
            let parts = parts?;
            parts.iter().try_for_each(|(size, _)| check(u64::from(*size)))?;
            return Ok(mixed(&parts));
        }
        let values = Values::parse(text, Kind::Number(u64::from(u16::MAX)))?;
        if values.is_random {
            return Err(SizeError::Random(text.to_owned()));
        }
        if values.count() > PATTERN_MAX {
            return Err(SizeError::TooMany(values.count()));
        }
        Self::checked((0..values.count()).map(|index| values.at(index) as u16).collect())
    }

    /// Checks a list of sizes with FCS, and removes the FCS.
    fn checked(sizes: Vec<u16>) -> Result<Self, SizeError> {
        sizes.iter().try_for_each(|size| check(u64::from(*size)))?;
        Ok(Self(sizes.into_iter().map(|size| size - FCS as u16).collect()))
    }

    /// Returns the sizes without FCS, in the order in which frames take them.
    pub(crate) fn pattern(&self) -> &[u16] {
        &self.0
    }

    /// Returns the mean size in bytes with FCS.
    pub(crate) fn mean(&self) -> f64 {
        let sum: u64 = self.0.iter().map(|size| u64::from(*size)).sum();
        sum as f64 / self.0.len() as f64 + FCS as f64
    }
}

fn check(size: u64) -> Result<(), SizeError> {
    if SIZES.contains(&(size as usize)) { Ok(()) } else { Err(SizeError::Out { size }) }
}

fn weighted(part: &str) -> Result<(u16, u32), SizeError> {
    let (size, weight) = part.split_once('*').unwrap_or((part, "1"));
    let sizes = Values::parse(size.trim(), Kind::Number(u64::from(u16::MAX)))?;
    if sizes.count() > 1 || sizes.is_random {
        return Err(SizeError::BadWeight(part.to_owned()));
    }
    let weight: Option<u32> = weight.trim().parse().ok().filter(|it| (1..=1000).contains(it));
    let weight = weight.ok_or_else(|| SizeError::BadWeight(part.to_owned()))?;
    Ok((sizes.first() as u16, weight))
}

/// Makes a mix with its sizes spread evenly: each frame has the size that is furthest behind its
/// share.
fn mixed(parts: &[(u16, u32)]) -> Sizes {
    let total: u32 = parts.iter().map(|(_, weight)| weight).sum();
    let mut taken = vec![0_i64; parts.len()];
    let pattern = (1..=i64::from(total)).map(|step| {
        let behind = |part: usize| step * i64::from(parts[part].1) - taken[part] * i64::from(total);
        let next = (0..parts.len()).rev().max_by_key(|part| behind(*part)).unwrap_or(0);
        taken[next] += 1;
        parts[next].0 - FCS as u16
    });
    Sizes(pattern.collect())
}

/// Returns the size of a letter of RFC 6985 section 4 in bytes with FCS. `z` is the MTU there; here
/// it is that of Ethernet.
fn genome_size(letter: char) -> Result<u16, SizeError> {
    match letter {
        'a' => Ok(64),
        'b' => Ok(128),
        'c' => Ok(256),
        'd' => Ok(512),
        'e' => Ok(1024),
        'f' => Ok(1280),
        'g' => Ok(1518),
        'h' => Ok(2112),
        'i' => Ok(9000),
        'j' => Ok(16_000),
        'z' => Ok(1518),
        _ => Err(SizeError::BadLetter(letter)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(text: &str) -> Vec<usize> {
        let sizes = Sizes::parse(text).unwrap();
        sizes.pattern().iter().map(|size| usize::from(*size) + FCS).collect()
    }

    #[test]
    fn every_way_to_write_sizes() {
        assert_eq!(sizes("64"), [64]);
        assert_eq!(sizes("64-68+2"), [64, 66, 68]);
        assert_eq!(sizes("genome:aag"), [64, 64, 1518]);
        assert_eq!(sizes("64*2,128"), [64, 128, 64]);
        let imix = sizes("imix");
        let count = |size| imix.iter().filter(|it| **it == size).count();
        assert_eq!([count(64), count(594), count(1518), imix.len()], [7, 4, 1, 12]);
        // No two long frames follow each other.
        assert!(sizes("imix-7-5-1").windows(2).all(|pair| pair[0] + pair[1] < 594 + 1518));
        assert_eq!(Sizes::parse("64,1518").unwrap().mean(), 791.0);
    }

    #[test]
    fn what_names_no_sizes_is_refused() {
        let refusal = |text: &str| Sizes::parse(text).unwrap_err().to_string();
        assert_eq!(refusal("63"), "63 bytes: frames have 64 to 9216 bytes with FCS");
        assert!(refusal("64-9217").contains("9217 bytes"));
        assert!(refusal("64*0").contains("is no SIZE*WEIGHT"));
        assert!(refusal("64-70*2").contains("is no SIZE*WEIGHT"));
        assert!(refusal("random:64-128").contains("not at random"));
        assert!(refusal("60*2").contains("60 bytes"));
        assert!(refusal("genome:ax").contains("'x' is no letter"));
        assert!(refusal("genome:").starts_with("a genome is empty"));
        let no_size = "is no size: write 64 to 9216 (bytes with FCS), imix, or genome:aaafg";
        for text in ["big", "-64", "64,", "", "70000"] {
            assert_eq!(refusal(text), format!("{text:?} {no_size}"));
        }
        assert_eq!(refusal("big*2"), format!("\"big\" {no_size}"));
    }
}
