// SPDX-License-Identifier: BSD-3-Clause
//! Owns the folder of snapshots, with a file for each worker.
//!
//! A file replaces the previous one once it is whole and on disk. The store opens the folder once
//! and files by name in it, so that nobody can replace the folder. It refuses a folder or file that
//! belongs neither to the user nor to root, or that group or others may write to. It refuses links,
//! pipes and devices without waiting for them.

use super::{Header, Reader, Refusal, Writer};
use engine::ConnSnapshot;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, fsync, openat, renameat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Mode bits by which others than the owner may write. The group counts too, since its members are
/// unknown.
const OTHERS_WRITE: u32 = 0o022;
/// Flags so that `open` never waits, follows no link, and gets no controlling terminal.
const AT_ONCE: OFlags =
    OFlags::NONBLOCK.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

/// A worker, by the number of its pair and its own number in the pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the pair.
    pub pair: u16,
    /// Number of the worker in its pair.
    pub worker: u16,
}

/// The folder of snapshots.
#[derive(Clone, Debug)]
pub struct Store {
    path: PathBuf,
    folder: Arc<OwnedFd>,
}

/// A file that is to replace the previous one. It is removed if it is dropped before that.
pub struct TempFile {
    writer: Option<Writer<BufWriter<File>>>,
    folder: Arc<OwnedFd>,
    place: Place,
}

impl Place {
    fn name(self) -> String {
        format!("{}-{}.snapshot", self.pair, self.worker)
    }

    fn temporary(self) -> String {
        format!("{}-{}.tmp", self.pair, self.worker)
    }
}

impl Store {
    /// Opens the folder, and makes it if it is missing. Its mode is private, since connections name
    /// their ends.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty())?;
        refuse_others(&fstat(&folder)?, path)?;
        Ok(Self { path: path.to_owned(), folder: Arc::new(folder) })
    }

    /// Returns the path of a worker's file.
    pub fn path(&self, place: Place) -> PathBuf {
        self.path.join(place.name())
    }

    /// Opens the file of a worker; `None` if there is none.
    pub(crate) fn read(&self, place: Place) -> Result<Option<Reader<BufReader<File>>>, Refusal> {
        let file = match openat(&self.folder, place.name(), AT_ONCE, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::NXIO) => return Err(no_file().into()),
            Err(error) => return Err(Refusal::Io(error.into())),
        };
        let found = fstat(&file).map_err(io::Error::from)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(no_file().into());
        }
        refuse_others(&found, &self.path(place))?;
        let file = BufReader::with_capacity(1 << 18, File::from(file));
        Reader::open(file).map(Some)
    }

    /// Begins the next file of a worker.
    pub fn begin(&self, header: &Header) -> io::Result<TempFile> {
        let (place, folder) = (header.place, Arc::clone(&self.folder));
        // A killed run may have left one.
        match unlinkat(&folder, place.temporary(), AtFlags::empty()) {
            Err(error) if error != Errno::NOENT => return Err(error.into()),
            _ => {}
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | AT_ONCE;
        let file = openat(&folder, place.temporary(), flags, Mode::RUSR | Mode::WUSR)?;
        let mut pending = TempFile { writer: None, folder, place };
        let file = BufWriter::with_capacity(1 << 18, File::from(file));
        pending.writer = Some(Writer::new(file, header)?);
        Ok(pending)
    }
}

fn no_file() -> io::Error {
    io::Error::other("it is a link, pipe, device or folder instead of a file: remove it")
}

/// Fails if other users can write to `path`. The error names the command that corrects that.
fn refuse_others(found: &Stat, path: &Path) -> io::Result<()> {
    let (owner, mode, us) = (found.st_uid, found.st_mode & 0o7777, geteuid().as_raw());
    let (why, command) = if owner != us && owner != 0 {
        (format!("it belongs to user {owner}"), format!("chown {us}"))
    } else if mode & OTHERS_WRITE != 0 {
        (format!("other users can write to it (mode {mode:o})"), "chmod go-w".to_owned())
    } else {
        return Ok(());
    };
    let path = path.display();
    Err(io::Error::other(format!("{why}; if you trust its contents, run: {command} {path}")))
}

impl TempFile {
    pub fn flow(&mut self, flow: &ConnSnapshot) -> io::Result<()> {
        self.writer.as_mut().map_or(Ok(()), |writer| writer.flow(flow))
    }

    /// Replaces the previous file by this one; returns its length in bytes.
    pub fn finish(mut self) -> io::Result<u64> {
        let Some(writer) = self.writer.take() else { return Ok(0) };
        let (out, bytes) = writer.finish()?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        let (place, folder) = (self.place, &self.folder);
        renameat(folder, place.temporary(), folder, place.name())?;
        fsync(folder)?;
        Ok(bytes)
    }
}

/// After the rename, there is no file of this name.
impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = unlinkat(&self.folder, self.place.temporary(), AtFlags::empty());
    }
}
