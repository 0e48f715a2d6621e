// SPDX-License-Identifier: BSD-3-Clause
//! Answers requests that change access lists, or ask what a change would do.

use super::connections::connection_line;
use crate::live::query::client::QueryClient;
use crate::live::query::list_edit::RuleChange;
use crate::live::query::preview::{Connections, Preview};
use crate::live::query::reload::{ChangeEffect, ListsChanged, NewPolicy};
use acl::{AccessList, Overlap, find_overlaps};
use control::{
    AccessChangeLine, AccessDecisionLine, AccessOverlapLine, AnswerError, Failure, Line,
    ListChange, Request, RuleHandle,
};
use engine::DecisionChange;

/// Changes access lists. Returns a line for each rule that has changed, and the effect.
pub(super) fn change(
    queries: &QueryClient,
    request: &Request,
) -> Result<(Vec<Line>, Option<ChangeEffect>), Failure> {
    let ListsChanged { changes, epochs, effect } = queries.change_lists(requested(request)?)?;
    Ok((change_lines(changes, epochs), effect))
}

/// Returns the change that a request is for.
fn requested(request: &Request) -> Result<&ListChange, Failure> {
    let missing = || Failure::Syntax("change_lists: needs list_change".to_owned());
    request.list_change.as_ref().ok_or_else(missing)
}

/// Returns lines about what a change of access lists would do, and the number of connections that
/// it would change.
pub(super) fn preview_change(
    queries: &QueryClient,
    request: &Request,
) -> Result<(Vec<Line>, u64), Failure> {
    Ok(preview_lines(queries.preview_change(requested(request)?)?))
}

/// Returns lines about what a reload would do to access lists, and the number of connections that
/// it would change.
pub(super) fn preview_reload(
    queries: &QueryClient,
    read: impl FnOnce() -> Result<NewPolicy, AnswerError>,
) -> Result<(Vec<Line>, u64), AnswerError> {
    Ok(preview_lines(queries.preview_reload(read)?))
}

fn preview_lines(preview: Preview) -> (Vec<Line>, u64) {
    let Preview { changes, epochs, lists, decisions } = preview;
    let mut lines = change_lines(changes, epochs);
    for list in &lists {
        let overlaps = find_overlaps(list).found.into_iter();
        lines.extend(overlaps.map(|overlap| overlap_line(list, epochs[1], overlap)));
    }
    let matched = decisions.values().map(|connections| connections.count).sum();
    lines.extend(decisions.into_iter().map(decision_line));
    (lines, matched)
}

fn change_lines(changes: Vec<RuleChange>, [before, after]: [u32; 2]) -> Vec<Line> {
    let line = |RuleChange { kind, list, from, to, text }: RuleChange| {
        let handle = |epoch, index: Option<u32>| {
            index.map(|index| RuleHandle::new(&list, epoch, index).to_string())
        };
        let (from, handle) = (handle(before, from), handle(after, to));
        let change = kind.name().to_owned();
        Line::AccessChange(AccessChangeLine { change, list, from, handle, text })
    };
    changes.into_iter().map(line).collect()
}

fn overlap_line(list: &AccessList, epoch: u32, overlap: Overlap) -> Line {
    let Overlap { rule, earlier, is_unreachable } = overlap;
    let handle = |index| RuleHandle::new(&list.name, epoch, index).to_string();
    Line::AccessOverlap(AccessOverlapLine {
        list: list.name.clone(),
        handle: handle(rule),
        text: list.rules[rule as usize].to_string(),
        earlier: handle(earlier),
        earlier_text: list.rules[earlier as usize].to_string(),
        unreachable: is_unreachable,
    })
}

fn decision_line((change, connections): (DecisionChange, Connections)) -> Line {
    let DecisionChange { now, then } = change;
    let Connections { count, examples } = connections;
    let example = |(found, at): &(_, _)| connection_line(found, *at);
    Line::AccessDecision(AccessDecisionLine {
        now: now.name().to_owned(),
        then: then.name().to_owned(),
        connections: count,
        examples: examples.iter().map(example).collect(),
    })
}
