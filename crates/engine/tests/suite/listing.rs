// SPDX-License-Identifier: BSD-3-Clause
//! A walk through what is alive: nothing is left out, nothing is told twice, no call looks at more
//! than it may, and each direction says why it has no rule.

use engine::{
    BURST_MAX, BypassConfig, Config, ConnView, Cursor, EndReason, EndpointMatch, Engine, Filter,
    FlowRecord, MarkLayout, MarkVerification, NoRuleReason, OffloadConfig, OffloadPolicy, Prefix,
    ProtoState, Query, RuleRequest, RuleResult, RuleState, Side, SweepProgress, Timeouts, Verdict,
    ZoneStatus,
};
use std::collections::BTreeSet;
use std::net::IpAddr;
use wire::tcp::{ACK, FIN, RST, SYN};
use wire::{BytesPacket, FrameBuilder};

const SECOND: u64 = 1_000_000_000;

fn process(engine: &mut Engine, now: u64, frames: &[Vec<u8>]) {
    let packets: Vec<_> = frames.iter().map(|frame| BytesPacket::new(frame)).collect();
    for burst in packets.chunks(BURST_MAX) {
        engine.process(now, burst, &mut [Verdict::Forward; BURST_MAX]);
    }
}

/// All that a walk finds, `budget` places in each call.
fn walk(engine: &Engine, query: &Query, budget: u32) -> Vec<ConnView> {
    let (mut cursor, mut flows) = (Cursor::default(), Vec::new());
    loop {
        let before = flows.len();
        let more = engine.list(query, &mut cursor, budget, &mut |flow| flows.push(flow));
        assert!(flows.len() - before <= budget as usize);
        if !more {
            return flows;
        }
    }
}

/// Those with an end that has this address, this port, or both.
fn with_end(address: Option<IpAddr>, port: Option<u16>) -> Query {
    let either = EndpointMatch { address: address.map(Prefix::from), port };
    Query { filter: Filter { either, ..Filter::default() }, with_rules: true, ..Query::default() }
}

fn find(engine: &Engine, port: u16) -> ConnView {
    walk(engine, &with_end(None, Some(port)), 64).pop().expect("it is alive")
}

fn ends(record: &FlowRecord) -> String {
    format!("{} {} {} {}", record.src, record.sport, record.dst, record.dport)
}

fn frame(i: u16) -> Vec<u8> {
    let [a, b] = i.to_be_bytes();
    match i % 2 {
        0 => FrameBuilder::ipv4([10, 0, a, b], [10, 9, 9, 9]).udp(1000 + i, 53).build(),
        _ => FrameBuilder::ipv6([a; 16], [b; 16]).tcp(1000 + i, 80).build(),
    }
}

#[test]
fn a_walk_finds_every_flow_once_however_it_is_cut() {
    let mut engine = Engine::new(&Config::default());
    assert_eq!(walk(&engine, &Query::default(), 1), []);
    let frames: Vec<_> = (0..500).map(frame).collect();
    process(&mut engine, SECOND, &frames);
    let all = walk(&engine, &Query::default(), u32::MAX);
    for budget in [1, 7, 64, 250, 251] {
        assert_eq!(walk(&engine, &Query::default(), budget), all);
    }
    let listed: BTreeSet<_> = all.iter().map(|flow| ends(&flow.record)).collect();
    assert_eq!((all.len(), listed.len()), (500, 500));
    while engine.flush(1000) {}
    // What is listed is the record that is left.
    let left: Vec<_> = std::iter::from_fn(|| engine.next_record()).collect();
    assert!(left.iter().all(|record| all.iter().any(|flow| flow.record == *record)));
    assert_eq!(left.len(), 500);
    assert_eq!(walk(&engine, &Query::default(), 64), []);
}

#[test]
fn a_walk_keeps_to_what_is_asked_for() {
    let mut engine = Engine::new(&Config::default());
    process(&mut engine, SECOND, &(0..500).map(frame).collect::<Vec<_>>());
    let count = |address: Option<&str>, port| {
        let address = address.map(|text| text.parse().unwrap());
        walk(&engine, &with_end(address, port), 64).len()
    };
    assert_eq!(count(Some("10.0.0.6"), None), 1);
    assert_eq!(count(Some("10.9.9.9"), None), 250);
    assert_eq!(count(Some("10.0.0.6"), Some(1006)), 1);
    // Its peer's port is not its own.
    assert_eq!(count(Some("10.0.0.6"), Some(53)), 0);
    assert_eq!(count(None, Some(80)), 250);
    assert_eq!(count(Some("10.0.0.7"), None), 0);
}

