// SPDX-License-Identifier: BSD-3-Clause
//! Writes a file as a whole at the end of the work. It is opened at the start, so that a file that
//! cannot be written is refused at once. Its contents stay until the end.

use super::{Kind, LockedFile, Patient};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A file to be written at the end.
pub struct Replaceable {
    /// Its path, as given.
    pub path: PathBuf,
    /// `None` for a named pipe, whose reader may come as late as the end.
    file: Option<LockedFile>,
}

impl Replaceable {
    /// Opens or creates a file. Refuses a file with contents that `is_ours` does not accept, and
    /// one that another program writes.
    pub fn open(path: &Path, kind: Kind, is_ours: impl Fn(&str) -> bool) -> anyhow::Result<Self> {
        let is_pipe = path.metadata().is_ok_and(|found| found.file_type().is_fifo());
        let is_ours = |head: &[u8]| is_ours(&String::from_utf8_lossy(head));
        let file = (!is_pipe).then(|| LockedFile::open(path, kind, is_ours)).transpose()?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Replaces the contents of the file; returns its path. If that fails, a regular file keeps its
    /// old contents.
    pub fn write(self, bytes: &[u8]) -> io::Result<PathBuf> {
        match self.file {
            Some(file) => file.replace(bytes)?,
            None => Patient::new(open_pipe(&self.path)?).write_all(bytes)?,
        }
        Ok(self.path)
    }
}

/// Opens a named pipe; waits for a reader.
fn open_pipe(path: &Path) -> io::Result<File> {
    let begun = Instant::now();
    loop {
        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        match File::options().write(true).custom_flags(flags).open(path) {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
                if begun.elapsed() >= Patient::PATIENCE {
                    let words = "no program opened it for reading within 1 s";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, words));
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            file => return file,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn only_what_is_ours_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page");
        let kind = Kind::private("page");
        let open = || Replaceable::open(&path, kind, |head| head.starts_with("<page>"));
        drop(open().unwrap());
        assert!(!path.exists(), "work that fails leaves nothing new behind");
        open().unwrap().write(b"<page>one").unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        let two = open().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"<page>one", "until the end");
        two.write(b"<page>2").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"<page>2");
        for (text, is_taken) in [("", true), ("<html>", false), ("<page", false)] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(open().is_ok(), is_taken, "{text}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        let refusal = format!("{:#}", open().err().unwrap());
        assert!(refusal.contains("page exists and is not a page of this program"), "{refusal}");
        let nowhere = Replaceable::open(&path.join("page"), kind, |_| true).err().unwrap();
        assert!(format!("{nowhere:#}").contains("cannot create"), "{nowhere:#}");
    }
}
