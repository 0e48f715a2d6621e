// SPDX-License-Identifier: BSD-3-Clause
//! Opens and locks an output file before the work begins. Its contents stay until they are
//! replaced.

use super::Patient;
use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, fchown, flock};
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bytes from the start of a file by which its type is recognized.
const HEAD: u64 = 4096;

/// The type of file that an option writes.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Noun in refusals: a file is "not a NOUN of this program".
    pub(crate) noun: &'static str,
    /// Mode of a new file, before the umask.
    pub(crate) mode: u32,
}

impl Kind {
    /// A file that may name the ends of connections: readable by its owner only.
    pub const fn private(noun: &'static str) -> Self {
        Self { noun, mode: 0o600 }
    }

    /// A file of figures, or of traffic that this program generated.
    pub const fn public(noun: &'static str) -> Self {
        Self { noun, mode: 0o644 }
    }
}

/// A file that is open for one output of one program. Devices and pipes are not locked.
#[derive(Debug)]
pub struct LockedFile {
    path: PathBuf,
    /// The lock is held while this, or a clone of it, is open.
    file: File,
    /// True if the file was created for this output and is still empty.
    is_new: bool,
}

/// Removes a file that was created for this output and stayed empty.
impl Drop for LockedFile {
    fn drop(&mut self) {
        if self.is_new && is_at(&self.file, &self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl LockedFile {
    /// Opens or creates a file, and locks it. `is_ours` gets the first bytes of a file with
    /// contents.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened, if another program or output writes it, or if `is_ours`
    /// rejects its contents.
    pub fn open(path: &Path, kind: Kind, is_ours: impl Fn(&[u8]) -> bool) -> anyhow::Result<Self> {
        let name = path.display();
        let locked = loop {
            let (file, is_new) =
                open_or_create(path, kind.mode).with_context(|| format!("cannot create {name}"))?;
            let is_regular = is_regular(&file);
            if is_regular && !lock(&file) {
                bail!("{name}: another program or output writes to it: name another file");
            }
            // Before the lock was taken, another program may have removed or replaced the file.
            if !is_regular || is_at(&file, path) {
                break Self { path: path.to_owned(), file, is_new };
            }
        };
        let mut head = Vec::new();
        if is_regular(&locked.file) {
            let read = (&locked.file).take(HEAD).read_to_end(&mut head);
            read.with_context(|| format!("cannot read {name}"))?;
        }
        if !head.is_empty() && !is_ours(&head) {
            let noun = kind.noun;
            bail!(
                "{name} exists and is not a {noun} of this program, so it is not changed: name \
                 another file, or move this one away"
            );
        }
        Ok(locked)
    }

    /// Empties the file and returns it, to be written piece by piece.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn begin(&mut self) -> io::Result<File> {
        let mut file = self.file.try_clone()?;
        if is_regular(&file) {
            file.rewind()?;
            file.set_len(0)?;
        }
        self.is_new = false;
        Ok(file)
    }

    /// Replaces the contents of the file atomically: if that fails, the old contents stay. A device
    /// is written in place, and so is a file in a folder that takes no new file.
    ///
    /// # Errors
    ///
    /// Those of writing.
    pub(crate) fn replace(mut self, bytes: &[u8]) -> io::Result<()> {
        if is_regular(&self.file) && self.replace_by_new(bytes)? {
            self.is_new = false;
            return Ok(());
        }
        Patient::new(self.begin()?).write_all(bytes)
    }

    /// Writes a new file beside this one and renames it over this one. False if that is impossible
    /// here.
    fn replace_by_new(&self, bytes: &[u8]) -> io::Result<bool> {
        let old = self.file.metadata()?;
        // Resolved, so that a symbolic link stays.
        let target = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
        if old.nlink() > 1 {
            // A hard link must show the new contents too.
            return Ok(false);
        }
        let folder = folder.unwrap_or(Path::new("."));
        let mut new = match tempfile::Builder::new().prefix(".millrace-").tempfile_in(folder) {
            Err(error) if is_closed_to_new_files(&error) => return Ok(false),
            new => new?,
        };
        new.write_all(bytes)?;
        take_after(&old, new.as_file())?;
        new.as_file().sync_all()?;
        match new.persist(target) {
            Err(error) if is_closed_to_new_files(&error.error) => Ok(false),
            persisted => persisted.map(|_| true).map_err(|error| error.error),
        }
    }
}

/// Gives a file the owner and mode of the file that it replaces.
fn take_after(old: &Metadata, new: &File) -> io::Result<()> {
    let made = new.metadata()?;
    if (made.uid(), made.gid()) != (old.uid(), old.gid()) {
        let (owner, group) = (rustix::fs::Uid::from_raw(old.uid()), old.gid());
        // Only root can change the owner.
        let _ = fchown(new, Some(owner), Some(rustix::fs::Gid::from_raw(group)));
    }
    new.set_permissions(old.permissions())
}

/// True for errors of a folder, or of a file mounted over another. Writing in place may still
/// succeed then.
fn is_closed_to_new_files(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::ResourceBusy
            | ErrorKind::CrossesDevices
    )
}

fn open_or_create(path: &Path, mode: u32) -> io::Result<(File, bool)> {
    let mut options = File::options();
    options.read(true).write(true).mode(mode);
    match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Ok((options.create(true).truncate(false).open(path)?, false))
        }
        file => Ok((file?, true)),
    }
}