fn with_rules(admission: OffloadPolicy) -> Engine {
    let offload = OffloadConfig {
        layout: MarkLayout::new(32, 1000).unwrap(),
        first_index: 0,
        check: MarkVerification::Sampled { first: 1, one_in: 16 },
        admission,
        rules_max: 100,
        zone_rules_max: None,
        chooses_marks: false,
        bypass: [BypassConfig::OFF; 2],
        slots: 500,
    };
    Engine::new(&Config { offload: Some(offload), ..Config::default() })
}

/// Packets of one direction, one every millisecond; returns when the last one came.
fn talk(engine: &mut Engine, port: u16, packets: u64) -> u64 {
    let frame = [FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(port, 53).build()];
    (1..=packets).for_each(|i| process(engine, SECOND + i * SECOND / 1000, &frame));
    SECOND + packets * SECOND / 1000
}

#[test]
fn a_direction_says_how_its_rule_stands() {
    let mut engine = with_rules(OffloadPolicy::After { packets: 3 });
    talk(&mut engine, 1, 2);
    let [orig, reply] = find(&engine, 1).rules.unwrap();
    assert_eq!(orig.state, RuleState::None);
    assert_eq!(orig.reason, Some(NoRuleReason::TooFewPackets { least: 3 }));
    assert_eq!((reply.reason, reply.side), (orig.reason, None));

    let asked_at = talk(&mut engine, 1, 1) + SECOND / 1000;
    let [orig, _] = find(&engine, 1).rules.unwrap();
    assert_eq!((orig.state, orig.reason), (RuleState::Candidate, Some(NoRuleReason::Waiting)));
    assert_eq!(orig.side, Some(Side::A));
    let Some(RuleRequest::Install { rule, .. }) = engine.next_request() else {
        panic!("it is a candidate")
    };
    assert_eq!(find(&engine, 1).rules.unwrap()[0].state, RuleState::Requested);
    engine.apply_result(rule, RuleResult::Installed { pace: 1000, took: 100 });
    let [orig, reply] = find(&engine, 1).rules.unwrap();
    assert_eq!((orig.state, orig.reason, orig.hits), (RuleState::Installed, None, 0));
    assert!(orig.since.unwrap().abs_diff(asked_at) < SECOND / 100, "{orig:?}");
    assert_eq!(reply.state, RuleState::None);

    let layout = MarkLayout::new(32, 1000).unwrap();
    let frame = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1, 53);
    let frame = frame.payload([0; 50]).build();
    let marked = BytesPacket::new(&frame).marked(Some(layout.encode(rule)));
    for _ in 0..10 {
        engine.process(asked_at, std::slice::from_ref(&marked), &mut [Verdict::Forward]);
    }
    let [orig, _] = find(&engine, 1).rules.unwrap();
    assert_eq!(orig.state, RuleState::Effective);
    assert!((9..=10).contains(&orig.hits), "{orig:?}");
    let has_rules = Query { has_rules: true, ..Query::default() };
    assert_eq!(walk(&engine, &has_rules, 1).len(), 1);
    assert_eq!(walk(&engine, &Query::default(), 1).len(), 1);
}

#[test]
fn a_direction_says_why_it_has_no_rule() {
    let mut engine = with_rules(OffloadPolicy::After { packets: 3 });
    let answered = |engine: &mut Engine, port, answer| {
        talk(engine, port, 3);
        let Some(RuleRequest::Install { rule, .. }) = engine.next_request() else {
            panic!("{port}")
        };
        engine.apply_result(rule, answer);
        find(engine, port).rules.unwrap()[0].reason
    };
    assert_eq!(answered(&mut engine, 1, RuleResult::Refused), Some(NoRuleReason::Refused));
    assert_eq!(answered(&mut engine, 2, RuleResult::Postponed), Some(NoRuleReason::BackOff));
    process(&mut engine, 2 * SECOND, &[frame(8)]);
    assert_eq!(answered(&mut engine, 3, RuleResult::Full), Some(NoRuleReason::NoCapacity));
    let ping = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 7]).icmp_echo(77, 1).build();
    process(&mut engine, 2 * SECOND, &[ping]);
    let address = Some([10, 0, 0, 7].into());
    let found = walk(&engine, &with_end(address, None), 64);
    assert_eq!(found[0].rules.unwrap()[0].reason, Some(NoRuleReason::Protocol));
    // Its identifier is no port.
    assert_eq!(walk(&engine, &with_end(None, Some(77)), 64), []);

    let mut engine = with_rules(OffloadPolicy::Rate { per_second: 5000 });
    talk(&mut engine, 1, 200);
    let slow = find(&engine, 1).rules.unwrap()[0];
    let Some(NoRuleReason::BelowThreshold { score, threshold }) = slow.reason else {
        panic!("{slow:?}")
    };
    assert!(score < threshold && (700.0..1100.0).contains(&slow.rate), "{slow:?}");

    let mut engine = Engine::new(&Config::default());
    talk(&mut engine, 1, 100);
    assert_eq!(find(&engine, 1).rules.unwrap()[0].reason, Some(NoRuleReason::Off));
}

