// SPDX-License-Identifier: BSD-3-Clause
//! Subscribing to the events of connections, and taking them.

use crate::api::FlowEvent;
use crate::engine::Engine;

impl Engine {
    /// Has the events of connections from now on, or none any more. Those that wait are dropped.
    pub fn subscribe(&mut self, listens: bool) {
        let events = &mut self.accounts.events;
        events.listens = listens;
        events.queue.clear();
        events.lost = 0;
    }

    /// The oldest event not yet taken.
    pub fn next_event(&mut self) -> Option<FlowEvent> {
        self.accounts.events.queue.pop_front()
    }

    /// Events not yet taken, lost ones included.
    pub fn waiting_events(&self) -> u64 {
        self.accounts.events.queue.len() as u64 + self.accounts.events.lost
    }

    /// Events that were lost since the last call, as the queue was full: they are later than those
    /// in it.
    pub fn lost_events(&mut self) -> u64 {
        std::mem::take(&mut self.accounts.events.lost)
    }
}
