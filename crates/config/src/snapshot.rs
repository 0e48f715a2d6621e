// SPDX-License-Identifier: BSD-3-Clause
//! Reads `[snapshot]`: where and how often connections are saved for the next run.

use super::Located;
use super::section::Section;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The section `[snapshot]`.
#[derive(Default)]
pub(crate) struct Snapshot {
    pub(crate) path: Option<Located<Folder>>,
    pub(crate) every_s: Option<Located<u32>>,
}

impl Snapshot {
    pub(super) fn read(section: Section) -> Self {
        let snapshot = Self {
            path: section.parsed("path", str::parse::<Folder>),
            every_s: section.integer("every_s", 0..=86_400),
        };
        section.end();
        snapshot
    }
}

/// The folder of snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Folder {
    /// No snapshots.
    Off,
    /// This folder.
    At(PathBuf),
}

/// Error: the text is not a value of `path`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a snapshot folder; write \"off\", or a path that contains a /")]
pub(crate) struct FolderWords(String);

impl FromStr for Folder {
    type Err = FolderWords;

    fn from_str(text: &str) -> Result<Self, FolderWords> {
        match text {
            "off" => Ok(Folder::Off),
            path if path.contains('/') => Ok(Folder::At(PathBuf::from(path))),
            _ => Err(FolderWords(text.to_owned())),
        }
    }
}

impl fmt::Display for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Folder::Off => f.write_str("off"),
            Folder::At(path) => path.display().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_read_as_they_are_shown() {
        for folder in [Folder::Off, Folder::At("/run/millrace/wire".into())] {
            assert_eq!(folder.to_string().parse(), Ok(folder));
        }
        for text in ["", "on", "snapshots"] {
            assert!(text.parse::<Folder>().is_err(), "{text}");
        }
    }
}
