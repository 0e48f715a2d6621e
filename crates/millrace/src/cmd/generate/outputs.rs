// SPDX-License-Identifier: BSD-3-Clause
//! Opens the outputs of a run before it begins, so that none is refused after it.

use super::GenArgs;
use super::csv_file::CsvFile;
use super::metrics::MetricsServer;
use super::terminal::Terminal;
use crate::cmd::report::PageFile;
use anyhow::bail;
use report::output::{JsonFile, refuse_dash, refuse_to_overwrite, write_line};
use std::io;
use std::path::{Path, PathBuf};

/// Outputs of a run.
pub(super) struct Outputs {
    pub(super) json: JsonFile,
    pub(super) page: PageFile,
    pub(super) csv: CsvFile,
    pub(super) metrics: Option<MetricsServer>,
    pub(super) terminal: Option<Terminal>,
}

impl Outputs {
    /// Opens all outputs that `args` name, the file of `--csv` with `open_csv`. No two of them may
    /// be one file, and none an input.
    pub(super) fn open(
        args: &GenArgs,
        inputs: &[PathBuf],
        open_csv: impl FnOnce(Option<&Path>) -> anyhow::Result<CsvFile>,
    ) -> anyhow::Result<Self> {
        let files = [
            ("--json", args.json.as_deref()),
            ("--html", args.html.as_deref()),
            ("--csv", args.csv.as_deref()),
            ("--pcapng", args.pcapng.path()),
        ];
        for (flag, path) in &files[1..] {
            refuse_dash(flag, *path)?;
        }
        refuse_to_overwrite(&files, inputs);
        let json = JsonFile::open(args.json.as_deref())?;
        let page = PageFile::open(args.html.as_deref())?;
        let csv = open_csv(args.csv.as_deref())?;
        let metrics = args.metrics.map(MetricsServer::start).transpose()?;
        if args.live && json.is_stdout() {
            bail!("--live and --json cannot both use standard output");
        }
        let terminal = args.live.then(Terminal::open).transpose()?;
        if let Some(metrics) = &metrics {
            let address = metrics.address();
            write_line(io::stderr(), format_args!("millrace: metrics at http://{address}/metrics"));
        }
        Ok(Self { json, page, csv, metrics, terminal })
    }
}
