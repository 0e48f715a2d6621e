// SPDX-License-Identifier: BSD-3-Clause
//! Marks and labels of connections, each beside its record: no packet reads them.
//!
//! As long as nobody has written any, connections begin and end without a look at them.

use super::FlowTable;
use crate::api::{Config, CtMark, EndReason, Filter, FlowRecord, MarkRule};
use crate::base::{HugeRegion, Memory};

/// Those of all records.
pub(super) struct Markings {
    marks: HugeRegion<u32>,
    /// If anybody asked for some.
    labels: Option<HugeRegion<u128>>,
    /// Some may be other than 0.
    are_used: bool,
}

impl Markings {
    /// For so many records.
    pub(crate) fn new(len: usize, config: &Config) -> Self {
        let huge = config.huge_pages;
        let labels = config.labels.then(|| HugeRegion::new(len, 0, huge));
        Self { marks: HugeRegion::new(len, 0, huge), labels, are_used: false }
    }

    /// A connection begins in a record.
    #[inline(always)]
    pub(super) fn begin(&mut self, record: u32) {
        if self.are_used {
            self.set(record, CtMark::default());
        }
    }

    #[inline(never)]
    fn set(&mut self, record: u32, CtMark { mark, label }: CtMark) {
        self.marks[record as usize] = mark;
        if let Some(labels) = &mut self.labels {
            labels[record as usize] = label;
        }
    }

    pub(super) fn memory(&self) -> Memory {
        let labels = self.labels.as_ref().map(HugeRegion::memory);
        [self.marks.memory()].into_iter().chain(labels).sum()
    }
}

impl<const W: usize> FlowTable<W> {
    /// What was written to the connection in a record.
    pub(crate) fn ct_mark(&self, record: u32) -> CtMark {
        let (Markings { marks, labels, are_used }, at) = (&self.markings, record as usize);
        if !are_used {
            return CtMark::default();
        }
        CtMark { mark: marks[at], label: labels.as_ref().map_or(0, |labels| labels[at]) }
    }

    /// Writes to it. Where labels are not kept, that is lost.
    pub(crate) fn set_ct_mark(&mut self, record: u32, ct_mark: CtMark) {
        self.markings.are_used = true;
        self.markings.set(record, ct_mark);
    }

    /// A connection has begun in a record: what rules have for it is written to it.
    #[inline(always)]
    pub(super) fn mark_new(&mut self, record: u32) {
        self.markings.begin(record);
        if !self.lifetimes.zones().mark_rules().is_empty() {
            self.mark_by_rules(record);
        }
    }

    #[inline(never)]
    fn mark_by_rules(&mut self, record: u32) {
        let mut ct_mark = CtMark::default();
        let (hot, _) = self.parts(record);
        for MarkRule { filter, change } in self.lifetimes.zones().mark_rules() {
            if filter.takes(hot) && filter.takes_mark(ct_mark) {
                ct_mark = change.written_to(ct_mark);
            }
        }
        if ct_mark != CtMark::default() {
            self.set_ct_mark(record, ct_mark);
        }
    }

    /// What would be left of the connection in a record.
    pub(crate) fn record(&self, record: u32, reason: EndReason) -> FlowRecord {
        let (hot, cold) = self.parts(record);
        FlowRecord { ct_mark: self.ct_mark(record), ..hot.record(cold, reason) }
    }

    /// Whether there is a connection in a record, and a filter means it.
    pub(crate) fn is_meant(&self, record: u32, filter: &Filter) -> bool {
        let (hot, _) = self.parts(record);
        !hot.is_free()
            && filter.takes(hot)
            && (!filter.asks_for_marks() || filter.takes_mark(self.ct_mark(record)))
    }
}
