// SPDX-License-Identifier: BSD-3-Clause
//! Owns the queue of frames that wait for one socket.

use crate::counts::{KernelCounts, Remedy};
use crate::sys::{Name, Outgoing, SendRing, Socket, SocketError};
use generator::{TakenFrames, WaitingFrame};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for which a frame is offered again to a queue that drops it, while the queue takes no other
/// frame. A queue with less room than the frame never takes it (`burst` of tc-tbf(8)).
const DROPPED_FOR: Duration = Duration::from_millis(100);

/// A socket, and the frames that wait for it in an arena.
pub(crate) struct Line {
    socket: Arc<Socket>,
    outgoing: Outgoing,
    made: Vec<WaitingFrame>,
    /// Index of the first frame that the kernel has not taken.
    first: usize,
    /// Time since which a queue drops that frame.
    dropped_since: Option<Instant>,
    /// Length of the shortest frame that a queue has dropped for [`DROPPED_FOR`].
    too_long: u16,
}

impl Line {
    /// Makes a queue for `batch` frames.
    pub(crate) fn new(socket: Arc<Socket>, batch: usize, is_gso: bool) -> Self {
        Self::with_outgoing(socket, batch, Outgoing::new(batch, is_gso))
    }

    /// Makes a queue for `batch` frames that are sent with io_uring, without a copy if
    /// `is_zero_copy`.
    pub(crate) fn with_ring(
        socket: Arc<Socket>,
        batch: usize,
        (is_gso, is_zero_copy): (bool, bool),
    ) -> std::io::Result<Self> {
        let ring = SendRing::new(batch, is_zero_copy)?;
        let outgoing = Outgoing::new(batch, is_gso).with_ring(ring);
        Ok(Self::with_outgoing(socket, batch, outgoing))
    }

    fn with_outgoing(socket: Arc<Socket>, batch: usize, outgoing: Outgoing) -> Self {
        let made = Vec::with_capacity(batch);
        Self { socket, outgoing, made, first: 0, dropped_since: None, too_long: u16::MAX }
    }

    /// Adds the frame whose payload is at `place`.
    #[inline(always)]
    pub(crate) fn push(&mut self, made: WaitingFrame, to: Option<Name>, place: Range<usize>) {
        self.made.push(made);
        self.outgoing.push(to, place);
    }

    /// Returns the number of waiting frames.
    #[inline(always)]
    pub(crate) fn waiting(&self) -> usize {
        self.made.len() - self.first
    }

    /// Offers the frames to the kernel, in order. Adds frames that the kernel will never take to
    /// `refused`.
    #[inline(always)]
    pub(crate) fn flush(
        &mut self,
        arena: &[u8],
        counts: &KernelCounts,
        refused: &mut Vec<WaitingFrame>,
    ) -> TakenFrames {
        let mut total = TakenFrames::default();
        match self.outgoing.send(&self.socket, |place| &arena[place]) {
            Ok(sent) => {
                let too_long = self.too_long;
                let taken = self.advance(sent);
                total.packets = taken.len() as u64;
                total.bytes = taken.iter().map(|made| u64::from(made.len)).sum();
                let has_long = too_long < u16::MAX && taken.iter().any(|it| it.len >= too_long);
                self.dropped_since = None;
                if has_long {
                    self.too_long = u16::MAX;
                }
                // A call that sends only some frames does not return the error, nor does the next
                // call.
                if self.waiting() > 0 {
                    counts.drain(&self.socket);
                }
            }
            Err(error) => {
                let remedy = counts.classify(error, &self.socket);
                let is_hopeless = error == SocketError::NoBuffers && self.is_hopeless();
                if is_hopeless {
                    counts.refuse(libc::ENOBUFS);
                }
                if remedy == Remedy::Drop || is_hopeless {
                    self.dropped_since = None;
                    let dropped = self.outgoing.drop_first();
                    refused.extend_from_slice(self.advance(dropped));
                }
            }
        }
        if self.waiting() == 0 {
            self.clear();
        }
        total
    }

    /// True if a queue has dropped the first frame, or an equally long or shorter one, for
    /// [`DROPPED_FOR`]. The queue will never take such a frame, and the frames after it would wait
    /// for ever.
    #[cold]
    fn is_hopeless(&mut self) -> bool {
        let Some(first) = self.made.get(self.first) else { return false };
        let since = *self.dropped_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= DROPPED_FOR {
            self.too_long = self.too_long.min(first.len);
        }
        first.len >= self.too_long
    }

    #[inline(always)]
    fn advance(&mut self, frames: usize) -> &[WaitingFrame] {
        let taken = &self.made[self.first..][..frames];
        self.first += frames;
        taken
    }

    /// Passes each waiting frame to `visit`.
    pub(crate) fn see_waiting(&self, visit: impl FnMut(WaitingFrame)) {
        self.made[self.first..].iter().copied().for_each(visit);
    }

    /// Removes the waiting frames; passes each of them to `drop`.
    pub(crate) fn discard(&mut self, drop: impl FnMut(WaitingFrame)) {
        self.made.drain(self.first..).for_each(drop);
        self.clear();
    }

    fn clear(&mut self) {
        self.made.clear();
        self.first = 0;
        self.dropped_since = None;
        self.outgoing.clear();
    }
}
