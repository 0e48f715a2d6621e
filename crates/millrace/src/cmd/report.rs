// SPDX-License-Identifier: BSD-3-Clause
//! `millrace report`: compares results of `millrace gen`, in a table and an HTML page.

use ::report::output::{Kind, Replaceable, refuse_dash, refuse_to_overwrite};
use anyhow::Context;
use clap::error::ErrorKind;
use results::plot::NotDrawn;
use results::{Run, page, report, side_by_side};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Compare results of `millrace gen`: a table, and an HTML page with plots
///
/// Prints the figures of all files side by side, with their difference from the first file.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReportArgs {
    /// JSON of `millrace gen --json`, or CSV of intervals, as `gen --csv` and dpdk-project write
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Write a page with plots over time to FILE, which must be new, empty or such a page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Title of the page
    #[arg(long, value_name = "TITLE", default_value = "Traffic, measured", requires = "html")]
    title: String,
}

const EXAMPLES: &str = "\
Examples:
  millrace report before.json after.json
      What has changed, in percent.
  millrace report sockets.csv dpdk.json --html report.html --title \"Sockets and DPDK\"
      Rate, loss and latency of both over time.";

pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    if args.files.len() > report::RUNS_MAX {
        let message = format!("a report compares at most {} files\n", report::RUNS_MAX);
        clap::Error::raw(ErrorKind::TooManyValues, message).exit();
    }
    refuse_to_overwrite(&[("--html", args.html.as_deref())], &args.files);
    let page = PageFile::open(args.html.as_deref())?;
    let runs = args.files.iter().map(|path| read(path)).collect::<anyhow::Result<Vec<_>>>()?;
    // The page comes first: printing the table fails if its reader closes the pipe.
    let page = page.write(&args.title, &runs);
    let table = side_by_side::print(&runs, &mut io::stdout().lock());
    page?;
    table.context("cannot write the table")?;
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> anyhow::Result<Run> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    Run::read(&name, &text).map_err(|error| anyhow::anyhow!("{name} {error}"))
}

/// The file for the page; none if no page is wanted.
pub(crate) struct PageFile(Option<Replaceable>);

impl PageFile {
    /// Returns no file.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Opens or creates the file. Refuses a file with contents that are no such page.
    pub(crate) fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        refuse_dash("--html", path)?;
        let kind = Kind::public("report");
        let file = path.map(|path| Replaceable::open(path, kind, page::is_ours));
        file.transpose().map(Self)
    }

    /// Writes the page of these runs, if one is wanted.
    pub(crate) fn write(self, title: &str, runs: &[Run]) -> anyhow::Result<()> {
        self.write_page(|| report::page(title, runs))
    }

    /// Writes the page that `make` makes, if one is wanted.
    pub(crate) fn write_page(
        self,
        make: impl FnOnce() -> Result<String, NotDrawn>,
    ) -> anyhow::Result<()> {
        let Some(file) = self.0 else { return Ok(()) };
        let page = make()?;
        let name = file.path.display().to_string();
        file.write(page.as_bytes()).with_context(|| format!("cannot write {name}"))?;
        Ok(())
    }
}
