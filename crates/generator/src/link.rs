// SPDX-License-Identifier: BSD-3-Clause
//! The traits by which senders and receivers use what carries their frames: a queue of a DPDK port,
//! or a Linux socket.

use traffic::{Alike, Written};

/// Takes frames from a sender.
pub trait Transmit: Send {
    /// Prepares buffers; returns how many frames `push` accepts now.
    fn prepare(&mut self) -> usize;

    /// Lets `write` write a frame into a buffer of [`traffic::ROOM`] bytes at least, and keeps it
    /// for the next `flush`. `interval` is the one in which the frame is made.
    ///
    /// # Panics
    /// If `prepare` has promised no more room.
    fn push(&mut self, interval: u32, write: impl FnOnce(&mut [u8]) -> Written);

    /// Writes a frame as [`Self::push`] does, and asks the port to send it at the time `due_ns`, in
    /// nanoseconds of the run. That time is later than now and not before that of the previous
    /// frame. Only allowed after [`Self::ahead_ns`] has promised that the port supports it.
    /// [`Self::ahead_ns`] has promised that the port does it.
    #[inline(always)]
    fn push_at(&mut self, due_ns: u64, interval: u32, write: impl FnOnce(&mut [u8]) -> Written) {
        let _ = due_ns;
        self.push(interval, write);
    }

    /// Returns how many nanoseconds before they are due frames may be handed over, because the port
    /// keeps them. 0 means that the port sends frames at once.
    #[inline(always)]
    fn ahead_ns(&self) -> u64 {
        0
    }

    /// Compares the clock of the port with that of the run. To be called some times a second if
    /// [`Self::ahead_ns`] is not 0: clocks drift.
    fn read_clock(&mut self) {}

    /// Keeps frames that are all alike for the next `flush`, as many as `prepare` has promised at
    /// most.
    ///
    /// # Panics
    /// As `push`.
    #[inline(always)]
    fn push_alike(&mut self, interval: u32, alike: Alike) {
        for _ in 0..alike.count {
            self.push(interval, |room| alike.write(room));
        }
    }

    /// Offers the frames that wait to the port, in order; returns what the port took.
    fn flush(&mut self) -> Taken;

    /// Returns the number of frames that wait.
    fn waiting(&self) -> usize;

    /// Passes each frame that waits to `see`.
    fn see_waiting(&self, see: impl FnMut(Made));

    /// Drops the frames that wait; passes each of them to `drop`.
    fn discard(&mut self, drop: impl FnMut(Made));

    /// Passes the frames that a `flush` has dropped to `drop`: those that the port can never take,
    /// such as one that is longer than the MTU. A DPDK queue has none.
    #[inline(always)]
    fn take_refused(&mut self, drop: impl FnMut(Made)) {
        let _ = drop;
    }
}

/// A frame that waits for its port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Bytes without FCS.
    pub len: u16,
    /// Its stream.
    pub stream: u16,
    /// The interval in which it was made.
    pub interval: u32,
}

/// Frames that a port took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Number of frames.
    pub packets: u64,
    /// Bytes without FCS.
    pub bytes: u64,
}

/// Brings frames to a receiver.
pub trait Receive: Send {
    /// Replaces the burst by the frames that have arrived; returns their number.
    fn receive(&mut self) -> usize;

    /// Returns frame `number` of the burst, or its UDP payload, see [`Self::IS_PAYLOAD`].
    fn frame(&mut self, number: usize) -> &[u8];

    /// Returns the bytes of all frames of the burst, without FCS.
    fn bytes(&self) -> u64;

    /// Frees the frames of the burst.
    fn free(&mut self);

    /// Returns the number of frames that wait behind the burst, if it is known.
    fn waiting(&self) -> Option<u32>;

    /// Returns the number of frames of a full burst: behind a smaller one, none wait.
    #[inline(always)]
    fn most(&self) -> usize {
        dpdk::BURST_MAX
    }

    /// True if the kernel removes the headers, and only UDP payloads arrive.
    const IS_PAYLOAD: bool = false;
}
