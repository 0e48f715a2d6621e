// SPDX-License-Identifier: BSD-3-Clause
//! One packet meets one connection: counted, tracked, admitted, reopened, expired.
//!
//! Keeps the table and the NIC rules in step.

mod admit;
mod agreed_syn;
mod expire;
mod fast_path;
mod fragment;
mod marked;
mod misfits;
mod offload;
mod pending_syn;
mod records;
mod reopen;
mod restore;
mod resync;
mod step;
mod timeouts;
mod track;
mod walk;

use crate::api::{ChecksumCheck, Config, CtState, OffloadConfig, Side, TcpPickup, TcpWindowCheck};
use crate::base::{MemoryUse, Nanos};
use crate::offload::{EvalInterval, FlowRules, PendingEval};
use crate::packet::PacketMeta;
use crate::policy::{AdaptiveTimeouts, ZonePolicies, ZoneTags};
use crate::table::Table;
pub(crate) use fast_path::FastPathPacket;
pub(crate) use misfits::MISFIT_BYTES;
use misfits::OutOfSync;
pub(crate) use pending_syn::FORGOTTEN_BYTES;
use pending_syn::PendingSyns;
use std::sync::Arc;
pub(crate) use step::{Cause, Step};
pub(crate) use walk::SweepOutcome;

/// The trackers of both IP versions.
pub(crate) struct Trackers {
    pub(crate) v4: Tracker<2>,
    pub(crate) v6: Tracker<5>,
}

impl Trackers {
    pub(crate) fn new(config: &Config, zones: Arc<ZonePolicies>) -> Self {
        Self {
            v4: Tracker::new(config.capacity_ipv4, config, zones.clone(), 0),
            v6: Tracker::new(config.capacity_ipv6, config, zones, 1),
        }
    }

    /// Notes at which side and when the packets of the next calls arrived, and how many. Without a
    /// side there is but one.
    #[inline(always)]
    pub(crate) fn arrive(&mut self, side: Option<Side>, now: Nanos, packets: usize) {
        self.v4.arrive(side, now, packets);
        self.v6.arrive(side, now, packets);
    }
}

/// Tracks the connections of one IP version: their table, their NIC rules, and what decides about
/// them.
pub(crate) struct Tracker<const W: usize> {
    pub(crate) table: Table<W>,
    timeouts: AdaptiveTimeouts,
    /// Checksums are verified before a state changes.
    verifies: bool,
    /// Where the packets of this burst came, if there are two ports.
    side: Option<Side>,
    pending_syns: PendingSyns,
    misfits: OutOfSync,
    /// Rules of the NIC, if there may be any.
    rules: Option<Box<FlowRules>>,
    eval_interval: Option<EvalInterval>,
    /// What is to be looked at when the next one is: all that it takes is on its way meanwhile.
    pending_eval: Option<PendingEval>,
}

impl<const W: usize> Tracker<W> {
    /// The tracker that comes at this place among those of its engine.
    fn new(capacity: u32, config: &Config, zones: Arc<ZonePolicies>, place: u32) -> Self {
        let rules = config.offload.map(|offload| {
            let first_index = offload.first_index + place * offload.slots;
            let offload = OffloadConfig { first_index, ..offload };
            let size = capacity as usize;
            Box::new(FlowRules::new(size, (offload, ZoneTags::new(config)), config.huge_pages))
        });
        Self {
            table: Table::new(capacity, config),
            eval_interval: rules.as_ref().map(|rules| rules.eval_interval()),
            rules,
            pending_eval: None,
            timeouts: AdaptiveTimeouts::new(capacity, config, zones),
            verifies: config.checksums == ChecksumCheck::Verified,
            side: None,
            pending_syns: PendingSyns::new(),
            misfits: OutOfSync::new(),
        }
    }

    pub(crate) fn memory(&self) -> MemoryUse {
        let rules = self.rules.as_ref().map(|rules| rules.memory());
        [self.table.memory()].into_iter().chain(rules).sum()
    }

    /// Whether the sender of this packet can have sent this sequence number.
    pub(crate) fn has_sent(&self, record: u32, meta: PacketMeta, seq: u32) -> bool {
        self.table.hot[record as usize].has_sent(meta, seq)
    }

    /// Whether a packet of a flow is one of the responder.
    pub(crate) fn is_reply(&self, record: u32, meta: PacketMeta) -> bool {
        self.table.hot[record as usize].is_reply(meta)
    }

    /// What a packet, which was tracked, is to the flow in `record`.
    pub(crate) fn ct_state(&self, record: u32, meta: PacketMeta) -> CtState {
        self.table.hot[record as usize].state(meta)
    }

    /// Whether TCP of this zone is judged by its numbers.
    pub(crate) fn checks_window(&self, zone: u16) -> bool {
        self.timeouts.zones().of(zone).tcp == TcpWindowCheck::Judged
    }

    /// Whether checksums are verified before a state changes.
    pub(crate) fn verifies(&self) -> bool {
        self.verifies
    }

    /// The port by which the packets of this burst came, if there are two.
    pub(crate) fn side(&self) -> Option<Side> {
        self.side
    }

    /// Whether TCP of this zone may begin without a SYN.
    pub(crate) fn allows_pickup(&self, zone: u16) -> bool {
        self.timeouts.zones().of(zone).pick_up == TcpPickup::Loose
    }
}
