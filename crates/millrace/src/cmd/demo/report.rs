// SPDX-License-Identifier: BSD-3-Clause
//! Writes what a demonstration has measured. The file of the report is opened before the first run,
//! so that one that cannot be written is refused at once.

use anyhow::Context;
use report::output::{Kind, Outputs, Replaceable, write_line};
use results::page::is_ours;
use results::plot::NotDrawn;
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};

/// Path of the report without `--report`.
const USUAL: &str = "millrace-demo.html";

/// The open file of the report.
pub(super) struct ReportFile(Replaceable);

impl ReportFile {
    /// Opens the file that the user named, or the one at the default path. If the latter fails,
    /// prints why and returns `None`.
    pub(super) fn open(named: Option<&Path>) -> anyhow::Result<Option<Self>> {
        let path = named.unwrap_or(Path::new(USUAL));
        match (Replaceable::open(path, Kind::private("report"), is_ours), named) {
            (Ok(file), _) => Ok(Some(Self(file))),
            (Err(error), Some(_)) => Err(error),
            (Err(error), None) => {
                let note = "no report will be written; name another file with --report";
                write_line(io::stderr(), format_args!("millrace: {error:#}: {note}"));
                Ok(None)
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.0.path
    }

    /// Replaces the contents of the file by a page, if it could be drawn; returns its path.
    pub(super) fn write(self, page: Result<String, NotDrawn>) -> anyhow::Result<PathBuf> {
        let page = page?;
        let writing = format!("cannot write {}", self.path().display());
        self.0.write(page.as_bytes()).context(writing)
    }
}

/// Writes JSON, report and tables of a comparison. Each is tried, also after another one has
/// failed.
pub(super) fn write_all<T: Serialize>(
    (outputs, report): (Outputs, Option<ReportFile>),
    comparison: &T,
    page: fn(&T) -> Result<String, NotDrawn>,
    print: impl FnOnce(&T) -> io::Result<()>,
) -> anyhow::Result<()> {
    let is_printed = outputs.report;
    let json = outputs.finish_with(comparison);
    let page = report.map(|report| report.write(page(comparison))).transpose();
    let printed = if is_printed { print(comparison) } else { Ok(()) };
    json?;
    if let (Some(path), true) = (page?, is_printed) {
        write_line(io::stdout(), format_args!("Report: {}", path.display()));
    }
    printed.context("cannot write the tables")
}

/// Says that comparisons are missing, if some are.
pub(super) fn tell_of_missing(not_compared: usize) {
    if not_compared > 0 {
        write_line(
            io::stderr(),
            format_args!(
                "millrace: other programs took the worker's cpu, so comparisons are missing \
                 ({not_compared}): repeat the demo while nothing else runs"
            ),
        );
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
        assert!(refusal.contains("not a report of this program"), "{refusal}");
        assert!(std::fs::read_to_string(&path).unwrap().contains("mine"));
        let nowhere = folder.path().join("nowhere/report.html");
        let refusal = format!("{:#}", ReportFile::open(Some(&nowhere)).err().unwrap());
        assert!(refusal.contains("cannot create"), "{refusal}");
    }
}
