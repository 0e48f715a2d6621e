// SPDX-License-Identifier: BSD-3-Clause
//! Owns the mark and the label of a connection: bits that users set and Millrace does not
//! interpret.
//!
//! They are unrelated to the mark that a NIC puts on a packet (`flow_mark.rs`).

use std::fmt;

/// Connection mark and label; 0 for a new connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CtMark {
    /// The mark, 32 bits: `ct_mark` of Open vSwitch, `ct mark` of nftables.
    pub mark: u32,
    /// The label, 128 bits: `ct_label` of Open vSwitch, `ct label` of nftables. It is only kept if
    /// [`Config::labels`](crate::Config::labels) is set.
    pub label: u128,
}

/// Some bits of a mark or a label: a mask and a value, to match or to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskedBits {
    value: u128,
    mask: u128,
}

/// Reason why a text is no [`MaskedBits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaskedBitsError {
    /// The text is not `VALUE` or `VALUE/MASK`, or a number has more than this many bits.
    Syntax(u32),
    /// The value has bits outside the mask.
    BesideMask,
}

/// Change of the mark and label of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkChange {
    /// Bits to write to marks.
    pub mark: Option<MaskedBits>,
    /// Bits to write to labels, if connections have labels.
    pub label: Option<MaskedBits>,
}

impl MaskedBits {
    /// Returns the bits of this mask, with these values.
    pub(crate) fn new(value: u128, mask: u128) -> Self {
        Self { value: value & mask, mask }
    }

    /// Returns both: where they overlap, `later` holds.
    fn then(self, later: Self) -> Self {
        Self { value: later.written_to(self.value), mask: self.mask | later.mask }
    }

    /// Parses `VALUE` or `VALUE/MASK`, each decimal or with `0x`, and each of at most `bits` bits.
    ///
    /// # Errors
    /// [`MaskedBitsError`] if the syntax is wrong, a number is too large, or the value exceeds the
    /// mask.
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
                write!(f, "write VALUE or VALUE/MASK, decimal or hexadecimal (0x), of {bits} bits")
            }
            MaskedBitsError::BesideMask => {
                f.write_str("the value has bits that are not in the mask")
            }
        }
    }
}

impl std::error::Error for MaskedBitsError {}

impl MarkChange {
    /// Changes nothing.
    pub(crate) const NONE: MarkChange = MarkChange { mark: None, label: None };

    /// Returns a change that is this one, and then another.
    pub(crate) fn then(self, later: MarkChange) -> MarkChange {
        let both = |first: Option<MaskedBits>, later| match (first, later) {
            (Some(first), Some(later)) => Some(first.then(later)),
            (first, later) => first.or(later),
        };
        MarkChange { mark: both(self.mark, later.mark), label: both(self.label, later.label) }
    }

    /// Returns the change that a rule makes.
    pub(crate) fn of_rule(options: acl::RuleOptions) -> MarkChange {
        let mark = options.set_mark;
        MarkChange {
            mark: mark.map(|bits| MaskedBits::new(bits.value.into(), bits.mask.into())),
            label: options.set_label.map(|bits| MaskedBits::new(bits.value, bits.mask)),
        }
    }

    pub(crate) fn written_to(self, old: CtMark) -> CtMark {
        let write = |bits: Option<MaskedBits>, old| bits.map_or(old, |bits| bits.written_to(old));
        CtMark {
            // Bits for a mark were parsed with at most 32 bits.
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

        #[test]
        fn two_changes_are_one_after_the_other(
            old: u128, bits in prop::array::uniform4(any::<u128>()), both: [bool; 2],
        ) {
            let change = |value, mask, is_some: bool| {
                let label = is_some.then(|| MaskedBits::new(value, mask));
                MarkChange { mark: None, label }
            };
            let (first, later) =
                (change(bits[0], bits[1], both[0]), change(bits[2], bits[3], both[1]));
            let old = CtMark { mark: 0, label: old };
            prop_assert_eq!(
                first.then(later).written_to(old),
                later.written_to(first.written_to(old))
            );
        }
    }
}
