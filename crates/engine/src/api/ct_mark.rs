// SPDX-License-Identifier: BSD-3-Clause
//! The mark and the label of a connection: bits that mean something to whoever sets them, and
//! nothing here. Not to be confused with the mark that a NIC gives a packet (`mark.rs`).

use std::fmt;

/// What somebody has written to a connection; of a new one, 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CtMark {
    /// 32 bits: `ct_mark` of Open vSwitch, `ct mark` of nftables.
    pub mark: u32,
    /// 128 bits: `ct_label`, `ct label`. Kept where [`Config::labels`](crate::Config::labels) asks
    /// for it.
    pub label: u128,
}

/// Some bits of a mark or a label: those of a mask, and what they are or are to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskedBits {
    value: u128,
    mask: u128,
}

/// What are no [`MaskedBits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaskedBitsError {
    /// Not `VALUE` or `VALUE/MASK`, or more bits than so many.
    Syntax(u32),
    /// The value has bits that are not in the mask.
    BesideMask,
}

/// What is to be written to connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkChange {
    /// To their marks.
    pub mark: Option<MaskedBits>,
    /// To their labels, if there are any.
    pub label: Option<MaskedBits>,
}

impl MaskedBits {
    /// Reads `VALUE` or `VALUE/MASK`, in decimal or behind `0x`, of at most so many bits.
    pub fn read(text: &str, bits: u32) -> Result<Self, MaskedBitsError> {
        let all = u128::MAX >> (128 - bits.clamp(1, 128));
        let number = |text: &str| {
            let (digits, radix) = match text.strip_prefix("0x") {
                Some(digits) => (digits, 16),
                None => (text, 10),
            };
            let is_number = digits.bytes().all(|digit| digit.is_ascii_alphanumeric());
            let number = u128::from_str_radix(digits, radix).ok().filter(|_| is_number);
            number.filter(|number| number & !all == 0).ok_or(MaskedBitsError::Syntax(bits))
        };
        let (value, mask) = match text.split_once('/') {
            Some((value, mask)) => (number(value)?, number(mask)?),
            None => (number(text)?, all),
        };
        match value & !mask {
            0 => Ok(Self { value, mask }),
            _ => Err(MaskedBitsError::BesideMask),
        }
    }

    pub(super) fn matches(&self, bits: u128) -> bool {
        bits & self.mask == self.value
    }

    pub(crate) fn written_to(self, bits: u128) -> u128 {
        bits & !self.mask | self.value
    }
}

impl fmt::Display for MaskedBits {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:#x}/{:#x}", self.value, self.mask)
    }
}

impl fmt::Display for MaskedBitsError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            MaskedBitsError::Syntax(bits) => {
                write!(f, "write VALUE or VALUE/MASK, in decimal or behind 0x, of {bits} bits")
            }
            MaskedBitsError::BesideMask => {
                f.write_str("the value has bits that are not in the mask")
            }
        }
    }
}

impl std::error::Error for MaskedBitsError {}

impl MarkChange {
    pub(crate) fn written_to(self, old: CtMark) -> CtMark {
        let write = |bits: Option<MaskedBits>, old| bits.map_or(old, |bits| bits.written_to(old));
        CtMark {
            // What is read for a mark has no more bits.
            mark: write(self.mark, old.mark.into()) as u32,
            label: write(self.label, old.label),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bits_are_read_and_written() {
        let read = |text: &str| MaskedBits::read(text, 32).map(|bits| bits.to_string());
        for (text, is) in [
            ("5", "0x5/0xffffffff"),
            ("0x10/0xf0", "0x10/0xf0"),
            ("0/0", "0x0/0x0"),
            ("0xFFFFFFFF", "0xffffffff/0xffffffff"),
            ("4294967295/0xffffffff", "0xffffffff/0xffffffff"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(is));
            assert_eq!(read(is).as_deref(), Ok(is));
        }
        let wrong = ["", "x", "0x", "-1", "+1", "0x100000000", "1/", "/1", "1/2/3", "0x-1", " 1"];
        for text in wrong {
            assert_eq!(read(text), Err(MaskedBitsError::Syntax(32)), "{text:?}");
        }
        assert_eq!(read("3/1"), Err(MaskedBitsError::BesideMask));
        let all = format!("{:#x}", u128::MAX);
        assert!(MaskedBits::read(&all, 128).is_ok() && MaskedBits::read(&all, 127).is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_there_and_the_rest_stays(old: u128, value: u128, mask: u128) {
            let bits = MaskedBits { value: value & mask, mask };
            let new = bits.written_to(old);
            prop_assert!(bits.matches(new));
            prop_assert_eq!(new & !mask, old & !mask);
            prop_assert_eq!(bits.matches(old), new == old);
            let change = MarkChange { mark: None, label: Some(bits) };
            let [before, after] = [old, new].map(|label| CtMark { mark: old as u32, label });
            prop_assert_eq!(change.written_to(before), after);
        }
    }
}
