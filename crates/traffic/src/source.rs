// SPDX-License-Identifier: BSD-3-Clause
//! A source of frames for a sender, in the order in which they are due.

/// Frames in the order in which they are due.
pub trait Source {
    /// Returns when the next frame is due, in nanoseconds from the start; `None` if there are no
    /// more.
    fn due(&self) -> Option<u64>;

    /// Writes that frame to the start of `room`, which has [`ROOM`] bytes at least, and goes on to
    /// the next. `now_ns` is the time of the sender, for stamps.
    ///
    /// # Panics
    /// If no frame is due, now or later.
    fn write(&mut self, room: &mut [u8], now_ns: u64) -> Written;

    /// Skips up to `most` of the next frames and returns them, if they are due at any time, have no
    /// stamp and are all alike. Returns `None` otherwise; then `write` writes them.
    fn take_alike(&mut self, most: usize) -> Option<Alike<'_>> {
        let _ = most;
        None
    }

    /// Returns the number of streams, including those of other parts.
    fn streams(&self) -> usize;

    /// Returns the number of streams whose frames are stamped: the first ones.
    fn stamped_streams(&self) -> usize;

    /// Frames of a stream that were written.
    fn written(&self, stream: usize) -> u64;
}

/// A frame that a source has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes without FCS.
    pub len: usize,
    /// Number of its stream.
    pub stream: u16,
}

/// Frames of one stream with the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alike<'a> {
    /// The bytes, without FCS.
    pub frame: &'a [u8],
    /// Number of the stream.
    pub stream: u16,
    /// Number of the frames.
    pub count: usize,
}

impl Alike<'_> {
    /// Writes one of them to the start of `room`.
    pub fn write(&self, room: &mut [u8]) -> Written {
        room[..self.frame.len()].copy_from_slice(self.frame);
        Written { len: self.frame.len(), stream: self.stream }
    }
}

/// Bytes that a frame may take, without FCS.
pub const ROOM: usize = 9212;
