// SPDX-License-Identifier: BSD-3-Clause
//! Explains what would happen to a packet: its connection, the rules on its way, and whether the
//! NIC or software decides.

use super::connections::connection_line;
use super::lists::{rule_state, side_name};
use super::offload_line;
use crate::live::offload::ListReport;
use crate::live::query::client::{ListedConn, PortStatus, QueryClient};
use crate::live::query::explain::Explained;
use acl::{AccessList, Action, Decision, Fragment, Frame, Packet, RuleOptions};
use control::{
    AccessExplainLine, AccessExplainRule, ExplainedConnection, Failure, Line, PacketToExplain,
    Request, RuleHandle,
};
use engine::{
    AccessLists, AccessSource, ConnExplanation, MarkUse, Nanos, PacketExplanation, PacketQuestion,
    PacketRelation, RuleState, Side,
};
use std::fmt::Display;
use wire::proto;

/// What the rules of a port in its NIC are, or why there are none.
type Report = Result<ListReport, String>;

/// Returns the line about the packet of a request.
pub(super) fn explain(queries: &QueryClient, request: &Request) -> Result<Line, Failure> {
    let missing = || Failure::Syntax("explain: needs explain".to_owned());
    let asked = request.explain.as_ref().ok_or_else(missing)?;
    let names: Vec<_> = queries.port_names().collect();
    let (pair, side) = place(&names, asked).map_err(Failure::Packet)?;
    let line = match asked.packet.split_whitespace().next() {
        Some("ether-type") => {
            let frame: Frame = asked.packet.parse().map_err(Failure::Packet)?;
            let frame = Frame { zone: asked.zone.unwrap_or(0), ..frame };
            let (lists, epoch) = queries.lists_of(pair);
            let mut rules = lists.map_or_else(Vec::new, |lists| frame_rules(&lists, side, &frame));
            let reason = "a list for frames that are not IP stays in software";
            rules.iter_mut().for_each(|rule| rule.reason = Some(reason.to_owned()));
            AccessExplainLine { epoch, ..frame_line(&frame, rules) }
        }
        _ => packet_line(queries, (pair, side), asked)?,
    };
    let name = names.get(2 * pair + side as usize).copied().unwrap_or_default().to_owned();
    let (pair, port) = (pair as u32, side_name(side).to_owned());
    Ok(Line::AccessExplain(Box::new(AccessExplainLine { pair, port, name, ..line })))
}

/// Returns the pair and the side at which a packet arrives.
///
/// # Errors
/// Which ports there are, if none or several are meant.
fn place(names: &[&str], asked: &PacketToExplain) -> Result<(usize, Side), String> {
    let pairs = names.len() / 2;
    let all = names.join(", ");
    let pair = match asked.pair.map(|pair| pair as usize) {
        Some(pair) if pair >= pairs => {
            return Err(format!("there is no pair {pair}; the last one is {}", pairs - 1));
        }
        pair => pair,
    };
    let side = match asked.port.as_deref() {
        None | Some("a" | "A") => Side::A,
        Some("b" | "B") => Side::B,
        Some(name) => {
            let at = names.iter().position(|other| *other == name);
            let at = at
                .ok_or_else(|| format!("there is no port {name:?}; write a, b, or one of {all}"))?;
            if pair.is_some_and(|pair| pair != at / 2) {
                return Err(format!("port {name:?} belongs to pair {}", at / 2));
            }
            return Ok((at / 2, if at % 2 == 0 { Side::A } else { Side::B }));
        }
    };
    match pair {
        Some(pair) => Ok((pair, side)),
        None if pairs == 1 => Ok((0, side)),
        None => Err(format!(
            "there are {pairs} pairs: name the port with --port, one of {all}, or the pair with \
             --pair"
        )),
    }
}

