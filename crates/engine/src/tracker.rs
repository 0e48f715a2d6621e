// SPDX-License-Identifier: BSD-3-Clause
//! One packet meets one connection: counted, tracked, admitted, reopened, expired.
//!
//! Keeps the table and the NIC rules in step.

mod admit;
mod expire;
mod fast_path;
mod fragment;
mod marked;
mod offload;
mod pending_syn;
mod records;
mod reopen;
mod restore;
mod resync;
mod timeouts;
mod track;
mod walk;

use crate::api::{Checksums, Config, CtState, Offload, PickUp, Side, TcpNumbers};
use crate::base::{
    BURST_MAX, Columns, CuckooIndex, HugeRegion, KeyDomain, KeyedHasher, Memory, NO_RECORD,
    TimerWheel, derive,
};
use crate::conn::{Cold, Hot};
use crate::offload::Rules;
use crate::packet::Meta;
use crate::policy::{Lifetimes, Tagging, Zones};
use crate::table::{ColdParts, Embryonic, FlowTable, Markings};
pub(crate) use fast_path::Seen;
pub(crate) use pending_syn::{FORGOTTEN_BYTES, Forgotten};
pub(crate) use resync::{MISFIT_BYTES, OutOfSync};
use std::ops::Range;
use std::sync::Arc;
pub(crate) use walk::Fate;

impl<const W: usize> FlowTable<W> {
    /// The table that comes at this place among those of its engine.
    pub(crate) fn new(capacity: u32, config: &Config, zones: Arc<Zones>, place: u32) -> Self {
        let (len, huge) = (capacity as usize, config.huge_pages);
        let rules = config.offload.map(|offload| {
            let first_index = offload.first_index + place * offload.slots;
            let offload = Offload { first_index, ..offload };
            Box::new(Rules::new(len, (offload, Tagging::new(config)), huge))
        });
        Self {
            looks: rules.as_ref().map(|rules| rules.looks()),
            rules,
            waiting: None,
            index: CuckooIndex::new(capacity, huge),
            hot: HugeRegion::new(len, Hot::FREE, huge),
            cold: ColdParts(HugeRegion::new(len, Cold::FREE, huge)),
            markings: Markings::new(len, config),
            wheel: TimerWheel::new(),
            hasher: KeyedHasher::new(derive(config.secret, KeyDomain::Table(W as u64))),
            lifetimes: Lifetimes::new(capacity, config, zones),
            verifies: config.checksums == Checksums::Verified,
            side: None,
            embryonic: Embryonic::new(capacity, config),
            forgotten: Forgotten::new(),
            out_of_sync: OutOfSync::new(),
            live: 0,
            free: NO_RECORD,
            fresh: 0,
        }
    }

    pub(crate) fn memory(&self) -> Memory {
        let wheel = Memory { bytes: self.wheel.bytes(), ..Memory::default() };
        let rules = self.rules.as_ref().map_or(Memory::default(), |rules| rules.memory());
        let parts = [self.index.memory(), self.hot.memory(), self.cold.0.memory(), wheel, rules];
        parts.into_iter().chain([self.markings.memory()]).sum()
    }

    /// Hashes these keys of a burst and starts to load their buckets.
    #[inline(always)]
    pub(crate) fn prepare(
        &self,
        keys: &Columns<W>,
        range: Range<usize>,
        hashes: &mut [u64; BURST_MAX],
    ) {
        self.hasher.hash_burst(keys, range.clone(), hashes);
        for &hash in &hashes[range] {
            self.index.prefetch(hash);
        }
    }

    /// Whether the sender of this packet can have sent this sequence number.
    pub(crate) fn has_sent(&self, record: u32, meta: Meta, seq: u32) -> bool {
        self.hot[record as usize].has_sent(meta, seq)
    }

    /// Whether a packet of a flow is one of the responder.
    pub(crate) fn is_reply(&self, record: u32, meta: Meta) -> bool {
        self.hot[record as usize].is_reply(meta)
    }

    /// What a packet, which was tracked, is to the flow in `record`.
    pub(crate) fn state(&self, record: u32, meta: Meta) -> CtState {
        self.hot[record as usize].state(meta)
    }

    /// Whether TCP of this zone is judged by its numbers.
    pub(crate) fn judges(&self, zone: u16) -> bool {
        self.lifetimes.zones().of(zone).tcp == TcpNumbers::Judged
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
    pub(crate) fn picks_up(&self, zone: u16) -> bool {
        self.lifetimes.zones().of(zone).pick_up == PickUp::Loose
    }
}
