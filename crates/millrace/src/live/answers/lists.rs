// SPDX-License-Identifier: BSD-3-Clause
//! Answers requests for access lists: their rules, and how many packets each has decided about.

use crate::live::query::client::{QueryClient, RunEnding};
use control::{AccessRuleLine, Line};
use engine::{AccessLists, Nanos, RuleHits};

/// Returns a line for each rule of each list, and for the default of each list.
pub(super) fn lists(queries: &QueryClient) -> Result<Vec<Line>, RunEnding> {
    let hits = queries.rule_hits()?;
    let now = queries.time();
    let mut lines = Vec::new();
    for (pair, (lists, hits)) in queries.access().iter().zip(hits).enumerate() {
        if let Some(lists) = lists {
            add_lines(&mut lines, (pair, lists), &hits, now);
        }
    }
    Ok(lines)
}

/// Adds a line for each rule of the lists of a pair, and for the default of each list.
pub(crate) fn add_lines(
    lines: &mut Vec<Line>,
    (pair, lists): (usize, &AccessLists),
    hits: &[RuleHits],
    now: Nanos,
) {
    let mut hits = hits.iter().copied();
    for (index, list) in lists.lists().enumerate() {
        let places = lists.place_names(index);
        let rules = (0..).zip(&list.rules).map(|(number, rule)| (Some(number), rule.to_string()));
        let default = (None, format!("default {}", list.default));
        for (rule, text) in rules.chain([default]) {
            let RuleHits { packets, bytes, last } = hits.next().unwrap_or_default();
            let age = now.saturating_sub(last) as f64 / 1e9;
            lines.push(Line::AccessRule(AccessRuleLine {
                pair: pair as u32,
                list: list.name.clone(),
                places: places.clone(),
                rule,
                text,
                packets,
                bytes,
                last_s: (packets > 0).then_some(age),
            }));
        }
    }
}
