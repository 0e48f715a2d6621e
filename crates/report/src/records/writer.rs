// SPDX-License-Identifier: BSD-3-Clause
//! Runs the thread that writes flow records, so that no other thread waits for a disk or a reader.
//!
//! The thread takes blocks of whole lines from a bounded queue. If it cannot write a block, it
//! counts the records as lost and tries the next block: a full disk may have room again. If a
//! reader closes its pipe, no more records are written, which is no failure.

use super::Target;
use super::file::{Existing, OpenError, RecordFile, is_named_pipe, is_regular};
use crate::output::write_line;
use results::units::thousands;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Capacity of the queue, in blocks.
const QUEUE: usize = 64;
/// Longest time without progress of a reader at the end of a run.
const READER_PATIENCE: Duration = Duration::from_secs(1);
/// Longest time without progress of a disk at the end of a run.
const DISK_PATIENCE: Duration = Duration::from_secs(30);

/// A command to the thread.
pub(super) enum WriterCommand {
    /// Writes lines; the number is that of their records.
    Write(Vec<u8>, u64),
    /// Opens or creates the file of this name, and closes the old one.
    Reopen,
}

/// A handle to the writer thread.
pub struct Writer {
    pub(super) target: Target,
    patience: Duration,
    /// True if the thread prints when records begin to be lost, and when that ends.
    pub(super) reports_losses: bool,
    commands: Option<SyncSender<WriterCommand>>,
    progress: Arc<Progress>,
    thread: JoinHandle<()>,
}

/// Counters and errors of the thread.
#[derive(Default)]
struct Progress {
    bytes: AtomicU64,
    /// Records written.
    written: AtomicU64,
    /// Records lost.
    lost: AtomicU64,
    /// True once the reader has closed its pipe.
    is_over: AtomicBool,
    error: Mutex<Option<io::Error>>,
}

/// The state of the thread itself.
struct Work {
    target: Target,
    /// `None` for a pipe that is not open yet.
    file: Option<RecordFile>,
    progress: Arc<Progress>,
    reports_losses: bool,
    /// Records lost since the last successful write; `None` if none.
    gap: Option<u64>,
}

impl Writer {
    /// Opens the target and starts the thread. A named pipe is opened by the thread, since that
    /// waits for the reader.
    pub fn open(
        target: &Target,
        existing: Existing,
        reports_losses: bool,
    ) -> Result<Self, OpenError> {
        let is_pipe = is_named_pipe(target);
        let file = (!is_pipe).then(|| RecordFile::open(target, existing)).transpose()?;
        let patience = if is_regular(target) { DISK_PATIENCE } else { READER_PATIENCE };
        let (progress, target) = (Arc::new(Progress::default()), target.clone());
        let (commands, taken) = sync_channel(QUEUE);
        let of_thread = Arc::clone(&progress);
        let work =
            Work { target: target.clone(), file, progress: of_thread, reports_losses, gap: None };
        let thread = std::thread::Builder::new().name("records".to_owned());
        let thread = thread.spawn(move || work.run(&taken))?;
        Ok(Self { target, patience, reports_losses, commands: Some(commands), progress, thread })
    }

    /// Queues a command; returns it if the queue is full.
    pub(super) fn send(&self, command: WriterCommand) -> Option<WriterCommand> {
        match self.commands.as_ref().map(|commands| commands.try_send(command)) {
            Some(Err(TrySendError::Full(command))) => Some(command),
            _ => None,
        }
    }

    /// Closes the queue: the thread ends after the last command.
    pub(super) fn close(&mut self) {
        self.commands = None;
    }

    pub(super) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Returns a number that grows with all progress of the thread.
    pub(super) fn steps(&self) -> u64 {
        self.progress.bytes.load(Ordering::Relaxed) + self.lost()
    }

    /// Returns the records that could not be written.
    pub(super) fn lost(&self) -> u64 {
        self.progress.lost.load(Ordering::Relaxed)
    }

    /// Returns the records that were written.
    pub(super) fn written(&self) -> u64 {
        self.progress.written.load(Ordering::Relaxed)
    }

