// SPDX-License-Identifier: BSD-3-Clause
//! `millrace acl offload`: which rules of access lists the NICs of a running instance have, and why
//! not the others.

use crate::cmd::query_args::QueryArgs;
use control::{AccessPortLine, AccessPortRule, Answer, Line, Request, RequestKind};
use results::{table, units};
use serde_json::json;
use std::io::{self, Write};
use std::process::ExitCode;

/// Say which rules of access lists the NICs of a running instance have, and why not the others
///
/// A NIC marks the packets of the rules that it has, or drops them. They are not compared with the
/// list again.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct OffloadArgs {
    /// Only this port: a or b, or the name of the port
    port: Option<String>,
    #[command(flatten)]
    query: QueryArgs,
}

const EXAMPLES: &str = "\
Examples:
  millrace acl offload
      Each port: whether it can have rules of its list, and each rule: its numbers in the NIC, or
      the reason why it is in software only.
  millrace acl offload a --json
      Port A of each pair, as JSON.

Exit status: 0 good; 1 no instance answers, or there is no such port; 2 wrong use.";

pub(super) fn run(args: &OffloadArgs) -> anyhow::Result<ExitCode> {
    let request = Request::new(RequestKind::ListOffload);
    let Answer { lines, .. } = args.query.instance.find()?.query(&request)?;
    let is_wanted = |line: &AccessPortLine| {
        args.port.as_ref().is_none_or(|port| *port == line.port || *port == line.name)
    };
    let found = lines.into_iter().filter_map(|line| match line {
        Line::AccessPort(port) => Some(*port),
        _ => None,
    });
    let (wanted, others): (Vec<_>, Vec<_>) = found.partition(is_wanted);
    let mut out = io::stdout().lock();
    if let (Some(port), true) = (&args.port, wanted.is_empty() && !others.is_empty()) {
        let names: Vec<_> = others.iter().map(|line| line.name.as_str()).collect();
        anyhow::bail!("there is no port {port:?}; write a, b, or one of {}", names.join(", "));
    }
    if args.query.json {
        writeln!(out, "{:#}", json!({ "ports": wanted }))?;
    } else if wanted.is_empty() {
        writeln!(out, "there are no access lists")?;
    } else {
        for line in &wanted {
            print_port(&mut out, line)?;
            if let Some(list) = &line.ethernet_list {
                writeln!(
                    out,
                    "  list {list:?} judges frames that are not IP: it stays in software"
                )?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print_port(out: &mut impl Write, line: &AccessPortLine) -> io::Result<()> {
    let AccessPortLine { pair, port, name, .. } = line;
    write!(out, "port {port} of pair {pair} ({name}): ")?;
    if let Some(reason) = &line.reason {
        let list = line.list.as_ref().map_or_else(String::new, |list| format!("list {list:?}, "));
        return writeln!(out, "{list}not possible: {reason}");
    }
    let count = |state| line.rules.iter().filter(|rule| rule.state == state).count();
    let dropped = match count("drop") {
        0 => String::new(),
        dropped => format!(", which drops the packets of {dropped}"),
    };
    writeln!(
        out,
        "list {:?}, possible; {} of {} rules are in the NIC{dropped}",
        line.list.as_deref().unwrap_or_default(),
        count("nic") + count("drop"),
        line.rules.len()
    )?;
    writeln!(
        out,
        "  {} of {} port rules, {} levels of priority, {:.1} µs a call, {} stuck; epoch {}",
        units::thousands(line.present),
        units::thousands(line.room),
        line.levels,
        line.call_us,
        line.stuck,
        line.epoch,
    )?;
    writeln!(
        out,
        "  packets of the pair: {} decided by mark, {} compared as well, {} of these differed",
        units::thousands(line.decided),
        units::thousands(line.checked),
        units::thousands(line.disagreed),
    )?;
    let rows: Vec<_> = line.rules.iter().map(row).collect();
    table::print(out, HEADINGS, &(0..0), &rows)
}

const HEADINGS: [&str; 4] = ["rule", "", "state", "numbers in the NIC, or reason"];

/// Numbers of one rule that are printed.
const NUMBERS: usize = 4;

fn row(rule: &AccessPortRule) -> [String; 4] {
    let shown = rule.numbers.iter().take(NUMBERS).map(u64::to_string);
    let mut numbers = shown.collect::<Vec<_>>().join(", ");
    if rule.numbers.len() > NUMBERS {
        numbers += &format!(" and {} more", rule.numbers.len() - NUMBERS);
    }
    [
        rule.rule.map_or_else(String::new, |number| number.to_string()),
        rule.text.clone(),
        rule.state.clone(),
        [Some(numbers).filter(|text| !text.is_empty()), rule.reason.clone()]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("; "),
    ]
}
