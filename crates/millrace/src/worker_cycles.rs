// SPDX-License-Identifier: BSD-3-Clause
//! Converts the cycles of workers into results.

use dpdk::Job;
use generator::WorkerCycles;
use results::workers::{StageCycles, WorkerResult};
use std::thread::JoinHandle;

/// Waits for workers on lcores; returns what each has spent. Worker `n` ran on
/// `cpus[n % cpus.len()]`.
pub(crate) fn join_lcores(jobs: Vec<Job<WorkerCycles>>, cpus: &[u32]) -> Vec<WorkerResult> {
    of_workers(jobs.into_iter().map(|job| job.join().0), cpus)
}

/// Waits for workers on threads; returns what each has spent. Worker `n` ran on
/// `cpus[n % cpus.len()]`.
pub(crate) fn join_threads(
    threads: Vec<JoinHandle<WorkerCycles>>,
    cpus: &[u32],
) -> Vec<WorkerResult> {
    of_workers(threads.into_iter().map(|thread| thread.join().unwrap_or_default()), cpus)
}

fn of_workers(cycles: impl Iterator<Item = WorkerCycles>, cpus: &[u32]) -> Vec<WorkerResult> {
    let cpus = cpus.iter().copied().map(Some).cycle().chain(std::iter::repeat(None));
    let worker = |(WorkerCycles { busy, idle, stalled, by_work }, cpu)| {
        let [pace, build, tx, rx, verify, count] = by_work;
        let stage_cycles = StageCycles { pace, build, tx, rx, verify, count };
        WorkerResult {
            cpu,
            busy_cycles: busy,
            idle_cycles: idle,
            stalled_cycles: stalled,
            stage_cycles,
        }
    };
    cycles.zip(cpus).map(worker).collect()
}