#[test]
fn a_sweep_ends_what_is_meant_and_withdraws_its_rules() {
    let mut engine = with_rules(OffloadPolicy::After { packets: 3 });
    for port in 1..=2 {
        talk(&mut engine, port, 3);
    }
    let mut rules = vec![];
    while let Some(RuleRequest::Install { rule, tuple, .. }) = engine.next_request() {
        engine.apply_result(rule, RuleResult::Installed { pace: 1000, took: 100 });
        rules.push((tuple.sport, rule));
    }
    assert_eq!(rules.len(), 2);
    let src = EndpointMatch { port: Some(2), ..EndpointMatch::default() };
    let (filter, mut cursor) = (Filter { src, ..Filter::default() }, Cursor::default());
    assert_eq!(
        engine.sweep(&filter, &mut cursor, 1),
        SweepProgress { more: true, ..SweepProgress::default() }
    );
    let ended = SweepProgress { ended: 1, held: 0, more: true };
    assert_eq!(engine.sweep(&filter, &mut cursor, 1), ended);
    while engine.sweep(&filter, &mut cursor, 1).more {}
    let record = engine.next_record().unwrap();
    assert_eq!((record.sport, record.end_reason), (2, EndReason::Flushed));
    assert_eq!((engine.next_record(), engine.stats().active()), (None, 1));
    let Some(RuleRequest::Remove { rule, .. }) = engine.next_request() else {
        panic!("its rule has to go")
    };
    assert!(rules.contains(&(2, rule)));
    assert_eq!(engine.next_request(), None);
    assert_eq!(find(&engine, 1).rules.unwrap()[0].state, RuleState::Installed);
}

/// Nobody takes records: it stops, and goes on when there is room.
#[test]
fn a_sweep_loses_no_record() {
    let mut engine = Engine::new(&Config { embryonic_percent: 100, ..Config::default() });
    process(&mut engine, SECOND, &(0..5000).map(frame).collect::<Vec<_>>());
    let (mut cursor, mut ended, mut taken) = (Cursor::default(), 0, 0);
    let mut sweep = |engine: &mut Engine| {
        let swept = engine.sweep(&Filter::default(), &mut cursor, 10_000);
        ended += swept.ended;
        swept.more
    };
    assert!(sweep(&mut engine) && sweep(&mut engine));
    assert!(engine.stats().active() > 2000);
    while sweep(&mut engine) {
        taken += std::iter::from_fn(|| engine.next_record()).count();
    }
    taken += std::iter::from_fn(|| engine.next_record()).count();
    assert_eq!((ended, taken, engine.stats().records_lost), (5000, 5000, 0));
}

#[test]
fn a_flow_says_when_it_ends_and_what_is_known_of_it() {
    let timeouts = Timeouts { udp_first: 5 * SECOND, udp_multiple: 7 * SECOND, ..Timeouts::SHORT };
    let mut engine = Engine::new(&Config { timeouts, ..Config::default() });
    let forth = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1, 53);
    process(&mut engine, SECOND, &[forth.clone().build()]);
    let flow = find(&engine, 1);
    let known = (flow.record.proto_state, flow.record.is_assured, flow.expires);
    assert_eq!(known, (ProtoState::UdpFirst, false, 6 * SECOND));
    process(&mut engine, 2 * SECOND, &[forth.reversed().build()]);
    let flow = find(&engine, 1);
    let known = (flow.record.proto_state, flow.record.is_assured, flow.expires);
    assert_eq!(known, (ProtoState::UdpMultiple, true, 9 * SECOND));
}

