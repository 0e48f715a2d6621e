// SPDX-License-Identifier: BSD-3-Clause
//! What a sender sends: frames in the order in which they are due.

use crate::Side;

/// Frames in the order in which they are due.
pub trait Source {
    /// When the next frame is due, in nanoseconds from the start; `None`: there are no more.
    fn due(&self) -> Option<u64>;

    /// Writes that frame to the begin of `room`, which has [`ROOM`] bytes at least, and goes on to
    /// the next. `now_ns` is the time of the sender, for stamps.
    ///
    /// # Panics
    /// If no frame is due, now or later.
    fn write(&mut self, room: &mut [u8], now_ns: u64) -> Written;

    /// Number of streams, including those of other parts.
    fn streams(&self) -> usize;

    /// Number of streams whose frames are stamped: the first ones.
    fn stamped_streams(&self) -> usize;

    /// Frames of a stream that were written.
    fn written(&self, stream: usize) -> u64;
}

/// A frame that a source has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The port that sends it.
    pub side: Side,
    /// Bytes without FCS.
    pub len: usize,
    /// Number of its stream.
    pub stream: u16,
}

/// Bytes that a frame may take, without FCS.
pub const ROOM: usize = 9212;