    /// Returns the longest time without progress at the end of a run. A pipe may have replaced the
    /// file that was opened first.
    pub(super) fn patience(&self) -> Duration {
        if is_named_pipe(&self.target) { READER_PATIENCE } else { self.patience }
    }

    /// True if the reader has closed its pipe.
    pub(super) fn is_over(&self) -> bool {
        self.progress.is_over.load(Ordering::Relaxed)
    }

    /// Returns the first error since the last call.
    pub(super) fn take_error(&self) -> Option<io::Error> {
        self.progress.error().take()
    }
}

impl Progress {
    fn error(&self) -> MutexGuard<'_, Option<io::Error>> {
        // A panic ends the process, so a poisoned lock is harmless.
        self.error.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Work {
    fn run(mut self, commands: &Receiver<WriterCommand>) {
        // Opens a pipe for its reader and writes headings, even if there will be no records.
        self.write(&[], 0);
        for command in commands {
            match command {
                WriterCommand::Write(lines, records) => self.write(&lines, records),
                WriterCommand::Reopen => self.reopen(),
            }
        }
        if let Some(lost) = self.gap {
            let lost = thousands(lost);
            self.print(format_args!(
                "cannot write flow records to {} until the end; records lost: {lost}",
                self.target
            ));
        }
    }

    fn write(&mut self, lines: &[u8], records: u64) {
        if self.progress.is_over.load(Ordering::Relaxed) {
            return;
        }
        let mut written = 0;
        let progress = &self.progress;
        let wrote = |piece: &[u8]| {
            let feeds = piece.iter().filter(|byte| **byte == b'\n').count() as u64;
            written += feeds;
            progress.written.fetch_add(feeds, Ordering::Relaxed);
            progress.bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
        };
        match open(&mut self.file, &self.target).and_then(|file| file.write(lines, wrote)) {
            Ok(()) if lines.is_empty() => {}
            Ok(()) => self.end_gap(),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.progress.is_over.store(true, Ordering::Relaxed);
            }
            Err(error) => self.lose(records - written, error),
        }
    }

    fn lose(&mut self, records: u64, error: io::Error) {
        if self.gap.is_none() {
            let message = "forwarding continues, and records are lost until a write succeeds";
            self.print(format_args!(
                "cannot write flow records to {}: {error}; {message}",
                self.target
            ));
        }
        self.gap = Some(self.gap.unwrap_or(0) + records);
        self.progress.error().get_or_insert(error);
        self.progress.lost.fetch_add(records, Ordering::Relaxed);
    }

    fn end_gap(&mut self) {
        let Some(lost) = self.gap.take() else { return };
        let lost = thousands(lost);
        self.print(format_args!(
            "flow records are written to {} again; records lost meanwhile: {lost}",
            self.target
        ));
    }

    /// Opens the file by its name again; keeps the old one if that fails.
    fn reopen(&mut self) {
        if self.file.as_ref().is_some_and(|file| file.is_at(&self.target)) {
            return;
        }
        match RecordFile::open(&self.target, Existing::Keep) {
            Ok(file) => {
                self.file = Some(file);
                self.progress.is_over.store(false, Ordering::Relaxed);
                self.write(&[], 0);
            }
            Err(error) => self.print(format_args!(
                "cannot reopen {}: {error}; flow records still go to the file that was open",
                self.target
            )),
        }
    }

    fn print(&self, message: std::fmt::Arguments<'_>) {
        if self.reports_losses {
            write_line(io::stderr(), format_args!("millrace: {message}"));
        }
    }
}

/// Returns the file; opens it if it is not open yet.
fn open<'a>(file: &'a mut Option<RecordFile>, target: &Target) -> io::Result<&'a mut RecordFile> {
    let opened = match file.take() {
        Some(opened) => opened,
        None => RecordFile::open(target, Existing::Keep).map_err(|error| match error {
            OpenError::Io(error) => error,
            other => io::Error::other(other),
        })?,
    };
    Ok(file.insert(opened))
}
