// SPDX-License-Identifier: BSD-3-Clause
//! Frames that wait for one socket.

use crate::counts::{KernelCounts, Remedy};
use crate::sys::{Name, Outgoing, SendRing, Socket};
use generator::{Made, Taken};
use std::ops::Range;
use std::sync::Arc;

/// A socket, and the frames that wait for it in an arena.
pub(crate) struct Line {
    socket: Arc<Socket>,
    outgoing: Outgoing,
    made: Vec<Made>,
    /// The first frame that was not taken.
    first: usize,
}

impl Line {
    /// Makes room for so many frames.
    pub(crate) fn new(socket: Arc<Socket>, batch: usize, is_gso: bool) -> Self {
        Self::with_outgoing(socket, batch, Outgoing::new(batch, is_gso))
    }

    /// The same with io_uring, which may send without a copy.
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
        Self { socket, outgoing, made: Vec::with_capacity(batch), first: 0 }
    }

    /// Adds the frame whose payload is at `place`.
    #[inline(always)]
    pub(crate) fn push(&mut self, made: Made, to: Option<Name>, place: Range<usize>) {
        self.made.push(made);
        self.outgoing.push(to, place);
    }

    /// Number of frames that wait.
    #[inline(always)]
    pub(crate) fn waiting(&self) -> usize {
        self.made.len() - self.first
    }

    /// Offers the frames to the kernel, in order. Adds those that it will never take to `refused`.
    #[inline(always)]
    pub(crate) fn flush(
        &mut self,
        arena: &[u8],
        counts: &KernelCounts,
        refused: &mut Vec<Made>,
    ) -> Taken {
        let mut total = Taken::default();
        match self.outgoing.send(&self.socket, |place| &arena[place]) {
            Ok(sent) => {
                let taken = self.advance(sent);
                total.packets = taken.len() as u64;
                total.bytes = taken.iter().map(|made| u64::from(made.len)).sum();
                // A call that stops halfway does not say why, and the next one does not know.
                if self.waiting() > 0 {
                    counts.drain(&self.socket);
                }
            }
            Err(error) => {
                if counts.judge(error, &self.socket) == Remedy::Drop {
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

    #[inline(always)]
    fn advance(&mut self, frames: usize) -> &[Made] {
        let taken = &self.made[self.first..][..frames];
        self.first += frames;
        taken
    }

    /// Gives the frames that wait to `drop`, and forgets them.
    pub(crate) fn discard(&mut self, drop: impl FnMut(Made)) {
        self.made.drain(self.first..).for_each(drop);
        self.clear();
    }

    fn clear(&mut self) {
        self.made.clear();
        self.first = 0;
        self.outgoing.clear();
    }
}
