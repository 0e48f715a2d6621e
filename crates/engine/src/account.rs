// SPDX-License-Identifier: BSD-3-Clause
//! Owns counters, the queues of flow records, events and logged packets, and the counts behind
//! connection limits.

mod events;
mod frames;
mod list_marks;
mod logs;

use crate::api::{Config, EndReason, FlowEvent, FlowRecord, Stats};
use crate::base::Nanos;
use crate::packet::Key;
use crate::policy::{DropPolicy, Limits};
use events::EventQueue;
use frames::FrameAccess;
pub(crate) use list_marks::{ListMarks, NamedRule};
use logs::LogQueue;
use std::collections::VecDeque;
use std::net::IpAddr;

/// Most flow records in the queue. `expire` and `flush` leave half of it to connections that end by
/// a packet, which cannot wait.
const RECORDS_MAX: usize = 4096;

/// Counters, flow records and events, and connections counted against limits.
pub(crate) struct Accounts {
    pub(crate) stats: Stats,
    pub(crate) records: VecDeque<FlowRecord>,
    pub(crate) events: EventQueue,
    pub(crate) logs: LogQueue,
    pub(crate) limits: Limits,
    /// Which packets are dropped rather than counted to their connection.
    pub(crate) drops: DropPolicy,
    /// Marks of access lists' rules, if the NIC may have such rules.
    pub(crate) list_marks: Option<Box<ListMarks>>,
    /// Counters of the rules for frames that are not IP.
    pub(crate) frames: FrameAccess,
    keeps_records: bool,
}

impl Accounts {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            stats: Stats::default(),
            records: VecDeque::with_capacity(RECORDS_MAX),
            events: EventQueue::new(),
            logs: LogQueue::new(),
            limits: Limits::new(config),
            drops: DropPolicy::new(config),
            list_marks: config
                .list_marks
                .as_ref()
                .zip(config.access.as_deref())
                .map(|(marks, lists)| Box::new(ListMarks::new(marks, lists))),
            frames: FrameAccess::new(config),
            keeps_records: config.records,
        }
    }

    /// Notes whether the lists found the rule that a mark names.
    pub(crate) fn note_check(&mut self, rule: u32, is_right: bool) {
        if let Some(marks) = &mut self.list_marks {
            marks.note_check(rule, is_right);
        }
    }

    /// Sets whether all marks of access lists' rules are compared with the lists.
    pub(crate) fn set_list_marks_checked(&mut self, are_checked: bool) {
        if let Some(marks) = &mut self.list_marks {
            marks.checks_all = are_checked;
        }
    }

    /// Counts a new connection, also against the limits of its originator.
    pub(crate) fn count_new<const W: usize>(&mut self, (key, swapped): (&Key<W>, u8), now: Nanos) {
        self.stats.created += 1;
        self.count_reopened((key, swapped), now);
    }

    /// Counts against limits a connection that begins in the place of another one. The end of the
    /// other one counts it as created.
    #[inline(always)]
    pub(crate) fn count_reopened<const W: usize>(
        &mut self,
        (key, swapped): (&Key<W>, u8),
        now: Nanos,
    ) {
        self.limits.count_new(key.zone(), || key.end(swapped), now);
    }

    /// Queues an event for subscribers.
    pub(crate) fn emit(&mut self, event: FlowEvent) {
        self.events.push(event);
    }

    /// True if events have a subscriber.
    pub(crate) fn has_subscribers(&self) -> bool {
        self.events.has_subscribers()
    }

    /// True if the queue has room for a connection whose end can wait.
    pub(crate) fn has_room(&self) -> bool {
        self.records.len() < RECORDS_MAX / 2
    }

    /// True if the flow record of a connection that ends is needed, for the queue or for an event.
    pub(crate) fn keeps_records(&self) -> bool {
        self.keeps_records || self.events.has_subscribers()
    }

    /// Counts the end of a connection of this zone that a host with this address began.
    pub(crate) fn count_end(&mut self, reason: EndReason, zone: u16, src: impl FnOnce() -> IpAddr) {
        self.limits.count_end(zone, src);
        self.stats.ended[reason as usize] += 1;
        // The packet that ended it by reuse began another connection in its place.
        self.stats.created += u64::from(reason == EndReason::Reuse);
    }

    /// Counts the end of a connection, queues its event and its flow record.
    pub(crate) fn end(&mut self, flow: FlowRecord) {
        self.count_end(flow.end_reason, flow.zone, || flow.src);
        self.events.push_end(&flow);
        if !self.keeps_records {
            return;
        }
        // If the caller takes no records between bursts, the oldest are lost and memory stays
        // bounded.
        if self.records.len() == RECORDS_MAX {
            self.records.pop_front();
            self.stats.records_lost += 1;
        }
        self.records.push_back(flow);
    }
}
