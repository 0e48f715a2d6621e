// SPDX-License-Identifier: BSD-3-Clause
//! Implements `millrace bench`: benchmarks that run other commands of this program.

mod baseline;
mod compare;
mod conntrack;
mod cps;
mod generator_options;
mod highest_rate;
mod rfc9693;
mod search;
mod serving_generator;
mod testbed;

pub(crate) use testbed::{EndWithParentArgs, SUBCOMMAND as END_WITH_PARENT, end_with_parent};

use std::process::ExitCode;

/// Run a benchmark
#[derive(clap::Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(clap::Subcommand)]
enum BenchCommand {
    Search(Box<search::SearchArgs>),
    Rfc9693(Box<rfc9693::Rfc9693Args>),
    Compare(compare::CompareArgs),
    Baseline(baseline::BaselineArgs),
    Cps(cps::CpsArgs),
    Conntrack(conntrack::ConntrackArgs),
}

pub(crate) fn run(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        BenchCommand::Search(args) => search::run(args),
        BenchCommand::Rfc9693(args) => rfc9693::run(args),
        BenchCommand::Compare(args) => compare::run(args),
        BenchCommand::Baseline(args) => baseline::run(args),
        BenchCommand::Cps(args) => cps::run(args),
        BenchCommand::Conntrack(args) => conntrack::run(args),
    }
}
