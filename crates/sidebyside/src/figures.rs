// SPDX-License-Identifier: BSD-3-Clause
//! Reads packets, time and processor time of a process, and computes rates and cycles per packet.
//!
//! Cycles per packet count the time that a worker had its cpu, from the kernel's `schedstat` of
//! each thread. So on a busy machine the time of other programs is excluded. If the kernel has no
//! `schedstat`, the whole time counts.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// Time at the start of each run that is not measured, while caches and tables fill.
pub(crate) const WARM_UP: Duration = Duration::from_secs(1);

/// Counters of a process at one moment.
pub(crate) struct Reading {
    /// Length of its turns so far.
    ran: Duration,
    /// Packets sent so far.
    pub(crate) packets: f64,
    /// Nanoseconds on a cpu, by thread.
    on_cpu: BTreeMap<String, u64>,
    /// Nanoseconds on the same cpus of a kernel thread that worked for the process.
    kernel_thread_ns: u64,
}

/// Rate and cost of a program in one repetition.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Figures {
    /// Million packets per second of turns, all workers together.
    pub(crate) mpps: f64,
    /// Cycles of the time-stamp counter per packet.
    pub(crate) cycles: f64,
    /// Share of their turns in which the workers had their cpus.
    pub(crate) on_cpu: f64,
}

impl Reading {
    /// Reads the processor time of process `id`, which has sent `packets` in turns of the length
    /// `ran` in all.
    pub(crate) fn take(id: u32, packets: f64, ran: Duration) -> Self {
        let threads = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
        let on_cpu = threads.filter_map(|thread| {
            let schedstat = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            let nanoseconds = schedstat.split(' ').next()?.parse().ok()?;
            Some((thread.file_name().to_string_lossy().into_owned(), nanoseconds))
        });
        Self { ran, packets, on_cpu: on_cpu.collect(), kernel_thread_ns: 0 }
    }

    /// Returns the reading with the nanoseconds that a kernel thread worked for the process.
    pub(crate) fn with_kernel_thread(self, kernel_thread_ns: u64) -> Self {
        Self { kernel_thread_ns, ..self }
    }
}

impl Figures {
    /// Returns the figures of a process with `workers` threads between two readings.
    pub(crate) fn between(first: &Reading, last: &Reading, workers: usize, tsc_hz: f64) -> Self {
        let seconds = (last.ran - first.ran).as_secs_f64();
        let packets = last.packets - first.packets;
        let used = |(thread, after): (&String, &u64)| {
            after.saturating_sub(first.on_cpu.get(thread).copied().unwrap_or(0)) as f64 / 1e9
        };
        let mut used: Vec<f64> = last.on_cpu.iter().map(used).collect();
        used.sort_by(|a, b| b.total_cmp(a));
        // Workers never sleep, so they are the threads with the most processor time.
        let kernel_thread = (last.kernel_thread_ns - first.kernel_thread_ns) as f64 / 1e9;
        let used = used.iter().take(workers).sum::<f64>() + kernel_thread;
        let all = workers as f64 * seconds;
        let used = if used > 0.0 { used.min(all) } else { all };
        Self { mpps: packets / seconds / 1e6, cycles: used * tsc_hz / packets, on_cpu: used / all }
    }
}

/// Measures the frequency of the time-stamp counter in Hz; takes half a second.
pub(crate) fn measure_tsc_hz() -> f64 {
    let (start, cycles) = (Instant::now(), dpdk::tsc());
    std::thread::sleep(Duration::from_millis(500));
    let (elapsed, cycles) = (start.elapsed(), dpdk::tsc() - cycles);
    cycles as f64 / elapsed.as_secs_f64()
}
