// SPDX-License-Identifier: BSD-3-Clause
//! Where a run's flow records go: to a file if one was asked for, and past the busiest.

use super::RecordWriter;
use crate::top::Top;
use engine::FlowRecord;
use std::io;

/// Takes every flow record of a run.
pub(crate) struct RecordSink {
    writer: Option<RecordWriter>,
    top: Top,
}

impl RecordSink {
    /// Writes to `writer`, if there is one, and offers to `top`.
    pub(crate) fn new(writer: Option<RecordWriter>, top: Top) -> Self {
        Self { writer, top }
    }

    /// Takes one record.
    pub(crate) fn take(&mut self, record: &FlowRecord) -> io::Result<()> {
        self.top.offer(record);
        match &mut self.writer {
            Some(writer) => writer.write(record),
            None => Ok(()),
        }
    }

    /// Writes out what is buffered, for those who read along.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.writer.as_mut().map_or(Ok(()), RecordWriter::flush)
    }

    /// Writes out what is buffered and returns the busiest flows.
    pub(crate) fn finish(self) -> io::Result<Top> {
        if let Some(writer) = self.writer {
            writer.finish()?;
        }
        Ok(self.top)
    }
}
