// SPDX-License-Identifier: BSD-3-Clause
//! Turns frames into batches: parses, puts packets into zones, finds the connections of fragments.

use super::ethernet;
use super::fragments::remove_later_fragments;
use super::handoff::hand_off_all_errors;
use super::marked::BurstMask;
use super::verdicts::{CtStates, Verdicts};
use crate::api::Config;
use crate::base::{BURST_MAX, SimdLevel};
use crate::fragments::FragmentStore;
use crate::packet::Batches;
use crate::packet::parse::SubBurst;
use crate::policy::ZoneClassifier;
use wire::Packet;

/// Parser, zone rules and fragments: the steps before any lookup.
pub(super) struct Intake {
    pub(super) batches: Box<Batches>,
    pub(super) fragments: Option<Box<FragmentStore>>,
    pub(super) zone_rules: ZoneClassifier,
    pub(super) simd: SimdLevel,
}

impl Intake {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            batches: Batches::new(),
            fragments: FragmentStore::new(config),
            zone_rules: ZoneClassifier::new(config),
            simd: SimdLevel::detect(),
        }
    }

    /// Sorts packets into batches; the first has position `first` in the burst. Packets without a
    /// key get their verdict here. Those in the set `counted` have got it before, and are not
    /// counted again.
    #[inline(never)]
    pub(super) fn parse<P: Packet>(
        &mut self,
        packets: &[P],
        (first, counted): (usize, BurstMask),
        verdicts: &mut Verdicts<impl CtStates>,
    ) {
        let part =
            SubBurst { packets, first: first as u8, zone: self.zone_rules.from, simd: self.simd };
        let before = (self.batches.v4.len(), self.batches.v6.len());
        part.parse(&mut self.batches, &mut |position, reason| {
            if counted >> (position % BURST_MAX) & 1 == 0 {
                let frame = packets.get(position - first);
                ethernet::decide(frame, part.zone, (position as u8, reason), verdicts);
            }
        });
        self.zone_rules.apply(&mut self.batches, before);
        let bytes: usize = match counted >> (first % BURST_MAX) {
            0 => packets.iter().map(P::frame_len).sum(),
            counted => {
                let is_new = |(i, packet): (usize, &P)| match counted >> i & 1 {
                    0 => packet.frame_len(),
                    _ => 0,
                };
                packets.iter().enumerate().map(is_new).sum()
            }
        };
        verdicts.accounts.stats.bytes += bytes as u64;
    }

    /// Finds the connections of fragments, and hands off packets of other workers' connections.
    #[inline(never)]
    pub(super) fn resolve_detached(&mut self, verdicts: &mut Verdicts<impl CtStates>) {
        hand_off_all_errors(&mut self.batches, verdicts);
        match &mut self.fragments {
            Some(fragments) => fragments.resolve(&mut self.batches, verdicts.now, verdicts),
            None => remove_later_fragments(&mut self.batches, verdicts),
        }
    }
}
