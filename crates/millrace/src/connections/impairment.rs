// SPDX-License-Identifier: BSD-3-Clause
//! Puts bad links between the tasks of a session and their ports, and collects their counters.

use generator::{BadLink, BadLinkCounters, BadRx, BadTx, Clock, PortRx, PortTx};
use std::sync::Arc;

/// Counters of the bad links of a session.
#[derive(Default)]
pub(super) struct BadLinks(Vec<Direction>);

struct Direction {
    port: usize,
    is_sent: bool,
    counters: Arc<BadLinkCounters>,
}

/// Count of impaired frames of a port in one direction.
pub(crate) struct ImpairedCount {
    /// Number of the port.
    pub(crate) port: usize,
    /// True for frames that the port sends.
    pub(crate) is_sent: bool,
    /// Impairment.
    pub(crate) name: &'static str,
    pub(crate) count: u64,
}

impl BadLinks {
    /// Puts a bad link before a pair of queues.
    pub(super) fn add(
        &mut self,
        port: usize,
        (tx, rx): (PortTx, PortRx),
        (link, seed): (BadLink, u64),
        clock: Clock,
    ) -> (BadTx<PortTx>, BadRx<PortRx>) {
        let seed = seed.wrapping_mul(4);
        let tx = BadTx::new(tx, link, seed, clock);
        let rx = BadRx::new(rx, link, seed ^ 2, clock);
        self.0.push(Direction { port, is_sent: true, counters: tx.counters() });
        self.0.push(Direction { port, is_sent: false, counters: rx.counters() });
        (tx, rx)
    }

    /// Returns the sums over the tasks of each port and direction.
    pub(super) fn counts(&self) -> Vec<ImpairedCount> {
        let mut sums: Vec<ImpairedCount> = Vec::new();
        for Direction { port, is_sent, counters } in &self.0 {
            for (name, count) in counters.named() {
                let is_same = |sum: &&mut ImpairedCount| {
                    (sum.port, sum.is_sent, sum.name) == (*port, *is_sent, name)
                };
                match sums.iter_mut().find(is_same) {
                    Some(sum) => sum.count += count,
                    None => {
                        sums.push(ImpairedCount { port: *port, is_sent: *is_sent, name, count });
                    }
                }
            }
        }
        sums
    }
}
