// SPDX-License-Identifier: BSD-3-Clause
//! Receives the UDP payloads that come.

use super::UdpOptions;
use crate::address::header_bytes;
use crate::counts::KernelCounts;
use crate::sys::{Incoming, Socket, SocketError};
use generator::Receive;
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
    incoming: Incoming,
    /// Where the datagrams are.
    datagrams: Vec<Range<usize>>,
    /// Bytes of the headers that the kernel took away.
    header_bytes: usize,
    counts: Arc<KernelCounts>,
}

impl UdpRx {
    pub(super) fn new(
        socket: Arc<Socket>,
        is_ipv6: bool,
        options: UdpOptions,
        counts: Arc<KernelCounts>,
    ) -> Self {
        let batch = options.batch.clamp(1, 1024);
        let room = if options.gro { JOINED_MAX } else { ROOM };
        Self {
            socket,
            incoming: Incoming::new(batch, room, false, options.gro),
            datagrams: Vec::with_capacity(batch * if options.gro { JOINED_COUNT } else { 1 }),
            header_bytes: header_bytes(is_ipv6),
            counts,
        }
    }
}

impl Receive for UdpRx {
    const IS_PAYLOAD: bool = true;

    #[inline(always)]
    fn receive(&mut self) -> usize {
        self.datagrams.clear();
        match self.incoming.receive(&self.socket) {
            Ok(count) => {
                for number in 0..count {
                    let arrived = self.incoming.arrived(number);
                    self.datagrams.extend(arrived.datagrams());
                }
            }
            Err(SocketError::Full | SocketError::NoBuffers) => {}
            Err(SocketError::Other(_)) => _ = self.counts.drain(&self.socket),
        }
        self.datagrams.len()
    }

    #[inline(always)]
    fn frame(&mut self, number: usize) -> &[u8] {
        &self.incoming.bytes()[self.datagrams[number].clone()]
    }

    fn bytes(&self) -> u64 {
        let bytes = |datagram: &Range<usize>| (datagram.len() + self.header_bytes) as u64;
        self.datagrams.iter().map(bytes).sum()
    }

    fn free(&mut self) {
        self.datagrams.clear();
    }

    fn waiting(&self) -> Option<u32> {
        None
    }
}
