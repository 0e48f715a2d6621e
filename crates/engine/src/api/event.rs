// SPDX-License-Identifier: BSD-3-Clause
//! Owns the events of connections: beginnings, changes of state, ends.
//!
//! Events are kept in a queue that is allocated at start, like that of flow records. Without a
//! subscriber nothing is queued. If a subscriber is too slow, new events are lost and counted; no
//! packet waits.

use super::flow_record::FlowRecord;

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The connection has begun.
    New,
    /// The connection has another state, mark or label.
    Update,
    /// The connection has ended.
    Destroy,
}

impl EventKind {
    /// Returns the name in the stream of events.
    pub const fn name(self) -> &'static str {
        match self {
            EventKind::New => "new",
            EventKind::Update => "update",
            EventKind::Destroy => "destroy",
        }
    }
}

/// One event of one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowEvent {
    /// Kind of the event.
    pub change: EventKind,
    /// Flow record of the ended connection, or the record it would have if it ended with this
    /// packet.
    pub record: FlowRecord,
}
