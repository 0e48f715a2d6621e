// SPDX-License-Identifier: BSD-3-Clause
//! How a port spreads packets over workers (RSS), so that a worker can tell which of them has a
//! connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How the packets of a port are spread over workers, and who of them this one is.
#[derive(Clone, Debug)]
pub struct SteeringConfig {
    /// The same for all.
    pub spread: Arc<RssSpread>,
    /// The worker that has this engine.
    pub me: u16,
    /// The same for all.
    pub doubt: SteeringMismatch,
}

/// How a port spreads packets over its queues, both directions of a connection to one of them:
/// Toeplitz, with a key for which the order of source and destination makes no difference, or over
/// the smaller address and the smaller port first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RssSpread {
    /// Of the hash.
    pub key: Vec<u8>,
    /// The worker by the remainder of the hash. At least one.
    pub workers: Vec<u16>,
    /// What is hashed of IPv4, and of IPv6.
    pub hashed: [RssFields; 2],
}

/// What is hashed of the packets of an IP version; of the rest nothing, and it comes to the first
/// worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RssFields {
    /// Addresses and ports of TCP.
    pub tcp: bool,
    /// Those of UDP.
    pub udp: bool,
    /// Those of SCTP.
    pub sctp: bool,
    /// Addresses of all others.
    pub addresses: bool,
}

/// Whether any worker of a port has had a packet that was to come to another. They share it: who
/// misses a connection is not the one to which its packets come. There is no way back.
#[derive(Clone, Debug, Default)]
pub struct SteeringMismatch(Arc<AtomicBool>);

impl SteeringMismatch {
    pub(crate) fn report(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether there is any.
    pub(crate) fn is_there(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
