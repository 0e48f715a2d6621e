// SPDX-License-Identifier: BSD-3-Clause
//! Defines a source of frames for a sender.

/// A source of frames, in the order in which they are due.
pub trait Source {
    /// Returns the time at which the next frame is due, in nanoseconds from the start. Returns
    /// `None` if there are no more frames.
    fn due(&self) -> Option<u64>;

    /// Writes the next frame to the start of `room`, and advances to the one behind it.
    ///
    /// `room` has at least [`ROOM`] bytes. `now_ns` is the time of the sender, for stamps.
    ///
    /// # Panics
    /// If there are no more frames.
    fn write(&mut self, room: &mut [u8], now_ns: u64) -> Written;

    /// Takes up to `most` of the next frames if they are identical, unstamped and due at any time.
    ///
    /// Returns `None` otherwise; then `write` writes the next frame.
    fn take_alike(&mut self, most: usize) -> Option<Alike<'_>> {
        let _ = most;
        None
    }

    /// Returns the number of streams, including those of other parts.
    fn streams(&self) -> usize;

    /// Returns the number of streams whose frames are stamped. They are the first ones.
    fn stamped_streams(&self) -> usize;

    /// Returns the number of frames of a stream that were written or taken.
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

/// Identical frames of one stream.
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
    /// Writes one of the frames to the start of `room`.
    pub fn write(&self, room: &mut [u8]) -> Written {
        room[..self.frame.len()].copy_from_slice(self.frame);
        Written { len: self.frame.len(), stream: self.stream }
    }
}

/// Bytes of the longest frame, without FCS.
pub const ROOM: usize = 9212;
