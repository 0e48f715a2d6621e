// SPDX-License-Identifier: BSD-3-Clause
//! Counts the cycles of a worker: busy, idle or stalled, and how the busy ones divide into kinds of
//! work.
//!
//! Every turn of a task is measured by one reading of the clock, which also tells the next task the
//! time. The kinds of work are measured in a sample of the turns. Sampled turns are slower than
//! others, so the cost of the readings is subtracted, and the sample gives only the share of each
//! kind in the busy cycles.

use dpdk::{tsc, tsc_reading_cycles};

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Finding out which frames are due, and whether the port has room.
    Pace,
    /// Writing frames, or turning round those that a reflector sends back.
    Build,
    /// Handing frames to the port.
    Tx,
    /// Fetching frames from the port, and freeing them.
    Rx,
    /// Verifying frames and adding them to the counts of their lane, or, of a stateful end,
    /// processing them.
    Verify,
    /// All else: reports, neighbours, time between turns.
    Count,
}

impl Work {
    /// All kinds of work, in their order.
    pub const ALL: [Work; 6] =
        [Work::Pace, Work::Build, Work::Tx, Work::Rx, Work::Verify, Work::Count];
}

const KINDS: usize = Work::ALL.len();
/// One turn in so many is sampled. A prime number, so that the sample has turns of all tasks.
const SAMPLED: u32 = 61;
/// Every turn is sampled until so many of the sample were busy: short runs need a sample too.
const SAMPLE_MIN: u32 = 1024;
/// Cycles from which on a turn counts as interrupted, as for the workers of `run`.
const INTERRUPTED: u64 = 1 << 21;

/// Clock readings within a turn, if the turn is one of the sample.
#[derive(Debug, Default)]
pub struct Laps {
    is_sampled: bool,
    last: u64,
    cycles: [u64; KINDS],
    readings: [u64; KINDS],
}

impl Laps {
    /// Returns laps of a turn that is not sampled.
    pub fn off() -> Self {
        Self::default()
    }

    /// Notes that all work since the previous lap, or the start of the turn, was of this kind.
    #[inline(always)]
    pub fn lap(&mut self, work: Work) {
        if self.is_sampled {
            self.note(work, tsc());
        }
    }

    #[inline(never)]
    fn note(&mut self, work: Work, now: u64) {
        self.cycles[work as usize] += now.wrapping_sub(self.last);
        self.readings[work as usize] += 1;
        self.last = now;
    }
}

/// Cycles of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerCycles {
    /// Cycles of turns that sent or received something.
    pub busy: u64,
    /// Cycles of all other turns.
    pub idle: u64,
    /// Cycles of turns that took so long that the worker lost its cpu meanwhile, most likely.
    pub stalled: u64,
    /// The busy cycles by kind of work, in the order of [`Work::ALL`]; they add up to `busy`.
    pub by_work: [u64; KINDS],
}

/// Measures the turns of a worker.
#[derive(Debug)]
pub(crate) struct CycleMeter {
    pub(crate) laps: Laps,
    turns: u32,
    /// When the last turn ended.
    last: u64,
    busy: u64,
    idle: u64,
    stalled: u64,
    /// Number of sampled turns that were busy, and their sums.
    samples: u32,
    cycles: [u64; KINDS],
    readings: [u64; KINDS],
}

impl CycleMeter {
    /// Makes a meter whose first turn begins at `now`, a value of the clock.
    pub(crate) fn new(now: u64) -> Self {
        Self {
            laps: Laps::off(),
            turns: 0,
            last: now,
            busy: 0,
            idle: 0,
            stalled: 0,
            samples: 0,
            cycles: [0; KINDS],
            readings: [0; KINDS],
        }
    }

    /// Begins a turn; returns when the previous one ended.
    #[inline(always)]
    pub(crate) fn begin(&mut self) -> u64 {
        self.turns += 1;
        if self.turns >= SAMPLED || self.samples < SAMPLE_MIN {
            self.turns = 0;
            self.laps = Laps { is_sampled: true, last: self.last, ..Laps::off() };
        }
        self.last
    }

    /// Ends a turn at `now`, which sent or received something or did not.
    #[inline(always)]
    pub(crate) fn end(&mut self, is_busy: bool, now: u64) {
        let spent = now.wrapping_sub(self.last);
        if spent >= INTERRUPTED {
            self.stalled += spent;
        } else if is_busy {
            self.busy += spent;
        } else {
            self.idle += spent;
        }
        if self.laps.is_sampled {
            self.take_sample(is_busy && spent < INTERRUPTED, now);
        }
        self.last = now;
    }

