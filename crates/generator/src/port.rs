// SPDX-License-Identifier: BSD-3-Clause
//! Implements [`Transmit`] and [`Receive`] for queues of DPDK ports.

use crate::link::{Receive, TakenFrames, Transmit, WaitingFrame};
use crate::port_clock::{PortClock, SendTimes};
use dpdk::{BURST_MAX, Burst, Errno, Mempool, RxQueue, Stock, TxQueue};
use traffic::{Alike, ROOM, Written};
use wire::Packet;

/// Maximum numbers of frames per call to a receive queue and to a transmit queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstSizes {
    /// Frames of a receive burst, 1 to [`BURST_MAX`].
    pub rx: usize,
    /// Frames of a transmit burst, 1 to [`BURST_MAX`].
    pub tx: usize,
}

impl Default for BurstSizes {
    fn default() -> Self {
        Self { rx: BURST_MAX, tx: BURST_MAX }
    }
}

/// A transmit queue, with mbufs from a pool.
pub struct PortTx {
    queue: TxQueue,
    /// Maximum number of frames of a burst.
    most: usize,
    stock: Stock,
    burst: Burst,
    /// Length, stream and interval of each frame of the burst.
    made: [WaitingFrame; BURST_MAX],
    /// Clock of a port that sends frames at their times.
    clock: Option<PortClock>,
}

impl PortTx {
    /// Makes a link for `queue`. The mbufs of the pool need room for every frame.
    pub fn new(queue: TxQueue, mempool: Mempool) -> Self {
        let made = [WaitingFrame::default(); BURST_MAX];
        let (stock, burst) = (Stock::new(mempool), Burst::new());
        Self { queue, most: BURST_MAX, stock, burst, made, clock: None }
    }

    /// Sets the maximum number of frames handed to the queue at once, 1 to [`BURST_MAX`].
    #[must_use]
    pub fn with_burst(mut self, most: usize) -> Self {
        self.most = most.clamp(1, BURST_MAX);
        self
    }

    /// Has the port send frames at their times. The port must be configured with
    /// [`dpdk::PortConfig::sends_on_time`]. Fails if its clock cannot be read.
    pub fn on_time(mut self, times: SendTimes) -> Result<Self, Errno> {
        self.clock = Some(PortClock::new(times, &self.queue)?);
        Ok(self)
    }

    /// Returns the queue.
    pub fn into_queue(self) -> TxQueue {
        self.queue
    }
}

impl Transmit for PortTx {
    #[inline(always)]
    fn prepare(&mut self) -> usize {
        self.stock.refill(self.most).min(self.most - self.burst.len())
    }

    #[inline(always)]
    fn push(&mut self, interval: u32, write: impl FnOnce(&mut [u8]) -> Written) {
        let made = &mut self.made[self.burst.len()];
        self.stock.write_to(&mut self.burst, |room| {
            let written = write(room);
            *made = WaitingFrame { len: written.len as u16, stream: written.stream, interval };
            written.len
        });
    }

    #[inline(always)]
    fn push_at(&mut self, due_ns: u64, interval: u32, write: impl FnOnce(&mut [u8]) -> Written) {
        self.push(interval, write);
        if let (Some(clock), Some(mbuf)) = (&self.clock, self.burst.last_mut()) {
            clock.set(mbuf, due_ns);
        }
    }

    #[inline(always)]
    fn ahead_ns(&self) -> u64 {
        self.clock.as_ref().map_or(0, PortClock::ahead_ns)
    }

    fn read_clock(&mut self) {
        if let Some(clock) = &mut self.clock {
            // If the clock cannot be read, the previous readings stay in use.
            let _ = clock.measure(&self.queue);
        }
    }

    #[inline(always)]
    fn push_alike(&mut self, interval: u32, alike: Alike) {
        let Alike { frame, stream, count } = alike;
        let begin = self.burst.len();
        self.stock.copy_to(&mut self.burst, frame, count);
        self.made[begin..begin + count].fill(WaitingFrame {
            len: frame.len() as u16,
            stream,
            interval,
        });
    }

    #[inline(always)]
    fn flush(&mut self) -> TakenFrames {
        if self.burst.is_empty() {
            return TakenFrames::default();
        }
        let taken = self.queue.burst(&mut self.burst);
        let bytes = self.made[..taken].iter().map(|made| u64::from(made.len)).sum();
        if !self.burst.is_empty() {
            self.made.copy_within(taken..taken + self.burst.len(), 0);
        }
        TakenFrames { packets: taken as u64, bytes }
    }

    #[inline(always)]
    fn waiting(&self) -> usize {
        self.burst.len()
    }

    fn for_each_waiting(&self, visit: impl FnMut(WaitingFrame)) {
        self.made[..self.burst.len()].iter().copied().for_each(visit);
    }

    fn discard(&mut self, drop: impl FnMut(WaitingFrame)) {
        self.made[..self.burst.len()].iter().copied().for_each(drop);
        self.burst.free_all();
    }
}

/// A receive queue.
pub struct PortRx {
    queue: RxQueue,
    /// Maximum number of frames of a burst.
    most: usize,
    burst: Burst,
    /// A frame in several segments is copied here.
    copy: Box<[u8]>,
}

impl PortRx {
    /// Makes a link for `queue`.
    pub fn new(queue: RxQueue) -> Self {
        Self { queue, most: BURST_MAX, burst: Burst::new(), copy: vec![0; ROOM].into() }
    }

    /// Sets the maximum number of frames taken from the queue at once, 1 to [`BURST_MAX`].
    #[must_use]
    pub fn with_burst(mut self, most: usize) -> Self {
        self.most = most.clamp(1, BURST_MAX);
        self
    }

    /// Returns the queue.
    pub fn into_queue(self) -> RxQueue {
        self.queue
    }
}

impl Receive for PortRx {
    #[inline(always)]
    fn receive(&mut self) -> usize {
        let received = self.queue.burst_up_to(&mut self.burst, self.most);
        self.burst.prefetch();
        received
    }

    #[inline(always)]
    fn frame(&mut self, number: usize) -> &[u8] {
        let mbuf = &self.burst[number];
        let head = mbuf.head();
        if head.len() == mbuf.frame_len() {
            return head;
        }
        let copied = mbuf.copy_to(&mut self.copy);
        &self.copy[..copied]
    }

    #[inline(always)]
    fn bytes(&self) -> u64 {
        self.burst.iter().map(|mbuf| mbuf.frame_len() as u64).sum()
    }

    #[inline(always)]
    fn free(&mut self) {
        self.burst.free_all();
    }

    fn waiting(&self) -> Option<u32> {
        self.queue.waiting()
    }

    #[inline(always)]
    fn most(&self) -> usize {
        self.most
    }
}
