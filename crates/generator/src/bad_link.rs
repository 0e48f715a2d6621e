// SPDX-License-Identifier: BSD-3-Clause
//! Impairs frames between a task and its port, in both directions: loses, duplicates, reorders,
//! damages and delays them. Nothing is allocated after the start.

mod line;

use crate::Clock;
use crate::link::{Receive, TakenFrames, Transmit, WaitingFrame};
use crate::lottery::{Impairments, Lottery};
use line::{Fault, Line};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use traffic::{ROOM, Written};

/// How frames are impaired, in each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BadLink {
    /// Frames that are impaired. IP packets only: others, such as ARP, have no checksum.
    pub impairments: Impairments,
    /// Time that every frame takes, in nanoseconds.
    pub delay_ns: u64,
}

/// Counters of one direction; any thread may read them.
#[derive(Debug, Default)]
pub struct BadLinkCounters([AtomicU64; Fault::ALL.len()]);

impl BadLinkCounters {
    fn count(&self, fault: Fault) {
        // One thread writes; the others only read.
        let counter = &self.0[fault as usize];
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Returns the counters with their names.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let value = |fault: Fault| self.0[fault as usize].load(Ordering::Relaxed);
        Fault::ALL.into_iter().map(move |fault| (fault.name(), value(fault)))
    }
}

/// Frames of a burst that a task receives at most.
const BURST_MAX: usize = dpdk::BURST_MAX;

/// The sending direction of a bad link.
pub struct BadTx<T> {
    port: T,
    line: Line,
    clock: Clock,
}

impl<T: Transmit> BadTx<T> {
    /// Makes one before `port`. The seed determines which frames are impaired.
    pub fn new(port: T, link: BadLink, seed: u64, clock: Clock) -> Self {
        Self { port, line: Line::new(link, Lottery::new(link.impairments, seed)), clock }
    }

    /// Returns its counters, which continue to change.
    pub fn counters(&self) -> Arc<BadLinkCounters> {
        Arc::clone(&self.line.counters)
    }
}

impl<T: Transmit> Transmit for BadTx<T> {
    fn prepare(&mut self) -> usize {
        self.line.room()
    }

    fn push(&mut self, _interval: u32, write: impl FnOnce(&mut [u8]) -> Written) {
        let now = self.clock.now();
        self.line.enter(now, |room| write(room).len);
    }

    fn flush(&mut self) -> TakenFrames {
        let now = self.clock.now();
        let mut taken = TakenFrames::default();
        loop {
            let room = self.port.prepare();
            let mut offered = 0;
            while offered < room {
                let Some(place) = self.line.leave(now) else { break };
                let frame = self.line.frame(place);
                self.port.push(0, |to| {
                    to[..frame.len()].copy_from_slice(frame);
                    Written { len: frame.len(), stream: crate::NO_STREAM }
                });
                self.line.free(place);
                offered += 1;
            }
            if self.port.waiting() == 0 {
                return taken;
            }
            let more = self.port.flush();
            taken.packets += more.packets;
            taken.bytes += more.bytes;
            if more.packets == 0 {
                return taken;
            }
        }
    }

    fn waiting(&self) -> usize {
        self.line.used() + self.port.waiting()
    }

    fn for_each_waiting(&self, see: impl FnMut(WaitingFrame)) {
        self.port.for_each_waiting(see);
    }

    fn discard(&mut self, drop: impl FnMut(WaitingFrame)) {
        self.line.clear();
        self.port.discard(drop);
    }
}

/// The receiving direction of a bad link.
pub struct BadRx<R> {
    port: R,
    line: Line,
    clock: Clock,
    /// Places of the frames of the burst.
    burst: Vec<u16>,
}

impl<R: Receive> BadRx<R> {
    /// Makes one behind `port`. The seed determines which frames are impaired.
    pub fn new(port: R, link: BadLink, seed: u64, clock: Clock) -> Self {
        let line = Line::new(link, Lottery::new(link.impairments, seed));
        Self { port, line, clock, burst: Vec::with_capacity(BURST_MAX) }
    }

    /// Returns its counters, which continue to change.
    pub fn counters(&self) -> Arc<BadLinkCounters> {
        Arc::clone(&self.line.counters)
    }
}

impl<R: Receive> Receive for BadRx<R> {
    fn receive(&mut self) -> usize {
        self.free();
        let now = self.clock.now();
        for number in 0..self.port.receive() {
            let frame = self.port.frame(number);
            let len = frame.len().min(ROOM);
            self.line.enter(now, |room| {
                room[..len].copy_from_slice(&frame[..len]);
                len
            });
        }
        self.port.free();
        while self.burst.len() < BURST_MAX {
            let Some(place) = self.line.leave(now) else { break };
            self.burst.push(place);
        }
        self.burst.len()
    }

    fn frame(&mut self, number: usize) -> &[u8] {
        self.line.frame(self.burst[number])
    }

    fn bytes(&self) -> u64 {
        self.burst.iter().map(|place| self.line.frame(*place).len() as u64).sum()
    }

    fn free(&mut self) {
        for place in self.burst.drain(..) {
            self.line.free(place);
        }
    }

    fn waiting(&self) -> Option<u32> {
        None
    }
}

#[cfg(test)]
mod tests;
