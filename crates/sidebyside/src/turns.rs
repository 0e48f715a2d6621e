// SPDX-License-Identifier: BSD-3-Clause
//! Runs the programs of a group of cases in turns on the same cpus.
//!
//! All programs start together and are then stopped. They run one after the other, a tenth of a
//! second at a time. So a machine that becomes slower or faster affects all programs alike. On a
//! virtual machine, figures that are measured one after the other cannot be compared.

use crate::Setup;
use crate::cases::Case;
use crate::figures::{Figures, Reading};
use crate::millrace::{Millrace, Run};
use crate::process::Process;
use crate::testpmd::Testpmd;
use anyhow::bail;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Length of a turn. Refilling the caches takes a small part of it, and the speed of the machine
/// hardly changes within one round of turns.
const TURN: Duration = Duration::from_millis(100);

/// A device under test: a program that takes turns. It is stopped except in [`turn`](Dut::turn).
pub(crate) trait Dut {
    /// Returns the child process.
    fn process(&self) -> &Process;
    /// Waits until `end` while the program runs, and adds a reading. `ran` is the time that the
    /// program ran in earlier turns.
    fn turn(&mut self, end: Instant, ran: Duration) -> anyhow::Result<()>;
}

/// A device under test that counts the packets it has sent.
pub(crate) trait CountingDut {
    /// Returns the child process.
    fn process(&self) -> &Process;
    /// Returns the number of packets sent so far.
    fn sent(&mut self) -> anyhow::Result<f64>;
    fn readings(&mut self) -> &mut Readings;
}

impl<T: CountingDut> Dut for T {
    fn process(&self) -> &Process {
        CountingDut::process(self)
    }

    fn turn(&mut self, end: Instant, ran: Duration) -> anyhow::Result<()> {
        let begin = Instant::now();
        std::thread::sleep(end.saturating_duration_since(begin));
        let sent = self.sent()?;
        let id = CountingDut::process(self).id();
        self.readings().add(Reading::take(id, sent, ran + begin.elapsed()));
        Ok(())
    }
}

/// The figures of one case in one repetition.
#[derive(Clone)]
pub(crate) struct Runs {
    /// Figures of testpmd.
    pub(crate) floor: Figures,
    pub(crate) millrace: Run,
    /// The earlier build of Millrace, if there is one.
    pub(crate) before: Option<Run>,
}

/// Runs `cases`, which are one group, and testpmd on the same ports. Returns the figures of each
/// case, in the order of `cases`.
pub(crate) fn run(
    setup: &Setup,
    cases: &[&Case],
    interrupted: &AtomicBool,
) -> anyhow::Result<Vec<Runs>> {
    let mut floors: Vec<(&Case, Testpmd)> = Vec::new();
    for case in cases {
        if !floors.iter().any(|(other, _)| other.has_same_floor(case)) {
            floors.push((case, Testpmd::start(setup, case)?));
        }
    }
    let builds: Vec<&Path> =
        setup.before.iter().chain([&setup.millrace]).map(AsRef::as_ref).collect();
    let programs = builds.len() * cases.len() + floors.len();
    // Cases with NIC rules are last in a group and take long to start. They start first, so that
    // connections of the other programs do not expire meanwhile.
    let start = |build: &Path| -> anyhow::Result<Vec<Millrace>> {
        let start = |case: &&Case| Millrace::start(setup, build, case, programs);
        let mut runs: Vec<_> = cases.iter().rev().map(start).collect::<anyhow::Result<_>>()?;
        runs.reverse();
        Ok(runs)
    };
    let mut runs: Vec<Vec<Millrace>> =
        builds.into_iter().map(start).collect::<anyhow::Result<_>>()?;
    let mut duts: Vec<&mut dyn Dut> = Vec::new();
    duts.extend(floors.iter_mut().map(|(_, floor)| floor as &mut dyn Dut));
    duts.extend(runs.iter_mut().flatten().map(|run| run as &mut dyn Dut));
    take_turns(setup, &mut duts, interrupted)?;

    let mut figures: Vec<(&Case, Figures)> = Vec::new();
    for (case, floor) in floors {
        figures.push((case, floor.finish(setup, case)?));
    }
    let millrace = runs.pop().expect("the last build is the one that is measured");
    let mut before = runs.pop().map(Vec::into_iter);
    let mut all = Vec::new();
    for (case, run) in cases.iter().zip(millrace) {
        let floor = figures.iter().find(|(other, _)| other.has_same_floor(case));
        let (_, floor) = floor.expect("every case has started its floor");
        let before = before.as_mut().and_then(Iterator::next);
        let before = before.map(|run| run.finish(setup, case)).transpose()?;
        all.push(Runs { floor: *floor, millrace: run.finish(setup, case)?, before });
    }
    Ok(all)
}

/// Lets the programs run in turns, each for `Setup::seconds` in all. The order is reversed after
/// each round, so that a steady drift of the machine's speed affects all alike.
pub(crate) fn take_turns(
    setup: &Setup,
    duts: &mut [&mut dyn Dut],
    interrupted: &AtomicBool,
) -> anyhow::Result<()> {
    let rounds = Duration::from_secs(setup.seconds.into()).div_duration_f64(TURN) as u32;
    let mut duts: Vec<_> = duts.iter_mut().map(|dut| (dut, Duration::ZERO)).collect();
    for _ in 0..rounds {
        for (dut, ran) in &mut duts {
            if interrupted.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            let begin = Instant::now();
            dut.process().resume()?;
            dut.turn(begin + TURN, *ran)?;
            dut.process().pause()?;
            // A program that answers late has run longer than its turn.
            *ran += begin.elapsed();
        }
        duts.reverse();
    }
    Ok(())
}

/// First and last reading of a program, taken in its turns.
#[derive(Default)]
pub(crate) struct Readings {
    first: Option<Reading>,
    last: Option<Reading>,
}

impl Readings {
    /// Adds a reading.
    pub(crate) fn add(&mut self, reading: Reading) {
        match self.first {
            None => self.first = Some(reading),
            Some(_) => self.last = Some(reading),
        }
    }

    /// Returns the latest reading.
    pub(crate) fn latest(&self) -> Option<&Reading> {
        self.last.as_ref().or(self.first.as_ref())
    }

    /// Returns the figures of a program with this many workers.
    ///
    /// # Errors
    ///
    /// If there are fewer than two readings.
    pub(crate) fn figures(&self, setup: &Setup, workers: usize) -> anyhow::Result<Figures> {
        let (Some(first), Some(last)) = (&self.first, &self.last) else {
            bail!("the program printed fewer than two figures: increase --seconds");
        };
        Ok(Figures::between(first, last, workers, setup.tsc_hz))
    }
}
