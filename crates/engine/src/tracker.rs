// SPDX-License-Identifier: BSD-3-Clause
//! Tracks connections: applies a packet to its connection, begins, reopens and expires connections.
//!
//! When a connection changes or ends, the tracker also updates its NIC rules.

mod access;
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

use crate::api::{
    ChecksumCheck, Config, CtState, NeighbourDiscovery, OffloadConfig, Side, TcpPickup,
    TcpWindowCheck, Tracking,
};
use crate::base::{MemoryUse, Nanos};
use crate::offload::{EvalInterval, FlowRules, MarkedInterval, PendingEval};
use crate::packet::{HeaderInfo, Key, PacketMeta, is_neighbour_discovery};
use crate::policy::{AdaptiveTimeouts, ZonePolicies, ZoneTags};
use crate::table::Table;
pub(crate) use fast_path::FastPathPacket;
pub(crate) use misfits::MISFIT_BYTES;
use misfits::OutOfSync;
pub(crate) use pending_syn::PENDING_SYN_BYTES;
use pending_syn::PendingSyns;
use std::sync::Arc;
pub(crate) use step::{Foreseen, ReopenCause, Step};
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

    /// Returns the NIC rules of both tables, to change them.
    pub(crate) fn each_rules_mut(&mut self) -> impl Iterator<Item = &mut FlowRules> {
        [self.v4.rules_mut(), self.v6.rules_mut()].into_iter().flatten()
    }

    /// Stores the side, the time and the number of packets of the burst that begins. `side` is
    /// `None` if the caller has only one port.
    #[inline(always)]
    pub(crate) fn arrive(&mut self, side: Option<Side>, now: Nanos, packets: usize) {
        self.v4.arrive(side, now, packets);
        self.v6.arrive(side, now, packets);
    }
}

/// Tracks the connections of one IP version. Owns their table, their NIC rules and their timeouts.
pub(crate) struct Tracker<const W: usize> {
    pub(crate) table: Table<W>,
    timeouts: AdaptiveTimeouts,
    /// Deepest tracking in any zone.
    deepest: Tracking,
    /// True if checksums are verified before a state changes.
    verifies: bool,
    /// True if no connection begins with neighbour discovery.
    exempts_discovery: bool,
    /// Side at which the packets of this burst arrived, if there are two.
    side: Option<Side>,
    pending_syns: PendingSyns,
    misfits: OutOfSync,
    /// NIC rules; `None` if offload is off.
    rules: Option<Box<FlowRules>>,
    /// When a direction is evaluated by its packets without a mark; `None` while none is.
    eval_interval: Option<EvalInterval>,
    /// When one is by its packets with a mark; `None` if offload is off. Marked packets can be
    /// counted also while others are not evaluated.
    marked_interval: Option<MarkedInterval>,
    /// The marked direction that is due for evaluation. It is evaluated when the next one is due,
    /// so that the memory that the evaluation reads can be prefetched.
    pending_eval: Option<PendingEval>,
}

impl<const W: usize> Tracker<W> {
    /// Creates a tracker; `place` is 0 for IPv4, 1 for IPv6.
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
            marked_interval: rules.as_ref().map(|rules| rules.eval_interval().of_marked()),
            rules,
            pending_eval: None,
            timeouts: AdaptiveTimeouts::new(capacity, config, zones),
            deepest: config.deepest,
            verifies: config.checksums == ChecksumCheck::Verified,
            exempts_discovery: config.neighbour_discovery == NeighbourDiscovery::Untracked,
            side: None,
            pending_syns: PendingSyns::new(),
            misfits: OutOfSync::new(),
        }
    }

    pub(crate) fn memory(&self) -> MemoryUse {
        let rules = self.rules.as_ref().map(|rules| rules.memory());
        [self.table.memory()].into_iter().chain(rules).sum()
    }

    /// True if the sender of a quoted packet can have sent this sequence number, or for SCTP this
    /// tag.
    pub(crate) fn has_sent(&self, record: u32, meta: PacketMeta, seq: u32) -> bool {
        self.table.hot[record as usize].has_sent(meta, seq)
    }

    /// True if the responder sent this packet of the connection in `record`.
    pub(crate) fn is_reply(&self, record: u32, meta: PacketMeta) -> bool {
        self.table.hot[record as usize].is_reply(meta)
    }

    /// Returns the connection state of a tracked packet of the connection in `record`.
    pub(crate) fn ct_state(&self, record: u32, meta: PacketMeta) -> CtState {
        self.table.hot[record as usize].ct_state(meta)
    }

    /// True if this zone has the window check for TCP, and the tag check for SCTP.
    pub(crate) fn checks_window(&self, zone: u16) -> bool {
        let is_strict = self.timeouts.zones().of(zone).tcp == TcpWindowCheck::Strict;
        is_strict && self.tracking(zone) == Tracking::Connections
    }

    /// Returns the depth of tracking in this zone.
    pub(crate) fn tracking(&self, zone: u16) -> Tracking {
        self.timeouts.zones().of(zone).tracking.min(self.deepest)
    }

    /// True if checksums are verified before a state changes.
    pub(crate) fn verifies(&self) -> bool {
        self.verifies
    }

    /// Returns the side at which the packets of this burst arrived, if there are two.
    pub(crate) fn side(&self) -> Option<Side> {
        self.side
    }

    /// True if a packet with this key begins no connection because it is neighbour discovery.
    #[inline(always)]
    pub(crate) fn exempts(&self, key: &Key<W>, info: &HeaderInfo) -> bool {
        let [kind, _] = info.icmp.to_be_bytes();
        self.exempts_discovery && is_neighbour_discovery(key.proto(), kind)
    }

    /// True if this zone picks up connections: TCP may begin without a SYN, SCTP without an INIT.
    pub(crate) fn allows_pickup(&self, zone: u16) -> bool {
        self.timeouts.zones().of(zone).pick_up == TcpPickup::Loose
    }
}
