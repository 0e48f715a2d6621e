// SPDX-License-Identifier: BSD-3-Clause
//! Draws the gaps of a Poisson process: exponential numbers, independent of each other.

use super::fields::mix;
use std::sync::Arc;

/// Number of parts of an octave. Logarithms are interpolated linearly between those of the parts,
/// with an error of at most 2 in a million.
const PARTS: usize = 256;
const PART_BITS: u32 = PARTS.ilog2();
/// Bits behind the binary point of logarithms.
const FRACTION_BITS: u32 = 32;
/// Step of SplitMix64 (Steele et al. 2014).
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Generator of exponentially distributed numbers with the mean 1.
#[derive(Clone, Debug)]
pub(crate) struct Exponential {
    /// Table of `ln 2 - ln(1 + part / PARTS)`, with [`FRACTION_BITS`].
    logarithms: Arc<[u32; PARTS + 1]>,
    state: u64,
}

impl Exponential {
    /// The greatest factor of [`Self::next`].
    pub(crate) const MEAN_MAX: u128 = 1 << 88;

    pub(crate) fn new(seed: u64) -> Self {
        let scale = (1_u64 << FRACTION_BITS) as f64;
        let logarithm = |part| ((2.0 / (1.0 + part as f64 / PARTS as f64)).ln() * scale) as u32;
        Self { logarithms: Arc::new(std::array::from_fn(logarithm)), state: mix(seed) }
    }

    /// Returns the next number times `mean`, which must be at most [`Self::MEAN_MAX`].
    #[inline(always)]
    pub(crate) fn next(&mut self, mean: u128) -> u128 {
        self.state = self.state.wrapping_add(STEP);
        mean * u128::from(self.minus_ln(mix(self.state))) >> FRACTION_BITS
    }

    /// Returns `-ln(bits / 2^64)`, with [`FRACTION_BITS`] behind the binary point.
    #[inline(always)]
    fn minus_ln(&self, bits: u64) -> u64 {
        let bits = bits | 1;
        // 2^-zeros * (1 + part / PARTS + rest) / 2
        let zeros = bits.leading_zeros();
        let below_one = bits << zeros << 1;
        let part = (below_one >> (u64::BITS - PART_BITS)) as usize;
        let rest = below_one << PART_BITS >> FRACTION_BITS;
        let from = u64::from(self.logarithms[part]);
        let fall = from - u64::from(self.logarithms[part + 1]);
        let ln_2 = u64::from(self.logarithms[0]);
        u64::from(zeros) * ln_2 + from - (fall * rest >> FRACTION_BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_exact_to_two_in_a_million() {
        let exponential = Exponential::new(1);
        for number in 0..200_000_u64 {
            let bits = mix(number) >> (number % 64) | 1;
            let found = exponential.minus_ln(bits) as f64 / 2_f64.powi(32);
            let expected = -(bits as f64 / 2_f64.powi(64)).ln();
            assert!((found - expected).abs() < 2e-6, "{bits}: {found}, not {expected}");
        }
    }

    /// The mean must be within 3 of its standard deviations. The Kolmogorov-Smirnov distance must
    /// be below `1.95 / sqrt(n)`, which holds in 999 of 1000 cases.
    #[test]
    fn numbers_are_exponential() {
        const MEAN: u64 = 1 << 40;
        let count = 100_000;
        for seed in 0..5 {
            let mut exponential = Exponential::new(seed);
            let next = |_| exponential.next(MEAN.into()) as f64 / MEAN as f64;
            let mut numbers: Vec<f64> = (0..count).map(next).collect();
            let root = f64::from(count).sqrt();
            let mean = numbers.iter().sum::<f64>() / f64::from(count);
            assert!((mean - 1.0).abs() < 3.0 / root, "{mean}");
            numbers.sort_by(f64::total_cmp);
            let distance = |(index, number): (usize, &f64)| {
                let share = |index: usize| index as f64 / f64::from(count);
                let expected = 1.0 - (-number).exp();
                (expected - share(index)).abs().max((expected - share(index + 1)).abs())
            };
            let distance = numbers.iter().enumerate().map(distance).fold(0.0, f64::max);
            assert!(distance < 1.95 / root, "{distance}");
        }
    }
}
