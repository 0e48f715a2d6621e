// SPDX-License-Identifier: BSD-3-Clause
//! Where files of connections are: one for each worker, in a folder of their own.
//!
//! A file takes the place of the one before when it is whole and on disk, and not before.

use super::{Header, Reader, Refusal, Writer};
use engine::SavedFlow;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A worker by its number in its pair, and the number of the pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) pair: u16,
    pub(crate) worker: u16,
}

/// The folder.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    folder: PathBuf,
}

/// A file that is to take the place of the one before.
pub(crate) struct Pending {
    writer: Writer<BufWriter<File>>,
    path: PathBuf,
    temporary: PathBuf,
}

impl Store {
    /// The folder, made if it is not there. What is in it says who talks with whom: it is ours.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        Ok(Self { folder: folder.to_owned() })
    }

    pub(crate) fn path(&self, Place { pair, worker }: Place) -> PathBuf {
        self.folder.join(format!("{pair}-{worker}.snapshot"))
    }

    /// Opens the file of a worker; `None` if there is none.
    pub(crate) fn read(&self, place: Place) -> Result<Option<Reader<BufReader<File>>>, Refusal> {
        match File::open(self.path(place)) {
            Ok(file) => Reader::open(buffered(file)).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Begins the next file of a worker.
    pub(crate) fn begin(&self, header: &Header) -> io::Result<Pending> {
        let path = self.path(header.place);
        let temporary = path.with_extension("tmp");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)?;
        let writer = Writer::new(BufWriter::with_capacity(1 << 18, file), header)?;
        Ok(Pending { writer, path, temporary })
    }
}

pub(super) fn buffered(file: File) -> BufReader<File> {
    BufReader::with_capacity(1 << 18, file)
}

impl Pending {
    pub(crate) fn flow(&mut self, flow: &SavedFlow) -> io::Result<()> {
        self.writer.flow(flow)
    }

    /// Puts the file in its place; returns its length.
    pub(crate) fn finish(self) -> io::Result<u64> {
        let (out, bytes) = self.writer.finish()?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&self.temporary, &self.path)?;
        let folder = self.path.parent().unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()?;
        Ok(bytes)
    }
}
