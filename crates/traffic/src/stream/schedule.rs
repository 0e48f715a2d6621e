// SPDX-License-Identifier: BSD-3-Clause
//! Computes the times at which the frames of streams are due.

use super::fields::mix;
use super::poisson::Exponential;
use super::rate::parse_plain;
use super::recording::Player;
use crate::Part;
use crate::ramp::Ramp;

/// Error: the text is no time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no time: write 1.5s, 20ms or 5us, up to 1,000,000 seconds")]
pub struct TimeError(pub String);

/// Interval between frames at a constant rate. Frame `n` is due `n` intervals after the start, so
/// times do not drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval(u64);

/// Bits behind the binary point of an interval in nanoseconds. At 30 million frames per second the
/// rate is exact to 2 in a billion. Intervals may be up to 18 minutes long.
const FRACTION_BITS: u32 = 24;

impl Interval {
    /// The interval of rate `max`: every frame is due at once.
    pub(crate) const NONE: Self = Self(0);

    /// Returns the interval at `rate` frames per second. Rates below 0.001 count as 0.001.
    pub(crate) fn at_rate(rate: f64) -> Self {
        let scale = (1_u64 << FRACTION_BITS) as f64;
        Self((1e9 / rate.max(1e-3) * scale).round() as u64)
    }

    /// Returns the time at which frame `number` is due, in nanoseconds from the start, at most
    /// `u64::MAX`.
    #[inline(always)]
    pub(crate) fn due(self, number: u64) -> u64 {
        let due = u128::from(self.0) * u128::from(number) >> FRACTION_BITS;
        u64::try_from(due).unwrap_or(u64::MAX)
    }
}

/// Settings besides the rate that determine when a stream sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// True if gaps are exponential: a Poisson process.
    pub(crate) is_poisson: bool,
    /// Nanoseconds for which the stream sends, and for which it then pauses, repeatedly.
    pub(crate) on_off: Option<[u64; 2]>,
    /// Nanoseconds from the start of the run to the start of the stream.
    pub(crate) start_ns: u64,
}

/// Reads a time, such as `1.5s`, `20ms` or `5us`, as nanoseconds. A number without a unit is in
/// seconds.
pub(crate) fn time(text: &str) -> Result<u64, TimeError> {
    let units = [("ms", 1e6), ("us", 1e3), ("s", 1e9)];
    let found = units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)));
    let (number, scale) = found.unwrap_or((text, &1e9));
    let number = parse_plain(number.trim()).map(|number| (number * scale).round());
    // 1,000,000 seconds are 11 days.
    let number = number.filter(|number| *number <= 1e15);
    number.map(|number| number as u64).ok_or_else(|| TimeError(text.to_owned()))
}

/// Reads a time as nanoseconds, and refuses 0.
pub(crate) fn positive_time(text: &str) -> Result<u64, TimeError> {
    match time(text)? {
        0 => Err(TimeError(text.to_owned())),
        time => Ok(time),
    }
}

/// Times of the bursts of a stream, without its pauses.
#[derive(Debug)]
pub(crate) enum Gaps {
    Even {
        interval: Interval,
        /// Number of the burst's first packet, counted over all shares.
        first: u64,
        /// Distance from `first` to that of this share's next burst.
        step: u64,
    },
    Random {
        exponential: Exponential,
        /// Mean gap in nanoseconds, with [`FRACTION_BITS`].
        mean: u128,
        /// Time of the next burst in nanoseconds, with [`FRACTION_BITS`].
        at: u128,
    },
    Recorded {
        player: Player,
        /// Factor for times of the capture, with [`SCALE_BITS`].
        scale: u64,
        /// Frames of the capture from one of this share to its next one.
        step: u64,
    },
}

/// Bits behind the binary point of the factor for times of a capture.
const SCALE_BITS: u32 = 32;

impl Gaps {
    /// Makes the times of bursts at even gaps. `interval` is that of packets, `burst` the number of
    /// packets of a burst.
    pub(crate) fn even(interval: Interval, burst: u64, part: Part) -> Self {
        let first = burst.saturating_mul(part.share.into());
        Gaps::Even { interval, first, step: burst.saturating_mul(part.shares.into()) }
    }

