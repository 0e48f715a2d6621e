// SPDX-License-Identifier: BSD-3-Clause
//! Receives UDP payloads from sockets.

use super::UdpOptions;
use crate::address::header_bytes;
use crate::arrivals::{Arrivals, ReceiveOptions};
use crate::counts::KernelCounts;
use crate::sys::{Socket, SocketError};
use generator::Receive;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use traffic::ROOM;

/// Bytes of the longest message with GRO.
pub(crate) const JOINED_MAX: usize = 65_535;
/// Maximum number of datagrams that the kernel joins (`UDP_GRO_CNT_MAX` of Linux).
const JOINED_COUNT: usize = 64;

/// Receives from a socket of a [`UdpPort`](super::UdpPort).
pub struct UdpRx {
    socket: Arc<Socket>,
    arrivals: Arrivals,
    /// Places of the datagrams in the buffers.
    datagrams: Vec<Range<usize>>,
    /// Bytes of the headers that the kernel has removed.
    header_bytes: usize,
    counts: Arc<KernelCounts>,
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
        let options = ReceiveOptions { batch, room, is_named: false, is_gro: gro };
        let arrivals = Arrivals::new(Arc::clone(&socket), options, io_uring)?;
        let datagrams = Vec::with_capacity(batch * if gro { JOINED_COUNT } else { 1 });
        let header_bytes = header_bytes(is_ipv6);
        Ok(Self { socket, arrivals, datagrams, header_bytes, counts })
    }
}

impl Receive for UdpRx {
    const IS_PAYLOAD: bool = true;

    #[inline(always)]
    fn receive(&mut self) -> usize {
        self.datagrams.clear();
        match self.arrivals.receive() {
            Ok(count) => {
                for number in 0..count {
                    self.datagrams.extend(self.arrivals.arrived(number).datagrams());
                }
            }
            Err(SocketError::Other(_)) => _ = self.counts.drain(&self.socket),
            Err(_) => {}
        }
        self.datagrams.len()
    }

    #[inline(always)]
    fn frame(&mut self, number: usize) -> &[u8] {
        self.arrivals.bytes(self.datagrams[number].clone())
    }

    fn bytes(&self) -> u64 {
        let payloads: usize = self.datagrams.iter().map(Range::len).sum();
        (payloads + self.datagrams.len() * self.header_bytes) as u64
    }

    fn free(&mut self) {
        self.datagrams.clear();
        self.arrivals.free();
    }

    fn waiting(&self) -> Option<u32> {
        None
    }
}
