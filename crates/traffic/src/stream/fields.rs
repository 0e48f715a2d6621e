// SPDX-License-Identifier: BSD-3-Clause
//! The fields of a stream that vary, and their values in each packet.

use super::places::{ValueSums, Varying};

/// The fields of a stream, with the values of the packet that is next.
#[derive(Debug)]
pub(crate) struct Fields {
    /// The fastest first.
    digits: Vec<Digit>,
    /// Number of the packet over all shares since the fields began anew, and the number after which
    /// they do.
    flow: u64,
    flows: u64,
    /// Packets from the last of a burst to the first of this share's next one.
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
    /// Difference to the next value, and the number of values for which it is the same.
    step: u64,
    left: u64,
    /// Values between the last packet of a burst and the first of this share's next one, without
    /// the carry of faster fields.
    jump: u64,
}

impl Fields {
    /// No fields that vary.
    pub(crate) fn none() -> Self {
        Self { digits: Vec::new(), flow: 0, flows: u64::MAX, jump: 1, seed: 0 }
    }

    /// Returns the fields with the values of packet number `first`. They begin anew after `flows`
    /// packets, and a share leaves `jump - 1` packets out between its bursts.
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

    /// Writes the values to a frame; returns their sums.
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

    /// Advances to the next packet, or to the first one of this share's next burst. Every
    /// combination of values that are taken in turn comes once; the first field changes fastest.
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

    /// Sets the fields to the values of a flow.
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
    /// The fields of a stream, at their first values.
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

    /// Advances by at most `count` values; true if it passed the last one.
    #[inline(always)]
    fn advance_by(&mut self, values: u64) -> bool {
        let next = self.index + values;
        let is_over = next >= self.count;
        self.set(if is_over { next - self.count } else { next });
        is_over
    }

    /// Takes the next value; true if the first one follows the last.
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

    /// Takes the value of a flow that is drawn for it: the same flow has the same one again
    /// (RFC 4814 wants ports without a pattern).
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
