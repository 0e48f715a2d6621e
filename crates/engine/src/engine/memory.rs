// SPDX-License-Identifier: BSD-3-Clause
//! Computes how much memory an engine takes.

use super::Engine;
use crate::api::{Config, ZONES};
use crate::base::MemoryUse;
use crate::policy::{SourceSketch, ZoneRate};
use crate::table::EMBRYONIC_BYTES;
use crate::tracker::{MISFIT_BYTES, PENDING_SYN_BYTES};

impl Config {
    /// Returns the bytes that an engine takes beside its tables: counts of zones and of sources.
    pub fn limits_bytes(&self) -> usize {
        let sources = self.source_max.map_or(0, |_| 2 * SourceSketch::counts(self));
        let of_zones = size_of::<u32>() + size_of::<ZoneRate>() + 2 * EMBRYONIC_BYTES;
        ZONES * of_zones + sources * size_of::<u32>() + 2 * (PENDING_SYN_BYTES + MISFIT_BYTES)
    }
}

impl Engine {
    /// Returns the bytes of memory taken at start: table, records, timers.
    pub fn memory_bytes(&self) -> usize {
        self.memory().bytes
    }

    /// Returns the memory taken at start, by where it lies.
    pub fn memory(&self) -> MemoryUse {
        let limits = MemoryUse { bytes: self.limits_bytes, ..MemoryUse::default() };
        let parts = [self.trackers.v4.memory(), self.trackers.v6.memory(), limits];
        parts.into_iter().chain([self.pipeline.memory()]).sum()
    }
}