/// Segments of a connection, each with what it leads to: sender, flags, sequence number and
/// acknowledgment.
type Segments = &'static [(usize, u8, [u32; 2], ProtoState)];

const SYN_ACK: u8 = SYN | ACK;
const FIN_ACK: u8 = FIN | ACK;
const OPENED: Segments = &[
    (0, SYN, [100, 0], ProtoState::SynSent),
    (1, SYN_ACK, [500, 101], ProtoState::SynRecv),
    (0, ACK, [101, 501], ProtoState::Established),
];
const LIVES: [Segments; 7] = [
    &[
        (0, FIN_ACK, [101, 501], ProtoState::FinWait),
        (1, FIN_ACK, [501, 101], ProtoState::LastAck),
        (1, ACK, [502, 102], ProtoState::LastAck),
        (0, ACK, [102, 502], ProtoState::TimeWait),
    ],
    &[
        (1, FIN_ACK, [501, 101], ProtoState::FinWait),
        (0, FIN_ACK, [101, 502], ProtoState::LastAck),
        (1, ACK, [502, 102], ProtoState::TimeWait),
    ],
    &[
        (0, FIN_ACK, [101, 501], ProtoState::FinWait),
        (1, ACK, [501, 101], ProtoState::FinWait),
        (1, ACK, [501, 102], ProtoState::CloseWait),
        // Even if its sender goes on, against RFC 9293 section 3.10.4.
        (0, ACK, [110, 501], ProtoState::CloseWait),
        (0, FIN_ACK, [101, 501], ProtoState::CloseWait),
        (1, FIN_ACK, [501, 110], ProtoState::LastAck),
        (0, ACK, [110, 502], ProtoState::TimeWait),
    ],
    &[
        (1, FIN_ACK, [501, 101], ProtoState::FinWait),
        (0, ACK, [101, 502], ProtoState::CloseWait),
        (0, FIN_ACK, [101, 502], ProtoState::LastAck),
        (1, ACK, [502, 102], ProtoState::TimeWait),
    ],
    &[(0, RST, [101, 0], ProtoState::Close)],
    &[(0, SYN, [100, 0], ProtoState::SynSent), (1, SYN, [500, 0], ProtoState::SynSent2)],
    &[(0, ACK, [100, 500], ProtoState::PickedUp), (1, ACK, [500, 100], ProtoState::Established)],
];

#[test]
fn a_tcp_connection_is_in_the_state_that_its_segments_lead_to() {
    for (i, life) in LIVES.into_iter().enumerate() {
        let mut engine = Engine::new(&Config::default());
        engine.subscribe(true);
        let opened = if i < 5 { OPENED } else { &[] };
        let mut told = None;
        for (sender, flags, [seq, ack], proto_state) in opened.iter().chain(life) {
            let forth = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(1, 80);
            let frame = if *sender == 0 { forth } else { forth.reversed() };
            let frame = frame.flags(*flags).seq(*seq).ack(*ack).window(1000);
            process(&mut engine, SECOND, &[frame.build()]);
            let flow = find(&engine, 1);
            assert_eq!(flow.record.proto_state, *proto_state, "{i} {flow:?}");
            let event = engine.next_event().map(|event| event.record.proto_state);
            assert_eq!(event, Some(*proto_state).filter(|_| told != Some(*proto_state)));
            told = Some(*proto_state);
            let asks = [ProtoState::SynSent, ProtoState::SynSent2, ProtoState::SynRecv];
            let wants = !asks.contains(proto_state) && *proto_state != ProtoState::PickedUp;
            // Whoever was assured stays so.
            assert_eq!(flow.record.is_assured, wants, "{i} {flow:?}");
        }
    }
}

#[test]
fn a_connection_that_is_refused_was_never_assured() {
    let mut engine = Engine::new(&Config::default());
    let forth = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(1, 80);
    let back = forth.clone().reversed().flags(RST | ACK).ack(101);
    process(&mut engine, SECOND, &[forth.flags(SYN).seq(100).build(), back.build()]);
    let flow = find(&engine, 1);
    assert_eq!((flow.record.proto_state, flow.record.is_assured), (ProtoState::Close, false));
}