    /// Makes the times of bursts as a Poisson process. `interval` is the mean interval of packets,
    /// `burst` the number of packets of a burst. Each share is an independent Poisson process.
    pub(crate) fn random(interval: Interval, burst: u64, part: Part, seed: u64) -> Self {
        let step = burst.saturating_mul(part.shares.into());
        let mean = u128::from(interval.0).saturating_mul(step.into());
        Gaps::Random {
            exponential: Exponential::new(mix(seed) ^ u64::from(part.share)),
            mean: mean.min(Exponential::MEAN_MAX),
            at: 0,
        }
    }

    /// Makes the times of a capture that is sent at `speed` times its own speed.
    pub(crate) fn recorded(player: Player, speed: f64, part: Part) -> Self {
        let scale = ((1_u64 << SCALE_BITS) as f64 / speed).round() as u64;
        Gaps::Recorded { player, scale, step: part.shares.into() }
    }

    /// Returns the time at which the burst is due, in nanoseconds.
    #[inline(always)]
    fn due(&self) -> u64 {
        match self {
            Gaps::Even { interval, first, .. } => interval.due(*first),
            Gaps::Random { at, .. } => u64::try_from(*at >> FRACTION_BITS).unwrap_or(u64::MAX),
            Gaps::Recorded { player, scale, .. } => {
                let at = u128::from(player.at_ns()) * u128::from(*scale) >> SCALE_BITS;
                u64::try_from(at).unwrap_or(u64::MAX)
            }
        }
    }

    /// Advances to the next burst of this share.
    #[inline(always)]
    fn advance(&mut self) {
        match self {
            Gaps::Even { first, step, .. } => *first = first.saturating_add(*step),
            Gaps::Random { exponential, mean, at } => *at += exponential.next(*mean),
            Gaps::Recorded { player, step, .. } => player.advance(*step),
        }
    }
}

/// Pauses of a stream, and the current period of sending.
#[derive(Debug)]
struct Pauses {
    on_ns: u64,
    off_ns: u64,
    /// End of the current period, in time without pauses.
    end_ns: u64,
    /// Sum of the pauses before the current period.
    paused_ns: u64,
}

impl Pauses {
    /// Returns the time with pauses of an event at `ns` without pauses. `ns` must not decrease from
    /// call to call.
    #[inline]
    fn time(&mut self, ns: u64) -> u64 {
        if ns >= self.end_ns {
            let periods = ns / self.on_ns;
            self.end_ns = (periods + 1).saturating_mul(self.on_ns);
            self.paused_ns = periods.saturating_mul(self.off_ns);
        }
        ns.saturating_add(self.paused_ns)
    }
}

/// Streams with the same rate, which take turns. Each stream has its whole interval between two of
/// its frames.
#[derive(Debug)]
pub(crate) struct Group {
    gaps: Gaps,
    schedule: Schedule,
    ramp: Ramp,
    pauses: Option<Pauses>,
    members: Vec<Member>,
    /// The member whose turn it is.
    turn: usize,
    /// Number of packets of a burst.
    burst: u64,
    /// Number of packets of the current burst that have been sent.
    in_burst: u64,
    /// True if the rate is `max`: the next frame is always due.
    is_max: bool,
    /// Time at which the next frame is due, in nanoseconds; `u64::MAX` for never.
    due: u64,
}

/// A stream of a group.
#[derive(Debug)]
struct Member {
    /// Number of the stream.
    stream: u16,
    /// Offset from the first stream of the group, in nanoseconds.
    offset_ns: u64,
}

impl Group {
    /// Makes a group of one stream.
    pub(crate) fn new(gaps: Gaps, burst: u64, stream: u16, schedule: Schedule) -> Self {
        let pauses = |[on_ns, off_ns]: [u64; 2]| Pauses { on_ns, off_ns, end_ns: 0, paused_ns: 0 };
        Self {
            is_max: matches!(gaps, Gaps::Even { interval: Interval::NONE, .. }),
            gaps,
            schedule,
            ramp: Ramp::default(),
            pauses: schedule.on_off.map(pauses),
            members: vec![Member { stream, offset_ns: 0 }],
            turn: 0,
            burst,
            in_burst: 0,
            due: 0,
        }
    }

