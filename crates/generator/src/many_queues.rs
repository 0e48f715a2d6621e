// SPDX-License-Identifier: BSD-3-Clause
//! Joins several queues of a port into one link, for a device that has several queues at its end of
//! a wire without RSS, such as memif. All packets of a connection use the same transmit queue, and
//! it is the same one in both directions.

use crate::link::{Receive, TakenFrames, Transmit, WaitingFrame};
use crate::port::{PortRx, PortTx};
use traffic::{ROOM, Written};

/// Receive queues of a port, read in turn.
pub struct RxQueues {
    queues: Vec<PortRx>,
    /// The queue that the burst came from.
    current: usize,
}

impl RxQueues {
    /// Joins queues, at least one.
    pub fn new(queues: Vec<PortRx>) -> Self {
        assert!(!queues.is_empty(), "a port has a receive queue");
        Self { queues, current: 0 }
    }
}

impl Receive for RxQueues {
    #[inline(always)]
    fn receive(&mut self) -> usize {
        for _ in 0..self.queues.len() {
            self.current = (self.current + 1) % self.queues.len();
            let received = self.queues[self.current].receive();
            if received > 0 {
                return received;
            }
        }
        0
    }

    #[inline(always)]
    fn frame(&mut self, number: usize) -> &[u8] {
        self.queues[self.current].frame(number)
    }

    #[inline(always)]
    fn bytes(&self) -> u64 {
        self.queues[self.current].bytes()
    }

    #[inline(always)]
    fn free(&mut self) {
        self.queues[self.current].free();
    }

    fn waiting(&self) -> Option<u32> {
        self.queues.iter().map(Receive::waiting).sum()
    }

    #[inline(always)]
    fn most(&self) -> usize {
        self.queues[self.current].most()
    }
}

/// Transmit queues of a port, among which connections are spread.
pub struct TxQueues {
    queues: Vec<PortTx>,
    /// A frame is written here first, since its bytes choose the queue.
    frame: Box<[u8]>,
}

impl TxQueues {
    /// Joins queues, at least one.
    pub fn new(queues: Vec<PortTx>) -> Self {
        assert!(!queues.is_empty(), "a port has a transmit queue");
        Self { queues, frame: vec![0; ROOM].into() }
    }
}

impl Transmit for TxQueues {
    /// All frames may belong to the fullest queue.
    #[inline(always)]
    fn prepare(&mut self) -> usize {
        self.queues.iter_mut().map(Transmit::prepare).min().unwrap_or_default()
    }

    #[inline(always)]
    fn push(&mut self, interval: u32, write: impl FnOnce(&mut [u8]) -> Written) {
        let written = write(&mut self.frame);
        let frame = &self.frame[..written.len];
        let queue = queue_of(frame, self.queues.len());
        self.queues[queue].push(interval, |room| {
            room[..frame.len()].copy_from_slice(frame);
            written
        });
    }

    #[inline(always)]
    fn flush(&mut self) -> TakenFrames {
        let mut sum = TakenFrames::default();
        for queue in &mut self.queues {
            let taken = queue.flush();
            sum.packets += taken.packets;
            sum.bytes += taken.bytes;
        }
        sum
    }

    #[inline(always)]
    fn waiting(&self) -> usize {
        self.queues.iter().map(Transmit::waiting).sum()
    }

    fn for_each_waiting(&self, mut visit: impl FnMut(WaitingFrame)) {
        self.queues.iter().for_each(|queue| queue.for_each_waiting(&mut visit));
    }

    fn discard(&mut self, mut drop: impl FnMut(WaitingFrame)) {
        self.queues.iter_mut().for_each(|queue| queue.discard(&mut drop));
    }
}

/// Place of the source address in a frame without VLAN tags, and length of both addresses.
const IPV4: (usize, usize) = (26, 8);
const IPV6: (usize, usize) = (22, 32);
/// Length of an Ethernet header without VLAN tags.
const ETHERNET: usize = 14;
/// Multiplier that spreads the sum over the upper bits (Knuth, The Art of Computer Programming,
/// section 6.4).
const SPREAD: u32 = 0x9e37_79b1;

/// Returns the queue of a frame, out of `count`: the same one for both directions of a connection.
/// Frames other than IP use the first one.
fn queue_of(frame: &[u8], count: usize) -> usize {
    let (addresses, ports) = match frame.get(12..15) {
        Some([0x08, 0x00, first]) => (IPV4, ETHERNET + 4 * usize::from(first & 0xf)),
        Some([0x86, 0xdd, _]) => (IPV6, IPV6.0 + IPV6.1),
        _ => return 0,
    };
    let (begin, len) = addresses;
    let words = |from: usize, len: usize| {
        let bytes = frame.get(from..from + len).unwrap_or_default();
        bytes.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
    };
    // A sum does not depend on which end is the source.
    let sum: u32 = words(begin, len).chain(words(ports, 4)).sum();
    let spread = sum.wrapping_mul(SPREAD);
    ((u64::from(spread) * count as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(addresses: [[u8; 4]; 2], ports: [u16; 2]) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([0x08, 0x00, 0x45]);
        frame.resize(IPV4.0, 0);
        frame.extend(addresses.concat());
        ports.iter().for_each(|port| frame.extend(port.to_be_bytes()));
        frame
    }

    #[test]
    fn a_connection_has_one_queue_and_all_queues_are_used() {
        let (client, server) = ([16, 0, 0, 7], [48, 0, 0, 9]);
        for count in [1, 2, 3, 8] {
            let mut used = vec![0; count];
            for port in 1024..5024 {
                let there = queue_of(&frame([client, server], [port, 8080]), count);
                let back = queue_of(&frame([server, client], [8080, port]), count);
                assert_eq!(there, back);
                used[there] += 1;
            }
            let even = 4000 / count;
            assert!(used.iter().all(|it| (even / 2..=even * 2).contains(it)), "{used:?}");
        }
        assert_eq!(queue_of(&[0xff; 60], 8), 0, "no IP");
        assert_eq!(queue_of(&[], 8), 0);
    }
}
