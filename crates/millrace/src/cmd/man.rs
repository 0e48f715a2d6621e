// SPDX-License-Identifier: BSD-3-Clause
//! `millrace man`.

use anyhow::Context;
use clap::CommandFactory;
use std::path::PathBuf;
use std::process::ExitCode;

/// Write the man pages, one for each subcommand, into a folder
///
/// Existing pages are overwritten. `make install` puts them where `man` looks for them.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ManArgs {
    /// The folder, which must exist
    folder: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  millrace man /tmp && man /tmp/millrace-run.1
      The page of `millrace run`.";

pub(crate) fn run(args: &ManArgs) -> anyhow::Result<ExitCode> {
    let written = clap_mangen::generate_to(crate::Args::command(), &args.folder);
    written.with_context(|| format!("cannot write man pages to {}", args.folder.display()))?;
    Ok(ExitCode::SUCCESS)
}
