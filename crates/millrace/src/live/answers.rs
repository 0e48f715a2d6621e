// SPDX-License-Identifier: BSD-3-Clause
//! Answers the requests of clients about a running instance.

mod connections;
pub(crate) mod explain;
mod list_changes;
pub(crate) mod lists;

use crate::live::query::client::{ListedConn, PortStatus, QueryClient, RunEnding};
use crate::live::reload_plan::{Reload, effect_line};
use control::{
    AnswerError, Answerer, DirectionLine, EndLine, Failure, FlowLine, InstanceLine, Line,
    LineWriter, OffloadLine, PortLine, Request, RequestKind, RuleLine, VERSION,
};
use engine::{DirectionCounters, Nanos, NoRuleReason, Query, RuleState, RuleView, Side};
use report::top_n::TopN;
use results::units;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use wire::proto_names;

impl From<RunEnding> for Failure {
    fn from(_: RunEnding) -> Self {
        Failure::Ending
    }
}

impl From<RunEnding> for AnswerError {
    fn from(_: RunEnding) -> Self {
        Failure::Ending.into()
    }
}

/// Answers the requests of clients of one instance.
pub(crate) struct Answers {
    queries: Arc<QueryClient>,
    reload: Arc<Reload>,
}

impl Answers {
    /// `queries` queries the instance; `reload` reads its configuration again.
    pub(crate) fn new(queries: Arc<QueryClient>, reload: Arc<Reload>) -> Self {
        Self { queries, reload }
    }
}

impl Answerer for Answers {
    fn answer(&self, request: &Request, writer: &mut LineWriter) -> Result<(), AnswerError> {
        answer((&self.queries, &self.reload), request, writer)
    }
}

/// Writes the lines of an answer, except an error at its end.
fn answer(
    (queries, reload): (&QueryClient, &Reload),
    request: &Request,
    writer: &mut LineWriter,
) -> Result<(), AnswerError> {
    let (mut lines, mut matched, mut effect) = (Vec::new(), 0, None);
    match request.ask {
        RequestKind::List => matched = connections::list(queries, request, writer)?,
        RequestKind::Events => match connections::events(queries, request, writer)? {},
        RequestKind::AccessLog => match lists::log(queries, writer)? {},
        RequestKind::Count => matched = connections::count(queries, request)?,
        RequestKind::Flush => matched = connections::flush(queries, request)?,
        RequestKind::Set => matched = connections::set(queries, request)?,
        RequestKind::Reload => {
            let path = request.path.as_deref().map(Path::new);
            let read = || reload.read(path).map_err(AnswerError::from);
            if request.dry_run {
                (lines, matched) = list_changes::preview_reload(queries, read)?;
            } else {
                let done = queries.reload(read)?;
                (matched, effect) = (done.retimed, done.lists);
            }
        }
        RequestKind::ChangeLists if request.dry_run => {
            (lines, matched) = list_changes::preview_change(queries, request)?;
        }
        RequestKind::ChangeLists => {
            (lines, effect) = list_changes::change(queries, request)?;
            matched = lines.len() as u64;
        }
        RequestKind::Explain => {
            lines.push(explain::explain(queries, request)?);
            matched = 1;
        }
        RequestKind::Zones => {
            lines = connections::zones(queries)?;
            matched = lines.len() as u64;
        }
        RequestKind::Lists => {
            lines = lists::lists(queries)?;
            matched = lines.len() as u64;
        }
        RequestKind::ListOffload => {
            lines = lists::list_offload(queries)?;
            matched = lines.len() as u64;
        }
        RequestKind::Instance => lines.push(Line::Instance(instance(queries))),
        RequestKind::Stats => lines.push(stats(queries)?),
        RequestKind::Flows => matched = flows(queries, request, &mut lines)?,
        RequestKind::Offload => {
            lines.extend(queries.ports()?.iter().map(|port| Line::Port(Box::new(port_line(port)))));
            matched = rules(queries, request, &mut lines)?;
        }
    }
    let effect = effect.as_ref().map(effect_line);
    lines.push(Line::End(EndLine { matched, effect }));
    // All queries are done, so no worker waits for a slow client.
    Ok(lines.iter().try_for_each(|line| writer.line(line))?)
}

fn instance(queries: &QueryClient) -> InstanceLine {
    InstanceLine {
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        protocol: VERSION,
        age_s: queries.age().as_secs_f64(),
        policy: queries.policy().to_owned(),
        ports: queries.port_names().map(str::to_owned).collect(),
    }
}

fn stats(queries: &QueryClient) -> Result<Line, Failure> {
    let summary = queries.summary()?;
    let mut report = Vec::new();
    summary.print(&mut report).expect("memory takes what is written");
    let report = String::from_utf8_lossy(&report).into_owned();
    Ok(Line::Stats { summary: to_value(&summary), report })
}

fn to_value(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_else(|error| json!(error.to_string()))
}

