// SPDX-License-Identifier: BSD-3-Clause
//! Marks and labels of connections: what is written to some of them stays with those, and with no
//! other.

use engine::{
    Config, CtMark, Cursor, EndReason, EndpointMatch, Engine, EventKind, Filter, FlowRecord,
    MarkChange, MarkProgress, MarkRule, MaskedBits, Query, Timeouts, Verdict, ZonePolicies,
};
use wire::{BytesPacket, FrameBuilder, tcp};

const SECOND: u64 = 1_000_000_000;

fn bits(text: &str, len: u32) -> Option<MaskedBits> {
    Some(MaskedBits::read(text, len).unwrap())
}

fn udp(port: u16, is_v4: bool) -> FrameBuilder {
    let builder = match is_v4 {
        true => FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]),
        false => FrameBuilder::ipv6([0x2001; 8], [0x2002; 8]),
    };
    builder.udp(port, 53)
}

fn process(engine: &mut Engine, now: u64, packet: &FrameBuilder) {
    engine.process(now, &[BytesPacket::new(&packet.build())], &mut [Verdict::Drop]);
}

/// 100 flows of each IP version.
fn engine(config: Config) -> Engine {
    let mut engine = Engine::new(&Config { capacity_ipv4: 256, capacity_ipv6: 256, ..config });
    for port in 0..100 {
        process(&mut engine, SECOND, &udp(port, true));
        process(&mut engine, SECOND, &udp(port, false));
    }
    engine
}

fn labelled() -> Engine {
    engine(Config { labels: true, ..Config::default() })
}

fn port(port: u16) -> Filter {
    Filter {
        src: EndpointMatch { port: Some(port), ..EndpointMatch::default() },
        ..Filter::default()
    }
}

/// Writes, some places at a time; to how many.
fn set(engine: &mut Engine, filter: &Filter, change: MarkChange) -> u32 {
    let (mut cursor, mut matched) = (Cursor::default(), 0);
    loop {
        let written = engine.mark((filter, change), &mut cursor, 7);
        assert!(written.matched <= 7);
        matched += written.matched;
        if !written.more {
            return matched;
        }
    }
}

fn list(engine: &Engine, filter: Filter) -> Vec<FlowRecord> {
    let (mut found, query) = (vec![], Query { filter, ..Query::default() });
    let mut cursor = Cursor::default();
    while engine.list(&query, &mut cursor, 13, &mut |flow| found.push(flow.record)) {}
    found
}

#[test]
fn bits_are_written_to_those_that_are_meant() {
    let mut engine = labelled();
    let change = MarkChange { mark: bits("0x70", 32), label: bits("0x5/0xf", 128) };
    assert_eq!(set(&mut engine, &port(7), change), 2);
    let more =
        MarkChange { mark: bits("1/1", 32), label: bits(&format!("{:#x}", 1_u128 << 127), 128) };
    assert_eq!(set(&mut engine, &port(7), more), 2);
    let all = list(&engine, Filter::default());
    assert_eq!(all.len(), 200);
    for record in all {
        let mark = CtMark { mark: 0x71, label: 1 << 127 };
        let wanted = if record.sport == 7 { mark } else { CtMark::default() };
        assert_eq!(record.ct_mark, wanted, "{record:?}");
    }
    let of = |mark, label| Filter { mark, label, ..Filter::default() };
    let count = |filter| list(&engine, filter).len();
    assert_eq!(count(of(bits("0x71", 32), None)), 2);
    assert_eq!(count(of(bits("1/1", 32), None)), 2);
    assert_eq!(count(of(bits("0/1", 32), None)), 198);
    assert_eq!(count(of(None, bits("0/1", 128))), 200);
    assert_eq!(count(of(bits("0x71", 32), bits("0", 128))), 0);
    let mut cursor = Cursor::default();
    let swept = engine.sweep(&of(bits("0x71", 32), None), &mut cursor, 1000);
    assert_eq!((swept.ended, swept.more), (2, false));
    let ended: Vec<_> = std::iter::from_fn(|| engine.next_record()).collect();
    assert!(ended.len() == 2 && ended.iter().all(|record| record.ct_mark.mark == 0x71));
}