    /// Lets the rate grow by `ramp`. Pauses do not count as time of the ramp.
    pub(crate) fn grow(&mut self, ramp: Ramp) {
        self.ramp = ramp;
    }

    /// True if the rate is `max`: the next frame is always due.
    #[inline(always)]
    pub(crate) fn is_max(&self) -> bool {
        self.is_max
    }

    /// Adds a stream if it can take turns with those of the group. Returns false if not.
    pub(crate) fn takes(&mut self, other: Interval, schedule: Schedule, stream: u16) -> bool {
        let Gaps::Even { interval, .. } = self.gaps else { return false };
        let is_same = interval == other && schedule == self.schedule && self.burst == 1;
        if is_same {
            self.members.push(Member { stream, offset_ns: 0 });
        }
        is_same
    }

    /// Spreads the members evenly over the interval, and prepares the first frame.
    pub(crate) fn begin(&mut self) {
        match &mut self.gaps {
            Gaps::Even { interval, .. } => {
                let members = self.members.len() as u64;
                for (number, member) in self.members.iter_mut().enumerate() {
                    member.offset_ns = interval.due(number as u64) / members;
                }
            }
            random @ Gaps::Random { .. } => random.advance(),
            Gaps::Recorded { .. } => {}
        }
        self.due = self.next_due();
    }

    /// Returns the time at which the next frame is due, in nanoseconds; `u64::MAX` for never.
    #[inline(always)]
    pub(crate) fn due(&self) -> u64 {
        self.due
    }

    /// Returns the number of the stream whose turn it is.
    #[inline(always)]
    pub(crate) fn stream(&self) -> u16 {
        self.members[self.turn].stream
    }

    /// Returns the number of the stream if the group has only one.
    #[inline(always)]
    pub(crate) fn only_stream(&self) -> Option<u16> {
        match &self.members[..] {
            [member] => Some(member.stream),
            _ => None,
        }
    }

    #[inline(always)]
    pub(crate) fn is_last_of_burst(&self) -> bool {
        self.in_burst + 1 == self.burst
    }

    /// Advances to the next frame. With `is_over`, the current member leaves the group; the others
    /// keep their times.
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
                self.gaps.advance();
            }
        }
        if !self.is_max || self.members.is_empty() {
            self.due = self.next_due();
        }
    }

    /// True if the next frame is the first of a burst, and of the first stream.
    #[inline(always)]
    pub(crate) fn begins_burst(&self) -> bool {
        self.in_burst == 0 && self.turn == 0
    }

    #[inline(always)]
    fn next_due(&mut self) -> u64 {
        let Some(member) = self.members.get(self.turn) else { return u64::MAX };
        let mut due = self.ramp.time(self.gaps.due().saturating_add(member.offset_ns));
        if let Some(pauses) = &mut self.pauses {
            due = pauses.time(due);
        }
        due.saturating_add(self.schedule.start_ns)
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

    #[test]
    fn every_way_to_write_a_time() {
        assert_eq!(time("1.5s"), Ok(1_500_000_000));
        assert_eq!(time("20ms"), Ok(20_000_000));
        assert_eq!(time("5us"), Ok(5000));
        assert_eq!(time("2"), Ok(2_000_000_000));
        assert_eq!(time("0"), Ok(0));
        for text in ["", "s", "-1s", "1e3s", "1m", "1000001s", "inf"] {
            assert!(time(text).is_err(), "{text}");
        }
        for text in ["0", "0.1ns", "0.0001us"] {
            assert!(positive_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn pauses_are_whole_and_in_their_places() {
        let mut pauses = Pauses { on_ns: 10, off_ns: 5, end_ns: 0, paused_ns: 0 };
        let times = [0, 9, 10, 19, 20, 1000].map(|ns| pauses.time(ns));
        assert_eq!(times, [0, 9, 15, 24, 30, 1500]);
    }
}
