// SPDX-License-Identifier: BSD-3-Clause
//! Owns the description of a port's RSS, from which a worker computes which worker has a
//! connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// RSS configuration of a port, and the index of this worker in it.
#[derive(Clone, Debug)]
pub struct SteeringConfig {
    /// RSS of the port; all of its workers share it.
    pub spread: Arc<RssSpread>,
    /// Index of the worker that owns this engine.
    pub worker_index: u16,
    /// Set when RSS was found wrong; all workers of the port share it.
    pub mismatch: SteeringMismatch,
}

/// Distribution of a port's packets over its queues. Both directions of a connection get one queue.
///
/// The hash is Toeplitz. Either the key makes the order of source and destination irrelevant, or
/// the smaller address and the smaller port are hashed first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RssSpread {
    /// Key of the Toeplitz hash.
    pub key: Vec<u8>,
    /// Worker for each remainder of the hash. At least one entry.
    pub workers: Vec<u16>,
    /// Hashed fields of IPv4, and of IPv6.
    pub hashed: [RssFields; 2],
}

/// Fields that are hashed for an IP version. A packet without any of them gets the first worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RssFields {
    /// Addresses and ports of TCP.
    pub tcp: bool,
    /// Addresses and ports of UDP.
    pub udp: bool,
    /// Addresses and ports of SCTP.
    pub sctp: bool,
    /// Addresses of all other packets.
    pub addresses: bool,
}

/// A flag that is set once any worker of a port receives a packet of another worker's connection.
///
/// All workers of the port share it: the worker that misses a connection is not the one that gets
/// its packets. It is never cleared.
#[derive(Clone, Debug, Default)]
pub struct SteeringMismatch(Arc<AtomicBool>);

impl SteeringMismatch {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// True if a worker has reported a mismatch.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
