// SPDX-License-Identifier: BSD-3-Clause
//! The file of the report. It is opened before the first run, so that nobody waits for a report
//! that cannot be written, and written after the last.

use crate::comparison::{Comparison, page};
use anyhow::Context;
use report::output::{Kind, Replaceable, tell};
use results::page::is_ours;
use std::io;
use std::path::{Path, PathBuf};

/// Where it goes if nobody says.
const USUAL: &str = "millrace-demo.html";

/// A file that is to be the report.
pub(super) struct ReportFile(Replaceable);

impl ReportFile {
    /// The one that was named, or the usual one if that can be had.
    pub(super) fn open(named: Option<&Path>) -> anyhow::Result<Option<Self>> {
        let path = named.unwrap_or(Path::new(USUAL));
        match (Replaceable::open(path, Kind::private("report"), is_ours), named) {
            (Ok(file), _) => Ok(Some(Self(file))),
            (Err(error), Some(_)) => Err(error),
            (Err(error), None) => {
                let note = "there will be no report; --report says where to write it";
                tell(io::stderr(), format_args!("millrace: {error:#}: {note}"));
                Ok(None)
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.0.path
    }

    /// Replaces the contents of the file by the report; returns its path.
    pub(super) fn write(self, comparison: &Comparison) -> anyhow::Result<PathBuf> {
        let page = page(comparison)?;
        let writing = format!("cannot write {}", self.path().display());
        self.0.write(page.as_bytes()).context(writing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reports_are_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.html");
        let reopen = || ReportFile::open(Some(&path)).map(|file| file.is_some());
        assert!(reopen().unwrap(), "a new one");
        assert!(!path.exists(), "without a report it goes");
        std::fs::write(&path, "").unwrap();
        assert!(reopen().unwrap(), "an empty one");
        assert!(path.exists(), "which was there before");
        std::fs::write(&path, "<!DOCTYPE html><html><head><title>mine</title>").unwrap();
        let refusal = reopen().unwrap_err().to_string();
        assert!(refusal.contains("no report of this program"), "{refusal}");
        assert!(std::fs::read_to_string(&path).unwrap().contains("mine"));
        let nowhere = folder.path().join("nowhere/report.html");
        let refusal = format!("{:#}", ReportFile::open(Some(&nowhere)).err().unwrap());
        assert!(refusal.contains("cannot create"), "{refusal}");
    }
}
