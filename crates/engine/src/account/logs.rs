// SPDX-License-Identifier: BSD-3-Clause
//! Owns the queue of packets that access lists log.
//!
//! The memory is allocated at start. Nothing is queued without a follower. Packets over the rate
//! limit, and those for which the queue has no room, are counted as suppressed; no packet waits.

use crate::api::AccessLog;
use crate::base::{Nanos, TokenBucket};
use std::collections::VecDeque;

/// Most records in the queue.
const LOGS_MAX: usize = 256;

/// Queue of logged packets.
pub(crate) struct LogQueue {
    pub(crate) has_followers: bool,
    pub(crate) queue: VecDeque<AccessLog>,
    /// Packets suppressed since the last time that the caller has asked.
    pub(crate) suppressed: u64,
    bucket: TokenBucket,
}

impl LogQueue {
    pub(super) fn new() -> Self {
        let (queue, bucket) = (VecDeque::with_capacity(LOGS_MAX), TokenBucket::default());
        Self { has_followers: false, queue, suppressed: 0, bucket }
    }

    /// Queues the record that `log` makes, if the rate allows another. True if it is queued.
    pub(crate) fn push(
        &mut self,
        (per_second, now): (u32, Nanos),
        log: impl FnOnce() -> AccessLog,
    ) -> bool {
        let is_queued = self.queue.len() < LOGS_MAX && self.bucket.take(per_second, now);
        match is_queued {
            true => self.queue.push_back(log()),
            false => self.suppressed += 1,
        }
        is_queued
    }
}
