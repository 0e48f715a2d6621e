// SPDX-License-Identifier: BSD-3-Clause
//! Sets up DPDK for tests: without hugepages, with the software NIC if there is one, and with
//! cables of rings. Also makes streams from text.

use dpdk::{Eal, Mempool, Port, PortConfig, Queues, ring_cable};
use generator::{Checks, Clock, ForeignFrameHandler, PortQueue, PortRx, PortTx};
use testkit::port::{port_config, start_eal};
use traffic::{StampKey, Verifier};

/// DPDK, with the objects that tests of this crate need. DPDK starts only once in a process.
pub(crate) struct Bench {
    pub(crate) eal: Eal,
    pub(crate) mempool: Mempool,
    pub(crate) clock: Clock,
    cables: usize,
    pub(crate) ports: Vec<Port>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let eal = start_eal(64);
        let mempool = Mempool::new(&eal, "bench", 8191, 2048, None).unwrap();
        let clock = Clock::new(&eal);
        Self { eal, mempool, clock, cables: 0, ports: Vec::new() }
    }

    /// Takes the transmit queue of one end of a cable.
    pub(crate) fn tx(&self, end: &mut Queues) -> PortTx {
        PortTx::new(end.1.pop().unwrap(), self.mempool)
    }

    /// Closes the ports of all cables. Their queues must have been dropped.
    pub(crate) fn close_cables(&mut self) {
        self.ports.clear();
    }

    /// Makes a cable. Returns the queues at both ends.
    pub(crate) fn cable(&mut self) -> [Queues; 2] {
        self.cables += 1;
        let name = format!("c{}", self.cables);
        let (near, far) = ring_cable(&self.eal, &name, 1, 1024).unwrap();
        self.configure([near, far])
    }

    /// Configures two ports, to send on time if they can. Returns the queues of both.
    pub(crate) fn configure(&mut self, ports: [Port; 2]) -> [Queues; 2] {
        ports.map(|mut port| {
            let config = PortConfig {
                sends_on_time: port.info().can_send_on_time,
                ..port_config(1, 512, self.mempool)
            };
            let queues = port.configure(&config).unwrap();
            self.ports.push(port);
            queues
        })
    }
}

/// Takes the receive queue of one end of a cable. It receives up to `most` frames at once.
pub(crate) fn rx(end: &mut Queues, most: usize) -> Vec<PortQueue<PortRx>> {
    let rx = PortRx::new(end.0.pop().unwrap()).with_burst(most);
    vec![PortQueue { port: 0, queue: 0, rx, foreign_handler: ForeignFrameHandler::Ignores }]
}

/// Returns the checks that verify packets of a run with `seed`.
pub(crate) fn checks(seed: u64) -> Option<Checks> {
    Some(Checks { verifier: Verifier::new(seed, StampKey::new(seed)), window: 4096 })
}
