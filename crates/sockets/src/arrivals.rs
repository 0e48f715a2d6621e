// SPDX-License-Identifier: BSD-3-Clause
//! Receives the datagrams of a socket, with `recvmmsg` or io_uring.

use crate::sys::{Arrived, Incoming, Name, RecvRing, Socket, SocketError};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// A batch of datagrams, received by one call or from one poll of a ring.
pub(crate) enum Arrivals {
    /// Received by `recvmmsg`.
    Calls(Arc<Socket>, Incoming),
    /// Received by io_uring.
    Ring(Box<RecvRing>),
}

/// Settings of receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceiveOptions {
    /// Datagrams received at once.
    pub(crate) batch: usize,
    /// Bytes of the longest datagram; the rest of a longer one is dropped.
    pub(crate) room: usize,
    /// True if the addresses of senders are needed.
    pub(crate) is_named: bool,
    /// True if the socket has GRO; not with io_uring.
    pub(crate) is_gro: bool,
}

impl Arrivals {
    /// Makes the buffers. Fails if `io_uring` is set and the kernel refuses it.
    pub(crate) fn new(
        socket: Arc<Socket>,
        options: ReceiveOptions,
        io_uring: bool,
    ) -> io::Result<Self> {
        let ReceiveOptions { batch, room, is_named, is_gro } = options;
        Ok(match io_uring {
            true => Self::Ring(RecvRing::new(socket, batch, room, is_named)?.into()),
            false => Self::Calls(socket, Incoming::new(batch, room, is_named, is_gro)),
        })
    }

    /// Replaces the messages by those that have arrived; returns their number.
    #[inline(always)]
    pub(crate) fn receive(&mut self) -> Result<usize, SocketError> {
        match self {
            Self::Calls(socket, incoming) => incoming.receive(socket),
            Self::Ring(ring) => ring.receive(),
        }
    }

    /// Returns message `number`.
    #[inline(always)]
    pub(crate) fn arrived(&self, number: usize) -> Arrived {
        match self {
            Self::Calls(_, incoming) => incoming.arrived(number),
            Self::Ring(ring) => ring.arrived(number),
        }
    }

    /// Returns the sender of message `number`, if senders are needed.
    #[inline(always)]
    pub(crate) fn name(&self, number: usize) -> &Name {
        match self {
            Self::Calls(_, incoming) => incoming.name(number),
            Self::Ring(ring) => ring.name(number),
        }
    }

    /// Returns the bytes at a place of a message.
    ///
    /// # Panics
    /// If no message is there.
    #[inline(always)]
    pub(crate) fn bytes(&self, place: Range<usize>) -> &[u8] {
        match self {
            Self::Calls(_, incoming) => incoming.bytes(place),
            Self::Ring(ring) => ring.bytes(place),
        }
    }

    /// Returns the bytes at a place of a message, mutable.
    ///
    /// # Panics
    /// If no message is there.
    #[inline(always)]
    pub(crate) fn bytes_mut(&mut self, place: Range<usize>) -> &mut [u8] {
        match self {
            Self::Calls(_, incoming) => incoming.bytes_mut(place),
            Self::Ring(ring) => ring.bytes_mut(place),
        }
    }

    /// Gives the buffers back to the kernel.
    #[inline(always)]
    pub(crate) fn free(&mut self) {
        if let Self::Ring(ring) = self {
            ring.free();
        }
    }
}
