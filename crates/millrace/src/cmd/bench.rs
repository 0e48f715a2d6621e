// SPDX-License-Identifier: BSD-3-Clause
//! Implements `millrace bench`: benchmarks that run other commands of this program.

mod baseline;
mod search;
mod testbed;

pub(crate) use testbed::{EndWithParentArgs, SUBCOMMAND as END_WITH_PARENT, end_with_parent};

use std::process::ExitCode;

/// Run a benchmark
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
