// SPDX-License-Identifier: BSD-3-Clause
//! Owns each zone's share of the rules, so that busy connections of one zone take no rules from
//! others. Within a zone, a busier connection displaces one that is less busy.

use super::score::Score;
use crate::api::Side;
use crate::base::{HugeRegion, MemoryUse};

/// Number of zones.
const ZONES: usize = 1 << 16;

/// Rules of one zone at one side.
#[derive(Clone, Copy)]
struct ZoneShare {
    /// Live rules: those that the NIC has or is to have.
    live: u32,
    /// Best score that found no place, since a rule of the zone last made room.
    missed: Score,
}

/// Bytes that the shares of all zones take in one table.
pub(super) const BYTES: u64 = (ZONES * size_of::<[ZoneShare; 2]>()) as u64;

impl ZoneShare {
    const NONE: ZoneShare = ZoneShare { live: 0, missed: Score::ZERO };
}

/// The rules of one table, by zone.
pub(super) struct Zones {
    /// Most rules of a zone at each side.
    most: u32,
    /// `None`: zones have no limit.
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

    /// Counts one more rule of the zone.
    pub(super) fn add(&mut self, side: Side, zone: u16) {
        if let Some(share) = self.share(side, zone) {
            share.live += 1;
        }
    }

    /// Counts one rule less of the zone.
    pub(super) fn remove(&mut self, side: Side, zone: u16) {
        if let Some(share) = self.share(side, zone) {
            share.live -= 1;
        }
    }

    /// True if the zone has as many rules as it may have.
    pub(super) fn is_full(&self, side: Side, zone: u16) -> bool {
        self.get(side, zone).is_some_and(|share| share.live >= self.most)
    }

    /// Notes the score of a candidate that gets no rule, because its zone is full.
    pub(super) fn miss(&mut self, side: Side, zone: u16, score: Score) {
        if let Some(share) = self.share(side, zone) {
            share.missed = share.missed.max(score);
        }
    }

    /// Returns the best score that missed a place in a full zone; zero if the zone has room.
    pub(super) fn missed(&self, side: Side, zone: u16) -> Score {
        let share = self.get(side, zone).filter(|share| share.live >= self.most);
        share.map_or(Score::ZERO, |share| share.missed)
    }

    /// Forgets missed scores, because a rule of the zone makes room.
    pub(super) fn make_room(&mut self, side: Side, zone: u16) {
        if let Some(share) = self.share(side, zone) {
            share.missed = Score::ZERO;
        }
    }
}
