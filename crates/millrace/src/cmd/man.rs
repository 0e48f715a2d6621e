// SPDX-License-Identifier: BSD-3-Clause
//! `millrace man`: writes the man pages.

use anyhow::Context;
use clap::CommandFactory;
use std::path::PathBuf;
use std::process::ExitCode;

/// Write the man pages, one for each subcommand, into a folder
///
/// Overwrites pages with the same names. `make install` installs the pages where `man` finds them.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ManArgs {
    /// Existing folder to write to
    folder: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  millrace man /tmp && man /tmp/millrace-run.1
      Read the page of `millrace run`.";

pub(crate) fn run(args: &ManArgs) -> anyhow::Result<ExitCode> {
    let written = clap_mangen::generate_to(crate::Args::command(), &args.folder);
    written.with_context(|| format!("cannot write man pages to {}", args.folder.display()))?;
    Ok(ExitCode::SUCCESS)
}
