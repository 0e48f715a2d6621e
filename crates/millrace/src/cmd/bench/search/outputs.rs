// SPDX-License-Identifier: BSD-3-Clause
//! Prints progress and results of searches, and writes them to files.

use crate::cmd::origin::origin_of_now;
use crate::cmd::report::PageFile;
use crate::is_closed_pipe;
use anyhow::Context;
use report::output::{JsonFile, refuse_to_overwrite, write_line};
use results::Origin;
use results::search::{KIND, SearchResults};
use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Where results go.
#[derive(clap::Args)]
pub(in super::super) struct OutputArgs {
    /// Write all trials as JSON to FILE or `-`. FILE must be new, empty or such results
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with plots to FILE, which must be new, empty or such a page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print no line per trial
    #[arg(long, short)]
    quiet: bool,
}

/// Open files for results.
pub(in super::super) struct Outputs {
    json: JsonFile,
    page: PageFile,
}

impl OutputArgs {
    /// Opens the files, before anything is measured.
    pub(in super::super) fn open(&self) -> anyhow::Result<Outputs> {
        let (json, html) = (self.json.as_deref(), self.html.as_deref());
        refuse_to_overwrite(&[("--json", json), ("--html", html)], &[]);
        Ok(Outputs { json: JsonFile::open(json)?, page: PageFile::open(html)? })
    }

    /// Prints a line of progress.
    pub(in super::super) fn report(&self, line: impl Display) {
        if !self.quiet {
            write_line(io::stderr(), format_args!("millrace: {line}"));
        }
    }
}

impl Outputs {
    /// Writes the results, and returns the exit status of the search. `error` has ended it early.
    pub(in super::super) fn finish(
        self,
        results: &SearchResults,
        error: Option<anyhow::Error>,
    ) -> anyhow::Result<ExitCode> {
        let Self { json, page } = self;
        if results.is_empty() {
            // Earlier results stay in the files.
            return Err(error.unwrap_or_else(|| anyhow::anyhow!("nothing was measured")));
        }
        if results.is_interrupted {
            write_line(io::stderr(), "millrace: interrupted; these are the results so far");
        }
        let is_stdout = json.is_stdout();
        // Files come first: the reader of the table may close the pipe before its end.
        let page = page.write_page(|| results::search::page(results));
        let json = json.write(results);
        let table = match is_stdout {
            true => Ok(()),
            false => results::search::print(results, &mut io::stdout().lock())
                .context("cannot write to standard output"),
        };
        page?;
        for (written, is_stdout) in [(json, is_stdout), (table, true)] {
            written.or_else(|error| match is_stdout && is_closed_pipe(&error) {
                true => Ok(()),
                false => Err(error),
            })?;
        }
        match error {
            Some(error) if !results.is_interrupted => Err(error),
            _ if results.is_complete() => Ok(ExitCode::SUCCESS),
            _ => Ok(ExitCode::FAILURE),
        }
    }
}

/// Returns results without searches, with what is known about this host and command.
pub(in super::super) fn results_of_now() -> SearchResults {
    let Origin { millrace, dpdk, started_unix_s, command, hostname: _, host } = origin_of_now();
    SearchResults {
        version: millrace,
        kind: KIND.to_owned(),
        dpdk,
        started_unix_s,
        command,
        host,
        ..SearchResults::default()
    }
}
