// SPDX-License-Identifier: BSD-3-Clause
//! Answers requests whose answers are as long as there are connections. Answers go out part by
//! part; between two parts the walk waits for the client.

use crate::live::answers::instance;
use crate::live::commands::queue::WalkKind;
use crate::live::commands::subscribers::{StreamItem, end_reason};
use crate::live::query::client::{ListedConn, QueryClient, Walk, WalkItem};
use control::{
    AnswerError, ConnectionLine, CountsLine, EventLine, Failure, Line, LineWriter, Request,
    ZoneLine,
};
use engine::{DirectionCounters, FlowEvent, FlowRecord, Query, WhenFull, ZonePolicy, ZoneStatus};
use report::records::label;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time between two checks for events.
const NAP: Duration = Duration::from_millis(5);

/// Lists the connections that match, or the first `limit` of them; returns how many.
pub(crate) fn list(
    inquiry: &QueryClient,
    request: &Request,
    taker: &mut LineWriter,
) -> Result<u64, AnswerError> {
    let query = Query { filter: request.filter(), ..Query::default() };
    let mut walk = Walk::new(WalkKind::List(query));
    let (mut part, mut left) = (Vec::new(), request.limit.map_or(u64::MAX, u64::from));
    let mut given = 0;
    while left > 0 && inquiry.run_part(&mut walk, &mut |item| part.push(item))? {
        let now = inquiry.time();
        for item in part.drain(..).take(usize::try_from(left).unwrap_or(usize::MAX)) {
            if let WalkItem::Flow(found) = item {
                taker.line(&Line::Connection(Box::new(live(&found, now))))?;
                (given, left) = (given + 1, left - 1);
            }
        }
        taker.flush()?;
    }
    Ok(given)
}

/// Counts the connections that match.
pub(crate) fn count(inquiry: &QueryClient, request: &Request) -> Result<u64, AnswerError> {
    let query = Query { filter: request.filter(), ..Query::default() };
    to_the_end(inquiry, WalkKind::Count(query))
}

/// Ends the connections that match; returns how many. It goes on if the client disconnects.
pub(crate) fn flush(inquiry: &QueryClient, request: &Request) -> Result<u64, AnswerError> {
    to_the_end(inquiry, WalkKind::Flush(request.filter()))
}

/// Writes to the marks and labels of the connections that match; returns how many.
pub(crate) fn set(inquiry: &QueryClient, request: &Request) -> Result<u64, AnswerError> {
    if request.set_label.is_some() && !inquiry.has_labels() {
        return Err(Failure::NoLabels.into());
    }
    to_the_end(inquiry, WalkKind::Mark(request.filter(), request.change()))
}

fn to_the_end(inquiry: &QueryClient, kind: WalkKind) -> Result<u64, AnswerError> {
    let mut walk = Walk::new(kind);
    while inquiry.run_part(&mut walk, &mut |_| ())? {}
    Ok(walk.matched)
}

/// Lists zones that have connections at any worker, and zones with settings of their own.
pub(crate) fn zones(inquiry: &QueryClient) -> Result<Vec<Line>, AnswerError> {
    let rules = inquiry.zones();
    let mut zones: BTreeMap<_, _> = rules.named().map(|zone| (zone, vec![])).collect();
    let mut walk = Walk::new(WalkKind::Zones);
    let mut add = |item| {
        if let WalkItem::Zone { zone, now } = item {
            zones.entry(zone).or_default().push(now);
        }
    };
    while inquiry.run_part(&mut walk, &mut add)? {}
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
    let sum = |of: fn(&ZoneStatus) -> u32| workers.iter().map(|now| u64::from(of(now))).sum();
    let [connections, embryonic, new_per_s]: [u64; 3] =
        [sum(|now| now.connections), sum(|now| now.embryonic), sum(|now| now.begun)];
    ZoneLine {
        zone,
        connections,
        assured: connections.saturating_sub(embryonic),
        embryonic,
        new_per_s,
        worker_connections: workers.iter().map(|now| now.connections).max().unwrap_or(0),
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
/// first line identifies the instance. After it events are complete, except those reported as lost.
pub(crate) fn events(
    inquiry: &QueryClient,
    request: &Request,
    taker: &mut LineWriter,
) -> Result<Never, AnswerError> {
    let mut stream = inquiry.subscribe(request.filter())?;
    taker.line(&Line::Instance(instance(inquiry)))?;
    taker.flush()?;
    let mut lines = Vec::new();
    loop {
        let heard = stream.receive(&mut |lcore, heard| lines.push(heard_line(heard, lcore)))?;
        for line in lines.drain(..) {
            taker.line(&line)?;
        }
        taker.flush()?;
        if heard == 0 {
            if taker.is_gone() {
                return Err(AnswerError::Gone);
            }
            std::thread::sleep(NAP);
        }
    }
}

/// The result of a request that ends only by an error.
pub(crate) enum Never {}

fn heard_line(heard: StreamItem, worker: u32) -> Line {
    let (event, at) = match heard {
        StreamItem::Event { event, at } => (event, at),
        StreamItem::Lost(events) => return Line::Lost(events),
    };
    let FlowEvent { change, record, proto_state, is_assured } = &event;
    Line::Event(Box::new(EventLine {
        change: change.name().to_owned(),
        at_ns: at,
        end_reason: end_reason(&event).map(str::to_owned),
        connection: ConnectionLine {
            state: proto_state.map(|state| state.name().to_owned()),
            assured: *is_assured,
            ..of_record(record, worker)
        },
    }))
}

fn live(found: &ListedConn, now: engine::Nanos) -> ConnectionLine {
    let flow = &found.flow;
    let left = flow.expires.saturating_sub(now);
    ConnectionLine {
        state: Some(flow.proto_state.name().to_owned()),
        timeout_s: Some(left as f64 / 1e9),
        assured: flow.is_assured,
        ..of_record(&flow.record, found.lcore)
    }
}

/// Converts a record to a line.
fn of_record(record: &FlowRecord, worker: u32) -> ConnectionLine {
    let counts = |tally: &DirectionCounters| CountsLine {
        packets: tally.packets,
        bytes: tally.bytes,
        ip_bytes: tally.ip_bytes,
        tcp_flags: tally.tcp_flags,
    };
    ConnectionLine {
        ip_version: if record.src.is_ipv4() { 4 } else { 6 },
        proto: record.proto,
        src: record.src,
        sport: record.sport,
        dst: record.dst,
        dport: record.dport,
        zone: record.zone,
        vlan: record.vlan.ids().to_vec(),
        start_ns: record.start,
        last_ns: record.end,
        state: None,
        timeout_s: None,
        replied: record.reply.packets > 0,
        assured: false,
        orig: counts(&record.orig),
        reply: counts(&record.reply),
        mark: record.ct_mark.mark,
        label: label(record.ct_mark),
        worker,
    }
}
