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
}

impl ReportFile {
    /// The one that was named, or the usual one if that can be had.
    pub(super) fn open(named: Option<&Path>) -> anyhow::Result<Option<Self>> {
        let path = named.unwrap_or(Path::new(USUAL));
        match (open(path), named) {
            (Ok(file), _) => Ok(Some(Self { path: path.to_owned(), file })),
            (Err(error), Some(_)) => Err(error),
            (Err(error), None) => {
                let note = "there will be no report; --report says where to write it";
                tell(io::stderr(), format_args!("millrace: {error:#}: {note}"));
                Ok(None)
            }
        }
    }

    /// Writes the report in place of what was there.
    pub(super) fn write(mut self, comparison: &Comparison) -> anyhow::Result<()> {
        let page = page(comparison)?;
        let mut write = || {
            self.file.rewind()?;
            self.file.set_len(0)?;
            self.file.write_all(page.as_bytes())
        };
        write().with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// Refuses what is neither empty nor a report.
fn open(path: &Path) -> anyhow::Result<File> {
    let name = path.display();
    let mut options = File::options();
    let file = options.read(true).write(true).create(true).truncate(false).open(path);
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
    Ok(file)
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
        assert!(reopen().unwrap(), "an empty one");
        std::fs::write(&path, "<!DOCTYPE html><html><head><title>mine</title>").unwrap();
        let refusal = reopen().unwrap_err().to_string();
        assert!(refusal.contains("no report of this program"), "{refusal}");
        assert!(std::fs::read_to_string(&path).unwrap().contains("mine"));
        let nowhere = folder.path().join("nowhere/report.html");
        let refusal = format!("{:#}", ReportFile::open(Some(&nowhere)).err().unwrap());
        assert!(refusal.contains("cannot write"), "{refusal}");
    }
}
