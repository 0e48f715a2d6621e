// SPDX-License-Identifier: BSD-3-Clause
//! Takes the flow records of a run: passes them to a file, if there is one, and to the busiest
//! flows.

use super::writer::WriterCommand;
use super::{Lines, Writer};
use crate::output::{Standstill, write_line};
use crate::top_flows::TopFlows;
use engine::FlowRecord;
use results::units::thousands;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Records that are handed to the writer together, unless a flush comes first.
const BLOCK: u64 = 128;
/// Time between two checks for room.
const NAP: Duration = Duration::from_millis(1);

/// Takes every flow record of a run.
pub struct RecordSink {
    file: Option<Block>,
    top: TopFlows,
    /// `replay` waits for its reader until this is set.
    interrupted: Option<Arc<AtomicBool>>,
}

/// The result of writing all records.
pub struct WrittenRecords {
    /// The busiest flows.
    pub top: TopFlows,
    /// Records that were not written.
    pub lost: u64,
    /// An error if records were lost.
    pub result: io::Result<()>,
}

/// Lines for the writer thread.
struct Block {
    writer: Writer,
    lines: Lines,
    records: u64,
    /// The previous block, if the queue had no room for it.
    waiting: Option<WriterCommand>,
    /// Records of all blocks.
    taken: u64,
    wants_reopen: bool,
    /// Measures progress of the writer at the end of a run; `None` before.
    hurry: Option<Standstill>,
}

impl RecordSink {
    /// Creates a sink that writes records to `writer`, if there is one, and offers them to `top`.
    pub fn new(writer: Option<Writer>, top: TopFlows) -> Self {
        Self { file: writer.map(Block::new), top, interrupted: None }
    }

    /// Makes [`take_in_time`](RecordSink::take_in_time) and `finish` wait for a reader until this
    /// flag is set.
    pub fn wait_until(&mut self, interrupted: Arc<AtomicBool>) {
        self.interrupted = Some(interrupted);
    }

    /// True if the sink uses records at all.
    pub fn is_wanted(&self) -> bool {
        self.file.is_some() || self.top.has_room()
    }

    /// True if the sink takes another record now. At the end of a run it also takes records once
    /// the writer made no progress for too long; those are lost.
    pub fn has_room(&mut self) -> bool {
        self.file.as_mut().is_none_or(Block::has_room)
    }

    /// Takes one record; there must be room.
    pub fn take(&mut self, record: &FlowRecord) {
        self.top.offer(record);
        if let Some(file) = &mut self.file {
            file.lines.append(record);
            file.records += 1;
            file.taken += 1;
        }
    }

    /// Waits for room and takes one record. Returns the first error of writing, after which the
    /// command ends.
    pub fn take_in_time(&mut self, record: &FlowRecord) -> io::Result<()> {
        while !self.has_room() {
            self.hurry_if_interrupted();
            std::thread::sleep(NAP);
        }
        self.take(record);
        let Some(Block { writer, .. }) = &self.file else { return Ok(()) };
        match writer.take_error() {
            Some(error) => Err(error),
            None if writer.is_over() => Err(io::ErrorKind::BrokenPipe.into()),
            None => Ok(()),
        }
    }

    /// Hands all buffered records to the writer, so that readers get them now.
    pub fn flush(&mut self) {
        if let Some(file) = &mut self.file {
            file.hand_over();
        }
    }

    /// Makes the writer open the file by its name again, since it may have been moved, and close
    /// the old one.
    pub fn reopen(&mut self) {
        if let Some(file) = &mut self.file {
            file.wants_reopen = true;
            file.hand_over();
        }
    }

    /// From now on gives up after the writer made no progress for too long.
    pub fn hurry(&mut self) {
        if let Some(file) = self.file.as_mut().filter(|file| file.hurry.is_none()) {
            file.hurry = Some(Standstill::new(file.writer.steps()));
        }
    }

