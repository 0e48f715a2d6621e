// SPDX-License-Identifier: BSD-3-Clause
//! Owns the data of a pass over the packets of one IP version.

use super::lookup::{Lookup, Lookups};
use crate::packet::{Batch, Batches};
use crate::tracker::{Tracker, Trackers};

/// The packets of one IP version in this burst, with their lookup and their tracker.
pub(super) struct Pass<'a, const W: usize> {
    pub(super) batch: &'a Batch<W>,
    pub(super) lookup: &'a mut Lookup,
    pub(super) tracker: &'a mut Tracker<W>,
}

/// The passes over both IP versions.
pub(super) struct Passes<'a> {
    pub(super) v4: Pass<'a, 2>,
    pub(super) v6: Pass<'a, 5>,
}

impl<'a> Passes<'a> {
    #[inline(always)]
    pub(super) fn new(
        batches: &'a Batches,
        lookups: &'a mut Lookups,
        trackers: &'a mut Trackers,
    ) -> Self {
        Self {
            v4: Pass { batch: &batches.v4, lookup: &mut lookups.v4, tracker: &mut trackers.v4 },
            v6: Pass { batch: &batches.v6, lookup: &mut lookups.v6, tracker: &mut trackers.v6 },
        }
    }

    /// True if a table that the burst needs has so little room left that the order of packets
    /// matters.
    #[inline(always)]
    pub(super) fn are_near_a_limit(&self) -> bool {
        self.v4.batch.len() > 0 && self.v4.tracker.table.is_near_full()
            || self.v6.batch.len() > 0 && self.v6.tracker.table.is_near_full()
    }
}