/// Parses the states of a packet, as rules name them.
pub(crate) fn states(text: &str) -> Result<acl::CtStates, String> {
    let mut criteria = acl::Criteria::ANY;
    acl::parse_field(&mut criteria, "ct", text, &|_| None).map(|()| criteria.ct)
}

/// Returns the line about a frame that is not IP, by the rules that count it and decide.
pub(crate) fn frame_line(frame: &Frame, rules: Vec<AccessExplainRule>) -> AccessExplainLine {
    let (packet, zone, relation) = (frame.to_string(), frame.zone, "frame".to_owned());
    AccessExplainLine { packet, zone, relation, ..line_of_rules(rules) }
}

/// Returns the line about a packet whose connection is not known.
pub(crate) fn line_without_connection(
    packet: &Packet,
    rules: Vec<AccessExplainRule>,
) -> AccessExplainLine {
    let (zone, ct) = (packet.zone, packet.ct.to_string());
    AccessExplainLine { packet: packet.to_string(), zone, ct, ..line_of_rules(rules) }
}

fn line_of_rules(rules: Vec<AccessExplainRule>) -> AccessExplainLine {
    let is_asked = !rules.is_empty();
    let source = if is_asked { AccessSource::Search } else { AccessSource::NotAsked };
    AccessExplainLine {
        verdict: verdict(&rules).to_owned(),
        source: source_name(source).to_owned(),
        decided_by: "software".to_owned(),
        rules,
        ..AccessExplainLine::default()
    }
}

/// Returns the name of how a decision was found, in `--json`.
pub(crate) fn source_name(source: AccessSource) -> &'static str {
    match source {
        AccessSource::Search => "searched",
        AccessSource::Stored => "stored",
        AccessSource::NotAsked => "not_asked",
    }
}

/// Returns the places of lists that judge packets which arrive at this side, in their order.
fn places(side: Side) -> [String; 2] {
    [format!("{} in", side_name(side)), format!("{} out", side_name(side.other()))]
}

/// Returns the verdict of the last rule.
fn verdict(rules: &[AccessExplainRule]) -> &'static str {
    match rules.last().map(|rule| rule.action.as_str()) {
        Some("deny") => "deny",
        Some("reject") => "reject",
        _ => "pass",
    }
}

/// Returns the rules of lists for IP packets that count this packet and decide about it.
pub(crate) fn packet_rules(
    lists: &AccessLists,
    side: Side,
    packet: &Packet,
) -> Vec<AccessExplainRule> {
    on_way(side, |place| {
        let is_bound = |index: usize| lists.place_names(index).iter().any(|at| at == place);
        let (_, list) = lists.lists().enumerate().find(|(index, _)| is_bound(*index))?;
        let decision = list.decide(packet);
        let counting = list.counting(decision, packet);
        Some(rows((&list.name, place), &list.rules, counting, decision))
    })
}

/// Returns the rules of lists for frames that are not IP that count this frame and decide about it.
pub(crate) fn frame_rules(
    lists: &AccessLists,
    side: Side,
    frame: &Frame,
) -> Vec<AccessExplainRule> {
    on_way(side, |place| {
        let is_bound =
            |index: usize| lists.ethernet_place_names(index).iter().any(|at| at == place);
        let (_, list) = lists.ethernet_lists().enumerate().find(|(index, _)| is_bound(*index))?;
        let decision = list.decide(frame);
        let counting = list.counting(decision, frame);
        Some(rows((&list.name, place), &list.rules, counting, decision))
    })
}

/// Returns the rules of the lists that judge packets which arrive at this side, up to the first
/// list that does not permit. `of_place` returns those of the list at a place.
fn on_way(
    side: Side,
    of_place: impl Fn(&str) -> Option<Vec<AccessExplainRule>>,
) -> Vec<AccessExplainRule> {
    places(side).iter().fold(Vec::new(), |mut rules, place| {
        if verdict(&rules) == "pass" {
            rules.extend(of_place(place).into_iter().flatten());
        }
        rules
    })
}

