// SPDX-License-Identifier: BSD-3-Clause
//! The file of the report. It is opened before the first run, so that nobody waits for a report
//! that cannot be written, and written after the last.

use crate::comparison::{Comparison, is_ours, page};
use crate::output::tell;
use anyhow::{Context, bail};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Where it goes if nobody says.
const USUAL: &str = "millrace-demo.html";

/// A file that is to be the report.
pub(super) struct ReportFile {
    pub(super) path: PathBuf,
    file: File,
    /// Whether it was made for this, and nothing has come into it yet.
    is_new: bool,
}

/// A demo that fails leaves no empty file behind.
impl Drop for ReportFile {
    fn drop(&mut self) {
        if self.is_new {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl ReportFile {
    /// The one that was named, or the usual one if that can be had.
    pub(super) fn open(named: Option<&Path>) -> anyhow::Result<Option<Self>> {
        let path = named.unwrap_or(Path::new(USUAL));
        match (open(path), named) {
            (Ok((file, is_new)), _) => Ok(Some(Self { path: path.to_owned(), file, is_new })),
            (Err(error), Some(_)) => Err(error),
            (Err(error), None) => {
                let note = "there will be no report; --report says where to write it";
                tell(io::stderr(), format_args!("millrace: {error:#}: {note}"));
                Ok(None)
            }
        }
    }

    /// Writes the report in place of what was there; returns where.
    pub(super) fn write(mut self, comparison: &Comparison) -> anyhow::Result<PathBuf> {
        let page = page(comparison)?;
        let mut write = || {
            if self.file.metadata()?.is_file() {
                self.file.rewind()?;
                self.file.set_len(0)?;
            }
            self.file.write_all(page.as_bytes())
        };
        self.is_new = false;
        write().with_context(|| format!("cannot write {}", self.path.display()))?;
        Ok(self.path.clone())
    }
}

/// Refuses what is neither empty nor a report. Also says whether the file is a new one.
fn open(path: &Path) -> anyhow::Result<(File, bool)> {
    let name = path.display();
    let mut options = File::options();
    options.read(true).write(true);
    let (file, is_new) = match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            (options.create(true).truncate(false).open(path), false)
        }
        file => (file, true),
    };
    let file = file.with_context(|| format!("cannot write {name}"))?;
    let mut head = Vec::new();
    let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
    if is_file {
        let begin = (&file).take(4096).read_to_end(&mut head);
        begin.with_context(|| format!("cannot read {name}"))?;
    }
    if !head.is_empty() && !is_ours(&String::from_utf8_lossy(&head)) {
        bail!("{name} is there and no report of this program, so it is left as it is");
    }
    Ok((file, is_new))
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
        assert!(refusal.contains("cannot write"), "{refusal}");
    }
}
