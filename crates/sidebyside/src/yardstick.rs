// SPDX-License-Identifier: BSD-3-Clause
//! Loops that never change: what they cost tells how fast the machine itself is at a moment.
//!
//! On a virtual machine, or beside a busy hyperthread, the same instructions take twice as long in
//! one hour as in another. A clock that slows down shows in all loops, a neighbour on the core in
//! the wide one, a neighbour in the caches in the loads.

use rustix::thread::{CpuSet, sched_setaffinity};
use serde::Serialize;
use std::hint::black_box;

/// Cycles of the time-stamp counter for one step of each loop, in the order of [`NAMES`].
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Reading(pub(crate) [f64; NAMES.len()]);

/// What the loops do.
pub(crate) const NAMES: [&str; 5] = [
    "multiplications, each of the one before",
    "8 shifts and xors that wait for nothing",
    "load from 256 kB, each of the one before",
    "load from 8 MB, each of the one before",
    "load from 64 MB, each of the one before",
];

/// Memory of the loops that load.
pub(crate) struct Yardstick {
    cpu: usize,
    circles: [PointerChase; 3],
}

/// Every cache line holds the place of another; all are one circle in an order no prefetcher sees.
struct PointerChase {
    lines: Vec<Line>,
}

#[derive(Clone)]
#[repr(align(64))]
struct Line {
    next: u32,
}

const STEPS: usize = 1 << 16;

impl Yardstick {
    /// For `cpu`; takes 70 MB.
    pub(crate) fn new(cpu: usize) -> Self {
        Self { cpu, circles: [256 << 10, 8 << 20, 64 << 20].map(PointerChase::new) }
    }

    /// Runs every loop; takes some ten milliseconds.
    pub(crate) fn read(&self) -> Reading {
        let read = || {
            let mut cpus = CpuSet::new();
            cpus.set(self.cpu);
            // Elsewhere the figures are of another cpu, and still tell of the machine.
            let _ = sched_setaffinity(None, &cpus);
            let [small, middle, large] = self.circles.each_ref().map(PointerChase::walk);
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
        // Sattolo: a shuffle of one cycle.
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

    /// The second of two rounds, or as far as they go.
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

/// The best of three, so that an interrupt is nobody's speed.
fn cycles_per_step(steps: usize, mut run: impl FnMut()) -> f64 {
    let mut time = || {
        let start = dpdk::tsc();
        run();
        dpdk::tsc() - start
    };
    let best = [time(), time(), time()].into_iter().min().unwrap_or(0);
    best as f64 / steps as f64
}
