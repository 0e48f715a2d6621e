// SPDX-License-Identifier: BSD-3-Clause
//! Receives the UDP payloads that come.

use super::UdpOptions;
use crate::address::header_bytes;
use crate::counts::KernelCounts;
use crate::sys::{Incoming, RecvRing, Socket, SocketError};
use generator::Receive;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use traffic::ROOM;

/// Bytes of the longest message with GRO.
pub(crate) const JOINED_MAX: usize = 65_535;
/// Datagrams that the kernel joins at most (`UDP_GRO_CNT_MAX` of Linux).
const JOINED_COUNT: usize = 64;

/// Receives from a socket of a [`UdpPort`](super::UdpPort).
pub struct UdpRx {
    socket: Arc<Socket>,
    way: Way,
    /// Where the datagrams are, if system calls bring them.
    datagrams: Vec<Range<usize>>,
    /// Number of datagrams.
    count: usize,
    /// Bytes of the headers that the kernel took away.
    header_bytes: usize,
    counts: Arc<KernelCounts>,
}

/// What brings datagrams.
enum Way {
    /// `recvmmsg`
    Calls(Incoming),
    /// io_uring
    Ring(Box<RecvRing>),
}

impl UdpRx {
    pub(super) fn new(
        socket: Arc<Socket>,
        is_ipv6: bool,
        options: UdpOptions,
        counts: Arc<KernelCounts>,
    ) -> io::Result<Self> {
        let UdpOptions { gro, io_uring, .. } = options;
        let batch = options.batch.clamp(1, 1024);
        let room = if gro { JOINED_MAX } else { ROOM };
        let way = match io_uring {
            true => Way::Ring(RecvRing::new(Arc::clone(&socket), batch, room)?.into()),
            false => Way::Calls(Incoming::new(batch, room, false, gro)),
        };
        let datagrams = Vec::with_capacity(batch * if gro { JOINED_COUNT } else { 1 });
        let header_bytes = header_bytes(is_ipv6);
        Ok(Self { socket, way, datagrams, count: 0, header_bytes, counts })
    }

    #[inline(always)]
    fn try_receive(&mut self) -> Result<usize, SocketError> {
        self.datagrams.clear();
        match &mut self.way {
            Way::Ring(ring) => ring.receive(),
            Way::Calls(incoming) => {
                for number in 0..incoming.receive(&self.socket)? {
                    self.datagrams.extend(incoming.arrived(number).datagrams());
                }
                Ok(self.datagrams.len())
            }
        }
    }
}

impl Receive for UdpRx {
    const IS_PAYLOAD: bool = true;

    #[inline(always)]
    fn receive(&mut self) -> usize {
        self.count = self.try_receive().unwrap_or_else(|error| {
            if let SocketError::Other(_) = error {
                self.counts.drain(&self.socket);
            }
            0
        });
        self.count
    }

    #[inline(always)]
    fn frame(&mut self, number: usize) -> &[u8] {
        match &self.way {
            Way::Calls(incoming) => &incoming.bytes()[self.datagrams[number].clone()],
            Way::Ring(ring) => ring.datagram(number),
        }
    }

    fn bytes(&self) -> u64 {
        let payloads: usize = match &self.way {
            Way::Calls(_) => self.datagrams.iter().map(Range::len).sum(),
            Way::Ring(ring) => (0..self.count).map(|number| ring.datagram(number).len()).sum(),
        };
        (payloads + self.count * self.header_bytes) as u64
    }

    fn free(&mut self) {
        self.count = 0;
        self.datagrams.clear();
        if let Way::Ring(ring) = &mut self.way {
            ring.free();
        }
    }

    fn waiting(&self) -> Option<u32> {
        None
    }
}
