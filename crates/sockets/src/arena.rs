// SPDX-License-Identifier: BSD-3-Clause
//! Owns the memory of a batch of waiting frames. Each frame begins at the cache line after the
//! previous one, so that small frames use few cache lines.

use generator::WaitingFrame;
use std::ops::Range;
use traffic::{ROOM, Written};

/// Bytes of a cache line: frames begin at multiples of it.
const LINE: usize = 64;

/// Memory for a batch of frames, which is reused once all of them are sent.
pub(crate) struct Arena {
    bytes: Box<[u8]>,
    used: usize,
    /// Number of frames in the arena, including sent ones.
    frames: usize,
    batch: usize,
}

impl Arena {
    /// Makes room for `batch` frames, 1 to 1024.
    pub(crate) fn new(batch: usize) -> Self {
        let batch = batch.clamp(1, 1024);
        let bytes = vec![0; batch * ROOM.next_multiple_of(LINE)].into();
        Self { bytes, used: 0, frames: 0, batch }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the number of frames for which there is room.
    #[inline(always)]
    pub(crate) fn room(&self) -> usize {
        self.batch - self.frames
    }

    /// Passes `write` a buffer of [`ROOM`] bytes for a frame; returns the frame's description and
    /// place.
    ///
    /// # Panics
    /// If there is no room.
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        interval: u32,
        write: impl FnOnce(&mut [u8]) -> Written,
    ) -> (WaitingFrame, Range<usize>) {
        assert!(self.frames < self.batch, "prepare has promised room");
        let at = self.used;
        let written = write(&mut self.bytes[at..][..ROOM]);
        self.used += written.len.next_multiple_of(LINE);
        self.frames += 1;
        let made = WaitingFrame { len: written.len as u16, stream: written.stream, interval };
        (made, at..at + written.len)
    }

    /// Removes all frames.
    pub(crate) fn clear(&mut self) {
        (self.used, self.frames) = (0, 0);
    }
}
