// SPDX-License-Identifier: BSD-3-Clause
//! Defines the traits through which senders and receivers use a queue of a DPDK port, or a Linux
//! socket.

use traffic::{Alike, Written};

/// Takes frames from a sender.
pub trait Transmit: Send {
    /// Prepares buffers; returns how many frames `push` accepts now.
    fn prepare(&mut self) -> usize;

    /// Passes `write` a buffer of at least [`traffic::ROOM`] bytes for a frame, and keeps the frame
    /// for the next `flush`. `interval` is the number of the interval in which the frame is made.
    ///
    /// # Panics
    /// If more frames are pushed than `prepare` has promised room for.
    fn push(&mut self, interval: u32, write: impl FnOnce(&mut [u8]) -> Written);

    /// Writes a frame as [`Self::push`] does, and asks the port to send it at the time `due_ns`, in
    /// nanoseconds of the run. That time is later than now and not before that of the previous
    /// frame. Only allowed if [`Self::ahead_ns`] is not 0.
    #[inline(always)]
    fn push_at(&mut self, due_ns: u64, interval: u32, write: impl FnOnce(&mut [u8]) -> Written) {
        let _ = due_ns;
        self.push(interval, write);
    }

    /// Returns how many nanoseconds before it is due a frame may be handed over. The port keeps the
    /// frame until then. 0 means that the port sends frames at once.
    #[inline(always)]
    fn ahead_ns(&self) -> u64 {
        0
    }

    /// Compares the clock of the port with that of the run. Must be called several times a second
    /// if [`Self::ahead_ns`] is not 0, because clocks drift.
    fn read_clock(&mut self) {}

    /// Keeps `alike.count` frames with the same bytes for the next `flush`.
    ///
    /// # Panics
    /// If more frames are pushed than `prepare` has promised room for.
    #[inline(always)]
    fn push_alike(&mut self, interval: u32, alike: Alike) {
        for _ in 0..alike.count {
            self.push(interval, |room| alike.write(room));
        }
    }

    /// Offers the waiting frames to the port, in order; returns the number of those that it took.
    fn flush(&mut self) -> TakenFrames;

    /// Returns the number of waiting frames.
    fn waiting(&self) -> usize;

    /// Passes each waiting frame to `visit`.
    fn for_each_waiting(&self, see: impl FnMut(WaitingFrame));

    /// Drops the waiting frames; passes each of them to `drop`.
    fn discard(&mut self, drop: impl FnMut(WaitingFrame));

    /// Passes each frame that `flush` has dropped to `drop`. A flush drops frames that the port can
    /// never take, such as frames longer than the MTU. A DPDK queue drops none.
    #[inline(always)]
    fn take_refused(&mut self, drop: impl FnMut(WaitingFrame)) {
        let _ = drop;
    }
}

/// A frame that waits for its port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitingFrame {
    /// Bytes without FCS.
    pub len: u16,
    /// Number of its stream.
    pub stream: u16,
    /// Number of the interval in which it was made.
    pub interval: u32,
}

/// Frames that a port took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenFrames {
    /// Number of frames.
    pub packets: u64,
    /// Bytes without FCS.
    pub bytes: u64,
}

/// Brings frames to a receiver.
pub trait Receive: Send {
    /// Replaces the burst by the frames that have arrived; returns their number.
    fn receive(&mut self) -> usize;

    /// Returns frame `number` of the burst; only its UDP payload if [`Self::IS_PAYLOAD`].
    fn frame(&mut self, number: usize) -> &[u8];

    /// Returns the bytes of all frames of the burst, without FCS.
    fn bytes(&self) -> u64;

    /// Frees the frames of the burst.
    fn free(&mut self);

    /// Returns the number of frames that wait after the burst; `None` if it is unknown.
    fn waiting(&self) -> Option<u32>;

    /// Returns the number of frames of a full burst. A smaller burst has emptied the queue.
    #[inline(always)]
    fn most(&self) -> usize {
        dpdk::BURST_MAX
    }

    /// True if the kernel removes the headers, and only UDP payloads arrive.
    const IS_PAYLOAD: bool = false;
}