fn query(request: &Request, has_rules: bool) -> Query {
    Query { filter: request.filter(), has_rules, with_rules: true }
}

/// Collects lines of the connections with the most bytes; returns how many connections match.
fn flows(queries: &QueryClient, request: &Request, lines: &mut Vec<Line>) -> Result<u64, Failure> {
    let mut busiest = TopN::new(request.limit());
    queries.flows(query(request, false), &mut |found, now| {
        let record = &found.flow.record;
        busiest.offer(record.orig.bytes + record.reply.bytes, || (found, now));
    })?;
    let ports = queries.ports()?;
    let matched = busiest.offered();
    lines.extend(busiest.into_sorted().map(|(found, now)| {
        let line = flow_line(&found, &ports, now);
        Line::Flow(Box::new(line))
    }));
    Ok(matched)
}

/// Collects lines of the rules with the most packets per second; returns how many rules match.
fn rules(queries: &QueryClient, request: &Request, lines: &mut Vec<Line>) -> Result<u64, Failure> {
    let names: Vec<_> = queries.port_names().collect();
    let mut busiest = TopN::new(request.limit());
    queries.flows(query(request, true), &mut |found, now| {
        for (direction, view) in found.flow.rules.iter().flatten().enumerate() {
            if !matches!(view.state, RuleState::None | RuleState::Candidate) {
                let rate = (view.rate * 16.0) as u64;
                busiest.offer(rate, || rule_line(&found, direction, &names, now));
            }
        }
    })?;
    let matched = busiest.offered();
    lines.extend(busiest.into_sorted().map(Line::Rule));
    Ok(matched)
}

fn seconds(from: Nanos, until: Nanos) -> f64 {
    until.saturating_sub(from) as f64 / 1e9
}

fn port_line(PortStatus { rules, state }: &PortStatus) -> PortLine {
    PortLine {
        name: rules.name.clone(),
        state: rules.state.to_owned(),
        reason: rules.reason.clone(),
        installed: rules.rules.installed,
        live: state.live,
        room: state.room,
        threshold_pps: state.threshold,
        horizon_s: state.horizon_ns as f64 / 1e9,
        kinds_aside: state.kinds_aside,
        mark_bits: rules.mark_bits,
        bypass: rules.bypass.to_owned(),
        bypass_reason: rules.bypass_reason.clone(),
        mark_use: state.marks.in_use.name().to_owned(),
        mark_cycles: state.marks.by_mark,
        software_cycles: state.marks.in_software,
        mark_switches: state.marks.switches,
        payback_packets: state.payback_packets,
        packet_ns: state.packet_ns,
        bypass_tcp: rules.bypass_tcp.to_owned(),
        bypass_tcp_reason: rules.bypass_tcp_reason.clone(),
        insert_us: to_value(&rules.insert_us),
        delete_us: to_value(&rules.delete_us),
        rules: to_value(&rules.rules),
    }
}

fn rule_line(found: &ListedConn, direction: usize, names: &[&str], now: Nanos) -> RuleLine {
    let (record, view) = (&found.flow.record, &found.rules()[direction]);
    let orig = (record.src, record.sport);
    let reply = (record.dst, record.dport);
    let ((src, sport), (dst, dport)) = if direction == 0 { (orig, reply) } else { (reply, orig) };
    let port = port_number(found, view.side.unwrap_or_default());
    RuleLine {
        port: names.get(port).copied().unwrap_or_default().to_owned(),
        proto: record.proto,
        src,
        sport,
        dst,
        dport,
        zone: record.zone,
        state: view.state.name().to_owned(),
        age_s: view.since.map_or(0.0, |since| seconds(since, now)),
        rate_pps: view.rate,
        hits: view.hits,
        worker: found.lcore,
    }
}

/// Returns the number of the port at `side` of the connection's wire.
fn port_number(found: &ListedConn, side: Side) -> usize {
    2 * found.wire + side as usize
}

fn flow_line(found: &ListedConn, ports: &[PortStatus], now: Nanos) -> FlowLine {
    let record = &found.flow.record;
    let line = |direction: usize, counters: &DirectionCounters| {
        let DirectionCounters { packets, bytes, ip_bytes, tcp_flags } = *counters;
        let offload = offload_line(found, &found.rules()[direction], packets, ports);
        DirectionLine { packets, bytes, ip_bytes, tcp_flags, offload }
    };
    FlowLine {
        ip_version: if record.src.is_ipv4() { 4 } else { 6 },
        proto: record.proto,
        proto_name: proto_names::name(record.proto),
        src: record.src,
        sport: record.sport,
        dst: record.dst,
        dport: record.dport,
        zone: record.zone,
        vlan: record.vlan.ids().to_vec(),
        start_ns: record.start,
        start_us: record.start / 1000,
        last_ns: record.end,
        last_us: record.end / 1000,
        age_s: seconds(record.start, now),
        idle_s: seconds(record.end, now),
        state: record.state.name().to_owned(),
        ct_state: found.flow.record.proto_state.name().to_owned(),
        orig: line(0, &record.orig),
        reply: line(1, &record.reply),
        worker: found.lcore,
    }
}

