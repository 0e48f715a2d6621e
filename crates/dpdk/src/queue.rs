// SPDX-License-Identifier: BSD-3-Clause
//! Receives and sends bursts through queues. A queue may move between threads but is never shared,
//! because ethdev queues allow one user at a time. Its port stays open as long as the queue lives.

use crate::ethdev::Ethdev;
use crate::{BURST_MAX, Burst, Errno, sys};
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

/// One receive queue of a started port.
#[derive(Debug)]
pub struct RxQueue(Queue);

/// One transmit queue of a started port.
#[derive(Debug)]
pub struct TxQueue(Queue);

#[derive(Debug)]
struct Queue {
    port_id: u16,
    queue_id: u16,
    port: Arc<Ethdev>,
    /// `Send` but not `Sync`.
    _one_user: PhantomData<Cell<()>>,
}

impl Queue {
    fn new(port: &Arc<Ethdev>, queue_id: u16) -> Self {
        Self { port_id: port.id(), queue_id, port: Arc::clone(port), _one_user: PhantomData }
    }
}

impl RxQueue {
    /// # Safety
    /// The port is started with this queue, and no other `RxQueue` names it.
    pub(crate) unsafe fn new(port: &Arc<Ethdev>, queue_id: u16) -> Self {
        Self(Queue::new(port, queue_id))
    }

    pub(crate) fn port_id(&self) -> u16 {
        self.0.port_id
    }

    /// Adds waiting packets to `burst`, up to its free room; returns their number.
    #[inline]
    pub fn burst(&mut self, burst: &mut Burst) -> usize {
        self.burst_up_to(burst, BURST_MAX)
    }

    /// Adds up to `most` waiting packets to `burst`, up to its free room; returns their number.
    #[inline(always)]
    pub fn burst_up_to(&mut self, burst: &mut Burst, most: usize) -> usize {
        let Queue { port_id, queue_id, .. } = self.0;
        // The cast keeps every number: both are `BURST_MAX` at most.
        let most = most.min(BURST_MAX) as u16;
        let fill = |free, room: u16| {
            // SAFETY:
            // - the port is started (`new`), stays open (`port`), and `&mut self` is the one user;
            // - `fill` gives room for `room` mbufs.
            unsafe { sys::shim_rx_burst(port_id, queue_id, free, room.min(most)) }
        };
        // SAFETY: the driver writes as many valid mbufs as it returns, and gives up their
        // ownership.
        unsafe { burst.fill(fill) }
    }

    /// Returns the queue's number among the receive queues of its port.
    pub fn number(&self) -> u16 {
        self.0.queue_id
    }

    /// Returns how many packets wait in the queue; `None` if the driver does not support this.
    pub fn waiting(&self) -> Option<u32> {
        let Queue { port_id, queue_id, .. } = self.0;
        // SAFETY: the port is started with this queue (`new`) and stays open (`port`).
        let waiting = unsafe { sys::shim_rx_queue_count(port_id, queue_id) };
        waiting.try_into().ok()
    }
}

impl TxQueue {
    /// # Safety
    /// The port is started with this queue, and no other `TxQueue` names it.
    pub(crate) unsafe fn new(port: &Arc<Ethdev>, queue_id: u16) -> Self {
        Self(Queue::new(port, queue_id))
    }

    pub(crate) fn port_id(&self) -> u16 {
        self.0.port_id
    }

    /// Returns the time of the port's clock, as [`Port::read_clock`](crate::Port::read_clock) does.
    pub fn read_clock(&self) -> Result<u64, Errno> {
        self.0.port.read_clock()
    }

    /// Sends the packets of `burst` in order; returns how many the port took. The others stay in
    /// `burst`, for the caller to try again or to count and free.
    #[inline]
    pub fn burst(&mut self, burst: &mut Burst) -> usize {
        self.burst_up_to(burst, BURST_MAX)
    }

    /// Sends the first packets of `burst`, up to `most` of them, as [`burst`](Self::burst) does.
    #[inline(always)]
    pub fn burst_up_to(&mut self, burst: &mut Burst, most: usize) -> usize {
        let Queue { port_id, queue_id, .. } = self.0;
        // The cast keeps every number: both are `BURST_MAX` at most.
        let most = most.min(BURST_MAX) as u16;
        // Some drivers read the first packet without checking that there is one.
        if burst.is_empty() {
            return 0;
        }
        let take = |first, len: u16| {
            // SAFETY:
            // - the port is started (`new`), stays open (`port`), and `&mut self` is the one user;
            // - `take_front` gives `len` mbufs.
            unsafe { sys::shim_tx_burst(port_id, queue_id, first, len.min(most)) }
        };
        // SAFETY: the driver owns the first mbufs, as many as it returns, and leaves the others
        // alone.
        unsafe { burst.take_front(take) }
    }
}
