// SPDX-License-Identifier: BSD-3-Clause
//! Answers requests that visit connections: list, count, flush, set, zones and events. A list goes
//! out part by part; between two parts the walk waits for the client.

use crate::live::answers::instance;
use crate::live::commands::queue::WalkKind;
use crate::live::commands::subscribers::{StreamItem, end_reason};
use crate::live::query::client::{ListedConn, QueryClient, Walk, WalkItem};
use crate::live::query::event_stream::EventStream;
use control::{
    AnswerError, ConnectionLine, CountsLine, EventLine, Failure, Line, LineWriter, Request,
    ZoneLine,
};
use engine::{
    DirectionCounters, FlowEvent, FlowRecord, ProtoState, Query, WhenFull, ZonePolicy, ZoneStatus,
};
use report::records::label;
use std::collections::BTreeMap;
use std::time::Duration;
use wire::proto_names;

/// Time between two checks for events.
const NAP: Duration = Duration::from_millis(5);

/// Lists the connections that match, or the first `limit` of them; returns how many.
pub(crate) fn list(
    queries: &QueryClient,
    request: &Request,
    writer: &mut LineWriter,
) -> Result<u64, AnswerError> {
    let query = Query { filter: request.filter(), ..Query::default() };
    let mut walk = Walk::new(WalkKind::List(query));
    let (mut part, mut left) = (Vec::new(), request.limit.map_or(u64::MAX, u64::from));
    let mut listed = 0;
    while left > 0 && queries.run_part(&mut walk, &mut |item| part.push(item))? {
        let now = queries.time();
        for item in part.drain(..).take(usize::try_from(left).unwrap_or(usize::MAX)) {
            if let WalkItem::Flow(found) = item {
                writer.line(&Line::Connection(Box::new(connection_line(&found, now))))?;
                (listed, left) = (listed + 1, left - 1);
            }
        }
        writer.flush()?;
    }
    Ok(listed)
}

/// Counts the connections that match.
pub(crate) fn count(queries: &QueryClient, request: &Request) -> Result<u64, AnswerError> {
    let query = Query { filter: request.filter(), ..Query::default() };
    run_walk(queries, WalkKind::Count(query))
}

/// Ends the connections that match; returns how many. It goes on if the client disconnects.
pub(crate) fn flush(queries: &QueryClient, request: &Request) -> Result<u64, AnswerError> {
    run_walk(queries, WalkKind::Flush(request.filter()))
}

/// Writes to the marks and labels of the connections that match; returns how many.
pub(crate) fn set(queries: &QueryClient, request: &Request) -> Result<u64, AnswerError> {
    if request.set_label.is_some() && !queries.has_labels() {
        return Err(Failure::NoLabels.into());
    }
    run_walk(queries, WalkKind::Mark(request.filter(), request.change()))
}

fn run_walk(queries: &QueryClient, kind: WalkKind) -> Result<u64, AnswerError> {
    let mut walk = Walk::new(kind);
    while queries.run_part(&mut walk, &mut |_| ())? {}
    Ok(walk.matched)
}

/// Lists zones that have connections at any worker, and zones with settings of their own.
pub(crate) fn zones(queries: &QueryClient) -> Result<Vec<Line>, AnswerError> {
    let rules = queries.zones();
    let mut zones: BTreeMap<_, _> = rules.named().map(|zone| (zone, vec![])).collect();
    let mut walk = Walk::new(WalkKind::Zones);
    let mut add = |item| {
        if let WalkItem::Zone { zone, now: status } = item {
            zones.entry(zone).or_default().push(status);
        }
    };
    while queries.run_part(&mut walk, &mut add)? {}
    let line =
        |(zone, workers): (u16, Vec<_>)| Line::Zone(zone_line(zone, &workers, rules.of(zone)));
    Ok(zones.into_iter().map(line).collect())
}