fn offload_line(
    found: &ListedConn,
    view: &RuleView,
    packets: u64,
    ports: &[PortStatus],
) -> OffloadLine {
    let port = view.side.and_then(|side| ports.get(port_number(found, side)));
    let of_wire =
        ports.get(port_number(found, Side::A)..=port_number(found, Side::B)).unwrap_or_default();
    let words = match view.reason {
        None => rule_words(view),
        Some(NoRuleReason::Off) => off_words(of_wire),
        Some(reason) => reason_words(reason, (view, packets), port),
    };
    OffloadLine {
        state: view.state.name().to_owned(),
        reason: view.reason.map(|reason| reason.name().to_owned()),
        words,
        since_ns: view.since,
        since_us: view.since.map(|since| since / 1000),
        port: port.map(|port| port.rules.name.clone()),
        rate_pps: view.rate,
        hits: view.hits,
    }
}

fn rule_words(view: &RuleView) -> String {
    match view.state {
        RuleState::Requested => {
            "its rule was requested, and the NIC has not confirmed it yet".to_owned()
        }
        RuleState::Installed => {
            "the NIC has its rule, but no packet has had the mark yet".to_owned()
        }
        RuleState::Effective => format!("marked by the NIC, {} packets so far", view.hits),
        RuleState::Bypassed => {
            format!("forwarded by the NIC itself, {} packets so far", view.hits)
        }
        RuleState::Removing => "its rule is being removed from the NIC".to_owned(),
        RuleState::None | RuleState::Candidate => String::new(),
    }
}

/// Returns why neither port has any rules.
fn off_words(ports: &[PortStatus]) -> String {
    let reasons = ports.iter().filter_map(|port| port.rules.reason.as_deref());
    let mut reasons: Vec<_> = reasons.collect();
    reasons.dedup();
    format!("its ports take no rules: {}", reasons.join("; "))
}

/// Returns the words for why a direction has no rule.
fn reason_words(
    reason: NoRuleReason,
    (view, packets): (&RuleView, u64),
    port: Option<&PortStatus>,
) -> String {
    let rate = units::pps(view.rate);
    match reason {
        NoRuleReason::Off => off_words(&[]),
        NoRuleReason::Protocol => "only TCP and UDP get rules".to_owned(),
        NoRuleReason::NoOffload => {
            "a rule of an access list permits it with `no-offload`".to_owned()
        }
        NoRuleReason::ZoneByRule => {
            "a zone rule names its zone, so no VLAN tag identifies its packets".to_owned()
        }
        NoRuleReason::TooFewPackets { least } => {
            format!("it has had {packets} packets; the first measurement needs {least}")
        }
        NoRuleReason::BelowThreshold { score, threshold } if view.rate >= threshold => format!(
            "its rate of {rate} packets/s is high enough, but it has had only {packets} packets, \
             which count as {score} packets/s; the threshold is {threshold} packets/s",
            score = units::pps(score),
            threshold = units::pps(threshold)
        ),
        NoRuleReason::BelowThreshold { threshold, .. } => format!(
            "its rate of {rate} packets/s is below the threshold of {threshold} packets/s",
            threshold = units::pps(threshold)
        ),
        NoRuleReason::NoCapacity => match port {
            Some(PortStatus { state, .. }) => {
                format!(
                    "the NIC has room for {} rules, and connections at least as busy have them",
                    state.room
                )
            }
            None => "the NIC has no room for another rule".to_owned(),
        },
        NoRuleReason::ZoneFull => {
            "its zone has `zone_rules_max` rules, of connections at least as busy".to_owned()
        }
        NoRuleReason::Refused => format!("refused: {}", refusal(port)),
        NoRuleReason::Ineffective => {
            "ineffective: the NIC took its rule, but no packet had the mark".to_owned()
        }
        NoRuleReason::KindAside => {
            "rules of its kind had no effect at this port; they are tried again later".to_owned()
        }
        NoRuleReason::BackOff => {
            "the port had an error a moment ago, and gets no new rules for a while".to_owned()
        }
        NoRuleReason::Waiting => {
            "it waits for its turn: the port installs other rules first".to_owned()
        }
    }
}

/// Returns the driver's words for its last refusal of a rule.
fn refusal(port: Option<&PortStatus>) -> &str {
    let Some(PortStatus { rules, .. }) = port else { return "the port takes no such rule" };
    let refused = &rules.rules.refused;
    match (&rules.reason, &refused.last) {
        (Some(reason), _) => reason,
        (None, Some(last)) => last,
        (None, None) => "the NIC takes no rule for such packets",
    }
}
