// SPDX-License-Identifier: BSD-3-Clause
//! What happened: counters, queues of flow records and events, connections counted against limits.

mod events;

use crate::api::{Config, EndReason, FlowRecord, InvalidPackets, Malformed, OddFragments, Stats};
use crate::pipeline::Others;
use crate::policy::{Limits, Zones};
use events::Events;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

/// Flow records that may wait to be taken. `expire` and `flush` leave half of them to flows that
/// end by a packet, which cannot wait.
const RECORDS_MAX: usize = 4096;

/// What tracking produces: counters and flow records.
pub(crate) struct Books {
    pub(crate) stats: Stats,
    pub(crate) records: VecDeque<FlowRecord>,
    pub(crate) events: Events,
    pub(crate) limits: Limits,
    pub(crate) limits_bytes: usize,
    pub(crate) others: Others,
    pub(crate) zones: Arc<Zones>,
    pub(crate) malformed: Malformed,
    pub(crate) invalid: InvalidPackets,
    pub(crate) sees_all: bool,
    pub(crate) odd_fragments: OddFragments,
    keeps_records: bool,
}

impl Books {
    pub(crate) fn new(config: &Config, zones: Arc<Zones>) -> Self {
        Self {
            stats: Stats::default(),
            records: VecDeque::with_capacity(RECORDS_MAX),
            events: Events::new(),
            limits: Limits::new(config),
            limits_bytes: Limits::bytes(config),
            others: Others::new(config.steering.clone()),
            zones,
            malformed: config.malformed,
            invalid: config.invalid,
            sees_all: config.sees_all,
            odd_fragments: config.odd_fragments,
            keeps_records: config.records,
        }
    }

    /// What holds in zones from now on; returns what held before.
    pub(crate) fn set_zones(&mut self, zones: Arc<Zones>) -> Arc<Zones> {
        std::mem::replace(&mut self.zones, zones)
    }

    /// Whether a flow that can wait may end now.
    pub(crate) fn has_room(&self) -> bool {
        self.records.len() < RECORDS_MAX / 2
    }

    /// Whether anybody takes what is left of a flow.
    pub(crate) fn keeps(&self) -> bool {
        self.keeps_records || self.events.listens()
    }

    /// A flow of this zone has ended, which somebody at this address began.
    pub(crate) fn count_end(&mut self, reason: EndReason, zone: u16, src: impl FnOnce() -> IpAddr) {
        self.limits.ended(zone, src);
        self.stats.ended[reason as usize] += 1;
        // The packet that ended it by reuse began another flow in its place.
        self.stats.created += u64::from(reason == EndReason::Reuse);
    }

    pub(crate) fn end(&mut self, flow: FlowRecord) {
        self.count_end(flow.end_reason, flow.zone, || flow.src);
        self.events.ended(&flow);
        if !self.keeps_records {
            return;
        }
        // A caller that takes no record between bursts loses the oldest ones, not memory.
        if self.records.len() == RECORDS_MAX {
            self.records.pop_front();
            self.stats.records_lost += 1;
        }
        self.records.push_back(flow);
    }
}
