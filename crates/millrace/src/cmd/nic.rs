// SPDX-License-Identifier: BSD-3-Clause
//! `millrace nic`: commands that test flow rules on a NIC.

mod flow;
mod personalities;
mod ports;
mod probe;
mod prompt;
mod script;

use std::process::ExitCode;

/// Try flow rules on NICs, and probe what NICs do with them
#[derive(clap::Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct NicArgs {
    #[command(subcommand)]
    command: NicCommand,
}

#[derive(clap::Subcommand)]
enum NicCommand {
    Flow(flow::FlowArgs),
    Personalities(personalities::PersonalitiesArgs),
    Probe(probe::ProbeArgs),
}

pub(crate) fn run(args: &NicArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        NicCommand::Flow(args) => flow::run(args),
        NicCommand::Personalities(args) => personalities::run(args),
        NicCommand::Probe(args) => probe::run(args),
    }
}
