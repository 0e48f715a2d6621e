// SPDX-License-Identifier: BSD-3-Clause
//! Where a run's flow records go: to a file if one was asked for, and past the busiest.

use super::RecordWriter;
use crate::top::Top;
use engine::FlowRecord;
use std::io;

/// Takes every flow record of a run. The first error of writing is the last: what comes after it is
/// offered to the busiest flows only.
pub(crate) struct RecordSink {
    writer: Option<RecordWriter>,
    top: Top,
}

impl RecordSink {
    /// Writes to `writer`, if there is one, and offers to `top`.
    pub(crate) fn new(writer: Option<RecordWriter>, top: Top) -> Self {
        Self { writer, top }
    }

    /// Whether it does anything with records.
    pub(crate) fn wants_some(&self) -> bool {
        self.writer.is_some() || self.top.wants_some()
    }

    /// Takes one record.
    pub(crate) fn take(&mut self, record: &FlowRecord) -> io::Result<()> {
        self.top.offer(record);
        self.write(|writer| writer.write(record))
    }

    /// Writes out what is buffered, for those who read along.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.write(RecordWriter::flush)
    }

    fn write(&mut self, write: impl FnOnce(&mut RecordWriter) -> io::Result<()>) -> io::Result<()> {
        let written = self.writer.as_mut().map_or(Ok(()), write);
        if written.is_err() {
            self.writer = None;
        }
        written
    }

    /// Writes out what is buffered; the busiest flows are there whether or not that succeeds.
    pub(crate) fn finish(self) -> (Top, io::Result<()>) {
        (self.top, self.writer.map_or(Ok(()), RecordWriter::finish))
    }
}