/// Returns the rows of the rules of a list that count a packet, and of its decision.
fn rows(
    (list, place): (&str, &str),
    rules: &[impl Display],
    counting: impl Iterator<Item = u32>,
    Decision { rule, action }: Decision,
) -> Vec<AccessExplainRule> {
    let counting = counting.map(|rule| (Some(rule), Action::Count));
    let row = |(rule, action): (Option<u32>, Action)| AccessExplainRule {
        list: list.to_owned(),
        list_rules: rules.len() as u32,
        place: place.to_owned(),
        rule,
        text: match rule.and_then(|rule| rules.get(rule as usize)) {
            Some(rule) => rule.to_string(),
            None => format!("default {action}"),
        },
        action: action.name().to_owned(),
        state: "software".to_owned(),
        ..AccessExplainRule::default()
    };
    counting.chain([(rule, action)]).map(row).collect()
}

/// Returns the line about a packet that arrives at this side of a pair.
fn packet_line(
    queries: &QueryClient,
    (pair, side): (usize, Side),
    asked: &PacketToExplain,
) -> Result<AccessExplainLine, Failure> {
    let packet: Packet = asked.packet.parse().map_err(Failure::Packet)?;
    let ct = asked.ct.as_deref().map(states).transpose().map_err(Failure::Packet)?;
    let question = PacketQuestion { side, packet, numbers: [0; 2], zone: asked.zone, ct };
    let versions = || Failure::Packet("the packet has addresses of both IP versions".to_owned());
    let found = queries.explain(pair, &question)?.ok_or_else(versions)?;
    let report = queries.rules.get(2 * pair + side as usize).map(|port| port.list_report());
    let report = report.unwrap_or_else(|| Err("there is no such port".to_owned()));
    let PacketExplanation { trace, relation, .. } = &found.packet;
    let rules = traced_rules(&found, side, &report);
    let ports = queries.ports()?;
    let mark_use = ports.get(2 * pair + side as usize).map(|port| port.state.marks.in_use);
    let decided_by = decided_by(&found, &rules, mark_use != Some(MarkUse::Ignored));
    let (now, conn) = (queries.time(), found.packet.conn.as_ref());
    let connection = conn.map(|conn| connection((&found, conn), (pair, now), &ports));
    Ok(AccessExplainLine {
        relation: relation.name().to_owned(),
        connection,
        source: source_name(trace.source).to_owned(),
        decided_by: decided_by.to_owned(),
        epoch: found.epoch,
        ..line_without_connection(&trace.packet, rules)
    })
}

/// Returns the rules that decide about a packet, and those that count it, with their state in the
/// NIC of the port at which it arrives.
fn traced_rules(found: &Explained, side: Side, report: &Report) -> Vec<AccessExplainRule> {
    let (Some(lists), trace) = (&found.lists, &found.packet.trace) else { return Vec::new() };
    let is_anew = found.packet.conn.as_ref().is_some_and(|conn| conn.is_open);
    let mut all = Vec::new();
    for (counter, place) in trace.rules.iter().zip(places(side)) {
        let Some((list, first)) = counter.and_then(|counter| list_of(lists, counter)) else {
            continue;
        };
        let rule = counter.map(|counter| counter - first);
        let rule = rule.filter(|rule| (*rule as usize) < list.rules.len());
        let decision = Decision { rule, action: list.action(rule) };
        let counting = list.counting(decision, &trace.packet);
        let counting = counting.filter(|_| trace.source == AccessSource::Search && !is_anew);
        let rows = rows((&list.name, &place), &list.rules, counting, decision);
        all.extend(rows.into_iter().map(|row| {
            let number = first + row.rule.unwrap_or(list.rules.len() as u32);
            let handle = row.rule.map(|rule| RuleHandle::new(&list.name, found.epoch, rule));
            let (state, reason, numbers) = nic_state(report, (lists, number));
            let handle = handle.map(|handle| handle.to_string());
            AccessExplainRule { handle, state: state.to_owned(), reason, numbers, ..row }
        }));
    }
    all
}

