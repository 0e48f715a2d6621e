// SPDX-License-Identifier: BSD-3-Clause
//! Folders that are gone when a test is over.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder of one test, removed when dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes a folder inside `folder`, such as `env!("CARGO_TARGET_TMPDIR")`. Its name begins with
    /// `name`, and no other test has the same.
    pub fn new(folder: impl AsRef<Path>, name: &str) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("{name}-{}-{number}", std::process::id());
        let path = folder.as_ref().join(name);
        // Nobody else writes there, as snapshots ask for it, whatever the umask is.
        DirBuilder::new().recursive(true).mode(0o755).create(&path).expect("a new folder");
        Self(path)
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Returns the path of a file in the folder.
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a path in UTF-8").to_owned()
    }

    /// Writes a file into the folder and returns its path.
    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, contents).unwrap_or_else(|error| panic!("{path}: {error}"));
        path
    }

    /// Returns the text of a file in the folder; an empty text where there is no file.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A file of one test, removed when dropped.
#[derive(Debug)]
pub struct ScratchFile {
    _folder: Scratch,
    path: String,
}

impl ScratchFile {
    /// Writes a file of this name into a new folder inside `folder`.
    pub fn new(folder: impl AsRef<Path>, name: &str, contents: impl AsRef<[u8]>) -> Self {
        let folder = Scratch::new(folder, "file");
        let path = folder.write(name, contents);
        Self { _folder: folder, path }
    }

    /// Returns its path.
    pub fn path(&self) -> &str {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::{Scratch, ScratchFile};

    #[test]
    fn nothing_is_left_behind() {
        let outer = Scratch::new(std::env::temp_dir(), "testkit");
        let file = ScratchFile::new(outer.folder(), "a.txt", "text");
        let same = ScratchFile::new(outer.folder(), "a.txt", "other");
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "text");
        assert_eq!(std::fs::read_to_string(same.path()).unwrap(), "other");
        drop((file, same));
        assert_eq!(std::fs::read_dir(outer.folder()).unwrap().count(), 0);
        let folder = outer.folder().to_owned();
        drop(outer);
        assert!(!folder.exists());
    }
}
