// SPDX-License-Identifier: BSD-3-Clause
//! Chooses the addresses and ports of new connections of a template, in turn, so that each is used
//! again as late as possible.

use std::ops::RangeInclusive;

/// The tuples of a template, of which a worker has a part.
#[derive(Clone, Debug)]
pub(crate) struct Tuples {
    clients: u32,
    servers: u32,
    first_port: u16,
    /// Source ports of this worker: each `step`th one.
    ports: u32,
    step: u16,
    /// Number of tuples that were taken.
    next: u64,
}

/// A choice of tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tuple {
    /// Places in their ranges.
    pub(crate) client: u32,
    pub(crate) server: u32,
    pub(crate) port: u16,
}

impl Tuples {
    /// Returns the tuples of worker `worker` of `workers`: those whose port belongs to it.
    pub(crate) fn new(
        [clients, servers]: [u32; 2],
        ports: &RangeInclusive<u16>,
        (worker, workers): (u16, u16),
    ) -> Self {
        let all = u32::from(ports.end() - ports.start()) + 1;
        let ports_of_worker = (all - u32::from(worker).min(all)).div_ceil(workers.into());
        let first_port = ports.start().saturating_add(worker);
        Self { clients, servers, first_port, ports: ports_of_worker, step: workers, next: 0 }
    }

    /// Returns the number of pairs of a client and a port; 0 if the worker has no port.
    pub(crate) fn pairs(&self) -> u64 {
        u64::from(self.clients) * u64::from(self.ports)
    }

    /// Takes the next tuple. Clients follow each other; when all have had a port, the next port
    /// follows. Servers follow each other, too, and each round begins with another one.
    pub(crate) fn take(&mut self) -> Tuple {
        let number = self.next;
        self.next += 1;
        let (round, pair) = (number / self.pairs(), number % self.pairs());
        let clients = u64::from(self.clients);
        let port = (pair / clients) as u16 * self.step + self.first_port;
        let server = (pair + round) % u64::from(self.servers);
        Tuple { client: (pair % clients) as u32, server: server as u32, port }
    }

    /// Returns how many tuples are taken before one with this client and port is.
    pub(crate) fn distance(&self, client: u32, port: u16) -> u64 {
        let number = u64::from((port - self.first_port) / self.step) * u64::from(self.clients);
        let pair = number + u64::from(client);
        let pairs = self.pairs();
        (pair + pairs - self.next % pairs) % pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_pair_is_used_once_before_any_is_used_again() {
        let mut tuples = Tuples::new([5, 3], &(1000..=1003), (0, 1));
        assert_eq!(tuples.pairs(), 20);
        let mut seen = HashSet::new();
        for round in 0..3 {
            for number in 0..20 {
                let tuple = tuples.take();
                assert!(seen.insert((tuple.client, tuple.server, tuple.port)), "{tuple:?}");
                assert!((1000..=1003).contains(&tuple.port) && tuple.client < 5);
                assert_eq!(tuples.distance(tuple.client, tuple.port), 19, "{round} {number}");
            }
        }
        assert_eq!(seen.len(), 60);
    }

    #[test]
    fn workers_share_the_ports() {
        let ports = |worker| {
            let mut tuples = Tuples::new([1, 1], &(1000..=1006), (worker, 3));
            (0..tuples.pairs()).map(|_| tuples.take().port).collect::<Vec<_>>()
        };
        assert_eq!(
            [ports(0), ports(1), ports(2)],
            [vec![1000, 1003, 1006], vec![1001, 1004], vec![1002, 1005]]
        );
        assert_eq!(Tuples::new([9, 1], &(7..=8), (5, 8)).pairs(), 0);
    }
}