/// Whoever takes the place of another, or its ports, begins with nothing.
#[test]
fn a_new_connection_has_none() {
    let mut engine = labelled();
    let change = MarkChange { mark: bits("1", 32), label: bits("1", 128) };
    assert_eq!(set(&mut engine, &Filter::default(), change), 200);
    assert_eq!(engine.sweep(&Filter::default(), &mut Cursor::default(), 1000).ended, 200);
    (0..100).for_each(|port| process(&mut engine, 2 * SECOND, &udp(port, true)));
    assert!(list(&engine, Filter::default()).iter().all(|it| it.ct_mark == CtMark::default()));

    let tcp = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(1, 2);
    process(&mut engine, 2 * SECOND, &tcp.clone().flags(tcp::SYN).seq(1));
    let answer = tcp.clone().reversed().flags(tcp::RST | tcp::ACK).seq(0).ack(2);
    process(&mut engine, 2 * SECOND, &answer);
    while engine.next_record().is_some() {}
    assert_eq!(set(&mut engine, &Filter { proto: Some(6), ..Filter::default() }, change), 1);
    process(&mut engine, 2 * SECOND, &tcp.flags(tcp::SYN).seq(70_000));
    let reused = engine.next_record().unwrap();
    assert_eq!(reused.ct_mark, CtMark { mark: 1, label: 1 });
    let now = list(&engine, Filter { proto: Some(6), ..Filter::default() });
    assert_eq!(now[0].ct_mark, CtMark::default());
}

#[test]
fn without_labels_there_are_marks() {
    let mut engine = engine(Config::default());
    let change = MarkChange { mark: bits("3", 32), label: bits("1", 128) };
    assert_eq!(set(&mut engine, &port(9), change), 2);
    assert_eq!(list(&engine, port(9))[0].ct_mark, CtMark { mark: 3, label: 0 });
    assert!(labelled().memory_bytes() >= engine.memory_bytes() + 2 * 256 * 16);
}

/// A walk takes its time, and what begins meanwhile is not meant.
#[test]
fn who_begins_later_is_left_as_it_is() {
    let mut engine = engine(Config::default());
    let (all, mut cursor) = (Filter::default(), Cursor::default());
    let change = MarkChange { mark: bits("3", 32), label: None };
    let first = engine.mark((&all, change), &mut cursor, 50);
    assert_eq!(first, MarkProgress { matched: 50, more: true });
    process(&mut engine, 2 * SECOND, &udp(500, true));
    let rest = engine.mark((&all, change), &mut cursor, 1000);
    assert_eq!(rest, MarkProgress { matched: 150, more: false });
    assert_eq!(list(&engine, port(500))[0].ct_mark, CtMark::default());
}

#[test]
fn listeners_get_what_is_new() {
    let mut engine = engine(Config::default());
    engine.subscribe(true);
    let change = MarkChange { mark: bits("3/0xf", 32), label: None };
    assert_eq!(set(&mut engine, &port(9), change), 2);
    // Those of port 9 have it.
    let all = Filter { zone: Some(0), ..Filter::default() };
    assert_eq!(set(&mut engine, &all, change), 200);
    let events: Vec<_> = std::iter::from_fn(|| engine.next_event()).collect();
    assert_eq!(events.len(), 200);
    let is_so = |event: &engine::FlowEvent| {
        event.change == EventKind::Update && event.record.ct_mark.mark == 3
    };
    assert!(events.iter().all(is_so));
}

#[test]
fn marks_outlive_the_engine() {
    let timeouts = Timeouts { udp_multiple: 100 * SECOND, ..Timeouts::default() };
    let config = Config { labels: true, timeouts, ..Config::default() };
    let mut before = engine(config.clone());
    (0..100).for_each(|port| process(&mut before, SECOND, &udp(port, true).reversed()));
    let change = MarkChange { mark: bits("8", 32), label: bits("9", 128) };
    set(&mut before, &port(9), change);
    let (mut saved, mut cursor) = (vec![], Cursor::default());
    while before.save(&mut cursor, 100, &mut |flow| saved.push(flow)) {}
    assert_eq!(saved.len(), 100);
    let mut after = Engine::new(&Config { capacity_ipv4: 256, capacity_ipv6: 256, ..config });
    saved.iter().for_each(|flow| _ = after.restore(flow, 2 * SECOND));
    for record in list(&after, Filter::default()) {
        let wanted = CtMark { mark: 8, label: 9 };
        let wanted = if record.sport == 9 { wanted } else { CtMark::default() };
        assert_eq!(record.ct_mark, wanted);
    }
}

