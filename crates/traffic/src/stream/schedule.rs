// SPDX-License-Identifier: BSD-3-Clause
//! When the frames of streams are due.

use crate::Part;

/// Departures at a constant rate, without drift: frame `n` is due `n` intervals after the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval(u64);

/// Bits behind the binary point of an interval in nanoseconds: at 30 million frames a second the
/// rate is exact to 2 in a billion, and intervals may be up to 18 minutes long.
const FRACTION_BITS: u32 = 24;

impl Interval {
    /// Of no rate: every frame is due at once.
    pub(crate) const NONE: Self = Self(0);

    /// Returns the interval at `rate` frames per second, at least one in 1000 seconds.
    pub(crate) fn at_rate(rate: f64) -> Self {
        let scale = (1_u64 << FRACTION_BITS) as f64;
        Self((1e9 / rate.max(1e-3) * scale).round() as u64)
    }

    /// Nanoseconds from the start at which frame `number` is due; the greatest number if they are
    /// more.
    #[inline(always)]
    pub(crate) fn due(self, number: u64) -> u64 {
        let due = u128::from(self.0) * u128::from(number) >> FRACTION_BITS;
        u64::try_from(due).unwrap_or(u64::MAX)
    }
}

/// Streams of one rate that take turns: each has the whole interval between two of its frames.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) interval: Interval,
    pub(crate) members: Vec<Member>,
    /// The member whose turn it is.
    pub(crate) turn: usize,
    /// Packets that leave together.
    pub(crate) burst: u64,
    /// How many of the burst have left.
    in_burst: u64,
    /// Number of the first packet of the burst, counted over all shares, and the distance to that
    /// of the next burst of this share.
    first: u64,
    step: u64,
    /// When the next frame is due; `u64::MAX`: never.
    pub(crate) due: u64,
}

/// A stream of a group.
#[derive(Debug)]
pub(crate) struct Member {
    /// Number of the stream.
    pub(crate) stream: u16,
    /// How long after the first stream of the group it sends.
    pub(crate) offset_ns: u64,
}

impl Group {
    pub(crate) fn new(interval: Interval, burst: u64, member: Member, part: Part) -> Self {
        let first = burst.saturating_mul(part.share.into());
        Self {
            interval,
            members: vec![member],
            turn: 0,
            burst,
            in_burst: 0,
            first,
            step: burst.saturating_mul(part.shares.into()),
            due: interval.due(first),
        }
    }

    /// Spreads the members evenly over the interval.
    pub(crate) fn space_members(&mut self) {
        let members = self.members.len() as u64;
        for (number, member) in self.members.iter_mut().enumerate() {
            member.offset_ns = self.interval.due(number as u64) / members;
        }
    }

    #[inline(always)]
    pub(crate) fn is_last_of_burst(&self) -> bool {
        self.in_burst + 1 == self.burst
    }

    /// Goes on to the next frame. A member that is over leaves; the others keep their times.
    #[inline(always)]
    pub(crate) fn advance(&mut self, is_over: bool) {
        match is_over {
            true => _ = self.members.remove(self.turn),
            false => self.turn += 1,
        }
        if self.turn >= self.members.len() {
            self.turn = 0;
            self.in_burst += 1;
            if self.in_burst == self.burst {
                self.in_burst = 0;
                self.first = self.first.saturating_add(self.step);
            }
        }
        let member = self.members.get(self.turn);
        self.due = member.map_or(u64::MAX, |it| self.interval.due(self.first) + it.offset_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_holds_to_a_hundred_millionth_over_a_day() {
        for rate in [0.5, 3.0, 1e6, 6_731_400.0, 30e6] {
            let number = (rate * 86_400.0) as u64;
            let expected = number as f64 * 1e9 / rate;
            let error = (Interval::at_rate(rate).due(number) as f64 - expected).abs();
            assert!(error < 86_400e9 * 1e-8, "{rate}: {error} ns");
        }
        assert_eq!(Interval::NONE.due(1 << 40), 0);
    }
}
