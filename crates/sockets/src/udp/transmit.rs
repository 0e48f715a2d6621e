// SPDX-License-Identifier: BSD-3-Clause
//! Sends the UDP payloads of frames to sockets.

use super::open::Opened;
use super::{Route, UdpOptions, UdpPort, unspecified};
use crate::address::Datagram;
use crate::arena::Arena;
use crate::counts::KernelCounts;
use crate::line::Line;
use crate::sys::Name;
use generator::{NO_STREAM, TakenFrames, Transmit, WaitingFrame};
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use traffic::Written;

/// Sends through the sockets of a [`UdpPort`].
pub struct UdpTx {
    arena: Arena,
    lines: Vec<Line>,
    is_connected: Vec<bool>,
    routes: Vec<Route>,
    /// Number of batches so far, which selects the next shared socket.
    turn: usize,
    /// Frames that the kernel will never take.
    refused: Vec<WaitingFrame>,
    counts: Arc<KernelCounts>,
}

impl UdpTx {
    pub(super) fn new(port: &UdpPort) -> io::Result<Self> {
        let batch = port.options.batch.clamp(1, 1024);
        let UdpOptions { gso, zero_copy, .. } = port.options;
        let line = |opened: &Opened| {
            let socket = Arc::clone(&opened.socket);
            match port.options.io_uring {
                true => Line::with_ring(socket, batch, (gso, zero_copy)),
                false => Ok(Line::new(socket, batch, gso)),
            }
        };
        Ok(Self {
            arena: Arena::new(batch),
            lines: port.sockets.iter().map(line).collect::<io::Result<_>>()?,
            is_connected: port.sockets.iter().map(|opened| opened.is_connected()).collect(),
            routes: port.routes.clone(),
            turn: 0,
            refused: Vec::with_capacity(batch),
            counts: Arc::clone(&port.counts),
        })
    }

    /// Returns the index of the socket for a datagram of a stream; `None` if no socket has its
    /// source.
    #[inline(always)]
    fn socket(&self, stream: u16, source: SocketAddr) -> Option<usize> {
        // Queries for a reflector use the socket of the first stream.
        let stream = if stream == NO_STREAM { 0 } else { stream };
        match self.routes.get(usize::from(stream))? {
            Route::Shared { first, count } => Some(first + self.turn % count),
            route @ Route::Bound { by_address, by_port, .. } => {
                let ip = if *by_address { source.ip() } else { unspecified(source.is_ipv6()) };
                route.find(SocketAddr::new(ip, if *by_port { source.port() } else { 0 }))
            }
        }
    }

    /// Adds a frame to the queue of its socket; `None` if it is no UDP frame or no socket has its
    /// source.
    #[inline(always)]
    fn enqueue(&mut self, made: WaitingFrame, place: Range<usize>) -> Option<()> {
        let at = place.start;
        let Datagram { source, destination, payload } = Datagram::find(&self.arena.bytes()[place])?;
        let socket = self.socket(made.stream, source)?;
        let to = (!self.is_connected[socket]).then(|| Name::new(destination));
        self.lines[socket].push(made, to, at + payload.start..at + payload.end);
        Some(())
    }

    fn reset(&mut self) {
        self.arena.clear();
        self.turn = self.turn.wrapping_add(1);
    }

    fn frames_waiting(&self) -> usize {
        self.lines.iter().map(Line::waiting).sum()
    }
}

impl Transmit for UdpTx {
    #[inline(always)]
    fn prepare(&mut self) -> usize {
        self.arena.room()
    }

    #[inline(always)]
    fn push(&mut self, interval: u32, write: impl FnOnce(&mut [u8]) -> Written) {
        let (made, place) = self.arena.push(interval, write);
        if self.enqueue(made, place).is_none() {
            self.refused.push(made);
        }
    }

    #[inline(always)]
    fn flush(&mut self) -> TakenFrames {
        let mut total = TakenFrames::default();
        let mut waiting = 0;
        for line in &mut self.lines {
            if line.waiting() > 0 {
                let taken = line.flush(self.arena.bytes(), &self.counts, &mut self.refused);
                total.packets += taken.packets;
                total.bytes += taken.bytes;
                waiting += line.waiting();
            }
        }
        if waiting == 0 {
            self.reset();
        }
        total
    }

    #[inline(always)]
    fn waiting(&self) -> usize {
        self.frames_waiting() + self.refused.len()
    }

    fn for_each_waiting(&self, mut visit: impl FnMut(WaitingFrame)) {
        self.lines.iter().for_each(|line| line.see_waiting(&mut visit));
    }

    fn discard(&mut self, mut drop: impl FnMut(WaitingFrame)) {
        self.take_refused(&mut drop);
        self.lines.iter_mut().for_each(|line| line.discard(&mut drop));
        self.reset();
    }

    #[inline(always)]
    fn take_refused(&mut self, drop: impl FnMut(WaitingFrame)) {
        if !self.refused.is_empty() {
            self.refused.drain(..).for_each(drop);
        }
    }
}
