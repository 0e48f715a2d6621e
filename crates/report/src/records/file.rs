// SPDX-License-Identifier: BSD-3-Clause
//! Writes flow records to a file, pipe or device, in whole lines only.
//!
//! A regular file is only appended to, by one program at a time.

use super::existing::{End, find_end};
use super::{Format, Target};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, Metadata};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};

/// Bytes that a pipe takes in one write as soon as it has any room.
const PIECE: usize = 4096;

/// What to do with records that a file has already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Keeps them; new records follow.
    Keep,
    /// Replaces them.
    Replace,
}

/// Why a file cannot be written to.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The system's error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file has other contents.
    #[error(
        "it is not a file of flow records in {0} as this version writes them, so it is not \
         changed: name another file, or move this one away"
    )]
    NotRecords(Format),
    /// Another program writes to it.
    #[error("another program writes flow records to it: name another file, or stop that program")]
    Locked,
}

/// An open target of flow records.
pub(super) struct RecordFile {
    file: File,
    is_regular: bool,
    /// Text to write before the next record. At the start the disk may be full, and may have room
    /// later.
    missing: String,
}

/// True for a named pipe. Opening it waits for a reader, which may take long.
pub(super) fn is_named_pipe(target: &Target) -> bool {
    let found = target.path().and_then(|path| path.metadata().ok());
    found.is_some_and(|found| found.file_type().is_fifo())
}

/// True for a regular file, which needs no reader.
pub(super) fn is_regular(target: &Target) -> bool {
    let stdout = || File::from(io::stdout().as_fd().try_clone_to_owned()?).metadata();
    let found = target.path().map_or_else(stdout, |path| path.metadata());
    found.is_ok_and(|found| found.is_file())
}

impl RecordFile {
    /// Opens or creates the target, and repairs its last line.
    pub(super) fn open(target: &Target, existing: Existing) -> Result<Self, OpenError> {
        let Some(path) = target.path() else {
            let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
            let is_regular = file.metadata()?.is_file();
            return Ok(Self { file, is_regular, missing: String::new() });
        };
        let mut options = File::options();
        // Mode 0600, since records name the ends of connections. A pipe is not opened for reading:
        // its reader would then never see its end.
        options.read(!is_named_pipe(target)).append(true).create(true).mode(0o600);
        let file = options.open(path)?;
        let is_regular = file.metadata()?.is_file();
        let missing = target.format().heading();
        let mut opened = Self { file, is_regular, missing };
        if is_regular {
            opened.prepare(target.format(), existing)?;
        }
        Ok(opened)
    }

    /// True if the file that has this name now is the open one.
    pub(super) fn is_at(&self, target: &Target) -> bool {
        let of = |found: Metadata| (found.dev(), found.ino());
        let there = target.path().map(|path| path.metadata().map(of).ok());
        there.is_none_or(|there| there == self.file.metadata().map(of).ok())
    }

    fn prepare(&mut self, format: Format, existing: Existing) -> Result<(), OpenError> {
        // On a file system without locks there is none to respect.
        let locked = flock(&self.file, FlockOperation::NonBlockingLockExclusive);
        if locked == Err(rustix::io::Errno::WOULDBLOCK) {
            return Err(OpenError::Locked);
        }
        let found = find_end(&self.file, format)?.ok_or(OpenError::NotRecords(format))?;
        let End { whole, lacks_line_feed } = match existing {
            Existing::Keep => found,
            Existing::Replace => End { whole: 0, lacks_line_feed: false },
        };
        if self.file.metadata()?.len() != whole {
            self.file.set_len(whole)?;
        }
        if whole > 0 {
            self.missing = if lacks_line_feed { "\n".to_owned() } else { String::new() };
        }
        Ok(())
    }

    /// Writes lines, and passes each piece that was written to `wrote`. After an error the file has
    /// no part of a line.
    pub(super) fn write(&mut self, lines: &[u8], wrote: impl FnMut(&[u8])) -> io::Result<()> {
        let missing = std::mem::take(&mut self.missing);
        if let Err(error) = self.put(missing.as_bytes(), |_| {}) {
            self.missing = missing;
            return Err(error);
        }
        self.put(lines, wrote)
    }

    fn put(&mut self, lines: &[u8], mut wrote: impl FnMut(&[u8])) -> io::Result<()> {
        let mut written = 0;
        while written < lines.len() {
            let rest = &lines[written..];
            let piece = if self.is_regular { rest } else { &rest[..rest.len().min(PIECE)] };
            match self.file.write(piece) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    wrote(&piece[..count]);
                    written += count;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Another process that shares our standard output may have made it non-blocking.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    poll(&mut [PollFd::new(&self.file, PollFlags::OUT)], None)?;
                }
                Err(error) => {
                    self.remove_cut_line(&lines[..written]);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Removes an incomplete line. If that fails, the next run repairs the file.
    fn remove_cut_line(&mut self, written: &[u8]) {
        let whole = written.iter().rposition(|byte| *byte == b'\n').map_or(0, |feed| feed + 1);
        let cut = (written.len() - whole) as u64;
        if !self.is_regular || cut == 0 {
            return;
        }
        if let Ok(found) = self.file.metadata() {
            let _ = self.file.set_len(found.len().saturating_sub(cut));
            // Standard output may not be open for appending.
            let _ = self.file.seek(SeekFrom::End(0));
        }
    }
}
