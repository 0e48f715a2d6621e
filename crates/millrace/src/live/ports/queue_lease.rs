// SPDX-License-Identifier: BSD-3-Clause
//! Leases the queues of a port to a worker. The worker returns them when the port is to be reset,
//! and gets others after the reset. The owner of a queue knows that no other thread uses it.
//!
//! Two rings serve each worker and port. A worker checks for an order between bursts: a load that
//! hits its cache. It never waits.

use dpdk::{RxQueue, TxQueue};
use rtrb::{Consumer, Producer, RingBuffer};

/// The queues of one port that a worker uses.
pub(crate) struct Pair {
    pub(crate) rx: RxQueue,
    pub(crate) tx: TxQueue,
}

/// An order to a worker.
pub(crate) enum LeaseCommand {
    GiveBack,
    Use(Pair),
}

/// The worker's end.
pub(crate) struct QueueLease {
    orders: Consumer<LeaseCommand>,
    returned: Producer<Pair>,
}

/// The control thread's end.
pub(crate) struct QueueOwner {
    orders: Producer<LeaseCommand>,
    returned: Consumer<Pair>,
}

/// Capacity of the ring of orders. A new pair is lent only after the old one was returned.
const ORDERS: usize = 2;

/// Returns both ends of a lease whose worker already has its pair.
pub(crate) fn loan() -> (QueueOwner, QueueLease) {
    let (orders, orders_here) = RingBuffer::new(ORDERS);
    let (returned, returned_here) = RingBuffer::new(1);
    let owner = QueueOwner { orders, returned: returned_here };
    (owner, QueueLease { orders: orders_here, returned })
}

impl QueueLease {
    /// Returns the next order, if there is one.
    #[inline(always)]
    pub(crate) fn order(&mut self) -> Option<LeaseCommand> {
        self.orders.pop().ok()
    }

    pub(crate) fn give_back(&mut self, pair: Pair) {
        self.returned.push(pair).expect("there is one pair");
    }
}

impl QueueOwner {
    /// Orders the worker to return its pair.
    pub(crate) fn ask_back(&mut self) {
        self.orders.push(LeaseCommand::GiveBack).expect("it has a pair, and was not asked");
    }

    /// Returns the pair once the worker has returned it.
    pub(crate) fn take_back(&mut self) -> Option<Pair> {
        self.returned.pop().ok()
    }

    pub(crate) fn lend(&mut self, pair: Pair) {
        self.orders.push(LeaseCommand::Use(pair)).expect("it has none, and gets one");
    }
}
