// SPDX-License-Identifier: BSD-3-Clause
//! `millrace nic personalities`: lists the personalities of the software NIC, or prints one.

use ::twin::Personality;
use ::twin::personality::{Capacity, NAMES, builtin};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::process::ExitCode;

/// List the personalities that the software NIC can play, or print one
///
/// A personality describes a NIC and its driver: accepted patterns, masks and actions, messages for
/// refusals, capacity, latency, and the source of each fact. To play it, write `personality=NAME`
/// in the devargs of a `net_twin` port; for a changed copy of a file, write its path.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PersonalitiesArgs {
    /// Print the file of this personality: a name or a path
    #[arg(value_name = "NAME|FILE")]
    name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  millrace nic personalities
      List names and titles.
  millrace nic personalities x710 > my-x710.toml
      Copy a personality to change it, and to play it with personality=./my-x710.toml.
  millrace nic flow net_twin0,personality=e810
      Open a shell on the software NIC with this personality.

Exit status: 0 good; 1 there is no such personality; 2 wrong use.";

pub(super) fn run(args: &PersonalitiesArgs) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout().lock();
    match &args.name {
        Some(name) => one(&mut out, name, args.json)?,
        None => all(&mut out, args.json)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn one(out: &mut impl Write, name: &str, json: bool) -> anyhow::Result<()> {
    let personality = Personality::named(name)?;
    if json {
        serde_json::to_writer_pretty(&mut *out, &personality)?;
        writeln!(out)?;
        return Ok(());
    }
    match builtin(name) {
        // The text of the file, with its comments.
        Some(text) => write!(out, "{text}")?,
        None => write!(out, "{}", personality.to_toml())?,
    }
    Ok(())
}

fn all(out: &mut impl Write, json: bool) -> anyhow::Result<()> {
    let all = NAMES.iter().map(|name| Personality::named(name));
    let all = all.collect::<Result<Vec<_>, _>>()?;
    if json {
        let list: Vec<_> = all.iter().map(summary).collect();
        serde_json::to_writer_pretty(&mut *out, &json!({ "personalities": list }))?;
        writeln!(out)?;
        return Ok(());
    }
    let width = NAMES.iter().map(|name| name.len()).max().unwrap_or(0);
    for personality in &all {
        writeln!(out, "{:width$}  {}", personality.name, personality.title)?;
        writeln!(out, "{:width$}  {}", "", in_short(personality))?;
    }
    Ok(())
}

fn summary(personality: &Personality) -> Value {
    let Capacity { guaranteed, best_effort } = personality.table.capacity();
    json!({
        "name": personality.name,
        "title": personality.title,
        "sources": personality.sources,
        "placeholder": personality.placeholder,
        "guaranteed": (guaranteed != u64::MAX).then_some(guaranteed),
        "best_effort": best_effort,
    })
}

/// Describes a personality in a few words: `512 + 7168 rules, 22 us each`.
fn in_short(personality: &Personality) -> String {
    if let Some(placeholder) = &personality.placeholder {
        return placeholder.clone();
    }
    let Capacity { guaranteed, best_effort } = personality.table.capacity();
    let rules = match (guaranteed, best_effort) {
        (u64::MAX, _) => "any number of rules".to_owned(),
        (guaranteed, 0) => format!("{guaranteed} rules"),
        (guaranteed, best_effort) => format!("{guaranteed} + {best_effort} rules"),
    };
    let marks = match personality.mark.never_delivered {
        true => ", marks that never arrive",
        false => "",
    };
    let latency = match (personality.latency.create_us, personality.latency.best_effort_create_us) {
        (0, _) => String::new(),
        (us, None) => format!(", {us} us each"),
        (us, Some(later)) => format!(", {us} us each, then {later} us"),
    };
    format!("{rules}{latency}{marks}")
}
