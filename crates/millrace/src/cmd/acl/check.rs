// SPDX-License-Identifier: BSD-3-Clause
//! `millrace acl check`: size and search of each access list of a configuration, and rules that
//! earlier rules take packets from.

use crate::cmd::check::problems_json;
use acl::{AccessList, Overlap, Overlaps, SearchSize, find_overlaps};
use config::plan::Plan;
use report::output::write_line;
use results::units;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Check the access lists of a configuration: their size, and rules that never decide
///
/// Prints for each list the number of its rules, and the memory and the steps of its search. A rule
/// is unreachable if one earlier rule takes all its packets. It overlaps an earlier rule that takes
/// some of its packets and has another action: their order matters.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct CheckArgs {
    /// Configuration file (TOML)
    config: PathBuf,
    /// Exit with status 1 if a rule is unreachable
    #[arg(long)]
    strict: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  millrace acl check bump.toml
      Size of each list, and each rule that an earlier rule takes packets from.
  millrace acl check bump.toml --strict && millrace ct reload
      Reload only if each rule can decide.

Exit status: 0 good; 1 the configuration is refused, or with --strict a rule is unreachable; 2 wrong
use.";

/// A list of the configuration, with what is known of it.
struct Checked {
    list: Arc<AccessList>,
    /// Indices of the pairs that it is for.
    pairs: Vec<usize>,
    places: Vec<String>,
    /// Size of its search in one pair.
    size: SearchSize,
    overlaps: Overlaps,
}

pub(super) fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout().lock();
    let plan = match super::plan(&args.config) {
        Ok(plan) => plan,
        Err(problems) => {
            match args.json {
                true => writeln!(out, "{:#}", problems_json(&problems))?,
                false => write_line(io::stderr(), &problems),
            }
            return Ok(problems.exit_code());
        }
    };
    let lists = check(&plan);
    match args.json {
        true => {
            let lists: Vec<_> = lists.iter().map(Checked::to_json).collect();
            writeln!(out, "{:#}", json!({ "ok": true, "lists": lists }))?;
        }
        false if lists.is_empty() => writeln!(out, "there are no access lists")?,
        false => lists.iter().try_for_each(|list| list.print(&mut out))?,
    }
    let mut found = lists.iter().flat_map(|list| &list.overlaps.found);
    let is_refused = args.strict && found.any(|overlap| overlap.is_unreachable);
    Ok(if is_refused { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Checks each list once, however many pairs it is for.
fn check(plan: &Plan) -> Vec<Checked> {
    let mut checked: Vec<Checked> = Vec::new();
    for (pair, lists) in plan.pairs.iter().map(|pair| &pair.access).enumerate() {
        let Some(lists) = lists else { continue };
        for (index, list) in lists.lists().enumerate() {
            match checked.iter_mut().find(|known| Arc::ptr_eq(&known.list, list)) {
                Some(known) => known.pairs.push(pair),
                None => checked.push(Checked {
                    list: Arc::clone(list),
                    pairs: vec![pair],
                    places: lists.place_names(index),
                    size: lists.size(index),
                    overlaps: find_overlaps(list),
                }),
            }
        }
    }
    checked
}

impl Checked {
    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let Self { list, pairs, places, size, overlaps } = self;
        let pairs: Vec<_> = pairs.iter().map(ToString::to_string).collect();
        let word = if pairs.len() == 1 { "pair" } else { "pairs" };
        let places = super::places_text(places);
        writeln!(out, "list {:?}, {word} {}: {places}", list.name, pairs.join(", "))?;
        writeln!(
            out,
            "  rules: {}; default: {}",
            units::thousands(list.rules.len() as u64),
            list.default
        )?;
        writeln!(
            out,
            "  search: {} regions, {} trees, at most {} steps; memory: {}",
            units::thousands(size.regions as u64),
            size.trees,
            size.steps,
            units::bytes(size.bytes as u64)
        )?;
        for overlap in &overlaps.found {
            let Overlap { rule, earlier, is_unreachable } = *overlap;
            let [text, by] = [rule, earlier].map(|number| &list.rules[number as usize]);
            let (state, share) = match is_unreachable {
                true => ("is unreachable", "all"),
                false => ("overlaps", "some"),
            };
            writeln!(out, "  rule {rule} {state}: {text}")?;
            writeln!(out, "    rule {earlier} takes {share} of its packets: {by}")?;
        }
        if (overlaps.compared as usize) < list.rules.len() {
            writeln!(
                out,
                "  rules from {} on were not compared with earlier ones: it would take too long",
                overlaps.compared
            )?;
        }
        Ok(())
    }

    fn to_json(&self) -> Value {
        let Self { list, pairs, places, size, overlaps } = self;
        let text = |number: u32| list.rules[number as usize].to_string();
        let rows = |is_unreachable| {
            let found = overlaps.found.iter().filter(move |it| it.is_unreachable == is_unreachable);
            let row = |Overlap { rule, earlier, .. }: &Overlap| {
                json!({
                    "rule": rule,
                    "text": text(*rule),
                    "earlier": earlier,
                    "earlier_text": text(*earlier),
                })
            };
            found.map(row).collect::<Vec<_>>()
        };
        json!({
            "name": list.name,
            "pairs": pairs,
            "places": places,
            "rules": list.rules.len(),
            "default": list.default.name(),
            "regions": size.regions,
            "trees": size.trees,
            "steps": size.steps,
            "bytes": size.bytes,
            "compared": overlaps.compared,
            "unreachable": rows(true),
            "overlaps": rows(false),
        })
    }
}
