// SPDX-License-Identifier: BSD-3-Clause
//! Copies a sample of the frames of a queue for a capture file. tcpdump cannot see these frames,
//! because they bypass the kernel.

use crate::Clock;
use crate::link::{Receive, TakenFrames, Transmit, WaitingFrame};
use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use traffic::Written;

/// Bytes of the ring in which copied frames wait for the control thread.
const RING: usize = 4 << 20;
/// Bytes of the time and the length before each copied frame.
const HEAD: usize = 8 + 4;

/// Copies every Nth frame of a queue.
pub struct Tap {
    every: u64,
    /// Frames until the next copy.
    left: u64,
    clock: Clock,
    ring: Producer<u8>,
    missed: Arc<AtomicU64>,
}

/// The copied frames of a tap, for the control thread.
pub struct TapFeed {
    ring: Consumer<u8>,
    missed: Arc<AtomicU64>,
    frame: Vec<u8>,
}

/// Makes a tap that copies the first of every `every` frames, and its feed.
pub fn tap(every: u64, clock: Clock) -> (Tap, TapFeed) {
    let (ring, copies) = RingBuffer::new(RING);
    let missed = Arc::new(AtomicU64::new(0));
    let feed = TapFeed { ring: copies, missed: Arc::clone(&missed), frame: Vec::new() };
    (Tap { every, left: 0, clock, ring, missed }, feed)
}

impl Tap {
    /// Copies the frame if it is the next in the sample.
    #[inline(always)]
    fn sample(&mut self, frame: &[u8]) {
        if self.left > 0 {
            self.left -= 1;
            return;
        }
        self.left = self.every - 1;
        self.copy(frame);
    }

    #[inline(never)]
    fn copy(&mut self, frame: &[u8]) {
        let Ok(mut chunk) = self.ring.write_chunk(HEAD + frame.len()) else {
            self.missed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&self.clock.now().to_ne_bytes());
        head[8..].copy_from_slice(&(frame.len() as u32).to_ne_bytes());
        let (first, second) = chunk.as_mut_slices();
        let bytes = head.iter().chain(frame);
        first.iter_mut().chain(second).zip(bytes).for_each(|(to, from)| *to = *from);
        chunk.commit_all();
    }
}

impl TapFeed {
    /// Passes each frame that is present now to `take`, with its time in nanoseconds of the run.
    /// Frames that arrive meanwhile stay, because they may arrive faster than `take` handles them.
    pub fn take_all<E>(
        &mut self,
        mut take: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut left = self.ring.slots();
        while left >= HEAD {
            let Ok(head) = self.ring.read_chunk(HEAD) else { break };
            let mut bytes = head.into_iter();
            let time_ns = u64::from_ne_bytes(std::array::from_fn(|_| bytes.next().unwrap_or(0)));
            let len = u32::from_ne_bytes(std::array::from_fn(|_| bytes.next().unwrap_or(0)));
            drop(bytes);
            left = left.saturating_sub(HEAD + len as usize);
            self.frame.clear();
            if let Ok(frame) = self.ring.read_chunk(len as usize) {
                let (first, second) = frame.as_slices();
                self.frame.extend_from_slice(first);
                self.frame.extend_from_slice(second);
                frame.commit_all();
            }
            take(time_ns, &self.frame)?;
        }
        Ok(())
    }

    /// Returns the number of frames of the sample that the ring had no room for.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }
}

/// A link whose frames also pass a tap.
pub struct Tapped<T> {
    link: T,
    tap: Tap,
}

impl<T> Tapped<T> {
    /// Returns `link` with `tap` attached.
    pub fn new(link: T, tap: Tap) -> Self {
        Self { link, tap }
    }
}

impl<T: Transmit> Transmit for Tapped<T> {
    fn prepare(&mut self) -> usize {
        self.link.prepare()
    }

    fn push(&mut self, interval: u32, write: impl FnOnce(&mut [u8]) -> Written) {
        let tap = &mut self.tap;
        self.link.push(interval, |room| {
            let written = write(room);
            tap.sample(&room[..written.len]);
            written
        });
    }

    fn push_at(&mut self, due_ns: u64, interval: u32, write: impl FnOnce(&mut [u8]) -> Written) {
        let tap = &mut self.tap;
        self.link.push_at(due_ns, interval, |room| {
            let written = write(room);
            tap.sample(&room[..written.len]);
            written
        });
    }

    fn ahead_ns(&self) -> u64 {
        self.link.ahead_ns()
    }

    fn read_clock(&mut self) {
        self.link.read_clock();
    }

    fn flush(&mut self) -> TakenFrames {
        self.link.flush()
    }

    fn waiting(&self) -> usize {
        self.link.waiting()
    }

    fn for_each_waiting(&self, visit: impl FnMut(WaitingFrame)) {
        self.link.for_each_waiting(visit);
    }

    fn discard(&mut self, drop: impl FnMut(WaitingFrame)) {
        self.link.discard(drop);
    }

    #[inline(always)]
    fn take_refused(&mut self, drop: impl FnMut(WaitingFrame)) {
        self.link.take_refused(drop);
    }
}

impl<R: Receive> Receive for Tapped<R> {
    const IS_PAYLOAD: bool = R::IS_PAYLOAD;

    fn receive(&mut self) -> usize {
        let received = self.link.receive();
        (0..received).for_each(|number| self.tap.sample(self.link.frame(number)));
        received
    }

    fn frame(&mut self, number: usize) -> &[u8] {
        self.link.frame(number)
    }

    fn bytes(&self) -> u64 {
        self.link.bytes()
    }

    fn free(&mut self) {
        self.link.free();
    }

    fn waiting(&self) -> Option<u32> {
        self.link.waiting()
    }

    fn most(&self) -> usize {
        self.link.most()
    }
}
