// SPDX-License-Identifier: BSD-3-Clause
//! Owns the description of a port's RSS, from which a worker computes which worker has a
//! connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::rss::RssSpread;

/// RSS configuration of a port, and the index of this worker in it.
#[derive(Clone, Debug)]
pub struct SteeringConfig {
    /// RSS of the port, whose queues have the numbers of its workers; all of them share it.
    pub spread: Arc<RssSpread>,
    /// Index of the worker that owns this engine.
    pub worker_index: u16,
    /// Set when RSS was found wrong; all workers of the port share it.
    pub mismatch: SteeringMismatch,
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
