// SPDX-License-Identifier: BSD-3-Clause
//! `millrace completions`: prints completion scripts for shells.

use clap::CommandFactory;
use clap_complete::Shell;
use std::io::Write;
use std::process::ExitCode;

/// Print the completion script for a shell
///
/// `make install` installs the scripts for bash, zsh and fish where these shells find them.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// Shell that completes
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  source <(millrace completions bash)
      Complete in the current bash.";

pub(crate) fn run(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Args::command(), "millrace", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
