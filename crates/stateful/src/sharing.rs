// SPDX-License-Identifier: BSD-3-Clause
//! Says which of the workers of an end has a connection.

use crate::ends::Ends;
use crate::profile::is_ipv4;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use wire::proto;
use wire::rss::RssSpread;

/// How the workers of an end share its connections.
///
/// If it is known how the port spreads packets over its queues, a worker has the connections whose
/// packets arrive at its queue. Otherwise the workers have the ports of clients in turn.
#[derive(Clone, Debug)]
pub struct Sharing {
    /// Number of this worker.
    pub worker: u16,
    /// Number of workers, at least 1.
    pub workers: u16,
    /// The queue of each packet; queue `w` belongs to worker `w`. `None` if it is unknown.
    pub spread: Option<Arc<RssSpread>>,
}

impl Default for Sharing {
    /// Returns the only worker of an end.
    fn default() -> Self {
        Self { worker: 0, workers: 1, spread: None }
    }
}

impl Sharing {
    /// Returns the worker that has the connection between these ends, the client first.
    /// `first_port` is the first port of clients.
    pub(crate) fn owner(&self, ends: &Ends, first_port: u16) -> u16 {
        if self.workers == 1 {
            return self.worker;
        }
        let Some(spread) = &self.spread else {
            return ends.ports[0].wrapping_sub(first_port) % self.workers;
        };
        let proto = if ends.is_udp { proto::UDP } else { proto::TCP };
        spread.queue(proto, ends.addresses.map(address), ends.ports)
    }

    /// Returns number and count of the workers among which the ports of clients are shared: one if
    /// each worker picks tuples by their queue.
    pub(crate) fn of_ports(&self) -> (u16, u16) {
        match self.spread {
            Some(_) => (0, 1),
            None => (self.worker, self.workers),
        }
    }

    /// Returns the number of tuples of which one is this worker's, on average.
    pub(crate) fn tuples_each(&self) -> u16 {
        if self.spread.is_some() { self.workers } else { 1 }
    }
}

fn address(number: u128) -> IpAddr {
    match is_ipv4(number) {
        true => Ipv4Addr::from_bits(number as u32).into(),
        false => Ipv6Addr::from_bits(number).into(),
    }
}
