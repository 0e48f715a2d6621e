// SPDX-License-Identifier: BSD-3-Clause
//! Owns the queue of connection events.
//!
//! The memory is allocated at start. Nothing is queued without a subscriber. If the caller takes
//! events too slowly, new ones are lost and counted; no packet waits.

use crate::api::{EventKind, FlowEvent, FlowRecord};
use std::collections::VecDeque;

/// Most events in the queue.
const EVENTS_MAX: usize = 4096;

/// Queue of connection events.
pub(crate) struct EventQueue {
    pub(crate) has_subscribers: bool,
    pub(crate) queue: VecDeque<FlowEvent>,
    pub(crate) lost: u64,
}

impl EventQueue {
    pub(crate) fn new() -> Self {
        Self { has_subscribers: false, queue: VecDeque::with_capacity(EVENTS_MAX), lost: 0 }
    }

    /// True if events have a subscriber.
    #[inline(always)]
    pub(crate) fn has_subscribers(&self) -> bool {
        self.has_subscribers
    }

    /// True if the next event would be lost.
    pub(crate) fn is_full(&self) -> bool {
        self.has_subscribers && self.queue.len() >= EVENTS_MAX
    }

    /// Queues an event, or counts it as lost if the queue is full.
    #[cold]
    pub(crate) fn push(&mut self, event: FlowEvent) {
        match self.queue.len() < EVENTS_MAX {
            true => self.queue.push_back(event),
            false => self.lost += 1,
        }
    }

    /// Queues the end of a connection, if there is a subscriber.
    #[inline(always)]
    pub(crate) fn push_end(&mut self, record: &FlowRecord) {
        if self.has_subscribers {
            let (record, change) = (record.clone(), EventKind::Destroy);
            self.push(FlowEvent { change, record });
        }
    }
}
