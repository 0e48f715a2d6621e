// SPDX-License-Identifier: BSD-3-Clause
//! `millrace acl`: checks access lists, shows those of a running instance, explains decisions, and
//! prints the packets that lists log.

mod check;
mod explain;
mod log;
mod offload;

use crate::{cpu_locks, netdev};
use check::CheckArgs;
use config::Problems;
use config::plan::{Plan, PlanArgs};
use control::{AccessRuleLine, Answer, InstanceArgs, Line, Request, RequestKind};
use explain::ExplainArgs;
use log::LogArgs;
use offload::OffloadArgs;
use results::{table, units};
use serde_json::json;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// Check access lists, show them, explain what they decide, and print the packets that they log
#[derive(clap::Args)]
pub(crate) struct AclArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Check(CheckArgs),
    Show(ShowArgs),
    Explain(ExplainArgs),
    Offload(OffloadArgs),
    Log(LogArgs),
}

/// Show the access lists of a running instance, and the packets that each rule has decided about
#[derive(clap::Args)]
#[command(after_help = SHOW_EXAMPLES)]
struct ShowArgs {
    #[command(flatten)]
    instance: InstanceArgs,
    /// Only rules that have not matched a packet yet
    #[arg(long)]
    unused: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const SHOW_EXAMPLES: &str = "\
Examples:
  millrace acl show
      Every rule with its packets, bytes, and the time since the last packet.
  millrace acl show --unused
      Rules that could go, if the run has seen all traffic.

Exit status: 0 good; 1 no instance answers; 2 wrong use.";

pub(crate) fn run(args: &AclArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Check(args) => check::run(args),
        Command::Show(args) => show(args),
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

fn show(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let Answer { lines, .. } = args.instance.find()?.query(&Request::new(RequestKind::Lists))?;
    let is_wanted = |line: &AccessRuleLine| !args.unused || line.packets == 0;
    let rules: Vec<_> = lines.into_iter().filter_map(access_rule).filter(is_wanted).collect();
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{:#}", json!({ "rules": rules }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if rules.is_empty() {
        let none = if args.unused { "no rule is unused" } else { "there are no access lists" };
        writeln!(out, "{none}")?;
        return Ok(ExitCode::SUCCESS);
    }
    print_lists(&mut out, &rules)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the rule of a line, if it has one.
fn access_rule(line: Line) -> Option<AccessRuleLine> {
    match line {
        Line::AccessRule(rule) => Some(rule),
        _ => None,
    }
}

/// Prints a table for each list.
fn print_lists(out: &mut impl Write, rules: &[AccessRuleLine]) -> io::Result<()> {
    let mut rest = rules;
    while let Some(first) = rest.first() {
        let is_same = |line: &AccessRuleLine| (line.pair, &line.list) == (first.pair, &first.list);
        let count = rest.iter().take_while(|line| is_same(line)).count();
        print_list(out, &rest[..count])?;
        rest = &rest[count..];
    }
    Ok(())
}

/// Returns the words for the places that a list is bound to.
fn places_text(places: &[String]) -> String {
    match places.is_empty() {
        true => "bound to no port".to_owned(),
        false => places.iter().map(|place| format!("port {place}")).collect::<Vec<_>>().join(", "),
    }
}

const HEADINGS: [&str; 5] = ["rule", "", "packets", "bytes", "last"];

fn print_list(out: &mut impl Write, rules: &[AccessRuleLine]) -> io::Result<()> {
    let AccessRuleLine { pair, list, places, .. } = &rules[0];
    let places = places_text(places);
    writeln!(out, "list {list:?}, pair {pair}: {places}")?;
    let rows: Vec<_> = rules.iter().map(row).collect();
    table::print(out, HEADINGS, &(2..5), &rows)
}

fn row(line: &AccessRuleLine) -> [String; 5] {
    let number = line.rule.map_or_else(String::new, |rule| rule.to_string());
    let last = line.last_s.map(|age| format!("{} ago", units::duration((age * 1e9) as u64)));
    [
        number,
        line.text.clone(),
        units::thousands(line.packets),
        units::thousands(line.bytes),
        last.unwrap_or_else(|| "never".to_owned()),
    ]
}
