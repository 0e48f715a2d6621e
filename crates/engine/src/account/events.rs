// SPDX-License-Identifier: BSD-3-Clause
//! The queue of connection events.
//!
//! Memory is taken at start; nothing is put there while nobody subscribes. Where nobody takes
//! events fast enough, new ones are lost and counted: no packet waits.

use crate::api::{EventKind, FlowEvent, FlowRecord};
use std::collections::VecDeque;

/// Events that may wait to be taken.
const EVENTS_MAX: usize = 4096;

/// The queue.
pub(crate) struct EventQueue {
    pub(crate) listens: bool,
    pub(crate) queue: VecDeque<FlowEvent>,
    pub(crate) lost: u64,
}

impl EventQueue {
    pub(crate) fn new() -> Self {
        Self { listens: false, queue: VecDeque::with_capacity(EVENTS_MAX), lost: 0 }
    }

    /// Whether somebody listens.
    #[inline(always)]
    pub(crate) fn has_subscribers(&self) -> bool {
        self.listens
    }

    /// Whether one more would be lost.
    pub(crate) fn is_full(&self) -> bool {
        self.listens && self.queue.len() >= EVENTS_MAX
    }

    /// Somebody wants to know this, if anybody listens.
    #[cold]
    pub(crate) fn push(&mut self, event: FlowEvent) {
        match self.queue.len() < EVENTS_MAX {
            true => self.queue.push_back(event),
            false => self.lost += 1,
        }
    }

    /// A connection has ended.
    #[inline(always)]
    pub(crate) fn ended(&mut self, record: &FlowRecord) {
        if self.listens {
            let (record, change) = (record.clone(), EventKind::Destroy);
            self.push(FlowEvent { change, record, progress: None, is_assured: false });
        }
    }
}
