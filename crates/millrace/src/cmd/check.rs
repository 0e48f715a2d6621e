// SPDX-License-Identifier: BSD-3-Clause
//! `millrace check`: validates a configuration and prints the settings that result.

use crate::{cpu_locks, netdev};
use config::Problems;
use config::plan::{LargestPart, Plan, PlanArgs};
use doctor::host::Memory;
use report::output::write_line;
use results::units;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::process::ExitCode;

/// Validate a configuration and print the effective settings
///
/// Prints what `run` would use with the same arguments: every setting, its origin, and the memory
/// needed. The output is itself a configuration. Reports all faults at once, each with its place
/// and a remedy. Starts nothing and opens no port.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  millrace check bump.toml
      The effective settings of a file, or its faults.
  millrace check --pair 0000:18:00.0,0000:18:00.1 > bump.toml
      Write a configuration with every key, to start from.
  millrace check bump.toml --workers 4 --json | jq .memory
      The memory needed by four workers per pair.

Exit status: 0 good; 1 the file is refused; 2 wrong use.";

pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let plan = args.plan.plan(&cpu_locks::cpus_of_this_host(), netdev::mtu);
    let mut out = std::io::stdout().lock();
    match (plan, args.json) {
        (Ok(plan), true) => writeln!(out, "{:#}", plan_json(&plan))?,
        (Ok(plan), false) => print(&mut out, &plan)?,
        (Err(problems), true) => {
            writeln!(out, "{:#}", problems_json(&problems))?;
            return Ok(problems.exit_code());
        }
        (Err(problems), false) => {
            write_line(io::stderr(), &problems);
            return Ok(problems.exit_code());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the plan as a configuration file, with its memory as comments.
fn print(out: &mut impl Write, plan: &Plan) -> std::io::Result<()> {
    let eal = plan.eal_config(Memory::free_hugepages_mb_of_this_host());
    let memory = plan.memory();
    let mb = |bytes: u64| bytes.div_ceil(1 << 20);
    writeln!(out, "{}", plan.settings)?;
    writeln!(
        out,
        "# Flow tables: at most {} MB per worker, workers: {}{}.",
        mb(memory.engine_bytes_per_worker),
        memory.workers,
        room_in_hugepages(plan, eal.no_huge),
    )?;
    writeln!(
        out,
        "# DPDK: {} MB {} hugepages, {} MB of it packet buffers.",
        mb(memory.eal_bytes),
        if eal.no_huge { "without" } else { "from" },
        mb(memory.mbuf_bytes),
    )?;
    if memory.offload_bytes > 0 {
        writeln!(out, "# NIC rules: at most {} MB.", mb(memory.offload_bytes))?;
    }
    writeln!(out, "# Together: {} MB.", mb(memory.total_bytes))?;
    match Memory::refuse_more_than_there_is(memory.total_bytes) {
        Ok(()) => Ok(()),
        Err(too_little) => {
            let too_little = too_little.with_way_out(less_memory(plan));
            writeln!(out, "# Too much for this host: {too_little}.")
        }
    }
}

/// Returns which setting takes most of the memory, and what to lower.
pub(super) fn less_memory(plan: &Plan) -> String {
    let LargestPart { setting, bytes, to_lower } = plan.largest_part();
    format!("`{setting}` takes {} of it; lower {to_lower}", units::bytes(bytes))
}

/// Returns the text about hugepages for flow tables; empty if the tables use none.
fn room_in_hugepages(plan: &Plan, no_huge: bool) -> String {
    if !plan.engine.huge_pages {
        return String::new();
    }
    let taken = if no_huge { 0 } else { u64::from(plan.eal.memory_mb) };
    let left = Memory::free_hugepages_mb_of_this_host().saturating_sub(taken);
    let left = left.min(Memory::free_table_pages_mb_of_this_host());
    format!("; hugepages for them: {left} MB")
}

fn plan_json(plan: &Plan) -> Value {
    let eal = plan.eal_config(Memory::free_hugepages_mb_of_this_host());
    json!({
        "ok": true,
        "plan": plan.settings.to_json(),
        "memory": plan.memory(),
        "eal": {
            "lcores": eal.lcores,
            "no_huge": eal.no_huge,
            "memory_mb": eal.memory_mb,
            "ports": eal.ports,
            "extra": eal.extra,
        },
    })
}

/// Returns the answer for a configuration that is refused.
pub(super) fn problems_json(problems: &Problems) -> Value {
    json!({ "ok": false, "file": problems.file, "problems": problems.list })
}
