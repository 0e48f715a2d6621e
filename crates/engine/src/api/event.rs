// SPDX-License-Identifier: BSD-3-Clause
//! What becomes of connections, one change after the other, for those who listen: beginnings,
//! states, ends.
//!
//! A queue as that of flow records, taken at start; nothing is put there while nobody listens.
//! Where nobody takes events fast enough, new ones are lost and counted: no packet waits.

use super::flow_record::FlowRecord;
use super::proto_state::ProtoState;

/// What became of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It has begun.
    New,
    /// It has come to another state, or has another mark or label.
    Update,
    /// It has ended.
    Destroy,
}

impl EventKind {
    /// The name in the stream of events.
    pub const fn name(self) -> &'static str {
        match self {
            EventKind::New => "new",
            EventKind::Update => "update",
            EventKind::Destroy => "destroy",
        }
    }
}

/// One change of one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowEvent {
    /// What became of it.
    pub change: EventKind,
    /// The record that it left, or would leave if the engine were flushed with the packet that
    /// changed it.
    pub record: FlowRecord,
    /// How far it has come; `None` of one that has ended.
    pub progress: Option<ProtoState>,
    /// Both ends have shown that they want it; of one that has ended this is not known.
    pub is_assured: bool,
}
