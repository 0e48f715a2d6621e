// SPDX-License-Identifier: BSD-3-Clause
//! Answers requests for access lists: their rules, how many packets each has decided about, and the
//! packets that they log.

use super::connections::{Never, follow};
use crate::live::commands::subscribers::{StreamItem, Topic};
use crate::live::query::client::{QueryClient, RunEnding};
use control::{AccessLogLine, AccessRuleLine, AnswerError, Line, LineWriter};
use engine::{AccessLists, ListDirection, Nanos, RuleHits, Side};

/// Sends packets that access lists log until the client disconnects or the run ends.
pub(super) fn log(queries: &QueryClient, writer: &mut LineWriter) -> Result<Never, AnswerError> {
    let mut stream = queries.subscribe(Topic::AccessLog)?;
    follow(queries, writer, &mut stream, |item, lcore| log_line(queries, item, lcore))
}

fn log_line(queries: &QueryClient, item: StreamItem, lcore: u32) -> Line {
    let log = match item {
        StreamItem::Log(log) => log,
        StreamItem::Lost(packets) => return Line::Lost(packets),
        // Subscribers of the log get none.
        StreamItem::Event { .. } => return Line::Lost(0),
    };
    let of_worker = queries.workers.iter().find(|worker| worker.lcore == lcore);
    Line::AccessLog(AccessLogLine {
        at_ns: log.at,
        pair: of_worker.map_or(0, |worker| worker.wire as u32),
        port: side_name(log.side).to_owned(),
        list: log.list.name.clone(),
        rule: log.rule,
        text: log.list.rules[log.rule as usize].to_string(),
        action: log.action().name().to_owned(),
        packet: log.packet.to_string(),
        bytes: log.bytes,
        worker: lcore,
    })
}

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

fn add_lines(
    lines: &mut Vec<Line>,
    (pair, lists): (usize, &AccessLists),
    hits: &[RuleHits],
    now: Nanos,
) {
    let mut hits = hits.iter().copied();
    for (index, list) in lists.lists().enumerate() {
        let places: Vec<_> = lists.places(index).into_iter().map(place_name).collect();
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

/// Returns the words for a place that a list is bound to: `a in`.
fn place_name((side, direction): (Side, ListDirection)) -> String {
    let direction = if direction == ListDirection::In { "in" } else { "out" };
    format!("{} {direction}", side_name(side))
}

fn side_name(side: Side) -> &'static str {
    if side == Side::A { "a" } else { "b" }
}
