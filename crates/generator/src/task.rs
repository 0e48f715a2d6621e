// SPDX-License-Identifier: BSD-3-Clause
//! Runs tasks on workers, and ends them from the control thread.

use crate::cycles::{CycleMeter, Laps, WorkerCycles};
use dpdk::tsc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// The stage of a run. Tasks send, drain or end by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stage {
    /// Send and receive.
    Send,
    /// Receive packets that are still on their way.
    Drain,
    /// End.
    End,
}

/// The stage of a run, set by the control thread and read by all workers.
#[derive(Clone, Debug)]
pub struct Phase(Arc<AtomicU8>);

impl Phase {
    /// Returns the shared stage of a new run: [`Stage::Send`].
    pub fn new() -> Self {
        Self(Arc::new(AtomicU8::new(Stage::Send as u8)))
    }

    /// Sets the stage, unless the run is already in a later one.
    pub fn set(&self, stage: Stage) {
        self.0.fetch_max(stage as u8, Ordering::Release);
    }

    /// Returns the current stage.
    #[inline(always)]
    pub fn get(&self) -> Stage {
        match self.0.load(Ordering::Acquire) {
            0 => Stage::Send,
            1 => Stage::Drain,
            _ => Stage::End,
        }
    }
}

impl Default for Phase {
    fn default() -> Self {
        Self::new()
    }
}

/// A task that shares a worker with others.
pub trait Task: Send {
    /// Does a bounded piece of work at time `now`, in nanoseconds of the run; true if it did
    /// anything. Notes in `laps` which kinds of work it did.
    fn turn(&mut self, now: u64, stage: Stage, laps: &mut Laps) -> bool;

    /// Hands over the last report.
    fn finish(&mut self, now: u64);
}

/// Runs tasks in turn until the run ends; returns them, and the cycles of the worker from the start
/// of the clock to the end of [`Stage::Send`].
pub fn run_tasks(
    mut tasks: Vec<Box<dyn Task>>,
    clock: crate::Clock,
    phase: &Phase,
) -> (Vec<Box<dyn Task>>, WorkerCycles) {
    let mut meter = CycleMeter::new(tsc());
    loop {
        let stage = phase.get();
        for task in &mut tasks {
            let now = clock.nanos(meter.begin());
            let is_busy = task.turn(now, stage, &mut meter.laps);
            // Before its start the clock is at 0.
            match stage == Stage::Send && now > 0 {
                true => meter.end(is_busy, tsc()),
                false => meter.skip(tsc()),
            }
        }
        if stage == Stage::End {
            tasks.iter_mut().for_each(|task| task.finish(clock.now()));
            return (tasks, meter.cycles());
        }
    }
}
