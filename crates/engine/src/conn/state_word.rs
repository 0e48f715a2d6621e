// SPDX-License-Identifier: BSD-3-Clause
//! Owns the state word of a record, which every packet reads and writes.
//!
//! It holds the time of the last packet, the state, and some constants of the connection.

use super::state::State;
use super::tcp::window::WindowScales;
use crate::base::{Micros, Nanos};

/// The word, from bit 0 on:
///
/// | bits | content |
/// |---|---|
/// | 45 | microseconds of the last packet |
/// | 1 | 1 if the connection was evaluated for a NIC rule |
/// | 1 | 1 if the numbers of TCP were learnt from one segment of each side |
/// | 1 | 1 if the connection is embryonic |
/// | 8 | window shifts |
/// | 6 | state |
/// | 1 | 1 if the originator is the second end of the key |
/// | 1 | 1 if access lists check its packets |
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct StateWord(u64);

const EVALUATED: u64 = 1 << 45;

const LEARNT: u64 = 1 << 46;

const EMBRYONIC: u64 = 1 << 47;

const SCALES_SHIFT: u32 = 48;

const STATE_SHIFT: u32 = 56;

const STATE_MASK: u64 = 0x3f << STATE_SHIFT;

const SWAPPED_SHIFT: u32 = 62;

const CHECKED: u64 = 1 << 63;

impl StateWord {
    /// State word of a record that is not in use.
    pub(super) const FREE: StateWord = StateWord(0);

    #[cfg(test)]
    pub(super) fn bits(self) -> u64 {
        self.0
    }

    /// Returns the word of a new connection. `orig_swapped` is 1 if its originator is the second
    /// end of the key.
    pub(super) fn begin(orig_swapped: u8) -> Self {
        let scales = u64::from(WindowScales::UNCHECKED.0) << SCALES_SHIFT;
        StateWord(scales | u64::from(orig_swapped & 1) << SWAPPED_SHIFT)
    }

    #[inline(always)]
    pub(super) fn at(self, now: Micros) -> Self {
        StateWord(self.0 & !Micros::MASK | now.0)
    }

    pub(super) fn micros(self) -> Micros {
        Micros(self.0 & Micros::MASK)
    }

    pub(super) fn last_seen(self, start: Nanos) -> Nanos {
        self.micros().since(start)
    }

    /// Returns the bits of the [`State`].
    #[inline(always)]
    pub(super) fn state_bits(self) -> u8 {
        (self.0 >> STATE_SHIFT) as u8 & (STATE_MASK >> STATE_SHIFT) as u8
    }

    pub(super) fn with_state(self, state: State) -> Self {
        StateWord(self.0 & !STATE_MASK | (state as u64) << STATE_SHIFT)
    }

    #[inline(always)]
    pub(super) fn scales(self) -> WindowScales {
        WindowScales((self.0 >> SCALES_SHIFT) as u8)
    }

    pub(super) fn with_scales(self, scales: WindowScales) -> Self {
        StateWord(self.0 & !(0xff << SCALES_SHIFT) | u64::from(scales.0) << SCALES_SHIFT)
    }

    /// Returns 1 if the originator is the second end of the key, else 0.
    #[inline(always)]
    pub(super) fn orig_swapped(self) -> u8 {
        (self.0 >> SWAPPED_SHIFT) as u8 & 1
    }

    #[inline(always)]
    pub(super) fn was_evaluated(self) -> bool {
        self.0 & EVALUATED != 0
    }

    pub(super) fn with_evaluated(self) -> Self {
        StateWord(self.0 | EVALUATED)
    }

    /// Returns the bits of the [`State`] and above them, as [`Self::CHECKED_BIT`], whether access
    /// lists check each packet.
    #[inline(always)]
    pub(super) fn checked_state_bits(self) -> u8 {
        (self.0 >> STATE_SHIFT) as u8
    }

    /// Bit of [`checked_state_bits`](Self::checked_state_bits).
    pub(super) const CHECKED_BIT: u8 = (CHECKED >> STATE_SHIFT) as u8;

    #[inline(always)]
    pub(super) fn is_checked(self) -> bool {
        self.0 & CHECKED != 0
    }

    pub(super) fn with_checked(self, is_checked: bool) -> Self {
        StateWord(self.0 & !CHECKED | u64::from(is_checked) * CHECKED)
    }

    /// True if each side may have sent more than the numbers say: they were learnt from one segment
    /// of each, either of which may have been a retransmission.
    pub(super) fn has_learnt_numbers(self) -> bool {
        self.0 & LEARNT != 0
    }

    pub(super) fn with_learnt_numbers(self) -> Self {
        StateWord(self.0 | LEARNT)
    }

    pub(super) fn is_embryonic(self) -> bool {
        self.0 & EMBRYONIC != 0
    }

    pub(super) fn with_embryonic(self, is_embryonic: bool) -> Self {
        StateWord(self.0 & !EMBRYONIC | u64::from(is_embryonic) * EMBRYONIC)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back_whatever_the_year() {
        const YEAR: Nanos = 365 * 24 * 3_600_000_000_000;
        for start in [0, 1_999, 7 * YEAR, 56 * YEAR + 1_234_567_000, u64::MAX - 9 * YEAR] {
            for age in [0, 1, 999, 1_000, 3_600_000_000_000, YEAR] {
                let last = (start + age) / 1000 * 1000;
                let vital = StateWord::begin(1).at(Micros::of(0)).at(Micros::of(start + age));
                assert_eq!(vital.last_seen(start), last, "{start} {age}");
            }
        }
    }

    #[test]
    fn parts_of_the_word_do_not_touch_each_other() {
        let vital = StateWord::begin(1)
            .with_evaluated()
            .with_scales(WindowScales(0x5a))
            .with_state(State::TcpSynSent2);
        let vital = vital.at(Micros::of(u64::MAX)).with_state(State::TcpSynSent2);
        assert!(
            vital.was_evaluated()
                && vital.orig_swapped() == 1
                && vital.scales() == WindowScales(0x5a)
        );
        assert_eq!(vital.state_bits(), State::TcpSynSent2 as u8);
        let vital =
            vital.with_scales(WindowScales(0)).with_state(State::UdpMultiple).at(Micros::of(0));
        assert!(
            vital.was_evaluated() && vital.orig_swapped() == 1 && vital.scales() == WindowScales(0)
        );
        assert_eq!(State::of_bits(vital.state_bits()), State::UdpMultiple);
        assert!(!vital.is_embryonic());
        let vital =
            vital.with_embryonic(true).at(Micros::of(u64::MAX)).with_scales(WindowScales(0));
        assert!(vital.is_embryonic() && vital.at(Micros::of(0)).is_embryonic());
        assert!(!vital.with_embryonic(false).is_embryonic() && !vital.has_learnt_numbers());
        let vital = vital.with_learnt_numbers().at(Micros::of(u64::MAX)).at(Micros::of(0));
        assert!(vital.has_learnt_numbers() && vital.micros() == Micros::of(0));
        let vital = vital.with_checked(true).at(Micros::of(u64::MAX)).with_state(State::UdpFirst);
        assert!(vital.is_checked() && vital.orig_swapped() == 1 && vital.was_evaluated());
        assert_eq!(vital.state_bits(), State::UdpFirst as u8);
        assert!(!vital.with_checked(false).is_checked());
    }
}
