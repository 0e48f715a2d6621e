// SPDX-License-Identifier: BSD-3-Clause
//! A file that is written at the end of the work, as a whole. It is opened at the start, so that a
//! file that cannot be written is refused at once. It keeps its contents until the end.

use super::Patient;
use anyhow::{Context, bail};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A file that is to be written.
pub(crate) struct Replaceable {
    pub(crate) path: PathBuf,
    /// `None`: a pipe, whose reader need not be there before the end.
    file: Option<File>,
    /// Whether it was made for this, and nothing has come into it yet.
    is_new: bool,
}

/// Work that fails leaves no empty file behind.
impl Drop for Replaceable {
    fn drop(&mut self) {
        if self.is_new {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Replaceable {
    /// Opens or creates a file for a `what`. Refuses one that is neither empty nor, by its first
    /// bytes, one of ours. A new one is for its owner only: it may say who talks with whom.
    pub(crate) fn open(
        path: &Path,
        what: &str,
        is_ours: impl Fn(&str) -> bool,
    ) -> anyhow::Result<Self> {
        let name = path.display();
        if path.metadata().is_ok_and(|found| found.file_type().is_fifo()) {
            return Ok(Self { path: path.to_owned(), file: None, is_new: false });
        }
        let mut options = File::options();
        options.read(true).write(true).mode(0o600);
        let (file, is_new) = match options.clone().create_new(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                (options.create(true).truncate(false).open(path), false)
            }
            file => (file, true),
        };
        let file = file.with_context(|| format!("cannot create {name}"))?;
        let mut head = Vec::new();
        if file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            let begin = (&file).take(4096).read_to_end(&mut head);
            begin.with_context(|| format!("cannot read {name}"))?;
        }
        if !head.is_empty() && !is_ours(&String::from_utf8_lossy(&head)) {
            bail!(
                "{name} is there and no {what} of this program, so it is left as it is: name \
                 another file, or move this one away"
            );
        }
        Ok(Self { path: path.to_owned(), file: Some(file), is_new })
    }

    /// Replaces the contents of the file; returns its path.
    pub(crate) fn write(mut self, bytes: &[u8]) -> io::Result<PathBuf> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => open_pipe(&self.path)?,
        };
        if file.metadata()?.is_file() {
            file.rewind()?;
            file.set_len(0)?;
        }
        self.is_new = false;
        Patient::new(file).write_all(bytes)?;
        Ok(self.path.clone())
    }
}

/// Opens a pipe with a name as soon as somebody reads from it.
fn open_pipe(path: &Path) -> io::Result<File> {
    let begun = Instant::now();
    loop {
        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        match File::options().write(true).custom_flags(flags).open(path) {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
                if begun.elapsed() >= Patient::PATIENCE {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "nobody reads it"));
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
        let open = || Replaceable::open(&path, "page", |head| head.starts_with("<page>"));
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
        assert!(refusal.contains("page is there and no page of this program"), "{refusal}");
        let nowhere = Replaceable::open(&path.join("page"), "page", |_| true).err().unwrap();
        assert!(format!("{nowhere:#}").contains("cannot create"), "{nowhere:#}");
    }
}
