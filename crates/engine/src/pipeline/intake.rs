// SPDX-License-Identifier: BSD-3-Clause
//! Turns frames into batches: parses, puts packets into zones, finds the connections of fragments.

use super::fragments::remove_later_fragments;
use super::handoff::hand_off_all_errors;
use super::verdicts::{CtStates, Verdicts};
use crate::api::Config;
use crate::base::SimdLevel;
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
    /// key get their verdict here.
    #[inline(never)]
    pub(super) fn parse<P: Packet>(
        &mut self,
        packets: &[P],
        first: usize,
        verdicts: &mut Verdicts<impl CtStates>,
    ) {
        let part =
            SubBurst { packets, first: first as u8, zone: self.zone_rules.from, simd: self.simd };
        let before = (self.batches.v4.len(), self.batches.v6.len());
        part.parse(&mut self.batches, &mut |position, reason| {
            verdicts.keyless(position as u8, reason);
        });
        self.zone_rules.apply(&mut self.batches, before);
        if self.batches.have_detached() {
            self.resolve_detached(verdicts);
        }
        let bytes: usize = packets.iter().map(P::frame_len).sum();
        verdicts.accounts.stats.bytes += bytes as u64;
    }

    /// Finds the connections of fragments, and hands off packets of other workers' connections.
    #[inline(never)]
    fn resolve_detached(&mut self, verdicts: &mut Verdicts<impl CtStates>) {
        hand_off_all_errors(&mut self.batches, verdicts);
        match &mut self.fragments {
            Some(fragments) => fragments.resolve(&mut self.batches, verdicts.now, verdicts),
            None => remove_later_fragments(&mut self.batches, verdicts),
        }
    }
}
