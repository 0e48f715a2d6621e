// SPDX-License-Identifier: BSD-3-Clause
//! Packets, time and processor time of a process under test, and what they come to.
//!
//! Cycles per packet count the time in which a worker was on its cpu, by the kernel's own account
//! of its threads: on a quiet machine that is all time, on a busy one it leaves out what others
//! took. Where the kernel keeps no such account it is all time.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// Start of every run that does not count: caches and tables fill up.
pub(crate) const WARM_UP: Duration = Duration::from_secs(1);

/// A process at one moment.
pub(crate) struct Reading {
    /// How long it could run so far.
    ran: Duration,
    /// Packets sent so far.
    pub(crate) packets: f64,
    /// Nanoseconds on a cpu by thread.
    on_cpu: BTreeMap<String, u64>,
    /// Nanoseconds on the same cpus of a thread that is not its own.
    helped_ns: u64,
}

/// What a run comes to.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Figures {
    /// Million packets per second of all workers, in their turns.
    pub(crate) mpps: f64,
    /// Cycles of the time-stamp counter per packet.
    pub(crate) cycles: f64,
    /// Share of their turns in which the workers had their cpus.
    pub(crate) on_cpu: f64,
}

impl Reading {
    /// Reads the account of process `id`, which has sent `packets` in turns of `ran` together.
    pub(crate) fn take(id: u32, packets: f64, ran: Duration) -> Self {
        let threads = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
        let on_cpu = threads.filter_map(|thread| {
            let account = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            let nanoseconds = account.split(' ').next()?.parse().ok()?;
            Some((thread.file_name().to_string_lossy().into_owned(), nanoseconds))
        });
        Self { ran, packets, on_cpu: on_cpu.collect(), helped_ns: 0 }
    }

    /// Adds the time that a kernel thread worked for the process.
    pub(crate) fn helped_for(self, helped_ns: u64) -> Self {
        Self { helped_ns, ..self }
    }
}

impl Figures {
    /// Of a process with `workers` between two moments.
    pub(crate) fn between(first: &Reading, last: &Reading, workers: usize, tsc_hz: f64) -> Self {
        let seconds = (last.ran - first.ran).as_secs_f64();
        let packets = last.packets - first.packets;
        let used = |(thread, after): (&String, &u64)| {
            after.saturating_sub(first.on_cpu.get(thread).copied().unwrap_or(0)) as f64 / 1e9
        };
        let mut used: Vec<f64> = last.on_cpu.iter().map(used).collect();
        used.sort_by(|a, b| b.total_cmp(a));
        // The workers are the busiest threads: they never sleep.
        let helped = (last.helped_ns - first.helped_ns) as f64 / 1e9;
        let used = used.iter().take(workers).sum::<f64>() + helped;
        let all = workers as f64 * seconds;
        let used = if used > 0.0 { used.min(all) } else { all };
        Self { mpps: packets / seconds / 1e6, cycles: used * tsc_hz / packets, on_cpu: used / all }
    }
}

/// Rate of the time-stamp counter, by the system's clock.
pub(crate) fn measure_tsc_hz() -> f64 {
    let (start, cycles) = (Instant::now(), dpdk::tsc());
    std::thread::sleep(Duration::from_millis(500));
    let (elapsed, cycles) = (start.elapsed(), dpdk::tsc() - cycles);
    cycles as f64 / elapsed.as_secs_f64()
}