    /// Ends the limit of [`hurry`](Self::hurry): one of several runs is over, and the next begins.
    pub fn take_time(&mut self) {
        if let Some(file) = &mut self.file {
            file.hurry = None;
        }
    }

    /// Writes all records; returns the result.
    pub fn finish(mut self) -> WrittenRecords {
        if self.interrupted.is_none() {
            self.hurry();
        }
        while !self.file.as_mut().is_none_or(Block::is_finished) {
            self.hurry_if_interrupted();
            std::thread::sleep(NAP);
        }
        let lost = self.file.as_ref().map_or(0, Block::lost);
        WrittenRecords { top: self.top, lost, result: self.file.map_or(Ok(()), Block::result) }
    }

    fn hurry_if_interrupted(&mut self) {
        let is_set = |flag: &Arc<AtomicBool>| flag.load(Ordering::Relaxed);
        if self.interrupted.as_ref().is_some_and(is_set) {
            self.hurry();
        }
    }
}

impl Block {
    fn new(writer: Writer) -> Self {
        let lines = Lines::new(writer.target.format());
        Self {
            writer,
            lines,
            records: 0,
            waiting: None,
            taken: 0,
            wants_reopen: false,
            hurry: None,
        }
    }

    fn has_room(&mut self) -> bool {
        self.records < BLOCK || self.hand_over() || self.is_given_up()
    }

    /// Hands all lines so far to the writer. False if the queue is full.
    fn hand_over(&mut self) -> bool {
        if self.waiting.is_none() && self.records > 0 {
            self.waiting = Some(WriterCommand::Write(self.take_lines(), self.records));
            self.records = 0;
        }
        self.waiting = self.waiting.take().and_then(|order| self.writer.send(order));
        if self.waiting.is_none() && self.wants_reopen {
            self.wants_reopen = self.writer.send(WriterCommand::Reopen).is_some();
        }
        self.waiting.is_none()
    }

    fn take_lines(&mut self) -> Vec<u8> {
        let format = self.writer.target.format();
        std::mem::replace(&mut self.lines, Lines::new(format)).into_bytes()
    }

    /// True if the writer made no progress for too long at the end of a run. Then drops the records
    /// that wait.
    fn is_given_up(&mut self) -> bool {
        let steps = self.writer.steps();
        let lasts = self.hurry.as_mut().map(|standstill| standstill.lasts(steps));
        let is_given_up = lasts.is_some_and(|lasts| lasts >= self.writer.patience());
        if is_given_up {
            self.take_lines();
            self.records = 0;
        }
        is_given_up
    }

    /// True if all records are written or given up. Records that the writer does not have by then
    /// are lost.
    fn is_finished(&mut self) -> bool {
        if self.hand_over() {
            self.writer.close();
        }
        self.writer.is_finished() || self.is_given_up()
    }

    /// Returns the number of records not written, without those after a reader closed its pipe.
    /// Call it after `is_finished` returned true.
    fn lost(&self) -> u64 {
        match self.writer.is_finished() || self.writer.is_over() {
            true => self.writer.lost(),
            false => self.taken.saturating_sub(self.writer.written()),
        }
    }

    /// Returns an error if records were lost. Call it after `is_finished` returned true.
    fn result(self) -> io::Result<()> {
        let (writer, lost) = (&self.writer, self.lost());
        if lost == 0 {
            return Ok(());
        }
        if writer.is_finished() || writer.is_over() {
            return Err(writer.take_error().unwrap_or_else(|| io::ErrorKind::Other.into()));
        }
        let (seconds, lost) = (writer.patience().as_secs(), thousands(lost));
        let message = format!("no progress for {seconds} s; records lost: {lost}");
        if writer.reports_losses {
            let target = &writer.target;
            write_line(
                io::stderr(),
                format_args!("millrace: cannot write flow records to {target}: {message}"),
            );
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, message))
    }
}
