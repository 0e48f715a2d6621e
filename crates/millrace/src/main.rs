// SPDX-License-Identifier: BSD-3-Clause
//! `millrace`: one program, one subcommand per job.
#![forbid(unsafe_code)]

mod cmd;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// A bump in the wire that knows every connection.
#[derive(Parser)]
#[command(version, propagate_version = true, disable_help_subcommand = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Replay(cmd::replay::ReplayArgs),
    Check(cmd::check::CheckArgs),
    Doctor(cmd::doctor::DoctorArgs),
}

fn main() -> ExitCode {
    let result = match Args::parse().command {
        Command::Replay(args) => cmd::replay::run(&args),
        Command::Check(args) => cmd::check::run(&args),
        Command::Doctor(args) => cmd::doctor::run(&args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("millrace: {error:#}");
        ExitCode::FAILURE
    })
}
