// SPDX-License-Identifier: BSD-3-Clause
//! Converts times of a run into times of a port's clock. Both clocks are read at the same time,
//! repeatedly. Times between and shortly after the readings follow from the rate.

use crate::Clock;
use dpdk::{Errno, Mbuf, Port, SendTime, TxQueue, tsc};

/// Number of readings, of which the quickest is used: during the others the thread may have lost
/// its cpu.
const READINGS: u32 = 4;
/// Shortest time over which the rate is measured, in nanoseconds; the longest is twice that. A
/// port's clock may be steered, and a reading may be wrong by some 100 ns.
const BASE_NS: i64 = 5_000_000_000;

/// A reading of the clock of a port, and of the processor's time-stamp counter at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortReading {
    tsc: u64,
    ticks: u64,
}

impl PortReading {
    /// Reads the clock of `port`. Fails if the port has none.
    pub fn of(port: &Port) -> Result<Self, Errno> {
        Self::take(|| port.read_clock())
    }

    /// Takes the best of several readings by `read`.
    fn take(read: impl Fn() -> Result<u64, Errno>) -> Result<Self, Errno> {
        let mut best: Option<(u64, Self)> = None;
        for _ in 0..READINGS {
            let (before, ticks, after) = (tsc(), read()?, tsc());
            let took = after.saturating_sub(before);
            if best.is_none_or(|(least, _)| took < least) {
                best = Some((took, Self { tsc: before + took / 2, ticks }));
            }
        }
        Ok(best.expect("at least one reading").1)
    }
}

/// Settings of a queue that sends frames at their times.
#[derive(Clone, Copy, Debug)]
pub struct SendTimes {
    /// The mbuf field that holds the time.
    pub field: SendTime,
    /// The clock of the run.
    pub clock: Clock,
    /// A reading of the port's clock, some 0.1 s old: the first rate is measured since then.
    pub reading: PortReading,
    /// Nanoseconds by which frames may be given to the port before they are due.
    pub ahead_ns: u64,
}

/// One moment by two clocks: that of the run (negative before its start) and that of the port.
#[derive(Clone, Copy, Debug)]
struct Moment {
    ns: i64,
    ticks: u64,
}

/// The clock of the port of a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortClock {
    times: SendTimes,
    converter: Converter,
}

/// Converts times of the run to times of a port's clock.
#[derive(Clone, Copy, Debug)]
struct Converter {
    /// The moment since which the rate is measured, and the one that replaces it next.
    bases: [Moment; 2],
    latest: Moment,
    /// Ticks in a nanosecond, times 2^32.
    scale: i128,
}

impl PortClock {
    /// Measures the clock of the port of `queue`.
    pub(crate) fn new(times: SendTimes, queue: &TxQueue) -> Result<Self, Errno> {
        let converter = Converter::new(Moment::of(times.reading, times.clock));
        let mut clock = Self { times, converter };
        clock.measure(queue)?;
        Ok(clock)
    }

    /// Measures the clock again. After an error, it goes on with the rate measured before.
    pub(crate) fn measure(&mut self, queue: &TxQueue) -> Result<(), Errno> {
        let reading = PortReading::take(|| queue.read_clock())?;
        self.converter.add(Moment::of(reading, self.times.clock));
        Ok(())
    }

    /// Returns the nanoseconds by which frames may be given to the port before they are due.
    #[inline(always)]
    pub(crate) fn ahead_ns(&self) -> u64 {
        self.times.ahead_ns
    }

    /// Asks the port to send `mbuf` at the time `ns` of the run.
    #[inline(always)]
    pub(crate) fn set(&self, mbuf: &mut Mbuf, ns: u64) {
        self.times.field.set(mbuf, self.converter.ticks_at(ns));
    }
}

impl Converter {
    /// Makes a converter from the first reading; it cannot convert before the second one.
    fn new(first: Moment) -> Self {
        Self { bases: [first; 2], latest: first, scale: 0 }
    }

    fn add(&mut self, moment: Moment) {
        let [base, next] = self.bases;
        let elapsed_ns = moment.ns - base.ns;
        if elapsed_ns <= 0 || moment.ticks <= base.ticks {
            return;
        }
        self.scale = (i128::from(moment.ticks - base.ticks) << 32) / i128::from(elapsed_ns);
        self.latest = moment;
        if moment.ns - next.ns >= BASE_NS {
            self.bases = [next, moment];
        }
    }

    /// Returns the time of the port's clock at the time `ns` of the run.
    #[inline(always)]
    fn ticks_at(&self, ns: u64) -> u64 {
        let since = i128::from(ns as i64 - self.latest.ns);
        self.latest.ticks.wrapping_add_signed((since * self.scale >> 32) as i64)
    }
}

impl Moment {
    fn of(reading: PortReading, clock: Clock) -> Self {
        Self { ns: clock.signed_nanos(reading.tsc), ticks: reading.ticks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A clock of 156.25 MHz that is 20 ppm fast.
    fn ticks(ns: i64) -> u64 {
        (i128::from(ns + 7_000_000_000) * 156_250_000 * 1_000_020 / 1_000_000_000_000_000) as u64
    }

    #[test]
    fn times_follow_from_readings_before_and_after_the_start() {
        let moment = |ns| Moment { ns, ticks: ticks(ns) };
        let mut clock = Converter::new(moment(-120_000_000));
        clock.add(moment(-10_000_000));
        for second in 0..30 {
            for tenth in 0..10 {
                let now = second * 1_000_000_000 + tenth * 100_000_000;
                // The greatest error up to 0.1 s after the latest reading comes from one tick of
                // 6.4 ns at both ends of the first 0.11 s.
                for ns in [now, now + 50_000, now + 99_000_000] {
                    let (got, right) = (clock.ticks_at(ns as u64), ticks(ns));
                    assert!(got.abs_diff(right) <= 2, "{got}, not {right}, at {ns}");
                }
                clock.add(moment(now + 100_000_000));
            }
        }
    }

    #[test]
    fn a_clock_that_stands_or_goes_back_changes_nothing() {
        let mut clock = Converter::new(Moment { ns: 0, ticks: 1000 });
        clock.add(Moment { ns: 100, ticks: 1100 });
        clock.add(Moment { ns: 200, ticks: 900 });
        clock.add(Moment { ns: -5, ticks: 2000 });
        assert_eq!(clock.ticks_at(300), 1300);
    }

    #[test]
    fn the_rate_is_that_of_the_latest_seconds() {
        let mut clock = Converter::new(Moment { ns: 0, ticks: 0 });
        let mut at = Moment { ns: 0, ticks: 0 };
        // The port's clock is steered: from 1 GHz to 1.001 GHz after 20 s.
        for tenth in 1..=400 {
            at.ns += 100_000_000;
            at.ticks += if tenth <= 200 { 100_000_000 } else { 100_100_000 };
            clock.add(at);
        }
        let ahead = clock.ticks_at(at.ns as u64 + 1_000_000) - at.ticks;
        assert!((1_000_999..=1_001_000).contains(&ahead), "{ahead} ticks in 1 ms");
    }
}
