// SPDX-License-Identifier: BSD-3-Clause
//! The program `millrace`, which has one subcommand for each task.
//!
//! It is a library so that fuzz targets can call its file readers. Only `main.rs` and `fuzz` use
//! the public items, which may change at any time.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod backend;
mod cmd;
mod connections;
mod cpu_locks;
mod demo;
#[doc(hidden)]
pub mod fuzzing;
mod live;
mod netdev;
mod placement;
mod ports;
mod privileges;
mod signals;
mod start;
mod tester;
mod threads;
mod twin_driver;
mod worker_cycles;

use clap::{Parser, Subcommand};
use results::names::printable_lines;
use results::units;
use std::io::Write;
use std::process::ExitCode;
use std::sync::LazyLock;

/// A transparent inline (bump-in-the-wire) connection tracker on DPDK.
#[derive(Parser)]
#[command(version, long_version = long_version(), propagate_version = true)]
struct Args {
    /// Print numbers without `_` between thousands, for other programs
    #[arg(long, global = true)]
    raw: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(cmd::run::RunArgs),
    Demo(cmd::demo::DemoArgs),
    Gen(Box<cmd::generate::GenArgs>),
    Reflect(cmd::reflect::ReflectArgs),
    Report(cmd::report::ReportArgs),
    Bench(cmd::bench::BenchArgs),
    Replay(cmd::replay::ReplayArgs),
    Check(cmd::check::CheckArgs),
    Doctor(cmd::doctor::DoctorArgs),
    Nic(cmd::nic::NicArgs),
    Flows(cmd::flows::FlowsArgs),
    #[command(visible_alias = "conntrack")]
    Ct(cmd::ct::CtArgs),
    Acl(cmd::acl::AclArgs),
    Offload(cmd::offload::OffloadArgs),
    Stats(cmd::stats::StatsArgs),
    Completions(cmd::completions::CompletionsArgs),
    Man(cmd::man::ManArgs),
    /// Restore the interfaces that a run has changed, once it has ended; started by the run
    #[command(hide = true, name = netdev::KEEPER)]
    PutBackInterfaces,
    /// Run a program that ends with the process that started this one; started by benchmarks
    #[command(hide = true, name = cmd::bench::END_WITH_PARENT)]
    EndWithParent(cmd::bench::EndWithParentArgs),
}

/// Runs the program with the arguments of the process. Returns its exit status.
pub fn main() -> ExitCode {
    let args = Args::parse_from(cmd::dpdk_project::translate(std::env::args_os()));
    if args.raw {
        units::print_raw_numbers();
    }
    execute(args.command).unwrap_or_else(|error| {
        if is_closed_pipe(&error) {
            return ExitCode::SUCCESS;
        }
        if is_hugepage_shortage(&error) {
            doctor::host::start_again_without_hugepages(|| {
                dpdk::linux::close_on_exec().is_ok() && !signals::is_end_requested_before_exec()
            });
        }
        // Fails if the terminal is gone; `eprintln!` would panic.
        let text = printable_lines(&format!("{error:#}"));
        let _ = writeln!(std::io::stderr(), "millrace: {text}");
        ExitCode::FAILURE
    })
}

/// Returns the version with the commit that was built, if it is known, and that of DPDK.
fn long_version() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let commit = option_env!("MILLRACE_COMMIT").map(|commit| format!("commit {commit}, "));
        let version = env!("CARGO_PKG_VERSION");
        format!("{version} ({}{})", commit.unwrap_or_default(), dpdk::version())
    });
    &TEXT
}

fn execute(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(args) => cmd::run::run(&args),
        Command::Demo(args) => cmd::demo::run(&args),
        Command::Gen(args) => cmd::generate::run(*args),
        Command::Reflect(args) => cmd::reflect::run(&args),
        Command::Report(args) => cmd::report::run(&args),
        Command::Bench(args) => cmd::bench::run(&args),
        Command::Replay(args) => cmd::replay::run(&args),
        Command::Check(args) => cmd::check::run(&args),
        Command::Doctor(args) => cmd::doctor::run(&args),
        Command::Nic(args) => cmd::nic::run(&args),
        Command::Flows(args) => cmd::flows::run(&args),
        Command::Ct(args) => cmd::ct::run(&args),
        Command::Acl(args) => cmd::acl::run(&args),
        Command::Offload(args) => cmd::offload::run(&args),
        Command::Stats(args) => cmd::stats::run(&args),
        Command::Completions(args) => cmd::completions::run(&args),
        Command::Man(args) => cmd::man::run(&args),
        Command::PutBackInterfaces => netdev::keep(),
        Command::EndWithParent(args) => {
            cmd::bench::end_with_parent(&args, |words| execute(Args::parse_from(words).command))
        }
    }
}

/// True if DPDK did not find the hugepages that were free when Millrace counted them.
fn is_hugepage_shortage(error: &anyhow::Error) -> bool {
    let eal_errors = error.chain().filter_map(|cause| cause.downcast_ref::<dpdk::EalError>());
    eal_errors.into_iter().any(|error| matches!(error, dpdk::EalError::NoHugepages { .. }))
}

/// True if the reader of the output has closed the pipe (`| head`), which is no failure.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io_errors = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    io_errors.into_iter().any(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
