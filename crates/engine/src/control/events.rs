// SPDX-License-Identifier: BSD-3-Clause
//! Subscribes to connection events and to packets that access lists log, and takes them.

use crate::api::{AccessLog, FlowEvent};
use crate::engine::Engine;

impl Engine {
    /// Starts or stops the queueing of connection events. Drops the events in the queue.
    pub fn subscribe(&mut self, has_subscribers: bool) {
        let events = &mut self.accounts.events;
        events.has_subscribers = has_subscribers;
        events.queue.clear();
        events.lost = 0;
    }

    /// Starts or stops the queueing of packets that access lists log. Drops those in the queue.
    pub fn follow_logs(&mut self, has_followers: bool) {
        let logs = &mut self.accounts.logs;
        logs.has_followers = has_followers;
        logs.queue.clear();
        logs.suppressed = 0;
    }

    /// Takes the oldest logged packet.
    pub fn next_log(&mut self) -> Option<AccessLog> {
        self.accounts.logs.queue.pop_front()
    }

    /// Returns the number of packets that were not logged since the last call, because too many
    /// came at once.
    pub fn suppressed_logs(&mut self) -> u64 {
        std::mem::take(&mut self.accounts.logs.suppressed)
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
