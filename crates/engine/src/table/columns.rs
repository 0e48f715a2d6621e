// SPDX-License-Identifier: BSD-3-Clause
//! Marks and labels of connections, each beside its record: no packet reads them.
//!
//! As long as nobody has written any, connections begin and end without a look at them.

use crate::api::{Config, CtMark};
use crate::base::{HugeRegion, LinkStore, MemoryUse, TimerLink};
use crate::conn::ConnCold;

/// Those of all records.
pub(crate) struct MarkColumns {
    pub(super) marks: HugeRegion<u32>,
    /// If anybody asked for some.
    pub(super) labels: Option<HugeRegion<u128>>,
    /// Some may be other than 0.
    pub(super) are_used: bool,
}

impl MarkColumns {
    /// For so many records.
    pub(crate) fn new(len: usize, config: &Config) -> Self {
        let huge = config.huge_pages;
        let labels = config.labels.then(|| HugeRegion::new(len, 0, huge));
        Self { marks: HugeRegion::new(len, 0, huge), labels, are_used: false }
    }

    /// A connection begins in a record.
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

/// The cold parts; the wheel's links run through them.
pub(crate) struct ColdColumn(pub(crate) HugeRegion<ConnCold>);

impl LinkStore for ColdColumn {
    #[inline(always)]
    fn link(&mut self, record: u32) -> &mut TimerLink {
        &mut self.0[record as usize].link
    }
}
