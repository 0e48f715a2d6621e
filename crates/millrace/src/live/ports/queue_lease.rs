// SPDX-License-Identifier: BSD-3-Clause
//! Leases the queues of a port to a worker. The worker returns them when the port is to be reset,
//! and gets others after the reset. The owner of a queue knows that no other thread uses it.
//!
//! Two rings serve each worker and port. A worker checks for a command between bursts: a load that
//! hits its cache. It never waits.

use dpdk::{RxQueue, TxQueue};
use rtrb::{Consumer, Producer, RingBuffer};

/// The queues of one port that a worker uses.
pub(crate) struct QueuePair {
    pub(crate) rx: RxQueue,
    pub(crate) tx: TxQueue,
}

/// A command to a worker.
pub(crate) enum LeaseCommand {
    GiveBack,
    Use(QueuePair),
}

/// The worker's end.
pub(crate) struct QueueLease {
    commands: Consumer<LeaseCommand>,
    returned: Producer<QueuePair>,
}

/// The control thread's end.
pub(crate) struct QueueOwner {
    commands: Producer<LeaseCommand>,
    returned: Consumer<QueuePair>,
}

/// Capacity of the ring of commands. A new pair is granted only after the old one was returned.
const COMMANDS: usize = 2;

/// Returns both ends of a lease whose worker already has its pair.
pub(crate) fn lease() -> (QueueOwner, QueueLease) {
    let (commands, commands_in) = RingBuffer::new(COMMANDS);
    let (returned, returned_in) = RingBuffer::new(1);
    let owner = QueueOwner { commands, returned: returned_in };
    (owner, QueueLease { commands: commands_in, returned })
}

impl QueueLease {
    /// Returns the next command, if there is one.
    #[inline(always)]
    pub(crate) fn next_command(&mut self) -> Option<LeaseCommand> {
        self.commands.pop().ok()
    }

    pub(crate) fn give_back(&mut self, pair: QueuePair) {
        self.returned.push(pair).expect("there is one pair");
    }
}

impl QueueOwner {
    /// Requests the pair back from the worker.
    pub(crate) fn request_return(&mut self) {
        self.commands.push(LeaseCommand::GiveBack).expect("it has a pair, not requested back yet");
    }

    /// Returns the pair once the worker has returned it.
    pub(crate) fn take_back(&mut self) -> Option<QueuePair> {
        self.returned.pop().ok()
    }

    pub(crate) fn grant(&mut self, pair: QueuePair) {
        self.commands.push(LeaseCommand::Use(pair)).expect("it has none, and gets one");
    }
}