fn is_regular(file: &File) -> bool {
    file.metadata().is_ok_and(|found| found.is_file())
}

/// Locks a file. False if it is locked already; true on a file system without locks.
fn lock(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockExclusive) != Err(rustix::io::Errno::WOULDBLOCK)
}

/// True if the path names this file.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), path.metadata()) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const KIND: Kind = Kind::public("page");

    fn open(path: &Path) -> anyhow::Result<LockedFile> {
        LockedFile::open(path, KIND, |head| head.starts_with(b"<page>"))
    }

    #[test]
    fn one_output_at_a_time_writes_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page");
        let first = open(&path).unwrap();
        let refusal = format!("{:#}", open(&path).unwrap_err());
        assert!(refusal.contains("page: another program or output writes"), "{refusal}");
        assert!(path.exists(), "the first one still has it");
        first.replace(b"<page>1").unwrap();
        open(&path).unwrap().replace(b"<page>2").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"<page>2");
        for _ in 0..2 {
            open(Path::new("/dev/null")).unwrap().replace(b"<page>").unwrap();
        }
    }

    #[test]
    fn contents_stay_until_the_begin_and_new_files_go_without_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page");
        drop(open(&path).unwrap());
        assert!(!path.exists());
        fs::write(&path, "<page>old").unwrap();
        let mut file = open(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"<page>old");
        file.begin().unwrap().write_all(b"<page>").unwrap();
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"<page>");
    }

    #[test]
    fn a_file_is_replaced_under_each_of_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let [path, linked, soft] = ["page", "linked", "soft"].map(|name| folder.path().join(name));
        fs::write(&path, "<page>").unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o604)).unwrap();
        std::os::unix::fs::symlink("page", &soft).unwrap();
        open(&soft).unwrap().replace(b"<page>1").unwrap();
        assert!(soft.is_symlink() && fs::read(&path).unwrap() == b"<page>1");
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o604);
        fs::hard_link(&path, &linked).unwrap();
        open(&path).unwrap().replace(b"<page>2").unwrap();
        assert_eq!(fs::read(&linked).unwrap(), b"<page>2");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "nothing is left beside it");
    }

    #[test]
    fn a_device_that_is_full_is_an_error() {
        let full = open(Path::new("/dev/full")).unwrap().replace(b"<page>").unwrap_err();
        assert_eq!(full.kind(), ErrorKind::StorageFull);
    }
}
