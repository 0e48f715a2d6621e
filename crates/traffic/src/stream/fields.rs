// SPDX-License-Identifier: BSD-3-Clause
//! Chooses the values of a stream's varying fields for each packet.

use super::places::{ValueSums, Varying};

/// The varying fields of a stream, with their values in the next packet.
#[derive(Debug)]
pub(crate) struct Fields {
    /// The fields; the one that changes fastest is first.
    digits: Vec<Digit>,
    /// Number of the packet over all shares, since the values last started again.
    flow: u64,
    /// Number of packets after which the values start again.
    flows: u64,
    /// Packets of all shares from the last one of a burst to the first one of this share's next
    /// burst.
    jump: u64,
    seed: u64,
}

/// The current value of a field that varies.
#[derive(Debug)]
struct Digit {
    field: Varying,
    count: u64,
    index: u64,
    value: u128,
    /// Difference to the next value of the run.
    step: u64,
    /// Number of values of the run behind the current one.
    left: u64,
    /// Values from the last packet of a burst to the first one of this share's next burst, without
    /// the carry of faster fields.
    jump: u64,
}

impl Fields {
    /// Makes the fields of a stream in which nothing varies.
    pub(crate) fn none() -> Self {
        Self { digits: Vec::new(), flow: 0, flows: u64::MAX, jump: 1, seed: 0 }
    }

    /// Makes the fields with the values of packet number `first`.
    ///
    /// The values start again after `flows` packets. Other shares send `jump - 1` packets between
    /// two bursts of this share.
    pub(crate) fn new(
        fields: Vec<Varying>,
        flows: u64,
        (first, jump): (u64, u64),
        seed: u64,
    ) -> Self {
        let mut fields = Self { digits: Digit::all(fields, jump), flow: 0, flows, jump, seed };
        fields.seek(first % flows);
        fields
    }

    /// Writes the values to a frame. Returns their sums.
    #[inline(always)]
    pub(crate) fn write(&self, frame: &mut [u8]) -> ValueSums {
        let mut sums = ValueSums::default();
        for digit in &self.digits {
            for place in &digit.field.places {
                place.write(frame, digit.value, &mut sums);
            }
        }
        sums
    }

    /// Advances to the next packet, or with `is_jump` to the first one of this share's next burst.
    ///
    /// Every combination of values that are taken in turn comes once, before the first one comes
    /// again. The first field changes fastest.
    #[inline(always)]
    pub(crate) fn advance(&mut self, is_jump: bool) {
        if self.digits.is_empty() {
            return;
        }
        self.flow = self.flow.saturating_add(if is_jump { self.jump } else { 1 });
        if self.flow >= self.flows {
            return self.seek(self.flow % self.flows);
        }
        let mut is_carried = !is_jump;
        for (number, digit) in self.digits.iter_mut().enumerate() {
            if digit.field.values.is_random {
                digit.draw(self.seed, self.flow, number as u64);
            } else if is_jump {
                is_carried = digit.advance_by(digit.jump + u64::from(is_carried));
            } else if is_carried {
                is_carried = digit.advance();
            }
        }
    }

    /// Sets the fields to the values of packet `flow`, counted over all shares.
    fn seek(&mut self, flow: u64) {
        self.flow = flow;
        let mut rest = flow;
        for (number, digit) in self.digits.iter_mut().enumerate() {
            match digit.field.values.is_random {
                true => digit.draw(self.seed, flow, number as u64),
                false => {
                    digit.set(rest % digit.count);
                    rest /= digit.count;
                }
            }
        }
    }
}

impl Digit {
    /// Makes the fields of a stream, at their first values.
    fn all(fields: Vec<Varying>, jump: u64) -> Vec<Self> {
        let mut rest = jump;
        let digits = fields.into_iter().map(|field| {
            let count = field.values.count();
            let mut digit = Self { field, count, index: 0, value: 0, step: 0, left: 0, jump: 0 };
            digit.set(0);
            if !digit.field.values.is_random {
                digit.jump = rest % count;
                rest /= count;
            }
            digit
        });
        digits.collect()
    }

    fn set(&mut self, index: u64) {
        let (run, in_run) = self.field.values.find(index);
        self.index = index;
        self.value = run.at(in_run);
        (self.step, self.left) = (run.step, run.count - in_run - 1);
    }

    /// Advances by `values`, at most `count`. Returns true if that passes the last value.
    #[inline(always)]
    fn advance_by(&mut self, values: u64) -> bool {
        let next = self.index + values;
        let is_over = next >= self.count;
        self.set(if is_over { next - self.count } else { next });
        is_over
    }

    /// Advances to the next value. Returns true if that is the first one, behind the last.
    #[inline(always)]
    fn advance(&mut self) -> bool {
        if self.left > 0 {
            self.left -= 1;
            self.index += 1;
            self.value += u128::from(self.step);
            return false;
        }
        let next = self.index + 1;
        let is_over = next == self.count;
        self.set(if is_over { 0 } else { next });
        is_over
    }

    /// Draws the random value of packet `flow`, which is always the same for one `flow` and field
    /// (RFC 4814 recommends ports without a pattern).
    #[inline(always)]
    fn draw(&mut self, seed: u64, flow: u64, field: u64) {
        let mixed = mix(mix(seed ^ field << 56).wrapping_add(flow));
        let index = (u128::from(mixed) * u128::from(self.count)) >> 64;
        self.value = self.field.values.at(index as u64);
    }
}

/// Spreads each bit of a number over all bits (the finaliser of SplitMix64, Steele et al. 2014).
#[inline(always)]
pub(crate) fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}
