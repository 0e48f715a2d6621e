// SPDX-License-Identifier: BSD-3-Clause
//! Computes the start time of each burst of flows, in whole nanoseconds and without drift.

use super::decimal::Decimal;
use super::pool::gcd;
use super::profile::Template;
use super::traffic::Share;

/// Largest multiplier of the rates. With larger ones, the numbers of `Pace` might overflow.
pub const MULTIPLIER_MAX: Decimal = Decimal::from_whole(1_000_000);

/// The flows of a template that belong to one share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlowRange {
    /// The flows `first..first + count`, repeatedly.
    Repeated { first: u64, count: u64 },
    /// The bursts `first`, `first + step`, `first + 2 * step` and so on, each once.
    Endless { first: u64, step: u64 },
}

impl FlowRange {
    /// Returns the flows of `template` that belong to `share`; `None` if there are none.
    pub(super) fn new(template: &Template, share: Share) -> Option<Self> {
        let (index, parts) = (u64::from(share.index), u64::from(share.count));
        let Some(limit) = template.limit.map(u64::from) else {
            return Some(Self::Endless { first: index, step: parts });
        };
        let (each, remainder) = (limit / parts, limit % parts);
        let (first, count) = match index {
            0 => (0, each + remainder),
            _ => (index * each + remainder, each),
        };
        (count > 0).then_some(Self::Repeated { first, count })
    }

    /// Returns the share's part of the template's rate, as numerator and denominator.
    pub(super) fn part(&self, template: &Template) -> (u64, u64) {
        match *self {
            Self::Repeated { count, .. } => (count, template.limit.map_or(1, u64::from)),
            Self::Endless { step, .. } => (1, step),
        }
    }
}

/// Times of a template's bursts: burst `n` begins at `floor(n * interval)`, where the interval is
/// an exact fraction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    now_ns: u64,
    /// Part of a nanosecond beyond `now_ns`: the numerator of a fraction over `denominator`.
    remainder: u128,
    step_ns: u64,
    step_remainder: u128,
    denominator: u128,
}

impl Pace {
    /// Makes the times of bursts of `burst` flows.
    ///
    /// The rate is `cps * multiplier * numerator / denominator` flows per second. No argument may
    /// be 0, and `multiplier` may be at most [`MULTIPLIER_MAX`].
    pub(super) fn new(
        cps: Decimal,
        multiplier: Decimal,
        (numerator, denominator): (u64, u64),
        burst: u32,
    ) -> Self {
        const NS: u128 = 1_000_000_000;
        const MILLION: u128 = 1_000_000;
        // At most 10^21 * 2^16 * 2^32 and 10^15 * 10^12 * 2^32, both below 2^127.
        let length = NS * MILLION * MILLION * u128::from(burst) * u128::from(denominator);
        let rate = u128::from(cps.millionths()) * u128::from(multiplier.millionths());
        let common = gcd(length, rate);
        let (length, rate) = (length / common, rate / common);
        let common = gcd(length, numerator.into());
        let (length, rate) = (length / common, rate * (u128::from(numerator) / common));
        Self {
            now_ns: 0,
            remainder: 0,
            step_ns: u64::try_from(length / rate).unwrap_or(u64::MAX),
            step_remainder: length % rate,
            denominator: rate,
        }
    }

    /// Delays the bursts of `share` so that the bursts of all shares are evenly spaced.
    pub(super) fn shifted(self, share: Share) -> Self {
        let phase = u128::from(self.step_ns) * u128::from(share.index) / u128::from(share.count);
        // The delay is less than a step, so it fits.
        Self { now_ns: phase as u64, ..self }
    }

    /// Returns the time of the next burst, in nanoseconds.
    #[inline]
    pub(super) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Advances to the next burst.
    #[inline]
    pub(super) fn advance(&mut self) {
        self.now_ns = self.now_ns.saturating_add(self.step_ns);
        self.remainder += self.step_remainder;
        if self.remainder >= self.denominator {
            self.remainder -= self.denominator;
            self.now_ns = self.now_ns.saturating_add(1);
        }
    }
}
