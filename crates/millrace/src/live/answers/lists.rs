// SPDX-License-Identifier: BSD-3-Clause
//! Answers requests for access lists: their rules, how many packets each has decided about, and the
//! packets that they log.

use super::connections::{Never, follow};
use crate::live::commands::subscribers::{StreamItem, Topic};
use crate::live::offload::ListReport;
use crate::live::query::client::{ListHits, QueryClient, RunEnding};
use control::{
    AccessLogLine, AccessPortLine, AccessPortRule, AccessRuleLine, AnswerError, Line, LineWriter,
    RuleHandle,
};
use engine::{AccessLists, Nanos, RuleHits, Side};
use offload::ListRuleState;

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
        at_us: log.at / 1000,
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
    let ListHits { epoch, lists, pairs } = queries.rule_hits()?;
    let now = queries.time();
    let mut lines = Vec::new();
    for (pair, (lists, hits)) in lists.iter().zip(pairs).enumerate() {
        if let Some(lists) = lists {
            lines.extend(rule_lines((pair, lists), &hits.rules, now).map(|line| {
                // Rules of other lists are changed by a reload only.
                let has_handle = lists.lists().any(|list| list.name == line.list);
                let rule = line.rule.filter(|_| has_handle);
                let handle = rule.map(|rule| RuleHandle::new(&line.list, epoch, rule));
                let handle = handle.map(|handle| handle.to_string());
                Line::AccessRule(AccessRuleLine { epoch, handle, ..line })
            }));
        }
    }
    Ok(lines)
}

/// Returns a line for each port: which rules of access lists its NIC has, and why not the others.
pub(super) fn list_offload(queries: &QueryClient) -> Result<Vec<Line>, RunEnding> {
    let ListHits { lists: access, pairs: hits, .. } = queries.rule_hits()?;
    let ports = queries.rules.iter().enumerate().filter_map(|(number, rules)| {
        let (pair, side) = (number / 2, if number % 2 == 0 { Side::A } else { Side::B });
        let lists = access.get(pair)?.as_ref()?;
        let marks = hits.get(pair)?.marks;
        let line = AccessPortLine {
            pair: pair as u32,
            port: (if side == Side::A { "a" } else { "b" }).to_owned(),
            name: rules.name().to_owned(),
            ethernet_list: lists.ethernet_way(side).next().map(|list| list.name.clone()),
            decided: marks.decided,
            checked: marks.checked,
            disagreed: marks.disagreed,
            ..port_line(rules.list_report(), (lists, side))
        };
        Some(Line::AccessPort(Box::new(line)))
    });
    Ok(ports.collect())
}

fn port_line(
    report: Result<ListReport, String>,
    (lists, side): (&AccessLists, Side),
) -> AccessPortLine {
    let first = lists.first_list(side);
    let report = match report {
        Ok(report) => report,
        Err(reason) => {
            let list = first.map(|(list, ..)| list.name.clone());
            return AccessPortLine { list, reason: Some(reason), ..AccessPortLine::default() };
        }
    };
    let why_marked = report.why_marked;
    let rule = |(number, state): (u32, ListRuleState)| {
        let (list, first, _) = first?;
        let index = number.checked_sub(first)?;
        let rule = list.rules.get(index as usize);
        let text = rule.map_or_else(|| format!("default {}", list.default), ToString::to_string);
        let (state, reason, numbers) = rule_state(state);
        let reason = reason.or_else(|| why_marked.get(&number).filter(|_| state == "nic").cloned());
        let rule = rule.map(|_| index);
        Some(AccessPortRule { rule, text, state: state.to_owned(), reason, numbers })
    };
    let counts = report.counts;
    let calls = counts.created + counts.destroyed;
    AccessPortLine {
        list: report.list,
        possible: report.reason.is_none(),
        reason: report.reason,
        epoch: report.epoch,
        room: report.room as u64,
        levels: report.levels,
        present: counts.present as u64,
        created: counts.created,
        destroyed: counts.destroyed,
        stuck: counts.stuck as u64,
        call_us: counts.call_time as f64 / 1e3 / calls.max(1) as f64,
        rules: report.rules.into_iter().filter_map(rule).collect(),
        ..AccessPortLine::default()
    }
}

/// Returns a line for each rule of the lists of a pair, and for the default of each list. The rules
/// have no handles: these need a running instance.
pub(crate) fn rule_lines(
    (pair, lists): (usize, &AccessLists),
    hits: &[RuleHits],
    now: Nanos,
) -> impl Iterator<Item = AccessRuleLine> {
    let mut hits = hits.iter().copied();
    let of_packets = lists.lists().enumerate().map(|(index, list)| {
        let texts: Box<dyn Iterator<Item = String>> =
            Box::new(list.rules.iter().map(ToString::to_string));
        (&list.name, lists.place_names(index), texts, list.default)
    });
    let of_frames = lists.ethernet_lists().enumerate().map(|(index, list)| {
        let texts: Box<dyn Iterator<Item = String>> =
            Box::new(list.rules.iter().map(ToString::to_string));
        (&list.name, lists.ethernet_place_names(index), texts, list.default)
    });
    let rules = of_packets.chain(of_frames).flat_map(|(name, places, texts, default)| {
        let rules = (0..).zip(texts).map(|(number, text)| (Some(number), text));
        let default = (None, format!("default {default}"));
        rules.chain([default]).map(move |(rule, text)| (name, places.clone(), rule, text))
    });
    rules.map(move |(name, places, rule, text)| {
        let RuleHits { packets, bytes, last } = hits.next().unwrap_or_default();
        let age = now.saturating_sub(last) as f64 / 1e9;
        AccessRuleLine {
            pair: pair as u32,
            list: name.clone(),
            places,
            rule,
            epoch: 0,
            handle: None,
            text,
            packets,
            bytes,
            last_s: (packets > 0).then_some(age),
        }
    })
}

/// Returns the state of a rule in a port, why it is in software only, and its numbers in the port.
pub(super) fn rule_state(state: ListRuleState) -> (&'static str, Option<String>, Vec<u64>) {
    match state {
        ListRuleState::Present(numbers) => ("nic", None, numbers),
        ListRuleState::Dropping(numbers) => ("drop", None, numbers),
        ListRuleState::Waiting => ("waiting", None, Vec::new()),
        ListRuleState::Left(reason) => ("software", Some(reason), Vec::new()),
    }
}

/// Returns the name of a side.
pub(crate) fn side_name(side: Side) -> &'static str {
    if side == Side::A { "a" } else { "b" }
}
