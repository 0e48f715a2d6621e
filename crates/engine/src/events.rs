// SPDX-License-Identifier: BSD-3-Clause
//! What becomes of connections, one change after the other, for those who listen: beginnings,
//! states, ends.
//!
//! A queue as that of flow records, taken at start; nothing is put there while nobody listens.
//! Where nobody takes events fast enough, new ones are lost and counted: no packet waits.

use crate::Engine;
use crate::burst::Outcome;
use crate::flow::Phase;
use crate::key::Key;
use crate::progress::Progress;
use crate::record::{EndReason, FlowRecord};
use crate::table::FlowTable;
use std::collections::VecDeque;

/// Events that may wait to be taken.
const EVENTS_MAX: usize = 4096;

/// What became of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It has begun.
    New,
    /// It has come to another state, or has another mark or label.
    Update,
    /// It has ended.
    Destroy,
}

impl Change {
    /// The name in the stream of events.
    pub const fn name(self) -> &'static str {
        match self {
            Change::New => "new",
            Change::Update => "update",
            Change::Destroy => "destroy",
        }
    }
}

/// One change of one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowEvent {
    /// What became of it.
    pub change: Change,
    /// The record that it left, or would leave if the engine were flushed with the packet that
    /// changed it.
    pub record: FlowRecord,
    /// How far it has come; `None` of one that has ended.
    pub progress: Option<Progress>,
    /// Both ends have shown that they want it; of one that has ended this is not known.
    pub is_assured: bool,
}

/// The queue.
pub(crate) struct Events {
    listens: bool,
    queue: VecDeque<FlowEvent>,
    lost: u64,
}

impl Events {
    pub(crate) fn new() -> Self {
        Self { listens: false, queue: VecDeque::with_capacity(EVENTS_MAX), lost: 0 }
    }

    /// Whether somebody listens.
    #[inline(always)]
    pub(crate) fn listens(&self) -> bool {
        self.listens
    }

    /// Whether one more would be lost.
    pub(crate) fn are_behind(&self) -> bool {
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
            let (record, change) = (record.clone(), Change::Destroy);
            self.push(FlowEvent { change, record, progress: None, is_assured: false });
        }
    }
}

impl Engine {
    /// Has the events of connections from now on, or none any more. Those that wait are dropped.
    pub fn listen(&mut self, listens: bool) {
        let events = &mut self.books.events;
        events.listens = listens;
        events.queue.clear();
        events.lost = 0;
    }

    /// The oldest event not yet taken.
    pub fn next_event(&mut self) -> Option<FlowEvent> {
        self.books.events.queue.pop_front()
    }

    /// Events not yet taken, lost ones included.
    pub fn waiting_events(&self) -> u64 {
        self.books.events.queue.len() as u64 + self.books.events.lost
    }

    /// Events that were lost since the last call, as the queue was full: they are later than those
    /// in it.
    pub fn lost_events(&mut self) -> u64 {
        std::mem::take(&mut self.books.events.lost)
    }
}

impl<const W: usize> FlowTable<W> {
    /// Tells those who listen that a flow has begun.
    #[inline(always)]
    pub(crate) fn tell_new(&self, hash: u64, key: &Key<W>, outcome: &mut impl Outcome) {
        if !outcome.listens() {
            return;
        }
        if let Some(record) = self.find(hash, key) {
            outcome.changed(self.event(record, Change::New));
        }
    }

    /// Those who listen learn what has become of the flow in `record`, if that is new to them.
    #[inline(never)]
    pub(crate) fn tell_change(
        &self,
        record: u32,
        (before, is_new): (Option<Phase>, bool),
        outcome: &mut impl Outcome,
    ) {
        let progress = self.parts(record).0.phase().progress();
        if is_new {
            outcome.changed(self.event(record, Change::New));
        } else if before.is_some_and(|before| before.progress() != progress) {
            outcome.changed(self.event(record, Change::Update));
        }
    }

    /// What became of the flow in a record.
    pub(crate) fn event(&self, record: u32, change: Change) -> FlowEvent {
        let (hot, _) = self.parts(record);
        FlowEvent {
            change,
            record: self.record(record, EndReason::Exit),
            progress: hot.phase().progress(),
            is_assured: !hot.is_embryonic(),
        }
    }
}
