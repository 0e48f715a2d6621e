// SPDX-License-Identifier: BSD-3-Clause
//! Workers of runs without DPDK: threads, each on a cpu of its own as far as there are.

use crate::host::Cpus;
use crate::output::tell;
use crate::placement::describe_placement;
use anyhow::Context;
use generator::{Clock, Phase, Task, run_tasks};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io;
use std::thread::{Builder, JoinHandle};

/// Starts a worker for each set of tasks.
pub(crate) fn launch(
    workers: Vec<Vec<Box<dyn Task>>>,
    clock: Clock,
    phase: &Phase,
) -> anyhow::Result<Vec<JoinHandle<()>>> {
    let cpus = Cpus::of_this_host();
    cpus.measure_load();
    let chosen: Vec<u32> = cpus.by_preference().into_iter().take(workers.len()).collect();
    tell(io::stderr(), describe_placement(&chosen, &cpus));
    let mut threads = Vec::new();
    for (number, tasks) in workers.into_iter().enumerate() {
        let phase = phase.clone();
        let cpu = chosen.get(number % chosen.len().max(1)).copied();
        let run = move || {
            if let Some(cpu) = cpu {
                let mut set = CpuSet::new();
                set.set(cpu as usize);
                // It was allowed a moment ago. Without it the worker moves, and is no less right.
                let _ = sched_setaffinity(None, &set);
            }
            drop(run_tasks(tasks, clock, &phase));
        };
        let thread = Builder::new().name(format!("worker{number}")).spawn(run);
        threads.push(thread.context("cannot start a worker")?);
    }
    Ok(threads)
}
