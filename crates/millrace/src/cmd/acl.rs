// SPDX-License-Identifier: BSD-3-Clause
//! `millrace acl`: checks access lists, shows and changes those of a running instance, explains
//! decisions, and prints the packets that lists log.

mod change;
mod check;
mod explain;
mod log;
mod offload;
mod show;

use crate::{cpu_locks, netdev};
use change::{AddArgs, DeleteArgs, MoveArgs, ReplaceArgs};
use check::CheckArgs;
use config::Problems;
use config::plan::{Plan, PlanArgs};
use explain::ExplainArgs;
use log::LogArgs;
use offload::OffloadArgs;
use show::ShowArgs;
use std::path::Path;
use std::process::ExitCode;

/// Check access lists, show and change them, explain what they decide, and print the packets that
/// they log
#[derive(clap::Args)]
pub(crate) struct AclArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Check(CheckArgs),
    Show(ShowArgs),
    Add(AddArgs),
    Delete(DeleteArgs),
    Replace(ReplaceArgs),
    Move(MoveArgs),
    Explain(ExplainArgs),
    Offload(OffloadArgs),
    Log(LogArgs),
}

pub(crate) fn run(args: &AclArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Check(args) => check::run(args),
        Command::Show(args) => show::run(args),
        Command::Add(args) => change::add(args),
        Command::Delete(args) => change::delete(args),
        Command::Replace(args) => change::replace(args),
        Command::Move(args) => change::move_rule(args),
        Command::Explain(args) => explain::run(args),
        Command::Offload(args) => offload::run(args),
        Command::Log(args) => log::run(args),
    }
}

/// Returns the plan of a configuration file, or its problems.
fn plan(config: &Path) -> Result<Plan, Problems> {
    let args = PlanArgs::of_file(config.to_owned());
    args.plan(&cpu_locks::cpus_of_this_host(), netdev::mtu)
}

/// Returns the words for the places that a list is bound to.
fn places_text(places: &[String]) -> String {
    match places.is_empty() {
        true => "bound to no port".to_owned(),
        false => places.iter().map(|place| format!("port {place}")).collect::<Vec<_>>().join(", "),
    }
}
