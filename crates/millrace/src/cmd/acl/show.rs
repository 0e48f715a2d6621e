// SPDX-License-Identifier: BSD-3-Clause
//! `millrace acl show`: the access lists of a running instance, their handles and counters, or a
//! list as text for the configuration.

use super::places_text;
use crate::cmd::query_args::QueryArgs;
use control::{AccessRuleLine, Answer, Line, Request, RequestKind};
use results::{table, units};
use serde_json::json;
use std::io::{self, Write};
use std::process::ExitCode;

/// Show the access lists of a running instance, and the packets that each rule has decided about
///
/// Each rule has a handle, LIST:EPOCH:NUMBER, by which `acl delete`, `replace` and `move` find it.
/// Handles hold until the lists change.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    query: QueryArgs,
    /// Only rules that have not matched a packet yet
    #[arg(long)]
    unused: bool,
    /// Print the rules of this list as text, for `rules` or `file` of [[list]] in the configuration
    #[arg(long, value_name = "LIST", conflicts_with_all = ["unused", "json"])]
    text: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  millrace acl show
      Every rule with its handle, packets, bytes, and the time since the last packet.
  millrace acl show --unused
      Rules that could go, if the run has seen all traffic.
  millrace acl show --text office > office.rules
      The list as it is now, to keep changes: `file = \"office.rules\"` in its [[list]].

Exit status: 0 good; 1 no instance answers, or there is no such list; 2 wrong use.";

pub(super) fn run(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let request = Request::new(RequestKind::Lists);
    let Answer { lines, .. } = args.query.instance.find()?.query(&request)?;
    let rules = lines.into_iter().filter_map(|line| match line {
        Line::AccessRule(rule) => Some(rule),
        _ => None,
    });
    let mut out = io::stdout().lock();
    if let Some(list) = &args.text {
        print_text(&mut out, list, &rules.collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_wanted = |line: &AccessRuleLine| !args.unused || line.packets == 0;
    let rules: Vec<_> = rules.filter(is_wanted).collect();
    if args.query.json {
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

/// Prints the rules of a list, one on each line, and its default as a comment.
fn print_text(out: &mut impl Write, list: &str, rules: &[AccessRuleLine]) -> anyhow::Result<()> {
    let Some(first) = rules.iter().find(|line| line.list == list) else {
        let mut names: Vec<_> = rules.iter().map(|line| format!("{:?}", line.list)).collect();
        names.dedup();
        anyhow::ensure!(!names.is_empty(), "there are no access lists");
        anyhow::bail!("there is no list {list:?}; the lists are {}", names.join(", "));
    };
    // A list of several pairs is the same in each.
    let of_list = rules.iter().filter(|line| (line.pair, &line.list) == (first.pair, &first.list));
    for line in of_list {
        match line.rule {
            Some(_) => writeln!(out, "{}", line.text)?,
            None => writeln!(out, "# {}", line.text)?,
        }
    }
    Ok(())
}

/// Prints a table for each list.
pub(in crate::cmd::acl) fn print_lists(
    out: &mut impl Write,
    rules: &[AccessRuleLine],
) -> io::Result<()> {
    let mut rest = rules;
    while let Some(first) = rest.first() {
        let is_same = |line: &AccessRuleLine| (line.pair, &line.list) == (first.pair, &first.list);
        let count = rest.iter().take_while(|line| is_same(line)).count();
        print_list(out, &rest[..count])?;
        rest = &rest[count..];
    }
    Ok(())
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
    let number = || line.rule.map_or_else(String::new, |rule| rule.to_string());
    let last = line.last_s.map(|age| format!("{} ago", units::duration((age * 1e9) as u64)));
    [
        line.handle.clone().unwrap_or_else(number),
        line.text.clone(),
        units::thousands(line.packets),
        units::thousands(line.bytes),
        last.unwrap_or_else(|| "never".to_owned()),
    ]
}
