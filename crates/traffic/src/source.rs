// SPDX-License-Identifier: BSD-3-Clause
//! What a sender sends: frames in the order in which they are due.

use crate::Side;

/// Frames in the order in which they are due.
pub trait Source {
    /// When the next frame is due, in nanoseconds from the start; `None`: there are no more.
    fn due(&self) -> Option<u64>;

    /// Writes that frame to the begin of `room`, which has [`ROOM`] bytes at least, and goes on to
    /// the next. Returns the port that sends it, and its length without FCS. `now_ns` is the time
    /// of the sender, for stamps.
    fn write(&mut self, room: &mut [u8], now_ns: u64) -> (Side, usize);
}

/// Bytes that a frame may take, without FCS.
pub const ROOM: usize = 9212;
