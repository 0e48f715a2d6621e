// SPDX-License-Identifier: BSD-3-Clause
//! No zone has more than its share of the rules: whoever fills one zone with busy flows takes
//! nothing from the others. Within a zone a busier flow takes the place of one that is less so.

use super::score::Score;
use crate::api::Side;
use crate::base::{HugeRegion, MemoryUse};

/// Zones there are.
const ZONES: usize = 1 << 16;

/// One zone, at one side.
#[derive(Clone, Copy)]
struct ZoneShare {
    /// Rules that the NIC is to have.
    live: u32,
    /// What the best that found no place was worth, since one last made room.
    missed: Score,
}

/// What all of them take.
pub(super) const BYTES: u64 = (ZONES * size_of::<[ZoneShare; 2]>()) as u64;

impl ZoneShare {
    const NONE: ZoneShare = ZoneShare { live: 0, missed: Score::ZERO };
}

/// The rules of one table, by zone.
pub(super) struct Zones {
    /// Rules of a zone, at each side.
    most: u32,
    /// `None`: every zone may have all.
    shares: Option<HugeRegion<[ZoneShare; 2]>>,
}

impl Zones {
    pub(super) fn new(most: Option<u32>, huge_pages: bool) -> Self {
        let shares = most.map(|_| HugeRegion::new(ZONES, [ZoneShare::NONE; 2], huge_pages));
        Self { most: most.unwrap_or(u32::MAX), shares }
    }

    pub(super) fn memory(&self) -> MemoryUse {
        self.shares.as_ref().map_or(MemoryUse::default(), HugeRegion::memory)
    }

    fn get(&self, side: Side, zone: u16) -> Option<&ZoneShare> {
        Some(&self.shares.as_ref()?[usize::from(zone)][side as usize])
    }

    fn share(&mut self, side: Side, zone: u16) -> Option<&mut ZoneShare> {
        let shares = self.shares.as_mut()?;
        Some(&mut shares[usize::from(zone)][side as usize])
    }

    /// There is one more rule of the zone.
    pub(super) fn add(&mut self, side: Side, zone: u16) {
        if let Some(share) = self.share(side, zone) {
            share.live += 1;
        }
    }

    /// There is one less.
    pub(super) fn remove(&mut self, side: Side, zone: u16) {
        if let Some(share) = self.share(side, zone) {
            share.live -= 1;
        }
    }

    /// Whether the zone has all the rules it may have.
    pub(super) fn is_full(&self, side: Side, zone: u16) -> bool {
        self.get(side, zone).is_some_and(|share| share.live >= self.most)
    }

    /// Somebody in a full zone is worth so much, and gets no rule.
    pub(super) fn miss(&mut self, side: Side, zone: u16, worth: Score) {
        if let Some(share) = self.share(side, zone) {
            share.missed = share.missed.max(worth);
        }
    }

    /// What the best that missed a place in a full zone is worth; nothing where there is room.
    pub(super) fn missed(&self, side: Side, zone: u16) -> Score {
        let share = self.get(side, zone).filter(|share| share.live >= self.most);
        share.map_or(Score::ZERO, |share| share.missed)
    }

    /// A rule of the zone makes room for whoever missed one.
    pub(super) fn make_room(&mut self, side: Side, zone: u16) {
        if let Some(share) = self.share(side, zone) {
            share.missed = Score::ZERO;
        }
    }
}