/// Returns the list that has the rule with this counter, and the counter of its first rule.
fn list_of(lists: &AccessLists, counter: u32) -> Option<(&AccessList, u32)> {
    let mut next = 0;
    lists.lists().find_map(|list| {
        let first = next;
        next += list.rules.len() as u32 + 1;
        (counter < next).then_some((&**list, first))
    })
}

/// Returns the state of a rule in a port, why it is in software only, and its numbers in the port.
fn nic_state(
    report: &Report,
    (lists, number): (&AccessLists, u32),
) -> (&'static str, Option<String>, Vec<u64>) {
    let report = match report {
        Ok(ListReport { reason: Some(reason), .. }) | Err(reason) => {
            return ("software", Some(reason.clone()), Vec::new());
        }
        Ok(report) if report.epoch != lists.epoch() => return ("waiting", None, Vec::new()),
        Ok(report) => report,
    };
    match report.rules.iter().find(|(other, _)| *other == number) {
        Some((_, state)) => rule_state(state.clone()),
        None => ("software", Some("the port has another list".to_owned()), Vec::new()),
    }
}

/// Returns what decides about the packet: the NIC by itself, one of its marks, or software.
fn decided_by(
    found: &Explained,
    rules: &[AccessExplainRule],
    uses_marks_of_connections: bool,
) -> &'static str {
    let PacketExplanation { trace, relation, conn } = &found.packet;
    let has_plain_action = |rule: &AccessExplainRule| {
        let mut lists = found.lists.iter().flat_map(|lists| lists.lists());
        let list = lists.find(|list| list.name == rule.list);
        let options = list.zip(rule.rule).map(|(list, rule)| list.rules[rule as usize].options);
        rule.action != "reject" && options.unwrap_or_default() == RuleOptions::default()
    };
    match (trace.source, conn) {
        (AccessSource::Stored | AccessSource::NotAsked, Some(conn)) => {
            match conn.view.rules.map(|rules| rules[conn.direction].state) {
                Some(RuleState::Bypassed) => "bypass",
                Some(RuleState::Effective) if uses_marks_of_connections => "connection_mark",
                _ => "software",
            }
        }
        // Packets of connections that follow no stored decision are compared in software.
        (AccessSource::Search, _)
            if *relation != PacketRelation::Belongs
                && [proto::TCP, proto::UDP].contains(&trace.packet.proto)
                && matches!(rules, [rule] if rule.state == "nic" && has_plain_action(rule)) =>
        {
            "list_mark"
        }
        // The NIC drops packets of every protocol without a tag that are no fragments.
        (AccessSource::Search, _)
            if trace.packet.zone == 0
                && trace.packet.fragment == Fragment::None
                && matches!(rules, [rule] if rule.state == "drop") =>
        {
            "list_drop"
        }
        _ => "software",
    }
}

/// Returns the connection of a packet, and what is stored with it.
fn connection(
    (found, conn): (&Explained, &ConnExplanation),
    (wire, now): (usize, Nanos),
    ports: &[PortStatus],
) -> ExplainedConnection {
    let listed = ListedConn { flow: conn.view.clone(), lcore: found.lcore, wire };
    let record = &listed.flow.record;
    let packets = [&record.orig, &record.reply][conn.direction].packets;
    let [orig_decision, reply_decision] = conn.decisions.map(|of| of.name().to_owned());
    ExplainedConnection {
        connection: connection_line(&listed, now),
        direction: ["orig", "reply"][conn.direction].to_owned(),
        began_at: conn.side.map(|side| side_name(side).to_owned()),
        orig_decision,
        reply_decision,
        reflects: conn.reflects,
        judged_anew: conn.is_open,
        offload: offload_line(&listed, &listed.rules()[conn.direction], packets, ports),
    }
}