#[test]
fn other_protocols_are_in_the_state_that_their_packets_lead_to() {
    let ip = || FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]);
    let ping = ip().icmp_echo(77, 1);
    let pong = ping.clone().reversed().icmp_echo_reply(77, 1);
    let udp = ip().udp(1, 2);
    let rsvp = ip().protocol(46);
    // Each end tells the other in its INIT which tag to write.
    let there = (ip().sctp(1, 2), 7);
    let back = (there.0.clone().reversed(), 9);
    let chunk = |(from, tag): &(FrameBuilder, u32), kind: u8| match kind {
        1 => from.clone().init_chunk(kind, 9),
        2 => from.clone().verification_tag(*tag).init_chunk(kind, 7),
        _ => from.clone().verification_tag(*tag).chunk(kind, 0, &[]),
    };
    let lives = [
        (vec![ping, pong], vec![ProtoState::IcmpFirst, ProtoState::IcmpReply]),
        (
            vec![udp.clone(), udp.clone(), udp.reversed()],
            vec![ProtoState::UdpFirst, ProtoState::UdpSingle, ProtoState::UdpMultiple],
        ),
        (
            [
                (&there, 1),
                (&back, 2),
                (&there, 10),
                (&back, 11),
                (&there, 7),
                (&back, 8),
                (&there, 14),
            ]
            .map(|(from, kind)| chunk(from, kind))
            .to_vec(),
            vec![
                ProtoState::CookieWait,
                ProtoState::CookieWait,
                ProtoState::CookieEchoed,
                ProtoState::Established,
                ProtoState::ShutdownSent,
                ProtoState::ShutdownAckSent,
                ProtoState::Closed,
            ],
        ),
        (vec![chunk(&there, 1), chunk(&back, 6)], vec![ProtoState::CookieWait, ProtoState::Closed]),
        (
            vec![chunk(&there, 4), chunk(&back, 5)],
            vec![ProtoState::HeartbeatSent, ProtoState::Established],
        ),
        (
            vec![rsvp.clone(), rsvp.reversed()],
            vec![ProtoState::OtherFirst, ProtoState::OtherMultiple],
        ),
    ];
    for (frames, states) in lives {
        let mut engine = Engine::new(&Config::default());
        for (frame, state) in frames.into_iter().zip(states) {
            process(&mut engine, SECOND, &[frame.build()]);
            assert_eq!(walk(&engine, &Query::default(), 64)[0].record.proto_state, state);
        }
    }
}

/// Of each second, what began in it: told in the next one, and no longer.
#[test]
fn a_zone_says_how_many_began_in_the_last_second() {
    let mut engine = Engine::new(&Config { capacity_ipv4: 64, ..Config::default() });
    let frames = |ports: std::ops::Range<u16>, zone: u16| -> Vec<_> {
        let frame = |port| FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(port, 53);
        ports.map(|port| frame(port).vlan(zone).build()).collect()
    };
    process(&mut engine, 5 * SECOND, &frames(0..3, 7));
    process(&mut engine, 6 * SECOND - 1000, &frames(3..4, 7));
    let stands = |engine: &mut Engine, now| {
        engine.expire(now, 64);
        engine.zone_status(7)
    };
    let of = |connections, begun| ZoneStatus { connections, embryonic: connections, begun };
    assert_eq!(stands(&mut engine, 6 * SECOND - 1000), of(4, 0), "the second is not over");
    assert_eq!(stands(&mut engine, 6 * SECOND), of(4, 4));
    process(&mut engine, 6 * SECOND, &[frames(4..6, 7), frames(0..1, 8)].concat());
    assert_eq!(stands(&mut engine, 7 * SECOND - 1000), of(6, 4));
    assert_eq!(stands(&mut engine, 7 * SECOND), of(6, 2));
    assert_eq!(engine.zone_status(8), of(1, 1));
    assert_eq!(stands(&mut engine, 8 * SECOND), of(6, 0));
    process(&mut engine, 8 * SECOND, &frames(6..7, 7));
    assert_eq!(stands(&mut engine, 10 * SECOND), of(7, 0), "nothing in the second between");
    let reply = FrameBuilder::ipv4([10, 0, 0, 2], [10, 0, 0, 1]).udp(53, 0).vlan(7).build();
    process(&mut engine, 10 * SECOND, &[reply]);
    let one_assured = ZoneStatus { embryonic: 6, ..of(7, 0) };
    assert_eq!(stands(&mut engine, 10 * SECOND), one_assured);
}
