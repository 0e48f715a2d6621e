// SPDX-License-Identifier: BSD-3-Clause
//! Starts workers of runs without DPDK: threads, each on its own cpu while there are enough.

use crate::cpu_locks;
use crate::placement::describe_placement;
use anyhow::Context;
use generator::{Clock, Phase, Task, WorkerCycles, run_tasks};
use report::output::write_line;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io;
use std::thread::{Builder, JoinHandle};

/// Returns and prints the cpus of `workers` workers: those that the user names, or else idle ones
/// first. Measures load for a tenth of a second, so call it before the run's clock starts.
pub(crate) fn choose_cpus(workers: usize, named: Option<&[u32]>) -> Vec<u32> {
    let cpus = cpu_locks::cpus_of_this_host();
    cpus.measure_load();
    let all = named.map_or_else(|| cpus.by_preference(), <[u32]>::to_vec);
    let chosen: Vec<u32> = all.into_iter().take(workers).collect();
    write_line(io::stderr(), describe_placement(&chosen, &cpus, &[]));
    cpu_locks::lock_until_exit(&chosen);
    chosen
}

/// Starts a worker for each set of tasks, on the cpus in turn.
pub(crate) fn launch(
    workers: Vec<Vec<Box<dyn Task>>>,
    cpus: &[u32],
    clock: Clock,
    phase: &Phase,
) -> anyhow::Result<Vec<JoinHandle<WorkerCycles>>> {
    let mut threads = Vec::new();
    for (number, tasks) in workers.into_iter().enumerate() {
        let phase = phase.clone();
        let cpu = cpus.get(number % cpus.len().max(1)).copied();
        let run = move || {
            if let Some(cpu) = cpu {
                let mut set = CpuSet::new();
                set.set(cpu as usize);
                // A worker that cannot be pinned may migrate, but works as well.
                let _ = sched_setaffinity(None, &set);
            }
            run_tasks(tasks, clock, &phase).1
        };
        let thread = Builder::new().name(format!("worker{number}")).spawn(run);
        threads.push(thread.context("cannot start a worker")?);
    }
    Ok(threads)
}