/// Writes these bits to the marks of those that are meant.
fn rule(filter: Filter, mark: &str) -> MarkRule {
    MarkRule { filter, change: MarkChange { mark: bits(mark, 32), label: None } }
}

#[test]
fn rules_write_to_connections_that_begin_one_after_the_other() {
    let src = EndpointMatch { address: "2001::/16".parse().ok(), port: None };
    let of_v6 = Filter { src, ..Filter::default() };
    let has_mark = Filter { mark: bits("2/2", 32), ..Filter::default() };
    let mark_rules = vec![
        rule(Filter::default(), "0x100/0xff00"),
        rule(of_v6, "2/3"),
        rule(port(7), "0x200/0xff00"),
        // Of what the rules before have written.
        rule(has_mark, "0x10/0x10"),
        rule(Filter { proto: Some(6), ..Filter::default() }, "0xffffffff"),
    ];
    let engine = engine(Config { mark_rules, ..Config::default() });
    let all = list(&engine, Filter::default());
    assert_eq!(all.len(), 200);
    for record in all {
        let of_version = if record.src.is_ipv6() { 0x12 } else { 0 };
        let of_port = if record.sport == 7 { 0x200 } else { 0x100 };
        assert_eq!(record.ct_mark, CtMark { mark: of_version | of_port, label: 0 }, "{record:?}");
    }
}

#[test]
fn a_connection_in_the_place_of_another_has_what_rules_say_then() {
    let label = MarkChange { mark: None, label: bits("9", 128) };
    let mark_rules =
        vec![rule(Filter::default(), "5"), MarkRule { filter: port(1), change: label }];
    let config = Config { mark_rules, labels: true, ..Config::default() };
    let mut engine = Engine::new(&config);
    let segment = |flags, seq, ack| {
        FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(1, 2).flags(flags).seq(seq).ack(ack)
    };
    process(&mut engine, SECOND, &segment(tcp::SYN, 1, 0));
    let answer = segment(tcp::RST | tcp::ACK, 0, 2).reversed();
    process(&mut engine, SECOND, &answer);
    let cursor = &mut Cursor::default();
    let change = MarkChange { mark: bits("6", 32), label: bits("7", 128) };
    assert_eq!(engine.mark((&Filter::default(), change), cursor, 9).matched, 1);
    process(&mut engine, 2 * SECOND, &segment(tcp::SYN, 9, 0));
    let ended = engine.next_record().expect("the first one");
    assert_eq!((ended.end_reason, ended.ct_mark), (EndReason::Reuse, CtMark { mark: 6, label: 7 }));
    assert_eq!(list(&engine, Filter::default())[0].ct_mark, CtMark { mark: 5, label: 9 });
    // Other rules are for those that begin from then on.
    engine.set_zones(ZonePolicies::new(&Config { mark_rules: vec![], ..config }).into());
    process(&mut engine, 2 * SECOND, &udp(1, false));
    let marks = [true, false].map(|is_v4| {
        let of_version = |record: &&FlowRecord| record.src.is_ipv4() == is_v4;
        list(&engine, Filter::default()).iter().find(of_version).map(|record| record.ct_mark)
    });
    assert_eq!(marks, [Some(CtMark { mark: 5, label: 9 }), Some(CtMark::default())]);
}

#[test]
fn an_event_of_a_new_connection_has_its_mark() {
    let mark_rules = vec![rule(Filter::default(), "5")];
    let mut engine = Engine::new(&Config { mark_rules, ..Config::default() });
    engine.subscribe(true);
    process(&mut engine, SECOND, &udp(1, true));
    let event = engine.next_event().expect("an event");
    assert_eq!((event.change, event.record.ct_mark.mark), (EventKind::New, 5));
}
