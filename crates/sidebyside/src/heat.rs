// SPDX-License-Identifier: BSD-3-Clause
//! A heat: programs that are compared run in turns on the same cpus.
//!
//! All of them are started, then each is stopped and continued a tenth of a second at a time, the
//! others standing still meanwhile. A machine that grows slower or faster does so for all of them:
//! on a virtual machine that is the difference between a figure and a guess.

use crate::Setup;
use crate::cases::Case;
use crate::millrace::{Millrace, Run};
use crate::process::Process;
use crate::stopwatch::{Figures, Reading};
use crate::testpmd::Testpmd;
use anyhow::bail;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Long enough that refilled caches are a small part of it, short enough that nothing else changes.
const TURN: Duration = Duration::from_millis(100);

/// A program in a heat. It is stopped except in [`turn`](Dut::turn).
pub(crate) trait Dut {
    /// The child.
    fn process(&self) -> &Process;
    /// Runs until `end`; `ran` is how long it did so in the turns before.
    fn turn(&mut self, end: Instant, ran: Duration) -> anyhow::Result<()>;
}

/// The figures of one case in one repetition.
#[derive(Clone)]
pub(crate) struct Runs {
    /// testpmd.
    pub(crate) floor: Figures,
    pub(crate) millrace: Run,
    /// The earlier build of Millrace, if there is one.
    pub(crate) before: Option<Run>,
}

/// Runs `cases` and the floor of each. Returns the figures of every case, in their order.
pub(crate) fn run(
    setup: &Setup,
    cases: &[&Case],
    interrupted: &AtomicBool,
) -> anyhow::Result<Vec<Runs>> {
    let mut floors: Vec<(&Case, Testpmd)> = Vec::new();
    for case in cases {
        if !floors.iter().any(|(other, _)| other.same_floor(case)) {
            floors.push((case, Testpmd::start(setup, case)?));
        }
    }
    let builds: Vec<&Path> =
        setup.before.iter().chain([&setup.millrace]).map(AsRef::as_ref).collect();
    let contenders = builds.len() * cases.len() + floors.len();
    // Cases with rules, which are last, take long to start. They start first, so that no timeout of
    // the others passes meanwhile.
    let start = |build: &Path| -> anyhow::Result<Vec<Millrace>> {
        let start = |case: &&Case| Millrace::start(setup, build, case, contenders);
        let mut runs: Vec<_> = cases.iter().rev().map(start).collect::<anyhow::Result<_>>()?;
        runs.reverse();
        Ok(runs)
    };
    let mut runs: Vec<Vec<Millrace>> =
        builds.into_iter().map(start).collect::<anyhow::Result<_>>()?;
    let mut contenders: Vec<&mut dyn Dut> = Vec::new();
    contenders.extend(floors.iter_mut().map(|(_, floor)| floor as &mut dyn Dut));
    contenders.extend(runs.iter_mut().flatten().map(|run| run as &mut dyn Dut));
    take_turns(setup, &mut contenders, interrupted)?;

    let mut figures: Vec<(&Case, Figures)> = Vec::new();
    for (case, floor) in floors {
        figures.push((case, floor.finish(setup, case)?));
    }
    let millrace = runs.pop().expect("the last build is the one that is measured");
    let mut before = runs.pop().map(Vec::into_iter);
    let mut all = Vec::new();
    for (case, run) in cases.iter().zip(millrace) {
        let floor = figures.iter().find(|(other, _)| other.same_floor(case));
        let (_, floor) = floor.expect("every case has started its floor");
        let before = before.as_mut().and_then(Iterator::next);
        let before = before.map(|run| run.finish(setup, case)).transpose()?;
        all.push(Runs { floor: *floor, millrace: run.finish(setup, case)?, before });
    }
    Ok(all)
}

/// Forwards and backwards through the contenders, so that a steady drift is the same for all.
pub(crate) fn take_turns(
    setup: &Setup,
    contenders: &mut [&mut dyn Dut],
    interrupted: &AtomicBool,
) -> anyhow::Result<()> {
    let rounds = Duration::from_secs(setup.seconds.into()).div_duration_f64(TURN) as u32;
    let mut contenders: Vec<_> = contenders.iter_mut().map(|c| (c, Duration::ZERO)).collect();
    for _ in 0..rounds {
        for (contender, ran) in &mut contenders {
            if interrupted.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            let begin = Instant::now();
            contender.process().go_on()?;
            contender.turn(begin + TURN, *ran)?;
            contender.process().stand_still()?;
            // Longer than its turn, if it took its time to answer.
            *ran += begin.elapsed();
        }
        contenders.reverse();
    }
    Ok(())
}

/// Readings of a contender in its turns.
#[derive(Default)]
pub(crate) struct Readings {
    first: Option<Reading>,
    last: Option<Reading>,
}

impl Readings {
    /// Notes one.
    pub(crate) fn add(&mut self, reading: Reading) {
        match self.first {
            None => self.first = Some(reading),
            Some(_) => self.last = Some(reading),
        }
    }

    /// The one before.
    pub(crate) fn latest(&self) -> Option<&Reading> {
        self.last.as_ref().or(self.first.as_ref())
    }

    /// What they come to, of a program with so many workers.
    pub(crate) fn figures(&self, setup: &Setup, workers: usize) -> anyhow::Result<Figures> {
        let (Some(first), Some(last)) = (&self.first, &self.last) else {
            bail!("it gave no two figures: --seconds is too short");
        };
        Ok(Figures::between(first, last, workers, setup.tsc_hz))
    }
}
