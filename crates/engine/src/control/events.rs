// SPDX-License-Identifier: BSD-3-Clause
//! Subscribes to connection events, and takes them.

use crate::api::FlowEvent;
use crate::engine::Engine;

impl Engine {
    /// Starts or stops the queueing of connection events. Drops the events in the queue.
    pub fn subscribe(&mut self, has_subscribers: bool) {
        let events = &mut self.accounts.events;
        events.has_subscribers = has_subscribers;
        events.queue.clear();
        events.lost = 0;
    }

    /// Takes the oldest event.
    pub fn next_event(&mut self) -> Option<FlowEvent> {
        self.accounts.events.queue.pop_front()
    }

    /// Returns the number of events not yet taken, lost ones included.
    pub fn waiting_events(&self) -> u64 {
        self.accounts.events.queue.len() as u64 + self.accounts.events.lost
    }

    /// Returns the number of events lost since the last call, because the queue was full. They are
    /// later than those in it.
    pub fn lost_events(&mut self) -> u64 {
        std::mem::take(&mut self.accounts.events.lost)
    }
}
