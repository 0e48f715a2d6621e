// SPDX-License-Identifier: BSD-3-Clause
//! Makes the senders and receivers of a run, each with a mailbox to one ledger.

use crate::link::{Receive, Transmit};
use crate::receiver::{Checks, PortQueue, Receiver, ReceiverReport};
use crate::reports::mailbox;
use crate::sender::{Sender, SenderReport};
use crate::{Clock, Ledger};
use traffic::Source;

/// Number of reports of a worker in an interval.
const REPORTS: u64 = 10;

/// Common settings of the senders and receivers of a run.
#[derive(Debug)]
pub struct Session {
    clock: Clock,
    /// Time at which senders begin, in nanoseconds of the clock.
    start_ns: u64,
    interval_ns: u64,
    /// Number of streams.
    streams: usize,
    /// Number of lanes: one for each stamped stream of each sender.
    lanes: usize,
    ledger: Ledger,
}

/// Numbers of streams and senders of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes {
    /// Number of streams.
    pub streams: usize,
    /// Number of streams whose packets are stamped: the first ones.
    pub stamped: usize,
    /// Number of senders of each stream.
    pub senders: usize,
}

impl Lanes {
    /// Returns the lanes of one sender whose streams are all stamped.
    pub fn stamped(streams: usize) -> Self {
        Self { streams, stamped: streams, senders: 1 }
    }
}

impl Session {
    /// Creates the settings of a run that reports every `interval_ns` nanoseconds.
    pub fn new(clock: Clock, interval_ns: u64, lanes: Lanes) -> Self {
        let Lanes { streams, stamped, senders } = lanes;
        let ledger = Ledger::new(streams, stamped);
        Self { clock, start_ns: 0, interval_ns, streams, lanes: stamped * senders, ledger }
    }

    /// Sets the start time of senders made from now on, in nanoseconds of the clock.
    #[must_use]
    pub fn starting_at(mut self, start_ns: u64) -> Self {
        self.start_ns = start_ns;
        self
    }

    /// Makes a sender that sends the frames of `source` through `transmit`, a queue of port `port`.
    pub fn sender<S: Source, T: Transmit>(
        &mut self,
        source: S,
        port: usize,
        transmit: T,
    ) -> Sender<S, T> {
        let report_ns = self.interval_ns.div_ceil(REPORTS);
        let (outbox, inbox) = mailbox(report_ns, || SenderReport::new(self.streams));
        self.ledger.add_sender(port, inbox);
        Sender::new(source, transmit, self.start_ns, outbox, self.interval_ns)
    }

    /// Makes a receiver from `queues`. It verifies packets if there are `checks`.
    pub fn receiver<R: Receive>(
        &mut self,
        queues: Vec<PortQueue<R>>,
        checks: Option<Checks>,
    ) -> Receiver<R> {
        let report_ns = self.interval_ns.div_ceil(REPORTS);
        let lanes = self.lanes;
        let (outbox, inbox) = mailbox(report_ns, || ReceiverReport::new(queues.len(), lanes));
        self.ledger.add_receiver(queues.iter().map(|it| (it.port, it.queue)), inbox);
        Receiver::new(queues, self.clock, (outbox, self.interval_ns), (lanes, checks))
    }

    /// Returns the ledger that adds up the reports of the senders and receivers.
    pub fn into_ledger(self) -> Ledger {
        self.ledger
    }
}
