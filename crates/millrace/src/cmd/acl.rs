// SPDX-License-Identifier: BSD-3-Clause
//! `millrace acl`: shows the access lists of a running instance, explains decisions, and prints the
//! packets that lists log.

mod explain;
mod log;

use control::{AccessRuleLine, Answer, InstanceArgs, Line, Request, RequestKind};
use explain::ExplainArgs;
use log::LogArgs;
use results::{table, units};
use serde_json::json;
use std::io::{self, Write};
use std::process::ExitCode;

/// Show access lists, explain what they decide, and print the packets that they log
#[derive(clap::Args)]
pub(crate) struct AclArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Show(ShowArgs),
    Explain(ExplainArgs),
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
        Command::Show(args) => show(args),
        Command::Explain(args) => explain::run(args),
        Command::Log(args) => log::run(args),
    }
}

fn show(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let Answer { lines, .. } = args.instance.find()?.query(&Request::new(RequestKind::Lists))?;
    let is_wanted = |line: &AccessRuleLine| !args.unused || line.packets == 0;
    let rules: Vec<_> = lines
        .into_iter()
        .filter_map(|line| match line {
            Line::AccessRule(rule) => Some(rule),
            _ => None,
        })
        .filter(is_wanted)
        .collect();
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
    let mut rest = &rules[..];
    while let Some(first) = rest.first() {
        let is_same = |line: &AccessRuleLine| (line.pair, &line.list) == (first.pair, &first.list);
        let count = rest.iter().take_while(|line| is_same(line)).count();
        print_list(&mut out, &rest[..count])?;
        rest = &rest[count..];
    }
    Ok(ExitCode::SUCCESS)
}

const HEADINGS: [&str; 5] = ["rule", "", "packets", "bytes", "last"];

fn print_list(out: &mut impl Write, rules: &[AccessRuleLine]) -> io::Result<()> {
    let AccessRuleLine { pair, list, places, .. } = &rules[0];
    let places = match places.is_empty() {
        true => "bound to no port".to_owned(),
        false => places.iter().map(|place| format!("port {place}")).collect::<Vec<_>>().join(", "),
    };
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
