// SPDX-License-Identifier: BSD-3-Clause
//! Owns the connection marks and labels. They are in columns of their own, because no packet reads
//! them.
//!
//! Until a mark or label is written, connections begin and end without touching these columns.

use crate::api::{Config, CtMark};
use crate::base::{HugeRegion, LinkStore, MemoryUse, TimerLink};
use crate::conn::ConnCold;

/// Connection marks and labels of all records.
pub(crate) struct MarkColumns {
    pub(super) marks: HugeRegion<u32>,
    /// `None` if the configuration has no labels.
    pub(super) labels: Option<HugeRegion<u128>>,
    /// True once a mark or label was written. Before, all are 0.
    pub(super) are_used: bool,
}

impl MarkColumns {
    /// Allocates columns for `len` records.
    pub(crate) fn new(len: usize, config: &Config) -> Self {
        let huge = config.huge_pages;
        let labels = config.labels.then(|| HugeRegion::new(len, 0, huge));
        Self { marks: HugeRegion::new(len, 0, huge), labels, are_used: false }
    }

    /// Clears mark and label of a record in which a connection begins.
    #[inline(always)]
    pub(crate) fn begin(&mut self, record: u32) {
        if self.are_used {
            self.set(record, CtMark::default());
        }
    }

    #[inline(never)]
    pub(super) fn set(&mut self, record: u32, CtMark { mark, label }: CtMark) {
        self.marks[record as usize] = mark;
        if let Some(labels) = &mut self.labels {
            labels[record as usize] = label;
        }
    }

    pub(crate) fn memory(&self) -> MemoryUse {
        let labels = self.labels.as_ref().map(HugeRegion::memory);
        [self.marks.memory()].into_iter().chain(labels).sum()
    }
}

/// The cold parts of all records. The links of the timer wheel run through them.
pub(crate) struct ColdColumn(pub(crate) HugeRegion<ConnCold>);

impl LinkStore for ColdColumn {
    #[inline(always)]
    fn link(&mut self, record: u32) -> &mut TimerLink {
        &mut self.0[record as usize].link
    }
}
