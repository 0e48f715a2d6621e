// SPDX-License-Identifier: BSD-3-Clause
//! An arena for frames that wait. Frames lie one behind the other, so small ones share the cache
//! lines that large ones need.

use generator::Made;
use std::ops::Range;
use traffic::{ROOM, Written};

/// Frames begin at cache lines.
const LINE: usize = 64;

/// Room for a batch of frames, which is reused once all of them are sent.
pub(crate) struct Arena {
    bytes: Box<[u8]>,
    used: usize,
    /// Number of frames in it, sent ones included.
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

    /// Lets `write` write a frame; returns its description and its place.
    ///
    /// # Panics
    /// If there is no room.
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        interval: u32,
        write: impl FnOnce(&mut [u8]) -> Written,
    ) -> (Made, Range<usize>) {
        assert!(self.frames < self.batch, "prepare has promised room");
        let at = self.used;
        let written = write(&mut self.bytes[at..][..ROOM]);
        self.used += written.len.next_multiple_of(LINE);
        self.frames += 1;
        let made = Made { len: written.len as u16, stream: written.stream, interval };
        (made, at..at + written.len)
    }

    /// Removes all frames.
    pub(crate) fn clear(&mut self) {
        (self.used, self.frames) = (0, 0);
    }
}