/// Adds up the counts of a zone over the workers that have connections in it.
fn zone_line(
    zone: u16,
    workers: &[ZoneStatus],
    (policy, timeouts): (&ZonePolicy, &str),
) -> ZoneLine {
    let sum = |of: fn(&ZoneStatus) -> u32| workers.iter().map(|status| u64::from(of(status))).sum();
    let [connections, embryonic, new_per_s]: [u64; 3] = [
        sum(|status| status.connections),
        sum(|status| status.embryonic),
        sum(|status| status.begun),
    ];
    ZoneLine {
        zone,
        connections,
        assured: connections.saturating_sub(embryonic),
        embryonic,
        new_per_s,
        worker_connections: workers.iter().map(|status| status.connections).max().unwrap_or(0),
        connections_max: policy.connections_max,
        when_full: match policy.when_full {
            WhenFull::PassUntracked => "pass-untracked",
            WhenFull::Drop => "drop",
        }
        .to_owned(),
        timeouts: timeouts.to_owned(),
    }
}

/// Sends events of the connections that match until the client disconnects or the run ends. The
/// first line identifies the instance. From then on the client gets every event, or the number of
/// those lost.
pub(crate) fn events(
    queries: &QueryClient,
    request: &Request,
    writer: &mut LineWriter,
) -> Result<Never, AnswerError> {
    let mut stream = queries.subscribe(request.filter().into())?;
    follow(queries, writer, &mut stream, event_line)
}

/// Writes the lines of a subscription until the client disconnects or the run ends. `to_line` makes
/// a line of an item and the lcore of its worker.
pub(super) fn follow(
    queries: &QueryClient,
    writer: &mut LineWriter,
    stream: &mut EventStream,
    to_line: impl Fn(StreamItem, u32) -> Line,
) -> Result<Never, AnswerError> {
    writer.line(&Line::Instance(instance(queries)))?;
    writer.flush()?;
    let mut lines = Vec::new();
    loop {
        let received = stream.receive(&mut |lcore, item| lines.push(to_line(item, lcore)))?;
        for line in lines.drain(..) {
            writer.line(&line)?;
        }
        writer.flush()?;
        if received == 0 {
            if writer.is_gone() {
                return Err(AnswerError::Gone);
            }
            std::thread::sleep(NAP);
        }
    }
}

/// The result of a request that ends only by an error.
pub(crate) enum Never {}

fn event_line(item: StreamItem, worker: u32) -> Line {
    let (event, at) = match item {
        StreamItem::Event { event, at } => (event, at),
        StreamItem::Lost(events) => return Line::Lost(events),
        // Subscribers of events get none.
        StreamItem::Log(_) => return Line::Lost(0),
    };
    let FlowEvent { change, record } = &event;
    Line::Event(Box::new(EventLine {
        change: change.name().to_owned(),
        at_ns: at,
        at_us: at / 1000,
        end_reason: end_reason(&event).map(str::to_owned),
        connection: record_line(record, worker),
    }))
}

/// Returns the line of a connection as it was at this time.
pub(super) fn connection_line(found: &ListedConn, now: engine::Nanos) -> ConnectionLine {
    let flow = &found.flow;
    let left = flow.expires.saturating_sub(now);
    ConnectionLine { timeout_s: Some(left as f64 / 1e9), ..record_line(&flow.record, found.lcore) }
}

/// True if the responder has sent a packet that fits. In states without an answer, its packets were
/// counted and ignored, such as the challenge ACK to a SYN (RFC 5961 section 4).
fn is_replied(record: &FlowRecord) -> bool {
    let is_unanswered = matches!(
        record.proto_state,
        ProtoState::SynSent | ProtoState::PickedUp | ProtoState::HeartbeatSent
    );
    record.reply.packets > 0 && !is_unanswered
}

/// Converts a record to a line.
fn record_line(record: &FlowRecord, worker: u32) -> ConnectionLine {
    let counts = |counters: &DirectionCounters| CountsLine {
        packets: counters.packets,
        bytes: counters.bytes,
        ip_bytes: counters.ip_bytes,
        tcp_flags: counters.tcp_flags,
    };
    ConnectionLine {
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
        state: Some(record.proto_state.name().to_owned()),
        timeout_s: None,
        replied: is_replied(record),
        assured: record.is_assured,
        orig: counts(&record.orig),
        reply: counts(&record.reply),
        mark: record.ct_mark.mark,
        label: label(record.ct_mark),
        worker,
    }
}
