// SPDX-License-Identifier: BSD-3-Clause
//! Passes frames between the tasks of a port: RSS may bring a frame to another task than the one
//! that has its connection.
//!
//! There is a ring of bytes from each task to each other one. A frame in it has its length before
//! it.

use dpdk::BURST_MAX;
use rtrb::{Consumer, Producer, RingBuffer};

/// Bytes of a ring: some 4000 small frames, or 28 of the largest ones.
const RING_BYTES: usize = 1 << 18;
/// Bytes of a frame's length.
const LEN_BYTES: usize = 2;

/// One task's ends of the rings to and from the other tasks of its port.
#[derive(Default)]
pub struct HandOff {
    pub(crate) to: HandOffSender,
    pub(crate) from: HandOffReceiver,
}

/// Passes frames to other tasks.
#[derive(Default)]
pub(crate) struct HandOffSender {
    /// Rings to each task, by its number; `None` for itself.
    rings: Vec<Option<Producer<u8>>>,
}

/// Takes frames from other tasks.
#[derive(Default)]
pub(crate) struct HandOffReceiver {
    rings: Vec<Consumer<u8>>,
    /// The ring to read first.
    next: usize,
    /// Bytes of the frames of the burst, and where each one ends.
    burst: Vec<u8>,
    ends: Vec<usize>,
}

/// Returns the ends of the rings between the `tasks` tasks of a port.
pub fn hand_offs(tasks: u16) -> Vec<HandOff> {
    let tasks = usize::from(tasks);
    let mut ends: Vec<_> = (0..tasks).map(|_| HandOff::default()).collect();
    for from in 0..tasks {
        for to in 0..tasks {
            let ring = (from != to).then(|| RingBuffer::new(RING_BYTES));
            let (producer, consumer) = ring.unzip();
            ends[from].to.rings.push(producer);
            ends[to].from.rings.extend(consumer);
        }
    }
    ends
}

impl HandOffSender {
    /// Passes a frame to a task; false if its ring is full.
    pub(crate) fn send(&mut self, to: u16, frame: &[u8]) -> bool {
        let Some(Some(ring)) = self.rings.get_mut(usize::from(to)) else { return false };
        if ring.slots() < LEN_BYTES + frame.len() {
            return false;
        }
        let len = (frame.len() as u16).to_ne_bytes();
        ring.push_entire_slice(&len).is_ok() && ring.push_entire_slice(frame).is_ok()
    }
}

impl HandOffReceiver {
    /// Replaces the burst by frames of the next ring that has some; returns their number.
    #[inline(always)]
    pub(crate) fn receive(&mut self) -> usize {
        self.burst.clear();
        self.ends.clear();
        if !self.rings.is_empty() {
            self.receive_from_any();
        }
        self.ends.len()
    }

    fn receive_from_any(&mut self) {
        let count = self.rings.len();
        for _ in 0..count {
            self.next = (self.next + 1) % count;
            while self.ends.len() < BURST_MAX && self.take_frame() {}
            if !self.ends.is_empty() {
                return;
            }
        }
    }

    /// Adds the next frame of the ring in turn to the burst; false if there is none.
    fn take_frame(&mut self) -> bool {
        let ring = &mut self.rings[self.next];
        let Ok(head) = ring.read_chunk(LEN_BYTES) else { return false };
        let (first, second) = head.as_slices();
        let mut bytes = first.iter().chain(second);
        let len = u16::from_ne_bytes(std::array::from_fn(|_| bytes.next().copied().unwrap_or(0)));
        let len = usize::from(len);
        // The sender may be about to write the frame.
        if ring.slots() < LEN_BYTES + len {
            return false;
        }
        let begin = self.burst.len();
        self.burst.resize(begin + LEN_BYTES + len, 0);
        let is_read = ring.pop_entire_slice(&mut self.burst[begin..]).is_ok();
        self.ends.push(self.burst.len());
        is_read
    }

    /// Returns frame `number` of the burst.
    #[inline(always)]
    pub(crate) fn frame(&self, number: usize) -> &[u8] {
        let before = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.burst[before + LEN_BYTES..self.ends[number]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(number: usize) -> Vec<u8> {
        vec![number as u8; 60 + number % 1400]
    }

    #[test]
    fn frames_arrive_in_order_and_whole_however_the_ring_wraps() {
        let mut tasks = hand_offs(3);
        let (mut sent, mut expected) = ([0; 2], [0; 2]);
        for turn in 0..2000 {
            for (to, sent) in [1, 2].into_iter().zip(&mut sent) {
                for _ in 0..turn % 90 {
                    *sent += usize::from(tasks[0].to.send(to, &frame(*sent)));
                }
            }
            for (task, expected) in tasks[1..].iter_mut().zip(&mut expected) {
                let count = task.from.receive();
                assert!(count <= BURST_MAX);
                for number in 0..count {
                    assert_eq!(task.from.frame(number), frame(*expected));
                    *expected += 1;
                }
            }
        }
        while tasks[1..].iter_mut().zip(&mut expected).any(|(task, expected)| {
            let count = task.from.receive();
            *expected += count;
            count > 0
        }) {}
        assert_eq!(sent, expected);
        assert!(sent[0] > 10_000);
    }

    #[test]
    fn rings_take_turns() {
        let mut tasks = hand_offs(3);
        for _ in 0..3 * BURST_MAX {
            assert!(tasks[0].to.send(2, &[0; 60]) && tasks[1].to.send(2, &[1; 60]));
        }
        let mut from = Vec::new();
        while tasks[2].from.receive() > 0 {
            from.push(tasks[2].from.frame(0)[0]);
        }
        from[..4].sort_unstable();
        assert_eq!(from[..4], [0, 0, 1, 1]);
        assert!(!tasks[2].to.send(2, &[0; 60]) && !tasks[2].to.send(9, &[0; 60]));
    }
}
