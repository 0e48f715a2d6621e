// SPDX-License-Identifier: BSD-3-Clause
//! `millrace bench`: measurements of several programs' ways of doing the same.

mod baseline;
mod search;
mod testbed;

use std::process::ExitCode;

/// Measure ways to carry packets, one after the other
#[derive(clap::Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    Baseline(baseline::BaselineArgs),
}

pub(crate) fn run(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::Baseline(args) => baseline::run(args),
    }
}
