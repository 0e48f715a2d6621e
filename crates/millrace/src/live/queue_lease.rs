// SPDX-License-Identifier: BSD-3-Clause
//! Queues of a port, lent to a worker: they come back when the port is to be reset, and others go
//! out when that is done. Who has the queues has the proof that nobody uses them.
//!
//! Two rings for each worker and port. A worker looks whether there is an order between bursts, a
//! load that stays in its cache, and waits for nobody.

use dpdk::{RxQueue, TxQueue};
use rtrb::{Consumer, Producer, RingBuffer};

/// What a worker uses of a port.
pub(super) struct Pair {
    pub(super) rx: RxQueue,
    pub(super) tx: TxQueue,
}

/// What a worker is told.
pub(super) enum LeaseCommand {
    GiveBack,
    Use(Pair),
}

/// The worker's end.
pub(super) struct QueueLease {
    orders: Consumer<LeaseCommand>,
    returned: Producer<Pair>,
}

/// The control thread's end.
pub(super) struct QueueOwner {
    orders: Producer<LeaseCommand>,
    returned: Consumer<Pair>,
}

/// A pair that was lent out is asked for back; before it is back, no other goes out.
const ORDERS: usize = 2;

/// Both ends, of a worker that has a pair.
pub(super) fn loan() -> (QueueOwner, QueueLease) {
    let (orders, orders_here) = RingBuffer::new(ORDERS);
    let (returned, returned_here) = RingBuffer::new(1);
    let lender = QueueOwner { orders, returned: returned_here };
    (lender, QueueLease { orders: orders_here, returned })
}

impl QueueLease {
    /// An order, if there is one.
    #[inline(always)]
    pub(super) fn order(&mut self) -> Option<LeaseCommand> {
        self.orders.pop().ok()
    }

    pub(super) fn give_back(&mut self, pair: Pair) {
        self.returned.push(pair).expect("there is one pair");
    }
}

impl QueueOwner {
    /// Tells the worker to give its pair back, soon.
    pub(super) fn ask_back(&mut self) {
        self.orders.push(LeaseCommand::GiveBack).expect("it has a pair, and was not asked");
    }

    /// The pair, once it is back.
    pub(super) fn take_back(&mut self) -> Option<Pair> {
        self.returned.pop().ok()
    }

    pub(super) fn lend(&mut self, pair: Pair) {
        self.orders.push(LeaseCommand::Use(pair)).expect("it has none, and gets one");
    }
}
