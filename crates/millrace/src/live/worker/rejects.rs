// SPDX-License-Identifier: BSD-3-Clause
//! Answers packets that access lists reject, at a limited rate: with a TCP reset or an ICMP error.
//!
//! The answer takes the buffer of the rejected packet, and leaves through the port at which that
//! packet arrived. The packet itself was dropped and counted by the engine.

use dpdk::{BURST_MAX, Burst, Mbuf, TxQueue};
use engine::{Nanos, TokenBucket};
use report::summary::Rejects;
use wire::Packet;
use wire::reject::{ANSWER_MAX, answer};

/// Answers that are to be sent, and their limit.
pub(crate) struct Rejecter {
    answers: Burst,
    bucket: TokenBucket,
    bytes: Box<[u8; ANSWER_MAX]>,
    pub(crate) counts: Rejects,
}

impl Rejecter {
    pub(crate) fn new() -> Self {
        Self {
            answers: Burst::new(),
            bucket: TokenBucket::default(),
            bytes: Box::new([0; ANSWER_MAX]),
            counts: Rejects::default(),
        }
    }

    /// Replaces a rejected packet by its answer, or frees it. At most [`BURST_MAX`] may be added
    /// before they are [sent](Self::send).
    pub(crate) fn add(&mut self, mut mbuf: Mbuf, per_second: u32, now: Nanos) {
        debug_assert!(self.answers.len() < BURST_MAX);
        let Some(len) = answer(mbuf.head(), &mut self.bytes) else {
            self.counts.not_possible += 1;
            return;
        };
        if !self.bucket.take(per_second, now) {
            self.counts.suppressed += 1;
        } else if mbuf.write(&self.bytes[..len]).is_err() || self.answers.push(mbuf).is_err() {
            self.counts.not_possible += 1;
        }
    }

    /// Sends the answers through the port at which their packets arrived.
    pub(crate) fn send(&mut self, tx: Option<&mut TxQueue>) {
        if !self.answers.is_empty() {
            self.counts.sent += tx.map_or(0, |tx| tx.burst(&mut self.answers)) as u64;
            self.counts.suppressed += self.answers.free_all() as u64;
        }
    }
}
