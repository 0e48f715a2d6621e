// SPDX-License-Identifier: BSD-3-Clause
//! `millrace acl check`: size and search of each access list of a configuration, and rules that
//! earlier rules take packets from.

use crate::cmd::check::problems_json;
use acl::{AccessList, Action, EthernetList, Overlap, Overlaps, SearchSize, find_overlaps};
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
    list: List,
    /// Indices of the pairs that it is for.
    pairs: Vec<usize>,
    places: Vec<String>,
    overlaps: Overlaps,
}

enum List {
    /// For IP packets, with the size of its search in one pair.
    Ip(Arc<AccessList>, SearchSize),
    /// For frames that are not IP.
    Ethernet(Arc<EthernetList>),
}

impl List {
    fn name(&self) -> &str {
        match self {
            List::Ip(list, _) => &list.name,
            List::Ethernet(list) => &list.name,
        }
    }

    fn rules(&self) -> usize {
        match self {
            List::Ip(list, _) => list.rules.len(),
            List::Ethernet(list) => list.rules.len(),
        }
    }

    fn default(&self) -> Action {
        match self {
            List::Ip(list, _) => list.default,
            List::Ethernet(list) => list.default,
        }
    }

    /// Returns the text of a rule.
    fn text(&self, rule: u32) -> String {
        match self {
            List::Ip(list, _) => list.rules[rule as usize].to_string(),
            List::Ethernet(list) => list.rules[rule as usize].to_string(),
        }
    }
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
        // Names are unique.
        for (index, list) in lists.lists().enumerate() {
            let places = lists.place_names(index);
            match checked.iter_mut().find(|known| known.list.name() == list.name) {
                Some(known) => known.pairs.push(pair),
                None => checked.push(Checked {
                    list: List::Ip(Arc::clone(list), lists.size(index)),
                    pairs: vec![pair],
                    places,
                    overlaps: find_overlaps(list),
                }),
            }
        }
        for (index, list) in lists.ethernet_lists().enumerate() {
            let (found, compared) = (list.find_overlaps(), list.rules.len() as u32);
            match checked.iter_mut().find(|known| known.list.name() == list.name) {
                Some(known) => known.pairs.push(pair),
                None => checked.push(Checked {
                    list: List::Ethernet(Arc::clone(list)),
                    pairs: vec![pair],
                    places: lists.ethernet_place_names(index),
                    overlaps: Overlaps { found, compared },
                }),
            }
        }
    }
    checked
}

impl Checked {
    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let Self { list, pairs, places, overlaps } = self;
        let pairs: Vec<_> = pairs.iter().map(ToString::to_string).collect();
        let word = if pairs.len() == 1 { "pair" } else { "pairs" };
        let places = super::places_text(places);
        writeln!(out, "list {:?}, {word} {}: {places}", list.name(), pairs.join(", "))?;
        let rules = units::thousands(list.rules() as u64);
        writeln!(out, "  rules: {rules}; default: {}", list.default())?;
        match list {
            List::Ip(_, size) => writeln!(
                out,
                "  search: {} regions, {} trees, at most {} steps; memory: {}",
                units::thousands(size.regions as u64),
                size.trees,
                size.steps,
                units::bytes(size.bytes as u64)
            )?,
            List::Ethernet(_) => writeln!(out, "  for frames that are not IP")?,
        }
        for overlap in &overlaps.found {
            let Overlap { rule, earlier, is_unreachable } = *overlap;
            let [text, by] = [rule, earlier].map(|number| list.text(number));
            let (state, share) = match is_unreachable {
                true => ("is unreachable", "all"),
                false => ("overlaps", "some"),
            };
            writeln!(out, "  rule {rule} {state}: {text}")?;
            writeln!(out, "    rule {earlier} takes {share} of its packets: {by}")?;
        }
        if (overlaps.compared as usize) < list.rules() {
            writeln!(
                out,
                "  rules from {} on were not compared with earlier ones: it would take too long",
                overlaps.compared
            )?;
        }
        Ok(())
    }

    fn to_json(&self) -> Value {
        let Self { list, pairs, places, overlaps } = self;
        let (kind, size) = match list {
            List::Ip(_, size) => ("ip", Some(size)),
            List::Ethernet(_) => ("ethernet", None),
        };
        let rows = |is_unreachable| {
            let found = overlaps.found.iter().filter(move |it| it.is_unreachable == is_unreachable);
            let row = |Overlap { rule, earlier, .. }: &Overlap| {
                json!({
                    "rule": rule,
                    "text": list.text(*rule),
                    "earlier": earlier,
                    "earlier_text": list.text(*earlier),
                })
            };
            found.map(row).collect::<Vec<_>>()
        };
        json!({
            "name": list.name(),
            "kind": kind,
            "pairs": pairs,
            "places": places,
            "rules": list.rules(),
            "default": list.default().name(),
            "regions": size.map(|size| size.regions),
            "trees": size.map(|size| size.trees),
            "steps": size.map(|size| size.steps),
            "bytes": size.map(|size| size.bytes),
            "compared": overlaps.compared,
            "unreachable": rows(true),
            "overlaps": rows(false),
        })
    }
}
