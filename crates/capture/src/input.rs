// SPDX-License-Identifier: BSD-3-Clause
//! Owns a bounded window over a byte stream, and its offset in the stream.

use std::io::{self, ErrorKind, Read};
use std::ops::Range;

/// The bytes from [`offset`](Input::offset) on that were read so far.
pub(super) struct Input {
    source: Box<dyn Read>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    offset: u64,
}

impl Input {
    pub(super) fn new(source: Box<dyn Read>, window: usize) -> Self {
        Self { source, buffer: vec![0; window], start: 0, end: 0, offset: 0 }
    }

    /// Returns the bytes of the (decompressed) stream consumed so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the window with at least `wanted` bytes; with fewer only at the end of the stream.
    ///
    /// # Panics
    ///
    /// If `wanted` exceeds the window: the caller checks lengths first.
    pub(super) fn fill(&mut self, wanted: usize) -> io::Result<&[u8]> {
        assert!(wanted <= self.buffer.len());
        while self.end - self.start < wanted {
            if self.start > 0 && self.start + wanted > self.buffer.len() {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(n) => self.end += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(&self.buffer[self.start..self.end])
    }

    /// Consumes `n` bytes of the window and returns them.
    pub(super) fn take(&mut self, n: usize) -> &[u8] {
        let taken = self.advance(n);
        self.offset += n as u64;
        &self.buffer[taken]
    }

    /// Consumes `n` bytes, in the window or beyond; returns how many the stream had. If these are
    /// fewer than `n`, the offset stays at the start of the incomplete record.
    pub(super) fn skip(&mut self, n: u64) -> io::Result<u64> {
        let mut left = n;
        while left > 0 {
            let available = self.fill(1)?.len() as u64;
            if available == 0 {
                return Ok(n - left);
            }
            let step = available.min(left);
            self.advance(step as usize);
            left -= step;
        }
        self.offset += n;
        Ok(n)
    }

    /// Moves the start of the window. The passed bytes stay readable until the next `fill`.
    fn advance(&mut self, n: usize) -> Range<usize> {
        let passed = self.start..self.start + n;
        debug_assert!(passed.end <= self.end);
        self.start = passed.end;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        passed
    }

    /// Puts a decoder between the source and the window, beginning at the start of the window.
    pub(super) fn wrap(&mut self, decoder: impl FnOnce(Box<dyn Read>) -> Box<dyn Read>) {
        let head = io::Cursor::new(self.buffer[self.start..self.end].to_vec());
        let source = std::mem::replace(&mut self.source, Box::new(io::empty()));
        self.source = decoder(Box::new(head.chain(source)));
        (self.start, self.end) = (0, 0);
    }
}
