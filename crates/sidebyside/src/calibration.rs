// SPDX-License-Identifier: BSD-3-Clause
//! Measures the speed of the machine by fixed loops.
//!
//! On a virtual machine, or beside a busy hyperthread, the same instructions may take twice as long
//! in one hour as in another. A lower clock rate slows down all loops. Load on the other
//! hyperthread slows down the loop of independent shifts; other programs in the caches slow down
//! the loads.

use rustix::thread::{CpuSet, sched_setaffinity};
use serde::Serialize;
use std::hint::black_box;

/// Cycles of the time-stamp counter per step of each loop, in the order of [`NAMES`].
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Reading(pub(crate) [f64; NAMES.len()]);

/// Descriptions of the loops.
pub(crate) const NAMES: [&str; 5] = [
    "dependent multiplication",
    "8 independent shifts and xors",
    "dependent load from 256 kB",
    "dependent load from 8 MB",
    "dependent load from 64 MB",
];

/// The loops of one cpu, and the memory that they load from.
pub(crate) struct Calibration {
    cpu: usize,
    loads: [PointerChase; 3],
}

/// Cache lines that each have the index of another one. They form one cycle in random order, which
/// no prefetcher predicts.
struct PointerChase {
    lines: Vec<Line>,
}

#[derive(Clone)]
#[repr(align(64))]
struct Line {
    next: u32,
}

const STEPS: usize = 1 << 16;

impl Calibration {
    /// Prepares the loops for `cpu`; takes 72 MB of memory.
    pub(crate) fn new(cpu: usize) -> Self {
        Self { cpu, loads: [256 << 10, 8 << 20, 64 << 20].map(PointerChase::new) }
    }

    /// Runs all loops on the cpu; takes some tens of milliseconds.
    pub(crate) fn read(&self) -> Reading {
        let read = || {
            let mut cpus = CpuSet::new();
            cpus.set(self.cpu);
            // On failure the loops run on another cpu, and still measure the machine.
            let _ = sched_setaffinity(None, &cpus);
            let [small, middle, large] = self.loads.each_ref().map(PointerChase::walk);
            Reading([multiply(), shift(), small, middle, large])
        };
        std::thread::scope(|scope| scope.spawn(read).join()).expect("the loops do not panic")
    }
}

impl PointerChase {
    fn new(bytes: usize) -> Self {
        let mut lines = vec![Line { next: 0 }; bytes / size_of::<Line>()];
        for (place, line) in lines.iter_mut().enumerate() {
            line.next = place as u32;
        }
        // Sattolo's algorithm: a random permutation that is one cycle.
        let mut state = 1_u64;
        for last in (1..lines.len()).rev() {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let other = (state >> 33) as usize % last;
            let next = lines[last].next;
            lines[last].next = lines[other].next;
            lines[other].next = next;
        }
        Self { lines }
    }

    /// Returns the cycles per load, after one round that warms the caches. A round is one pass over
    /// all lines, but between [`STEPS`] and twice as many loads.
    fn walk(&self) -> f64 {
        let steps = self.lines.len().clamp(STEPS, 2 * STEPS);
        let mut place = 0;
        let mut round = || {
            for _ in 0..steps {
                place = self.lines[place as usize].next;
            }
            black_box(place);
        };
        round();
        cycles_per_step(steps, round)
    }
}

fn multiply() -> f64 {
    let mut x = black_box(3_u64);
    cycles_per_step(STEPS, || {
        for _ in 0..STEPS {
            x = x.wrapping_mul(x | 1);
        }
        x = black_box(x);
    })
}

fn shift() -> f64 {
    let mut lanes = black_box([1_u64, 2, 3, 4, 5, 6, 7, 8]);
    cycles_per_step(STEPS, || {
        for _ in 0..STEPS {
            lanes = lanes.map(|x| (x ^ (x << 13)) ^ (x >> 7));
        }
        lanes = black_box(lanes);
    })
}

/// Returns the cycles per step of the fastest of three runs, to exclude interrupts.
fn cycles_per_step(steps: usize, mut run: impl FnMut()) -> f64 {
    let mut time = || {
        let start = dpdk::tsc();
        run();
        dpdk::tsc() - start
    };
    let best = [time(), time(), time()].into_iter().min().unwrap_or(0);
    best as f64 / steps as f64
}