    /// Ends a turn that does not count: the run has not begun, or its packets are only awaited.
    pub(crate) fn skip(&mut self, now: u64) {
        self.laps.is_sampled = false;
        self.last = now;
    }

    #[inline(never)]
    fn take_sample(&mut self, is_good: bool, now: u64) {
        self.laps.note(Work::Count, now);
        self.laps.is_sampled = false;
        if is_good {
            self.samples = self.samples.saturating_add(1);
            for kind in 0..KINDS {
                self.cycles[kind] += self.laps.cycles[kind];
                self.readings[kind] += self.laps.readings[kind];
            }
        }
    }

    /// Returns the cycles so far.
    pub(crate) fn cycles(&self) -> WorkerCycles {
        self.cycles_with(tsc_reading_cycles())
    }

    /// Returns the cycles if a reading of the clock takes `reading` cycles.
    fn cycles_with(&self, reading: u64) -> WorkerCycles {
        let without =
            |kind: usize| self.cycles[kind].saturating_sub(self.readings[kind] * reading) as u128;
        let sampled = (0..KINDS).map(without).sum::<u128>().max(1);
        let share = |kind| (u128::from(self.busy) * without(kind) / sampled) as u64;
        let mut by_work: [u64; KINDS] = std::array::from_fn(share);
        let rest = self.busy - by_work.iter().sum::<u64>();
        by_work[Work::Count as usize] += rest;
        WorkerCycles { busy: self.busy, idle: self.idle, stalled: self.stalled, by_work }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes turns of 300 cycles: 100 of building, 150 of sending and 50 between; idle ones of 40.
    fn meter(turns: u32, reading: u64) -> CycleMeter {
        let (mut meter, mut now) = (CycleMeter::new(1_000), 1_000);
        for turn in 0..turns {
            assert_eq!(meter.begin(), now);
            if turn % 2 == 1 {
                now += 40;
                meter.end(false, now);
                continue;
            }
            for (work, cycles) in [(Work::Build, 100), (Work::Tx, 150)] {
                now += cycles;
                if meter.laps.is_sampled {
                    now += reading;
                    meter.laps.note(work, now);
                }
            }
            now += 50;
            meter.end(true, now);
        }
        meter
    }

    #[test]
    fn kinds_of_work_add_up_to_the_busy_cycles() {
        let WorkerCycles { busy, idle, stalled, by_work } = meter(SAMPLED * 8, 0).cycles_with(0);
        assert_eq!(stalled, 0);
        assert_eq!((busy, idle), (300 * 244, 40 * 244));
        assert_eq!(by_work, [0, 100 * 244, 150 * 244, 0, 0, 50 * 244]);
    }

    #[test]
    fn the_cost_of_readings_is_no_work() {
        let meter = meter(SAMPLED * 80, 25);
        let (samples, cycles) = (u64::from(meter.samples), meter.cycles_with(25));
        assert!((1024 + 20..1024 + 26).contains(&samples), "{samples}");
        assert_eq!(cycles.busy, 300 * 2440 + 2 * 25 * samples);
        let [pace, build, tx, rx, verify, count] = cycles.by_work;
        assert_eq!((pace, rx, verify), (0, 0, 0));
        assert_eq!(build + tx + count, cycles.busy);
        let near = |is: u64, wanted: u64| is.abs_diff(wanted) < wanted / 5;
        assert!(near(build, 100 * 2440) && near(tx, 150 * 2440), "{cycles:?}");
    }

    #[test]
    fn a_worker_that_did_nothing_was_idle() {
        let mut meter = CycleMeter::new(5);
        assert_eq!(meter.cycles_with(25), WorkerCycles::default());
        for now in (100..100 * 200).step_by(100) {
            meter.begin();
            meter.laps.lap(Work::Rx);
            meter.end(false, now);
        }
        let cycles = meter.cycles_with(25);
        assert_eq!((cycles.busy, cycles.idle, cycles.by_work), (0, 19_895, [0; KINDS]));
    }

    #[test]
    fn an_interrupted_turn_is_no_sample() {
        let (mut meter, mut now) = (CycleMeter::new(0), 0);
        for (work, cycles) in [(Work::Rx, INTERRUPTED), (Work::Pace, 10), (Work::Pace, 10)] {
            meter.begin();
            now += cycles;
            meter.laps.note(work, now);
            meter.end(true, now);
        }
        let cycles = meter.cycles_with(0);
        assert_eq!((cycles.busy, cycles.stalled), (20, INTERRUPTED));
        assert_eq!(cycles.by_work, [20, 0, 0, 0, 0, 0]);
    }
}
